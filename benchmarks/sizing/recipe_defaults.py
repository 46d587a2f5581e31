"""Defaults of frameworks' published recipes, for the fields that a row leaves empty."""

from collections.abc import Callable

from msgspec import Struct

from reconciler.sizing.training import Attention, Method, Offload, Strategy

_LINEARS = ("all-linear",)
_SMALL_GPU_GIB = 32
_LITGPT_ALL_LINEAR = ("gemma", "phi", "tinyllama")
_LARGE_MODEL = 60_000_000_000


class FrameworkDefaults(Struct, frozen=True, kw_only=True):
    """Defaults of one framework for one kind of run; `single` is the strategy on one GPU, where nothing is sharded."""

    optimizer: str = "adamw_torch"
    checkpointing: bool = True
    attention: Attention = Attention.FLASH
    strategy: Strategy = Strategy.FSDP_FULL
    single: Strategy = Strategy.DDP
    offload: Offload = Offload.NONE
    rank: int = 8
    targets: tuple[str, ...] = ("q_proj", "v_proj")
    sequence_parallel: bool = False
    recomputed: float = 1.0


class RunKind(Struct, frozen=True):
    """What the defaults depend on."""

    method: Method
    model: str
    parameters: int
    gpus: int
    memory_gib: float


_PLAIN = FrameworkDefaults()


def framework_defaults(framework: str, run: RunKind) -> FrameworkDefaults:
    """Return the defaults of a framework, named as in `Training.framework`; Hugging Face's for any other."""
    words = framework.lower().split()
    defaults = _FRAMEWORKS.get(words[0]) if words else None
    return _PLAIN if defaults is None else defaults(run)


def _litgpt(run: RunKind) -> FrameworkDefaults:
    """LitGPT `config_hub/finetune/*.yaml`.

    Rank 32 on queries and values; Gemma, Phi and TinyLlama: 8 to 32 on every matrix and the head. No checkpointing on
    one GPU.
    """
    all_linear = run.model.startswith(_LITGPT_ALL_LINEAR)
    targets = _LINEARS if all_linear else _PLAIN.targets
    return FrameworkDefaults(checkpointing=run.gpus > 1, rank=16 if all_linear else 32, targets=targets)


def _qwen(run: RunKind) -> FrameworkDefaults:
    """Qwen `finetune.py` and its scripts: rank 64 on every matrix, DeepSpeed except for LoRA on one GPU."""
    strategy = Strategy.ZERO3 if run.method is Method.FULL else Strategy.ZERO2
    single = Strategy.DDP if run.method is Method.LORA else Strategy.ZERO2
    return FrameworkDefaults(rank=64, targets=_LINEARS, strategy=strategy, single=single)


def _torchtune(run: RunKind) -> FrameworkDefaults:
    """Torchtune `recipes/configs`.

    All weights on one GPU: paged 8-bit AdamW, on small GPUs in the backward pass. Adapters: no checkpointing on large
    GPUs. From 60B parameters on: everything is offloaded.
    """
    full, is_small = run.method is Method.FULL, run.memory_gib < _SMALL_GPU_GIB
    if full and run.gpus == 1:
        return FrameworkDefaults(
            optimizer="paged_adamw_8bit_in_backward" if is_small else "paged_adamw_8bit", targets=_LINEARS
        )
    if full:
        is_large = run.parameters >= _LARGE_MODEL
        return FrameworkDefaults(optimizer="adamw_torch_fused", offload=Offload.ALL if is_large else Offload.NONE)
    return FrameworkDefaults(checkpointing=is_small or run.gpus > 1, optimizer="adamw_torch_fused", targets=_LINEARS)


def _megatron(strategy: Strategy) -> FrameworkDefaults:
    """Megatron-LM `megatron/training/arguments.py`: nothing is recomputed; ms-swift shards the optimizer."""
    return FrameworkDefaults(optimizer="adamw_apex_fused", checkpointing=False, strategy=strategy, targets=_LINEARS)


_FRAMEWORKS: dict[str, Callable[[RunKind], FrameworkDefaults]] = {
    "litgpt": _litgpt,
    "qwen": _qwen,
    "torchtune": _torchtune,
    "llama-recipes": lambda _: FrameworkDefaults(checkpointing=False),
    # parallelize.py: norms are SequenceParallel; job_config.py: selective checkpointing of every second layer.
    "torchtitan": lambda _: FrameworkDefaults(
        optimizer="adamw_torch_fused", attention=Attention.SDPA, sequence_parallel=True, recomputed=0.5
    ),
    "megatron-lm": lambda _: _megatron(Strategy.DDP),
    "megatron-swift": lambda _: _megatron(Strategy.ZERO1),  # its `use_distributed_optimizer` is on
}
"""By the first word of `Training.framework`, in lower case."""
