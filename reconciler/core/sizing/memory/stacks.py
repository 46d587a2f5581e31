"""Constants of training stacks: the few numbers of a prediction that were measured rather than derived."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct


class Stack(Struct, frozen=True, kw_only=True, cache_hash=True):
    """What one training stack adds to the arithmetic of its model. GiB and bytes are of one GPU.

    The loss: `logits` bytes stay reserved for each token and entry of the vocabulary (logits in 2 bytes, their copy in
    fp32, the shifted copy or log-softmax, and a gradient), `logits_live` of them alive at once; `logits_adapted` where
    adapters lie on the head too.

    Activations: `vectors` of the hidden width that a layer keeps for its backward pass, beside the heads' and the
    feed-forward width (norms that work in fp32 keep more); `vectors_quantised` more where the base is in 4 bits, whose
    kernels keep their inputs. `kept` is the share of them that stays without checkpointing (compiled layers keep less),
    `block` the share that is reserved while one layer is computed again. `inputs` are copies of each layer's input
    under checkpointing with adapters over a base that FSDP shards in pure precision.

    GiB: `context` of CUDA, cuBLAS, NCCL and fragments; `links` more where GPUs talk over NVLink, for which NCCL keeps
    buffers for each channel; `across` less where a run spans nodes; `reserved` by the driver, where
    the card counts it as used.

    Phases: `loading` units (the largest set of weights that FSDP gathers at once, in 2 bytes) lie on the GPU at the
    worst moment of gathering, casting and flattening; `ends` is the share of embedding and head that is gathered at
    once; `packed`: a base in 4 bits is gathered as such; `reuse` is the share of the optimizer's copies that finds
    blocks cached by the loss, where those are `ample` times as much; `accumulates`: gradients stay whole on every GPU
    between the steps of an accumulation (FSDP's `no_sync`); `loaded_half`: the model is loaded in 2 bytes, and only
    sharding casts what is trained to fp32; `unties`: a head that shares its weights with the embedding is loaded as its
    own.

    `live`: its published peaks are of PyTorch's live tensors, not of the card: nothing cached adds to them, and managed
    memory of paged optimizers is not in them. `low` and `high` are the shares of a prediction that bound nine measured
    runs of ten; `trusted`: runs of it were measured by the hundred.
    """

    logits: float = 13.5
    logits_live: float = 11.0
    logits_adapted: float = 13.5
    vectors: float = 7.0
    vectors_quantised: float = 12.0
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
    vectors_quantised=0.0,
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
"""By the first word of `Training.framework`, in lower case."""


@lru_cache(maxsize=256)
def stack_of(framework: str) -> Stack:
    """Return the constants of a framework as `Training.framework` writes it; those of plain Hugging Face otherwise."""
    words = framework.lower().split()
    return STACKS.get(words[0], _TRANSFORMERS) if words else _TRANSFORMERS
