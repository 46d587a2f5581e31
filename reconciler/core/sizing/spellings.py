"""How people write precisions, methods, optimizers, kernels and strategies in tables of runs."""

import re
from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from reconciler.core.sizing.memory.states import OPTIMIZERS
from reconciler.core.sizing.training import Attention, Method, Offload, Precision, Strategy


class Written(Struct, frozen=True):
    """A precision as written; `bits` 4: the base lies in 4 bits, by GPTQ where `gptq` says so."""

    precision: Precision
    bits: int = 16
    gptq: bool = False


class Spread(Struct, frozen=True):
    """A parallelism as written. `either`: full or hybrid sharding, whichever the size of the run asks for."""

    strategy: Strategy | None = None
    offload: Offload | None = None
    tensor: int = 1
    pipeline: int = 1
    either: bool = False


def key_of(text: str) -> str:
    """Return a text without case, and with one blank for each run of other characters than letters and digits."""
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
    }
)

_BF16, _FP16 = Written(Precision.BF16), Written(Precision.FP16)
_MIXED, _FP16_MIXED = Written(Precision.BF16_MIXED), Written(Precision.FP16_MIXED)
_NF4 = Written(Precision.BF16, 4)

PRECISIONS: Mapping[str, Written] = MappingProxyType(
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
        "fp32": Written(Precision.FP32),
        "float32": Written(Precision.FP32),
        "32 bit": Written(Precision.FP32),
        "32 true": Written(Precision.FP32),
        "no": Written(Precision.FP32),
        "4 bit": _NF4,
        "nf4": _NF4,
        "bf16 nf4": _NF4,
        "bf16 4 bit base": _NF4,
        "bf16 4 bit nf4 base": _NF4,
        "fp16 4 bit gptq base": Written(Precision.FP16, 4, gptq=True),
        "bf16 4 bit gptq base": Written(Precision.BF16, 4, gptq=True),
        "gptq": Written(Precision.FP16, 4, gptq=True),
        "8 bit": Written(Precision.BF16, 8),
        "int8": Written(Precision.BF16, 8),
    }
)
"""`16 bit` without more is bf16 weights, as in the tables of Unsloth and LLaMA-Factory; `no` is accelerate's word."""

OPTIMIZER_NAMES: Mapping[str, str] = MappingProxyType(
    {key_of(name): name for name in OPTIMIZERS}
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
    | dict.fromkeys(("yes", "true", "on", "1", "full"), True)
    | dict.fromkeys(("no", "false", "off", "0", "none"), False)
)

ATTENTIONS: Mapping[str, Attention | None] = MappingProxyType(
    {"": None, "default": None, "sdpa": Attention.SDPA, "eager": Attention.EAGER, "none": Attention.EAGER}
    | dict.fromkeys(("flash attn 2", "flash attention 2", "flash attn", "flash attention", "flash"), Attention.FLASH)
    | dict.fromkeys(("flash attn 3", "flash attention 3"), Attention.FLASH)
)

_STRATEGIES: Mapping[str, Spread] = MappingProxyType(
    {
        "": Spread(),
        "none": Spread(Strategy.DDP),
        "ddp": Spread(Strategy.DDP),
        "fsdp no shard": Spread(Strategy.DDP),
        "fsdp": Spread(Strategy.FSDP_FULL),
        "fsdp2": Spread(Strategy.FSDP_FULL),
        "fsdp full": Spread(Strategy.FSDP_FULL),
        "fsdp full shard": Spread(Strategy.FSDP_FULL),
        "fsdp full hybrid shard": Spread(Strategy.FSDP_FULL, either=True),
        "fsdp hybrid": Spread(Strategy.FSDP_HYBRID),
        "fsdp hybrid shard": Spread(Strategy.FSDP_HYBRID),
        "fsdp shard grad op": Spread(Strategy.FSDP_GRAD_OP),
        "fsdp grad op": Spread(Strategy.FSDP_GRAD_OP),
        "deepspeed": Spread(Strategy.ZERO3),
        "deepspeed zero": Spread(Strategy.ZERO3),
    }
    | {spelling: Spread(strategy) for strategy in Strategy for spelling in (key_of(strategy.value),)}
    | {f"deepspeed zero {stage}": Spread(Strategy(f"zero-{stage}")) for stage in (1, 2, 3)}
    | {f"zero{stage}": Spread(Strategy(f"zero-{stage}")) for stage in (1, 2, 3)}
    | {f"deepspeed zero{stage}": Spread(Strategy(f"zero-{stage}")) for stage in (1, 2, 3)}
)
"""DeepSpeed without a stage is stage 3: the one that the scripts of those tables use to train all weights."""

_OFFLOADS: Mapping[str, Offload] = MappingProxyType(
    {"optimizer offload": Offload.OPTIMIZER, "cpu offload": Offload.ALL, "offload": Offload.ALL}
)
_WAYS = re.compile(r"(?P<kind>tp|tensor parallel|tensor|pp|pipeline parallel|pipeline) ?(?P<ways>[1-9]\d{0,2})")


def spread_of(written: str) -> Spread | None:
    """Read a parallelism: a strategy, and after `+` or `,` offload, `TP 2`, `PP 4`; None where it is not known."""
    strategy, offload, tensor, pipeline = Spread(), None, 1, 1
    for part in re.split(r"[+,]", written):
        key = key_of(part)
        ways = _WAYS.fullmatch(key)
        if ways is not None and ways["kind"].startswith("t"):
            tensor = int(ways["ways"])
        elif ways is not None:
            pipeline = int(ways["ways"])
        elif key in _OFFLOADS:
            offload = _OFFLOADS[key]
        elif key in _STRATEGIES:
            strategy = _STRATEGIES[key]
        else:
            return None
    return Spread(strategy.strategy, offload, tensor, pipeline, strategy.either)
