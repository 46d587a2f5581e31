"""Constants of training stacks: the numbers of a prediction that were measured, not derived."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct


class Stack(Struct, frozen=True, kw_only=True, cache_hash=True):
    """What a training stack adds to the arithmetic of its model. GiB and bytes are per GPU.

    Loss: `logits` bytes stay reserved per token and vocabulary entry (logits in 2 bytes, their copy in fp32, the
    shifted copy or log-softmax, and a gradient), of which `logits_live` are alive at once; `logits_adapted` if the head
    has adapters too.

    Activations: `vectors` of the hidden width that a layer keeps for its backward pass, besides those of the heads' and
    the feed-forward width (norms that compute in fp32 keep more); `vectors_quantized` are additional with a 4-bit base,
    whose kernels keep their inputs. `kept` is the fraction that stays without checkpointing (compiled layers keep
    less), `block` the fraction that is reserved while one layer is recomputed. `inputs` is the number of copies of each
    layer's input with checkpointing and adapters on a base that FSDP shards in pure precision.

    GiB: `context` of CUDA, cuBLAS, NCCL and fragmentation; `links` is added for NVLink, where NCCL keeps buffers for
    each channel; `across` is subtracted if a run spans nodes; `reserved` by the driver, if the GPU counts it as used.

    Phases: `loading` is the number of units (the largest set of weights that FSDP gathers at once, in 2 bytes) at the
    worst moment of gathering, casting and flattening; `ends` is the fraction of embedding and head that is gathered at
    once; `packed`: a 4-bit base is gathered packed; `reuse` is the fraction of the optimizer's copies that reuses
    blocks cached by the loss, if those are `ample` times as large; `accumulates`: gradients stay unsharded between the
    steps of an accumulation (FSDP's `no_sync`); `loaded_half`: the model is loaded in 2 bytes, and only sharding casts
    trained weights to fp32; `unties`: a head tied to the embedding is loaded as its own matrix.

    `live`: published peaks are those of PyTorch's live tensors, without cached blocks and without the managed memory of
    paged optimizers. `low` and `high` are factors that bound nine measured runs out of ten. `trusted`: hundreds of runs
    were measured.
    """

    logits: float = 13.5
    logits_live: float = 11.0
    logits_adapted: float = 13.5
    vectors: float = 7.0
    vectors_quantized: float = 12.0
    kept: float = 0.9
    block: float = 0.9
    inputs: float = 2.0
    context: float = 1.2
    links: float = 1.0
    across: float = 1.0
    reserved: float = 0.6
    loading: float = 5.2
    reuse: float = 0.75
    ample: float = 4.0
    ends: float = 1.0
    packed: bool = False
    accumulates: bool = True
    loaded_half: bool = False
    unties: bool = False
    live: bool = False
    low: float = 0.88
    high: float = 1.15
    trusted: bool = False


_TRANSFORMERS = Stack()
_TORCHTUNE = Stack(
    low=0.7,
    high=1.2,
    logits=1.0,
    logits_live=1.0,
    logits_adapted=1.0,
    vectors_quantized=0.0,
    kept=0.55,
    block=0.3,
    inputs=1.0,
    context=0.1,
    links=0.0,
    across=0.0,
    reserved=0.0,
    loading=0.0,
    ends=0.5,
    packed=True,
    reuse=1.0,
    ample=1.0,
    accumulates=False,
    live=True,
)
_LITGPT = Stack(
    unties=True,
    low=0.9,
    high=1.15,
    logits=8.0,
    logits_live=8.0,
    logits_adapted=12.0,
    vectors=11.0,
    kept=1.0,
    context=0.1,
    links=0.0,
    across=0.0,
    reserved=0.0,
    reuse=1.0,
    ample=1.0,
    accumulates=False,
    live=True,
)
STACKS: Mapping[str, Stack] = MappingProxyType(
    {
        "fms-hf-tuning": Stack(loaded_half=True, low=0.94, high=1.07, trusted=True),
        "litgpt": _LITGPT,
        "qwen": Stack(
            logits=12.0,
            logits_adapted=12.0,
            context=2.1,
            links=0.0,
            across=0.0,
            reserved=0.0,
            accumulates=False,
            live=True,
            low=0.93,
            high=1.06,
        ),
        "torchtune": _TORCHTUNE,
        "llama-recipes": Stack(links=0.0, across=0.0, reserved=0.0),
    }
)
"""By the first word of `Training.framework` in lower case."""


@lru_cache(maxsize=256)
def stack_of(framework: str) -> Stack:
    """Return the constants of a framework (`Training.framework`), by default those of Hugging Face."""
    words = framework.lower().split()
    return STACKS.get(words[0], _TRANSFORMERS) if words else _TRANSFORMERS
