"""The table of cards: memory as the driver reports it in MiB, speed from the data sheets, price as a rough order."""

from collections.abc import Iterable

from msgspec import Struct

from reconciler.core.config import Vendor
from reconciler.core.sizing.gpus.gpu import Gpu

_SEEN = "nvidia-smi"
_AMD_SEEN = "amd-smi"


class Card(Struct, frozen=True):
    """`names` are the label's value and others that mean the same, separated by spaces; `mib` is total memory."""

    names: str
    mib: int
    tflops: float
    bandwidth: float
    price: float
    source: str = _SEEN
    autoconf: str = ""


NVIDIA = (
    Card("Tesla-T4 T4", 15360, 65, 320, 0.2),
    Card("Tesla-V100-SXM2-16GB V100-16GB", 16384, 125, 900, 0.4),
    Card("Tesla-V100-PCIE-16GB", 16384, 112, 900, 0.4),
    Card("Tesla-V100-SXM2-32GB V100-32GB", 32768, 125, 900, 0.5),
    Card("Tesla-V100-SXM3-32GB", 32768, 125, 900, 0.5),
    Card("Tesla-V100-PCIE-32GB", 32768, 112, 900, 0.5),
    Card("NVIDIA-A10 A10", 23028, 125, 600, 0.35),
    Card("NVIDIA-A10G A10G", 23028, 70, 600, 0.4),
    Card("NVIDIA-A30 A30", 24576, 165, 933, 0.4),
    Card("NVIDIA-A40 A40", 46068, 149.7, 696, 0.45),
    Card("NVIDIA-A100-SXM4-40GB A100-SXM-40GB", 40960, 312, 1555, 0.75),
    Card("NVIDIA-A100-PCIE-40GB A100-PCIe-40GB", 40960, 312, 1555, 0.7),
    Card("NVIDIA-A100-SXM4-80GB A100-SXM-80GB", 81920, 312, 2039, 1.0, autoconf="NVIDIA-A100-SXM4-80GB"),
    Card("NVIDIA-A100-80GB-PCIe A100-PCIe-80GB", 81920, 312, 1935, 0.95, autoconf="NVIDIA-A100-80GB-PCIe"),
    Card("NVIDIA-A800-SXM4-80GB", 81920, 312, 2039, 0.95),
    Card("NVIDIA-A800-80GB-PCIe", 81920, 312, 1935, 0.9),
    Card("NVIDIA-H100-80GB-HBM3 H100-SXM H100-SXM5 H100-SXM5-80GB", 81559, 989.4, 3350, 1.8),
    Card("NVIDIA-H100-PCIe", 81559, 756, 2039, 1.5, autoconf="NVIDIA-H100-PCIe"),
    Card("NVIDIA-H100-NVL", 95830, 835, 3938, 1.7),
    Card("NVIDIA-H800", 81559, 989.4, 3350, 1.7),
    Card("NVIDIA-H20", 97871, 148, 4000, 1.0),
    Card("NVIDIA-H200 H200-SXM H200-141GB", 143771, 989.4, 4800, 2.2),
    Card("NVIDIA-H200-NVL", 143771, 835, 4800, 2.0),
    Card("NVIDIA-GH200-480GB NVIDIA-GH200-120GB GH200-120GB", 97871, 989.4, 4000, 2.0),
    Card("NVIDIA-B200 B200", 183359, 2250, 7700, 3.5),
    Card("NVIDIA-GB200 GB200", 189471, 2500, 8000, 4.0),
    Card("NVIDIA-B300-SXM6-AC NVIDIA-B300 B300", 275040, 2250, 7700, 4.5),
    Card("NVIDIA-GB300 GB300", 284208, 2500, 8000, 5.0),
    Card("NVIDIA-L4 L4", 23034, 121, 300, 0.3),
    Card("NVIDIA-L40 L40", 46068, 181, 864, 0.55),
    Card("NVIDIA-L40S L40S", 46068, 362, 864, 0.65, autoconf="L40S"),
    Card("NVIDIA-GeForce-RTX-3090 RTX-3090", 24576, 71, 936, 0.2),
    Card("NVIDIA-GeForce-RTX-4090 RTX-4090", 24564, 165.2, 1008, 0.3),
    Card("NVIDIA-GeForce-RTX-5090 RTX-5090", 32607, 209.5, 1792, 0.45),
    Card("NVIDIA-RTX-A6000 RTX-A6000 A6000", 49140, 154.8, 768, 0.4),
    Card("NVIDIA-RTX-6000-Ada-Generation RTX-6000-Ada", 49140, 364.2, 960, 0.55),
    Card("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97887, 503.8, 1597, 1.0),
    Card("NVIDIA-RTX-PRO-6000-Blackwell-Workstation-Edition", 97887, 503.8, 1792, 1.0),
    Card("NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition", 97887, 438.9, 1792, 1.0),
)

AMD = (
    Card("AMD_Instinct_MI210 MI210", 65520, 181, 1638, 0.4, _AMD_SEEN),
    Card("AMD_Instinct_MI250 AMD_Instinct_MI250X_MI250 MI250", 65520, 181, 1638, 0.4, _AMD_SEEN),
    Card("AMD_Instinct_MI250X MI250X", 65520, 191.5, 1638, 0.45, _AMD_SEEN),
    Card("AMD_Instinct_MI300X_OAM AMD_Instinct_MI300X MI300X", 196592, 1307.4, 5325, 1.5, _AMD_SEEN),
    Card(
        "AMD_Instinct_MI325_OAM AMD_Instinct_MI325X_OAM AMD_Instinct_MI325X MI325X",
        262128,
        1307.4,
        6000,
        1.7,
        _AMD_SEEN,
    ),
    Card(
        "AMD_Instinct_MI355_OAM AMD_Instinct_MI355X_OAM AMD_Instinct_MI355X MI355X",
        294896,
        2516.6,
        8000,
        2.6,
        _AMD_SEEN,
    ),
)
"""Of MI250 and MI250X every row is one of the two dies, which the driver shows as a GPU each."""

_NO_BF16 = ("Tesla-T4", "Tesla-V100")


def cards() -> Iterable[tuple[Card, Gpu]]:
    """Yield every row and the card it makes."""
    for vendor, rows in ((Vendor.NVIDIA, NVIDIA), (Vendor.AMD, AMD)):
        for card in rows:
            product = card.names.split()[0]
            yield (
                card,
                Gpu(
                    product=product,
                    memory_gib=round(card.mib / 1024, 2),
                    vendor=vendor,
                    price=card.price,
                    tflops=card.tflops,
                    bandwidth_gbs=card.bandwidth,
                    bf16=not product.startswith(_NO_BF16),
                    autoconf=card.autoconf,
                    source=card.source,
                ),
            )
