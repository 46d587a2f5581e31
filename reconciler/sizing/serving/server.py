"""A server of a language model: the model, the types of its weights and cache, and its layout."""

from enum import StrEnum

from msgspec import Struct

from reconciler.sizing.training import Architecture


class ServingEngine(StrEnum):
    """The program that serves."""

    VLLM = "vllm"
    SGLANG = "sglang"


class WeightType(StrEnum):
    """The type of the stored matrices of layers. Embedding, head and norms are in 16 bits, except with fp32."""

    FP32 = "fp32"
    BF16 = "bf16"  # and fp16
    INT8 = "8-bit"  # FP8 and INT8
    INT4 = "4-bit"  # GPTQ, AWQ, compressed tensors, bitsandbytes NF4, NVFP4
    INT4_EXPERTS = "4-bit experts"  # of the experts alone
    MXFP4 = "mxfp4"  # of the experts alone

    @property
    def each(self) -> float:
        """Bytes of a weight with its scales.

        A scale has 16 bits for 128 weights, or for 32 (experts); 8 bits for 32 (MXFP4).
        """
        return _BYTES[self.value]

    @property
    def is_of_experts(self) -> bool:
        """True if only experts are in fewer bits."""
        return self in {WeightType.INT4_EXPERTS, WeightType.MXFP4}


_BYTES = {"fp32": 4.0, "bf16": 2.0, "8-bit": 1.0, "4-bit": 0.53, "4-bit experts": 0.5625, "mxfp4": 0.53}


class Server(Struct, frozen=True, kw_only=True, cache_hash=True):
    """The facts that determine the memory of a server. Zeros mean that the line does not say so.

    `cache_width`: bytes of a value in the cache. `length`: longest request in tokens. `fraction` of the GPU's memory
    that the engine may use. `sequences`: most requests at the same time. `batched`: most tokens of one step. `data`:
    replicas, among which experts are divided if `divides_experts`.
    """

    model: str  # as written
    architecture: Architecture
    engine: ServingEngine
    weights: WeightType = WeightType.BF16
    cache_width: float = 2.0
    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    divides_experts: bool = False
    length: int = 0
    fraction: float = 0.0
    sequences: int = 0
    batched: int = 0
    captures: bool = True  # CUDA graphs
    spans_nodes: bool = False  # other pods hold some of its GPUs
    is_uncertain: bool = False  # the line has flags whose effect on memory is not known

    @property
    def gpus(self) -> int:
        """GPUs of the server."""
        return self.tensor * self.pipeline * self.data
