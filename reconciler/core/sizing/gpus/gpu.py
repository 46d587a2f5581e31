"""A card, as its node names it."""

from msgspec import Struct

from reconciler.core.config import Vendor


class Gpu(Struct, frozen=True, kw_only=True):
    """A card. `product` is the value of the node label; `memory_gib` what NVML (or amd-smi) calls total.

    `price` compares cards (relative cost of an hour; A100-80GB is 1): a rough order of what clouds charge, which
    settings may override. `autoconf` is ado-autoconf's name, empty where it has none; `tflops` the dense bf16 peak
    (fp16 where `bf16` is false: the card has no such arithmetic); `bandwidth_gbs` of memory; `per_node`: how many the
    largest node has that was measured; `in_all`: how many all have together. Zero: not known.
    """

    product: str
    memory_gib: float
    vendor: Vendor = Vendor.NVIDIA
    price: float = 1.0
    tflops: float = 0.0
    bandwidth_gbs: float = 0.0
    per_node: int = 0
    in_all: int = 0
    bf16: bool = True
    autoconf: str = ""
    source: str = ""
