"""Constants of training stacks: the numbers of a prediction that were measured, not derived."""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from msgspec import Struct


class Stack(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The additions of a training stack to the arithmetic of its model. GiB and bytes are per GPU.

    Loss: `logits` bytes stay reserved per token and vocabulary entry (logits in 2 bytes, their copy in fp32, the
    shifted copy or log-softmax, and a gradient), of which `logits_live` are alive at once; `logits_adapted` if the head
    has adapters too; `logits_divided`, if not 0, where tensor parallelism divides the vocabulary.

    Activations: `vectors` of the hidden width that a layer keeps for its backward pass, besides those of the heads' and
    the feed-forward width (norms that compute in fp32 keep more); `vectors_quantized` are additional with a 4-bit base,
    whose kernels keep their inputs. `kept` is the fraction that stays without checkpointing (compiled layers keep
    less), `block` the fraction that is reserved while one layer is recomputed. `inputs` is the number of copies of each
    layer's input with checkpointing and adapters on a base that FSDP shards.

    GiB: `context` of CUDA, cuBLAS, NCCL and fragmentation; `links` is added for NVLink, where NCCL keeps buffers for
    each channel; `across` is subtracted if a run spans nodes; `reserved` by the driver, if the GPU counts it as used.

    Phases: `loading` is the number of units (the largest set of weights that FSDP gathers at once, in 2 bytes) at the
    worst moment of gathering, casting and flattening; `ends` is the fraction of embedding and head that is gathered at
    once; gradients and the optimizer's copies reuse the blocks of the loss if those are `ample` times as large;
    `accumulates`: gradients stay unsharded between the steps of an accumulation (FSDP's `no_sync`); `loaded_half`: the
    model is loaded in 2 bytes, and only sharding casts trained weights to fp32; `unties`: a head tied to the embedding
    is loaded as its own matrix; `upcast`: adapters on a 4-bit base go through PEFT's `prepare_model_for_kbit_training`;
    `uneven`: the length of samples, in tokens, of which a run without packing has many, so that it caches blocks for
    them besides those of the longest.

    `staged`: frameworks of pre-training, which `memory.stages` predicts; `flat`: Megatron's buffers, with gradients and
    the optimizer's weights in fp32.

    `live`: published peaks are those of PyTorch's live tensors, without cached blocks and without the managed memory of
    paged optimizers. `low` and `high` are factors that bound nine out of ten measured runs that were not fitted. By
    default they are those of all frameworks under the constants of Hugging Face. `trusted`: hundreds of runs were
    measured, so that the confidence can be high.
    """

    logits: float = 13.5
    logits_divided: float = 0.0
    logits_live: float = 11.0
    logits_adapted: float = 13.5
    vectors: float = 7.0
    vectors_quantized: float = 12.0
    kept: float = 0.9
    block: float = 0.9
    inputs: float = 2.2
    context: float = 1.2
    links: float = 1.0
    across: float = 1.0
    reserved: float = 0.6
    loading: float = 5.2
    ample: float = 2.2
    ends: float = 1.0
    accumulates: bool = True
    loaded_half: bool = False
    unties: bool = False
    upcast: bool = True
    uneven: int = 0
    staged: bool = False
    flat: bool = False
    live: bool = False
    low: float = 0.75
    high: float = 1.5
    trusted: bool = False


_TRANSFORMERS = Stack()
_TORCHTUNE = Stack(
    upcast=False,
    low=0.7,
    high=1.25,
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
    accumulates=False,
    live=True,
)
_LITGPT = Stack(
    upcast=False,
    unties=True,
    low=0.8,
    high=1.2,
    logits=8.0,
    logits_live=8.0,
    logits_adapted=12.0,
    vectors=11.0,
    kept=1.0,
    context=0.1,
    links=0.0,
    across=0.0,
    reserved=0.0,
    accumulates=False,
    live=True,
)
_MS_SWIFT = Stack(
    low=0.8,
    high=1.3,
    uneven=2048,
    logits=22.0,
    logits_live=16.0,
    logits_adapted=22.0,
    context=0.2,
    links=0.0,
    across=0.0,
    reserved=0.0,
)
_MEGATRON = Stack(
    staged=True,
    flat=True,
    logits=10.0,  # in 2 bytes, their copy in fp32 and the exponentials (`tensor_parallel/cross_entropy.py`)
    logits_live=10.0,
    low=0.7,
    high=1.4,
)
_TORCHTITAN = Stack(
    staged=True,
    logits=14.0,  # in 2 bytes, a copy in fp32, log-softmax and its gradients; the copy's block takes a gradient
    logits_live=12.0,
    logits_divided=18.0,  # also its exponentials, and gradients before and after scaling (`tensor/parallel/loss.py`)
    context=0.1,  # its figures are what PyTorch reserves
    links=0.0,
    low=0.7,
    high=1.3,
)
STACKS: Mapping[str, Stack] = MappingProxyType(
    {
        "fms-hf-tuning": Stack(upcast=False, loaded_half=True, low=0.93, high=1.08, trusted=True),
        "litgpt": _LITGPT,
        "qwen": Stack(
            upcast=False,
            logits=12.0,
            logits_adapted=12.0,
            context=2.1,
            links=0.0,
            across=0.0,
            reserved=0.0,
            accumulates=False,
            live=True,
            low=0.9,
            high=1.12,
        ),
        "torchtune": _TORCHTUNE,
        "torchtitan": _TORCHTITAN,
        "megatron-lm": _MEGATRON,
        "megatron-swift": _MEGATRON,
        "nemo": _MEGATRON,
        "ms-swift": _MS_SWIFT,
        "fsdp_qlora": Stack(
            low=0.8, high=1.2, upcast=False, inputs=1.0, block=1.4, context=0.1, links=0.0, across=0.0, reserved=0.0
        ),
        "llama-factory": Stack(upcast=False),  # casts the norms alone, and only with `upcast_layernorm`
        "axolotl": Stack(upcast=False),  # casts embedding, head and norms back to the type of computation
        # Cross entropy works in place on logits in 2 bytes (verl/utils/torch_functional.py); entropies are in fp32.
        # Its cross entropy works in place on logits in 2 bytes (unsloth/kernels/cross_entropy_loss.py).
        "unsloth": Stack(upcast=False, logits=4.0, logits_live=4.0, logits_adapted=4.0),
        "verl": Stack(upcast=False, logits=6.0, logits_live=6.0, logits_adapted=6.0),
        "llama-recipes": Stack(low=0.85, high=1.2, links=0.0, across=0.0, reserved=0.0),
    }
)
"""By the first word of `Training.framework` in lower case."""


@lru_cache(maxsize=256)
def stack_of(framework: str) -> Stack:
    """Return the constants of a framework (`Training.framework`), by default those of Hugging Face."""
    words = framework.lower().split()
    return STACKS.get(words[0], _TRANSFORMERS) if words else _TRANSFORMERS
