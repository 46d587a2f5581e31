"""Constants of training stacks: the few numbers of a prediction that were measured rather than derived."""

from functools import lru_cache

from msgspec import Struct


class Stack(Struct, frozen=True, kw_only=True):
    """What one training stack adds to the arithmetic of its model. GiB and bytes are of one GPU.

    `logits`: bytes that the loss leaves reserved for each token and entry of the vocabulary: logits in 2 bytes, their
    copy in fp32, the shifted copy or log-softmax, and a gradient. `logits_live`: how many of them are alive at once.
    `block`: share of one layer's inner activations that is reserved while it is computed again.
    `kept`: share of them that stays in every layer without checkpointing; `kept_adapters` with a frozen base, whose
    linear layers keep no input; `kept_quantised` where the base is in 4 bits, whose kernels do.
    `inputs`: copies of each layer's input under checkpointing with adapters over a sharded base in pure precision.
    `context`: CUDA context, cuBLAS workspaces, NCCL and fragments; `links` more where GPUs talk over NVLink, for which
    NCCL keeps buffers for each channel.
    `loaded_half`: the model is loaded in 2 bytes, and only sharding casts what is trained to fp32.
    `loading`: units (the largest set of weights that is gathered at once, in 2 bytes) that the GPU holds at the worst
    moment of gathering, casting and flattening. `temporaries`: bytes that the optimizer's step adds to each byte of
    trained weights.
    `accumulates`: gradients stay whole on every GPU between the steps of an accumulation (FSDP's `no_sync`).
    """

    logits: float = 13.5
    logits_live: float = 11.0
    block: float = 0.9
    kept: float = 1.0
    kept_adapters: float = 0.7
    kept_quantised: float = 1.0
    inputs: float = 2.0
    context: float = 1.25
    links: float = 1.3
    loading: float = 5.2
    temporaries: float = 1.0
    accumulates: bool = True
    loaded_half: bool = False
    deepspeed_alone: bool = True
    spread: tuple[float, float] = (0.93, 1.08)
    trusted: bool = False


_TRANSFORMERS = Stack()
_STACKS = {
    "": _TRANSFORMERS,
    "fms-hf-tuning": Stack(loaded_half=True, trusted=True),
    "litgpt": Stack(logits=8.0, accumulates=False, context=1.0),
    "qwen": Stack(logits=8.0, accumulates=False),
    "torchtune": Stack(logits=4.0, accumulates=False, context=1.0),
}


@lru_cache(maxsize=256)
def stack_of(framework: str) -> Stack:
    """Return the constants of a framework as `Training.framework` writes it; those of plain Hugging Face otherwise."""
    words = framework.lower().split()
    return _STACKS.get(words[0], _TRANSFORMERS) if words else _TRANSFORMERS
