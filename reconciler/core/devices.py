"""GPUs as Kubernetes names them: extended resources, node labels, and vendors."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.core.config import Vendor

PRODUCT_LABEL = {Vendor.NVIDIA: "nvidia.com/gpu.product", Vendor.AMD: "amd.com/gpu.product-name"}
"""Node labels with the GPU product: NVIDIA's GPU feature discovery, AMD's node labeller."""

PRODUCT_LABELS = (
    *PRODUCT_LABEL.values(),
    "beta.amd.com/gpu.product-name",  # AMD's node labeller before its labels were stable
    "gpu.nvidia.com/class",  # CoreWeave
    "gpu.nvidia.com/model",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
"""Node labels whose value is a GPU product."""

WHOLE_GPUS = frozenset({"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"})
"""Extended resources that count whole GPUs."""

SHARED_GPU = "nvidia.com/gpu.shared"
"""Extended resource of NVIDIA's time slicing."""

_MIG = "nvidia.com/mig-"


def is_gpu(resource: Any) -> bool:
    """Return whether an extended resource is a GPU or a slice of one."""
    return resource in WHOLE_GPUS or (type(resource) is str and (resource == SHARED_GPU or resource.startswith(_MIG)))


def is_slice(product: str) -> bool:
    """Return whether a product is a slice of a GPU, which goes by its resource key (`nvidia.com/mig-1g.5gb`)."""
    return "/" in product


def product_label(labels: Mapping[str, Any]) -> str:
    """Return the GPU product in node labels or a node selector; empty if there is none."""
    for label in PRODUCT_LABELS:
        if label in labels:
            value = labels[label]
            return value if type(value) is str else ""
    return ""


_VENDOR_NAMES = (
    (Vendor.AMD, re.compile(r"\b(amd|instinct|radeon|mi\d{2,3}[a-z]?)\b")),
    (
        Vendor.NVIDIA,
        re.compile(r"\b(nvidia|tesla|geforce|rtx|g?[bh][12]00|gh200|h20|a\d{2,3}[a-z]?|v100|p100|l4|l40s?|t4)\b"),
    ),
)
"""Brands and product lines of data-center GPUs: AMD Instinct MI50 to MI355X; NVIDIA Pascal to Blackwell."""


def vendor_in(texts: Iterable[str]) -> Vendor | None:
    """Return the only vendor that the texts name; None if they name none or several."""
    joined = re.sub(r"[^a-z0-9]+", " ", " ".join(texts).lower())
    vendors = [vendor for vendor, names in _VENDOR_NAMES if names.search(joined)]
    return vendors[0] if len(vendors) == 1 else None


def product_words(product: str) -> frozenset[str]:
    """Return the words of a product name: `NVIDIA-H100-80GB-HBM3` and `h100-80gb` share `h100` and `80gb`."""
    return frozenset(re.findall(r"[a-z0-9]+", product.lower()))
