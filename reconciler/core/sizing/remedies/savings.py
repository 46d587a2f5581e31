"""Savings of memory: what can be changed about a training, one at a time."""

from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.sizing.models.lora import adapter_parameters_or_default
from reconciler.core.sizing.training import Attention, Method, Offload, Strategy, Training, undivided_heads

RANK = 16
"""Rank of the adapters that a remedy proposes, on all linear layers."""

EIGHT_BIT = "adamw_bnb_8bit"
_FULL_ADAMS = frozenset(
    (
        *("adamw_torch", "adamw_torch_fused", "adamw_hf", "adamw_apex_fused", "adamw_anyprecision"),
        *("adamw_torch_npu_fused", "adamw_torch_xla", "paged_adamw", "paged_adamw_32bit"),
    )
)
_DEEPSPEED = (Strategy.ZERO1, Strategy.ZERO2, Strategy.ZERO3)
_STRONGER: Mapping[Strategy, tuple[Strategy, ...]] = {
    Strategy.DDP: (Strategy.FSDP_FULL, Strategy.ZERO2, Strategy.ZERO3, Strategy.ZERO1),
    Strategy.ZERO1: (Strategy.ZERO2, Strategy.ZERO3),
    Strategy.ZERO2: (Strategy.ZERO3,),
    Strategy.FSDP_GRAD_OP: (Strategy.FSDP_FULL,),
    Strategy.FSDP_HYBRID: (Strategy.FSDP_FULL,),
}
_NAMES = {
    Strategy.ZERO1: "distributed optimizer",
    Strategy.FSDP_FULL: "full sharding",
    Strategy.ZERO2: "ZeRO-2",
    Strategy.ZERO3: "ZeRO-3",
}
_MAX_DEGREE = 8
_LEAST_TRAINED = 0.02
"""Fraction of trained parameters from which the optimizer's states matter."""


class SavingKind(StrEnum):
    """What is changed. The values are stable; the order is that of equal costs."""

    ATTENTION = "attention"
    FUSED_LOSS = "fused-loss"
    SHARDING = "sharding"
    ACCUMULATION = "accumulation"
    CHECKPOINTING = "checkpointing"
    OPTIMIZER = "8-bit-optimizer"
    SEQUENCE = "sequence-parallelism"
    CONTEXT = "context-parallelism"
    TENSOR = "tensor-parallelism"
    MORE_GPUS = "more-gpus"
    OTHER_GPU = "other-gpu"
    OFFLOAD = "offload"
    LORA = "lora"
    QLORA = "qlora"

    @property
    def keeps_training(self) -> bool:
        """Whether the same weights are trained in the same way. 8-bit optimizers count (arXiv 2110.02861)."""
        return self not in {SavingKind.LORA, SavingKind.QLORA}


class Saving(Struct, frozen=True, kw_only=True):
    """One change of a training: `fields` are the new values of `Training`, by name.

    `changes` are its names in the rows of frameworks (`Framework.changes`), and `degree` fills their placeholder.
    """

    kind: SavingKind
    text: str
    fields: tuple[tuple[str, Any], ...] = ()
    changes: tuple[str, ...] = ()
    degree: int = 1

    def apply(self, training: Training) -> Training:
        """Return the training with the change."""
        return replace(training, **dict(self.fields)) if self.fields else training


def savings_of(training: Training, gpus: int, known: Collection[str] | None = None) -> Iterator[Saving]:
    """Yield the changes of a training on `gpus` GPUs that may save memory.

    `known` are the names of the changes that its framework and launcher have; None: nothing is known about them. They
    decide between FSDP and ZeRO, and are not needed for anything else.
    """
    if training.attention is Attention.EAGER:
        yield _saving(SavingKind.ATTENTION, "SDPA instead of eager attention", "sdpa", attention=Attention.SDPA)
    if not training.fused_loss:
        yield _saving(SavingKind.FUSED_LOSS, "fused loss", "fused-loss", fused_loss=True)
    if not training.checkpointing:
        yield _saving(SavingKind.CHECKPOINTING, "gradient checkpointing", "checkpointing", checkpointing=True)
    if training.optimizer in _FULL_ADAMS and _trained_share(training) >= _LEAST_TRAINED:
        yield _saving(SavingKind.OPTIMIZER, "8-bit optimizer", "8-bit-optimizer", optimizer=EIGHT_BIT)
    yield Saving(kind=SavingKind.ACCUMULATION, text="gradient accumulation")
    yield from _sharding(training, gpus, known)
    if training.tensor > 1 and not training.sequence_parallel and known is not None and "sequence-parallel" in known:
        yield _saving(SavingKind.SEQUENCE, "sequence parallelism", "sequence-parallel", sequence_parallel=True)
    yield from _degrees(training, gpus, SavingKind.CONTEXT, "context")
    if known is not None and "tensor" in known:
        yield from _degrees(training, gpus, SavingKind.TENSOR, "tensor")
    yield from _adapters(training)


