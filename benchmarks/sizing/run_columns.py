"""Accepted values in the columns of a table of runs: precisions, methods, optimizers, kernels, strategies."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from reconciler.sizing.memory.states import OPTIMIZERS
from reconciler.sizing.training import Attention, Method, Objective, Offload, Precision, Strategy


class WeightFormat(Struct, frozen=True):
    """A precision, and the bits of the base's weights; `gptq`: quantized by GPTQ."""

    precision: Precision
    bits: int = 16
    gptq: bool = False


class Parallelism(Struct, frozen=True):
    """A parallelism. `either`: full or hybrid sharding, depending on the size of the run."""

    strategy: Strategy | None = None
    offload: Offload | None = None
    tensor: int = 1
    pipeline: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int = 0
    chunks: int = 1
    microbatches: int = 0
    replicas: int = 1
    sequence_parallel: bool = False
    either: bool = False


def normalize(text: str) -> str:
    """Return a text in lower case, with one space for each run of characters that are not letters or digits."""
    return re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


METHODS: Mapping[str, Method] = MappingProxyType(
    {
        "full": Method.FULL,
        "full fine tuning": Method.FULL,
        "sft": Method.FULL,
        "lora": Method.LORA,
        "qlora": Method.QLORA,
        "q lora": Method.QLORA,
        "gptq lora": Method.GPTQ_LORA,
        "auto gptq lora": Method.GPTQ_LORA,
        "int8 lora": Method.INT8_LORA,
    }
)

OBJECTIVES: Mapping[str, Objective] = MappingProxyType(
    {normalize(objective.value): objective for objective in Objective if objective is not Objective.PPO}
    | {"": Objective.SFT, "simpo": Objective.ORPO, "cpo": Objective.ORPO, "rm": Objective.REWARD}
)

_BF16, _FP16 = WeightFormat(Precision.BF16), WeightFormat(Precision.FP16)
_MIXED, _FP16_MIXED = WeightFormat(Precision.BF16_MIXED), WeightFormat(Precision.FP16_MIXED)
_NF4 = WeightFormat(Precision.BF16, 4)

PRECISIONS: Mapping[str, WeightFormat] = MappingProxyType(
    {
        "": _BF16,
        "bf16": _BF16,
        "bfloat16": _BF16,
        "pure bf16": _BF16,
        "bf16 true": _BF16,
        "16 bit": _BF16,
        "bf16 mixed": _MIXED,
        "mixed bf16": _MIXED,
        "bf16 mixed accelerate bf16 bf16": _MIXED,
        "16 bit amp": _MIXED,
        "bf16 amp": _MIXED,
        "fp16": _FP16,
        "float16": _FP16,
        "half": _FP16,
        "pure fp16": _FP16,
        "16 true": _FP16,
        "fp16 true": _FP16,
        "fp16 mixed": _FP16_MIXED,
        "mixed fp16": _FP16_MIXED,
        "16 mixed": _FP16_MIXED,
        "fp16 amp": _FP16_MIXED,
        "fp32": WeightFormat(Precision.FP32),
        "float32": WeightFormat(Precision.FP32),
        "32 bit": WeightFormat(Precision.FP32),
        "32 true": WeightFormat(Precision.FP32),
        "no": WeightFormat(Precision.FP32),
        "4 bit": _NF4,
        "nf4": _NF4,
        "bf16 nf4": _NF4,
        "bf16 4 bit base": _NF4,
        "bf16 4 bit nf4 base": _NF4,
        "fp16 4 bit gptq base": WeightFormat(Precision.FP16, 4, gptq=True),
        "bf16 4 bit gptq base": WeightFormat(Precision.BF16, 4, gptq=True),
        "gptq": WeightFormat(Precision.FP16, 4, gptq=True),
        "8 bit": WeightFormat(Precision.BF16, 8),
        "int8": WeightFormat(Precision.BF16, 8),
    }
)
"""`16 bit` alone means bf16 weights, as in the tables of Unsloth and LLaMA-Factory; `no` is accelerate's term."""

OPTIMIZER_NAMES: Mapping[str, str] = MappingProxyType(
    {normalize(name): name for name in OPTIMIZERS}
    | {
        "adam": "adamw_torch",
        "adamw": "adamw_torch",
        "torch optim adamw": "adamw_torch",
        "fused adamw": "adamw_torch_fused",
        "adamw fused": "adamw_torch_fused",
        "adamw8bit": "adamw_8bit",
        "pagedadamw": "paged_adamw_32bit",
        "pagedadamw32bit": "paged_adamw_32bit",
        "pagedadamw8bit": "paged_adamw_8bit",
        "lion": "lion_32bit",
    }
)

CHECKPOINTING: Mapping[str, bool | None] = MappingProxyType(
    {"": None, "config default": None, "recipe default": None, "default": None}
    | dict.fromkeys(("yes", "true", "on", "1", "full", "selective"), True)
    | dict.fromkeys(("no", "false", "off", "0", "none"), False)
)

LOSSES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(("", "no", "false", "off", "0", "none", "default"), "")
    | dict.fromkeys(("yes", "true", "on", "1", "liger"), "fused_loss")
    | dict.fromkeys(("fast", "fast loss", "in place"), "fast_loss")
)
"""The kernel of the loss, by the name of its flag in `Training`."""

