"""Weights, gradients and optimizer states: bytes per parameter, and how strategies shard them."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from reconciler.sizing.training import Layout, Method, Precision, Strategy, Training


class Optimizer(Struct, frozen=True, kw_only=True):
    """The memory of an optimizer: `states` values per trained parameter, of `width` bytes each.

    A width of 0 means that of the weights. `temporary`: the step copies the weights (torch's `foreach` implementation,
    documented as "~ sizeof(params)"). `paged`: the states may move to host memory when the GPU is full (bitsandbytes).
    `gradients` is false if it runs in the backward pass, so that gradients never exist all at the same time. `ends` are
    the values of embedding, head and norms if another optimizer trains those. `compensated`: a 2-byte value besides for
    each weight that is in 2 bytes (Kahan summation). `low_rank`: the states are those of projected gradients; `blocks`:
    those of one layer at a time.
    """

    states: float
    width: int = 0
    temporary: bool = True
    paged: bool = False
    gradients: bool = True
    ends: float | None = None
    compensated: bool = False
    low_rank: bool = False
    blocks: bool = False


_ADAM = Optimizer(states=2)
_BNB_8 = Optimizer(states=2, width=1, temporary=False)
_PAGED = Optimizer(states=2, width=4, temporary=False, paged=True)
_PAGED_8 = Optimizer(states=2, width=1, temporary=False, paged=True)
_ONE = Optimizer(states=1)
_KAHAN = Optimizer(states=2, temporary=False, compensated=True)
_FACTORED = Optimizer(states=0.01, width=4, temporary=True)
_LOW_RANK = Optimizer(states=2, temporary=False, low_rank=True)
_LOW_RANK_8 = Optimizer(states=2, width=1, temporary=False, low_rank=True)

OPTIMIZERS: Mapping[str, Optimizer] = MappingProxyType(
    {
        "adamw_torch": _ADAM,
        "adamw_torch_fused": Optimizer(states=2, temporary=False),
        "adamw_torch_npu_fused": Optimizer(states=2, temporary=False),
        "adamw_torch_xla": _ADAM,
        "adamw_hf": _ADAM,
        "adamw_apex_fused": Optimizer(states=2, width=4, temporary=False),
        "adamw_anyprecision": Optimizer(states=3, width=2),
        "adamw_torch_8bit": _BNB_8,
        "adamw_torch_4bit": Optimizer(states=1, width=1, temporary=False),
        "adamw_bnb_8bit": _BNB_8,
        "adamw_8bit": _BNB_8,
        "paged_adamw": _PAGED,
        "paged_adamw_32bit": _PAGED,
        "paged_adamw_8bit": _PAGED_8,
        "ademamix": Optimizer(states=3, width=4, temporary=False),
        "ademamix_8bit": Optimizer(states=3, width=1, temporary=False),
        "paged_ademamix_32bit": Optimizer(states=3, width=4, temporary=False, paged=True),
        "paged_ademamix_8bit": Optimizer(states=3, width=1, temporary=False, paged=True),
        "lion_32bit": Optimizer(states=1, width=4, temporary=False),
        "lion_8bit": Optimizer(states=1, width=1, temporary=False),
        "paged_lion_32bit": Optimizer(states=1, width=4, temporary=False, paged=True),
        "paged_lion_8bit": Optimizer(states=1, width=1, temporary=False, paged=True),
        "rmsprop": _ONE,
        "rmsprop_bnb": Optimizer(states=1, width=4, temporary=False),
        "rmsprop_bnb_8bit": Optimizer(states=1, width=1, temporary=False),
        "rmsprop_bnb_32bit": Optimizer(states=1, width=4, temporary=False),
        "adagrad": _ONE,
        "adafactor": _FACTORED,
        "sgd": Optimizer(states=0),
        "sgd_momentum": _ONE,
        "stable_adamw": _KAHAN,
        "optimi_adamw": _KAHAN,
        "schedule_free_adamw": _ADAM,
        "schedule_free_radam": _ADAM,
        "schedule_free_sgd": _ONE,
        "adopt_adamw": _ADAM,
        "grokadamw": Optimizer(states=3),
        "came_pytorch": Optimizer(states=1.02, width=4),
        "adam_mini": Optimizer(states=1),
        "galore_adamw": _LOW_RANK,
        "galore_adamw_layerwise": replace(_LOW_RANK, gradients=False),
        "galore_adamw_8bit": _LOW_RANK_8,
        "galore_adamw_8bit_layerwise": replace(_LOW_RANK_8, gradients=False),
        "apollo_adamw": _LOW_RANK,
        "apollo_adamw_layerwise": replace(_LOW_RANK, gradients=False),
        "badam": Optimizer(states=2, temporary=False, blocks=True),
        "muon": Optimizer(states=1, temporary=False, ends=2),
        "lomo": Optimizer(states=0, temporary=False, gradients=False),
        "adalomo": Optimizer(states=0.01, width=4, temporary=False, gradients=False),
    }
)
"""By the names of `transformers.TrainingArguments.optim` and of axolotl's `optimizer`, except those whose memory
depends on more than the name. Muon keeps one momentum for each matrix, and AdamW trains the rest
(https://kellerjordan.github.io/posts/muon). Adam-mini has one second moment for a block (arXiv 2406.16793). optimi
compensates 16-bit weights (https://optimi.benjaminwarner.dev/kahan_summation)."""

IN_BACKWARD = "_in_backward"
"""End of the name of an optimizer that runs in the backward pass, layer by layer, so that no gradients are kept."""


@lru_cache(maxsize=256)
def find_optimizer(name: str) -> Optimizer | None:
    """Return an optimizer by name; None if its memory is not known."""
    found = OPTIMIZERS.get(name.removesuffix(IN_BACKWARD))
    if found is None or not name.endswith(IN_BACKWARD):
        return found
    return replace(found, gradients=False, temporary=False)


def is_known_optimizer(name: str) -> bool:
    """Return whether the optimizer's memory is known. Predictions count an unknown one as AdamW."""
    return find_optimizer(name) is not None


def is_paged(name: str) -> bool:
    """Return whether the optimizer's states may move to host memory."""
    found = find_optimizer(name)
    return found is not None and found.paged


class BytesPerParameter(Struct, frozen=True):
    """Bytes per parameter: `frozen` of a base that is not trained, the others of trained parameters.

    `ends` are those of the optimizer for embedding and head.
    """

    frozen: float
    weight: float
    gradient: float
    optimizer: float
    temporary: float
    ends: float


PACKED: Mapping[Method, float] = MappingProxyType({Method.QLORA: 0.53, Method.GPTQ_LORA: 0.52, Method.INT8_LORA: 1.0})
"""Bytes of a weight of a quantized base. NF4 with double quantization: 4 bits, and about 8 bits per 64 weights (QLoRA,
arXiv 2305.14314, section 3).
GPTQ: 4 bits, and 20 bits (scale and zero point) per 128 weights. LLM.int8: 8 bits, and a scale for each output
(arXiv 2208.07339, section 2.1)."""


def bytes_per_parameter(
    method: Method, precision: Precision, optimizer: str, *, deepspeed: bool, cast: bool, wide_base: bool = False
) -> BytesPerParameter:
    """Return the bytes per parameter.

    Pure precision keeps weights, gradients and AdamW's states in that precision. Mixed precision keeps trained weights,
    gradients and states in fp32 (accelerate >= 0.34 under FSDP, autocast otherwise). DeepSpeed keeps weights and
    gradients in 2 bytes and a copy with the states in fp32: the 16 bytes of ZeRO (arXiv 1910.02054, section 3). A
    frozen base stays in 2 bytes, unless `wide_base`. `cast`: trained weights are in fp32.
    """
    known = find_optimizer(optimizer) or _ADAM
    is_fp32 = precision is Precision.FP32
    base = 4.0 if is_fp32 else 2.0
    weight = 4.0 if cast and not deepspeed else base
    gradient = weight if known.gradients else 0.0
    width = known.width or (4.0 if deepspeed else weight)
    rest = 4.0 if deepspeed and not is_fp32 else 0.0
    if known.compensated and weight < 4.0 and not deepspeed:  # noqa: PLR2004 - weights in 2 bytes
        rest += 2.0
    return BytesPerParameter(
        frozen=PACKED.get(method, 4.0 if wide_base else base),
        weight=weight,
        gradient=gradient,
        optimizer=known.states * width + rest,
        temporary=weight if known.temporary else 0.0,
        ends=(known.states if known.ends is None else known.ends) * width + rest,
    )


MIXED = frozenset({Precision.BF16_MIXED, Precision.FP16_MIXED})

# --- sharding -------------------------------------------------------------------------------------------------------

DEEPSPEED = frozenset({Strategy.ZERO1, Strategy.ZERO2, Strategy.ZERO3})
FSDP = frozenset({Strategy.FSDP_FULL, Strategy.FSDP_HYBRID, Strategy.FSDP_GRAD_OP})


class StateBytes(NamedTuple):
    """Bytes without sharding: weights, gradients, optimizer states, copies in the optimizer's step."""

    weights: float
    gradients: float
    optimizer: float
    temporary: float


class Shards(NamedTuple):
    """The number of shards of each state. 1: every GPU holds a full copy."""

    weights: int
    gradients: int
    optimizer: int


_SHARDED: Mapping[Strategy, tuple[bool, bool, bool]] = MappingProxyType(
    {
        Strategy.DDP: (False, False, False),
        Strategy.FSDP_FULL: (True, True, True),
        Strategy.FSDP_HYBRID: (True, True, True),
        Strategy.FSDP_GRAD_OP: (False, True, True),
        Strategy.ZERO1: (False, False, True),
        Strategy.ZERO2: (False, True, True),
        Strategy.ZERO3: (True, True, True),
    }
)


def shards_of(training: Training, layout: Layout) -> Shards:
    """Return the number of shards: all replicas of the model, or those of one group (`fsdp-hybrid`): by default a node.

    ZeRO (arXiv 1910.02054, section 5) and FSDP (arXiv 2304.11277, section 3). Tensor and pipeline parallelism divide
    the model itself, which leaves fewer replicas.
    """
    gpus = layout.gpus
    if training.strategy is Strategy.FSDP_HYBRID:
        gpus = layout.gpus // training.replicas if training.replicas > 1 else layout.gpus_per_worker
    ways = max(1, gpus // training.ways)
    weights, gradients, optimizer = _SHARDED[training.strategy]
    return Shards(ways if weights else 1, ways if gradients else 1, ways if optimizer else 1)
