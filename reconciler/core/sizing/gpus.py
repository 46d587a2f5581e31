"""GPUs by the name that nodes carry, with the memory that NVML reports."""

from msgspec import Struct

from reconciler.core.intents.config import Vendor


class Gpu(Struct, frozen=True, kw_only=True):
    """A card. `product` is the value of the node label; `memory_gib` what NVML calls total.

    `price` compares cards (relative cost of an hour; A100-80GB is 1); `autoconf` is ado-autoconf's name, empty where it
    has none; `tflops` the dense bf16 peak; `bandwidth_gbs` of memory.
    """

    product: str
    memory_gib: float
    vendor: Vendor = Vendor.NVIDIA
    price: float = 1.0
    tflops: float = 0.0
    bandwidth_gbs: float = 0.0
    autoconf: str = ""
    source: str = ""