_NO_UPCAST = {"upcast": "no"}
CONFIGURATIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "baseline-peft-bnb": {"upcast": "yes"},
        "accelerated-peft-bnb": _NO_UPCAST,
        "accelerated-peft-bnb-foak": _NO_UPCAST | {"fused_loss": "fast"},
        "accelerated-peft-bnb-foak-liger": _NO_UPCAST | {"fused_loss": "yes"},
    }
    | {name: {"fused_loss": "fast"} for name in ("accelerated-peft-autogptq-foak", "foak-fast-kernels")}
    | {name: {"fused_loss": "yes"} for name in ("accelerated-peft-autogptq-foak-liger", "foak-fast-kernels-liger")}
)
"""What the names of fms-acceleration's configurations say, which its benchmarks note
(`sample-configurations/CONTENTS.yaml`): the baseline alone goes through PEFT's preparation of a 4-bit base."""

COMPILED: Mapping[str, tuple[bool, bool]] = MappingProxyType(
    dict.fromkeys(("", "no", "false", "off", "0", "none"), (False, False))
    | dict.fromkeys(("layers", "model"), (True, False))
    | dict.fromkeys(("yes", "true", "on", "1", "layers and loss"), (True, True))
)
"""Whether torch.compile makes graphs of the layers, and of the loss."""

ATTENTIONS: Mapping[str, Attention | None] = MappingProxyType(
    {"": None, "default": None, "sdpa": Attention.SDPA, "eager": Attention.EAGER, "none": Attention.EAGER}
    | dict.fromkeys(("flash attn 2", "flash attention 2", "flash attn", "flash attention", "flash"), Attention.FLASH)
    | dict.fromkeys(("flash attn 3", "flash attention 3"), Attention.FLASH)
)

_STRATEGIES: Mapping[str, Parallelism] = MappingProxyType(
    {
        "": Parallelism(),
        "none": Parallelism(Strategy.DDP),
        "ddp": Parallelism(Strategy.DDP),
        "fsdp no shard": Parallelism(Strategy.DDP),
        "fsdp": Parallelism(Strategy.FSDP_FULL),
        "fsdp2": Parallelism(Strategy.FSDP_FULL),
        "fsdp full": Parallelism(Strategy.FSDP_FULL),
        "fsdp full shard": Parallelism(Strategy.FSDP_FULL),
        "fsdp full hybrid shard": Parallelism(Strategy.FSDP_FULL, either=True),
        "fsdp hybrid": Parallelism(Strategy.FSDP_HYBRID),
        "fsdp hybrid shard": Parallelism(Strategy.FSDP_HYBRID),
        "fsdp shard grad op": Parallelism(Strategy.FSDP_GRAD_OP),
        "fsdp grad op": Parallelism(Strategy.FSDP_GRAD_OP),
        "deepspeed": Parallelism(Strategy.ZERO3),
        "deepspeed zero": Parallelism(Strategy.ZERO3),
    }
    | {normalize(strategy.value): Parallelism(strategy) for strategy in Strategy}
    | {"distributed optimizer": Parallelism(Strategy.ZERO1)}
    | {f"deepspeed zero {stage}": Parallelism(Strategy(f"zero-{stage}")) for stage in (1, 2, 3)}
    | {f"zero{stage}": Parallelism(Strategy(f"zero-{stage}")) for stage in (1, 2, 3)}
    | {f"deepspeed zero{stage}": Parallelism(Strategy(f"zero-{stage}")) for stage in (1, 2, 3)}
)
"""DeepSpeed without a stage means stage 3, which the scripts behind those tables use for full fine-tuning."""

_OFFLOADS: Mapping[str, Offload] = MappingProxyType(
    {"optimizer offload": Offload.OPTIMIZER, "cpu offload": Offload.ALL, "offload": Offload.ALL}
)
_DEGREE = re.compile(r"(?P<kind>[a-z]+)(?: parallel| degree)? ?(?P<degree>[1-9]\d{0,3})")
_DEGREES: Mapping[str, str] = MappingProxyType(
    {"tp": "tensor", "tensor": "tensor", "pp": "pipeline", "pipeline": "pipeline"}
    | {"cp": "context", "context": "context"}
    | {"ep": "expert", "expert": "expert", "etp": "expert_tensor", "vp": "chunks", "chunks": "chunks"}
    | {"microbatches": "microbatches", "hsdp": "replicas", "replicas": "replicas"}
)
_SEQUENCE_PARALLEL = frozenset({"sp", "sequence parallel"})


def parse_parallelism(text: str) -> Parallelism | None:
    """Parse a strategy and what follows after `+` or `,`: offload, `TP 2`, `PP 4`, `CP 2`, `SP`; None if it is unknown.

    `EP` and `ETP` divide experts, `VP` are the chunks of a stage, `microbatches` those of a pipeline, `HSDP` replicas
    of shards; `SP` is sequence parallelism, which divides the inputs of layers among the GPUs of tensor parallelism.
    """
    found = Parallelism()
    for part in re.split(r"[+,]", text):
        key = normalize(part)
        match = _DEGREE.fullmatch(key)
        if key in _STRATEGIES:
            found = replace(found, strategy=_STRATEGIES[key].strategy, either=_STRATEGIES[key].either)
        elif match is not None and match["kind"] in _DEGREES:
            found = replace(found, **{_DEGREES[match["kind"]]: int(match["degree"])})
        elif key in _SEQUENCE_PARALLEL:
            found = replace(found, sequence_parallel=True)
        elif key in _OFFLOADS:
            found = replace(found, offload=_OFFLOADS[key])
        else:
            return None
    return found