def _trained_share(training: Training) -> float:
    """Return the trained parameters as a fraction of the model's."""
    if not training.method.has_adapters:
        return 1.0
    adapters = adapter_parameters_or_default(training.architecture, training.lora_rank, training.lora_targets)
    return adapters / training.architecture.parameters


def _saving(kind: SavingKind, text: str, *changes: str, **fields: Any) -> Saving:
    return Saving(kind=kind, text=text, fields=tuple(fields.items()), changes=changes)


def _sharding(training: Training, gpus: int, known: Collection[str] | None) -> Iterator[Saving]:
    """Yield the strategies that shard more, and offloading with the current or the first of them.

    Of the strategies that shard equally, the first one that the framework has is proposed.
    """
    is_possible = gpus > training.ways
    stronger = [
        strategy
        for strategy in _STRONGER.get(training.strategy, ())
        if is_possible and (known is None or strategy.value in known)
    ]
    if Strategy.FSDP_FULL in stronger:
        stronger = [Strategy.FSDP_FULL]
    for strategy in stronger:
        yield _saving(SavingKind.SHARDING, _NAMES[strategy], strategy.value, strategy=strategy)
    if training.offload is Offload.ALL:
        return
    current = training.strategy if training.strategy is not Strategy.DDP else next(iter(stronger), None)
    for strategy, offload in _offloads(current):
        change = f"{strategy.value} {offload.value}"
        if offload is not training.offload and (known is None or change in known):
            what = "offloaded optimizer" if offload is Offload.OPTIMIZER else "offloading"
            sharding = f" with {_NAMES[strategy]}" if strategy is not training.strategy else ""
            yield _saving(SavingKind.OFFLOAD, f"{what}{sharding}", change, offload=offload, strategy=strategy)


def _offloads(strategy: Strategy | None) -> Iterator[tuple[Strategy, Offload]]:
    """Yield what a strategy can offload: FSDP weights and optimizer together, ZeRO the optimizer alone, too."""
    if strategy in _DEEPSPEED:
        yield Strategy.ZERO2 if strategy is Strategy.ZERO1 else strategy, Offload.OPTIMIZER
        yield Strategy.ZERO3, Offload.ALL
    elif strategy is not None:
        yield Strategy.FSDP_FULL, Offload.ALL


def _degrees(training: Training, gpus: int, kind: SavingKind, name: str) -> Iterator[Saving]:
    """Yield larger degrees of a parallelism with which the same GPUs can still be divided."""
    degree = 2 * getattr(training, name)
    while degree <= _MAX_DEGREE:
        saving = Saving(
            kind=kind, text=f"{name} parallelism {degree}", fields=((name, degree),), changes=(name,), degree=degree
        )
        is_possible = kind is not SavingKind.TENSOR or not undivided_heads(training.architecture, degree)
        if is_possible and gpus % saving.apply(training).multiple == 0:
            yield saving
        degree *= 2


def _adapters(training: Training) -> Iterator[Saving]:
    """Yield LoRA for a full fine-tuning, and a 4-bit base for both."""
    adapters = {"lora_rank": RANK, "lora_targets": ("all-linear",)}
    if training.method is Method.FULL:
        yield _saving(SavingKind.LORA, f"LoRA of rank {RANK}", "lora", method=Method.LORA, **adapters)
        changes = ("lora", "4-bit-base")
        yield _saving(SavingKind.QLORA, f"QLoRA of rank {RANK}", *changes, method=Method.QLORA, **adapters)
    elif training.method is Method.LORA:
        yield _saving(SavingKind.QLORA, "4-bit base (QLoRA)", "4-bit-base", method=Method.QLORA)
