"""A fleet of simulated GPU nodes of three products, labelled as NVIDIA's feature discovery labels them."""

from dataclasses import dataclass

from tests.cluster.bed.bed import Body, node


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A kind of GPU node; `share` is its part of a fleet, in tenths."""

    prefix: str
    name: str
    memory_mib: int
    gpus: int
    share: int


PRODUCTS = (
    Product(prefix="h100", name="NVIDIA-H100-80GB-HBM3", memory_mib=81559, gpus=8, share=5),
    Product(prefix="a100", name="NVIDIA-A100-SXM4-80GB", memory_mib=81920, gpus=8, share=3),
    Product(prefix="l40s", name="NVIDIA-L40S", memory_mib=46068, gpus=4, share=2),
)
_RACK = 8
"""Nodes in a rack."""


def fleet(count: int) -> list[Body]:
    """Return `count` nodes: half H100, then A100 and L40S, eight to a rack, racks in two zones."""
    bodies = []
    for product in PRODUCTS:
        for index in range(_share(product, count)):
            rack = index // _RACK
            labels = {
                "nvidia.com/gpu.product": product.name,
                "nvidia.com/gpu.count": str(product.gpus),
                "nvidia.com/gpu.memory": str(product.memory_mib),
                "topology.kubernetes.io/zone": f"zone-{'ab'[rack % 2]}",
                "topology.kubernetes.io/rack": f"{product.prefix}-{rack:02}",
            }
            bodies.append(node(f"{product.prefix}-{index + 1:02}", gpus=product.gpus, labels=labels))
    return bodies


def volumes(count: int, *, prefix: str = "volume") -> list[Body]:
    """Return volumes that claims without a class bind to, as no storage provisioner runs here."""
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{prefix}-{index:03}"},
            "spec": {
                "capacity": {"storage": "10Ti"},
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": f"/volumes/{prefix}-{index:03}"},
            },
        }
        for index in range(count)
    ]


def _share(product: Product, count: int) -> int:
    """Return how many of `count` nodes are of a product; the first takes what division leaves."""
    rest = count - sum(count * other.share // 10 for other in PRODUCTS)
    return count * product.share // 10 + (rest if product is PRODUCTS[0] else 0)
