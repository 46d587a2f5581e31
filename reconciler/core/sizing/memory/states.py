"""What lies in memory for each parameter: weights, gradients, the optimizer's states. Bytes."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from reconciler.core.sizing.training import Method, Precision


class Optimizer(Struct, frozen=True, kw_only=True):
    """An optimizer's memory. `states` numbers are kept for each trained parameter.

    `width` is the bytes of each; 0: as wide as the weights that it updates. `temporary`: its step makes copies of the
    weights (torch's `foreach` implementation, whose documentation says "~ sizeof(params)"). `paged`: its states may
    move to the host's memory when the GPU is full (bitsandbytes). `gradients` false: it runs in the backward pass, so
    that gradients never exist together.
    """

    states: float
    width: int = 0
    temporary: bool = True
    paged: bool = False
    gradients: bool = True


_ADAM = Optimizer(states=2)
_BNB = Optimizer(states=2, width=4, temporary=False)
_BNB_8 = Optimizer(states=2, width=1, temporary=False)
_PAGED = Optimizer(states=2, width=4, temporary=False, paged=True)
_PAGED_8 = Optimizer(states=2, width=1, temporary=False, paged=True)
_ONE = Optimizer(states=1)
_FACTORED = Optimizer(states=0.01, width=4, temporary=True)

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
        "paged_adamw_8bit_in_backward": Optimizer(states=2, width=1, temporary=False, paged=True, gradients=False),
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
    }
)
"""By the names of `transformers.TrainingArguments.optim`. Not here: those whose memory depends on more than their name
(GaLore, APOLLO, LOMO ...)."""


def optimizer_known(name: str) -> bool:
    """Tell whether the optimizer's memory is known. A prediction for an unknown one counts it as AdamW."""
    return name in OPTIMIZERS


def is_paged(name: str) -> bool:
    """Tell whether the optimizer's states may leave the GPU."""
    return name in OPTIMIZERS and OPTIMIZERS[name].paged


class BytesOfEach(Struct, frozen=True):
    """Bytes of each parameter: `frozen` of a base that is not trained; the others of one that is.

    `working` is the copy in 2 bytes that is made while it is used, where weights lie in 4.
    """

    frozen: float
    weight: float
    gradient: float
    optimizer: float
    temporary: float


_FOUR_BITS = {Method.QLORA: 0.53, Method.GPTQ_LORA: 0.52}
"""NF4 with double quantisation: 4 bits, and 8 bits and a share for each 64 weights (QLoRA, arXiv 2305.14314, section
3); GPTQ: 4 bits, and a scale of 16 and a zero of 4 bits for each 128 weights."""


def bytes_of(method: Method, precision: Precision, optimizer: str, *, deepspeed: bool, cast: bool) -> BytesOfEach:
    """Count the bytes of each parameter.

    Pure precision keeps weights, gradients and AdamW's states in it. Mixed precision keeps the weights that are trained
    in fp32, and with them gradients and states (accelerate >= 0.34 under FSDP, autocast otherwise). DeepSpeed keeps
    weights and gradients in 2 bytes and a copy with states in fp32: the 16 bytes of ZeRO (arXiv 1910.02054, section 3).
    A frozen base stays in 2 bytes. `cast`: what is trained is in fp32.
    """
    known = OPTIMIZERS.get(optimizer, _ADAM)
    wide = precision is Precision.FP32
    base = 4.0 if wide else 2.0
    weight = 4.0 if cast and not deepspeed else base
    gradient = weight if known.gradients else 0.0
    width = known.width or (4.0 if deepspeed else weight)
    master = 4.0 if deepspeed and not wide else 0.0
    return BytesOfEach(
        frozen=_FOUR_BITS.get(method, base),
        weight=weight,
        gradient=gradient,
        optimizer=known.states * width + master,
        temporary=weight if known.temporary else 0.0,
    )


MIXED = frozenset({Precision.BF16_MIXED, Precision.FP16_MIXED})
