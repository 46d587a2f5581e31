"""Whose GPUs a queue means, by the words it uses for them."""

import re
from collections.abc import Iterable

from reconciler.core.config import Vendor

_WORDS = (
    (Vendor.AMD, re.compile(r"\b(amd|instinct|radeon|mi\d{2,3}[a-z]?)\b")),
    (
        Vendor.NVIDIA,
        re.compile(r"\b(nvidia|tesla|geforce|rtx|g?[bh][12]00|gh200|h20|a\d{2,3}[a-z]?|v100|p100|l4|l40s?|t4)\b"),
    ),
)
"""Brands and product lines of data-center GPUs: AMD Instinct MI50 to MI355X; NVIDIA Pascal to Blackwell."""


def vendor_in(texts: Iterable[str]) -> Vendor | None:
    """Return the one vendor that the texts name; None where they name none, or both."""
    joined = re.sub(r"[^a-z0-9]+", " ", " ".join(texts).lower())
    found = [vendor for vendor, words in _WORDS if words.search(joined)]
    return found[0] if len(found) == 1 else None


def tokens(product: str) -> frozenset[str]:
    """Return the words of a product's name: `NVIDIA-H100-80GB-HBM3` and `h100-80gb` share `h100` and `80gb`."""
    return frozenset(re.findall(r"[a-z0-9]+", product.lower()))
