"""GPUs: the shipped table, the lookup of a product by its names, and what a cluster offers."""

import re
from collections.abc import Iterator
from math import isclose
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.sizing.devices import Vendor
from reconciler.sizing.inventory import Inventory, Node
from reconciler.sizing.misspelled import misspelled
from reconciler.sizing.peaks import GpuLimits

_MAX_LENGTH = 200
_MAX_SUGGESTIONS = 5
_MIG = re.compile(
    r"(?:^|-)mig-(?P<name>(?:[1-7]c\.)?(?P<slices>[1-7])g\.(?P<gb>[0-9]{1,3})gb(?:[.+-]me(?:[.+-]all)?)?)$"
)
_SAME_MEMORY = 0.05
_SLICES = 7  # compute slices of a GPU that can be partitioned
_FOUR_SLICES = ("NVIDIA-A30", "NVIDIA-RTX-PRO-6000")
_MIG_GIB = {
    5: 4.75,
    6: 5.81,
    10: 9.5,
    12: 10.62,
    18: 16.0,
    20: 19.5,
    24: 21.5,
    35: 32.5,
    40: 39.25,
    80: 78.75,
    141: 140.0,
}
"""GiB of a MIG profile by the gigabytes in its name: the least that `nvidia-smi mig -lgip` shows on any GPU."""
_MIG_FRACTION = 0.88
"""GiB per gigabyte for profiles that are not in `_MIG_GIB`: the smallest ratio among those that are."""


class Gpu(Struct, frozen=True, kw_only=True):
    """A GPU product. `product` is the value of the node label; `memory_gib` is the total that NVML or amd-smi reports.

    `price` is the relative cost of one hour (A100-80GB is 1): a rough order of cloud prices, which settings override.
    `hourly` is the price of one hour in `currency`, as `spec.prices` says; both are empty if it says nothing.
    `autoconf` is the name in ado-autoconf, empty if it has none. `tflops` is the dense bf16 peak, or fp16 if `bf16` is
    false because the GPU has no bf16 arithmetic; `bandwidth_gbs` is that of its memory. `per_node` is the number in the
    largest measured node, `in_all` that of all measured nodes, `host_gib` the memory that pods can request on the
    smallest. Zero means unknown.
    """

    product: str
    memory_gib: float
    vendor: Vendor = Vendor.NVIDIA
    price: float = 1.0
    hourly: float = 0.0
    currency: str = ""
    tflops: float = 0.0
    bandwidth_gbs: float = 0.0
    per_node: int = 0
    in_all: int = 0
    host_gib: int = 0
    bf16: bool = True
    autoconf: str = ""
    source: str = ""


class GpuRow(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A row of `data/gpus.json`. Of GPUs with two dies (MI250), a row is one die, which drivers show as a GPU.

    `health` is for the checks of nodes; sizing does not use it.
    """

    product: str
    vendor: Vendor
    memory_mib: int
    tflops: float
    bandwidth_gbs: float
    price: float
    source: str
    aliases: tuple[str, ...] = ()
    bf16: bool = True
    autoconf: str = ""
    health: GpuLimits | None = None

    def gpu(self) -> Gpu:
        """Return the GPU that the row describes."""
        return Gpu(
            product=self.product,
            memory_gib=round(self.memory_mib / 1024, 2),
            vendor=self.vendor,
            price=self.price,
            tflops=self.tflops,
            bandwidth_gbs=self.bandwidth_gbs,
            bf16=self.bf16,
            autoconf=self.autoconf,
            source=self.source,
        )


class _GpuFile(Struct, frozen=True):
    gpus: tuple[GpuRow, ...]


class GpuTable:
    """The GPUs of `data/gpus.json`, by name."""

    def __init__(self, raw: bytes) -> None:
        self.rows = msgspec.json.decode(raw, type=_GpuFile).gpus
        rows = [(row, row.gpu()) for row in self.rows]
        self._gpus = tuple(gpu for _, gpu in rows)
        self._by_key = {_key(name): gpu for row, gpu in rows for name in (row.product, *row.aliases)}
        self._found: dict[tuple[str, float | None], Gpu | None] = {}
        self._offered: dict[str, tuple[Inventory, tuple[Gpu, ...]]] = {}  # of the last inventory of each cluster

    def __iter__(self) -> Iterator[Gpu]:
        """Iterate over all GPUs, in the order of the table."""
        return iter(self._gpus)

    def find(self, product: str, memory_gib: float | None = None) -> Gpu | None:
        """Return the GPU that `product` names; None if it is unknown, or may mean GPUs with different memory.

        Accepts values of `nvidia.com/gpu.product` and `amd.com/gpu.product-name`, with or without the vendor prefix and
        the suffix `-SHARED`, names of ado-autoconf, and MIG profiles, with their GPU
        (`NVIDIA-A100-SXM4-80GB-MIG-3g.40gb`) or as the resource (`nvidia.com/mig-3g.40gb`). A short name is accepted if
        all GPUs that it may mean have the same memory: `A100-80GB` (PCIe and SXM) does; `H100` (80 or 94 GB) needs
        `memory_gib`, which matches within 5 %.
        """
        query = (product, memory_gib)
        if query not in self._found:
            key = _key(product)
            self._found[query] = (
                self._by_key.get(key) or self._mig_profile(key) or self._short_name(product, key, memory_gib)
            )
        return self._found[query]

    def agree(self, one: str, other: str) -> bool:
        """Return whether two names may mean the same product: `A100-80GB` agrees with `NVIDIA-A100-80GB-PCIe`."""
        first, second = self.find(one), self.find(other)
        if one == other or first is None or second is None:
            return one == other
        if first.product == second.product:
            return True
        meant = [{gpu.product for gpu in self._containing(_key(name))} for name in (one, other)]
        return bool(meant[0] & meant[1] & {first.product, second.product})

    def closest(self, product: str) -> tuple[str, ...]:
        """Return products for a hint: those whose name contains `product`, else misspellings of it."""
        key = _key(product)
        names = {_key(gpu.product): gpu.product for gpu in self._gpus}
        within = tuple(dict.fromkeys(gpu.product for gpu in self._containing(key)))
        written = {gpu.product.lower(): gpu.product for gpu in self._gpus}
        similar = [names[name] for name in misspelled(key, names)]
        similar += [written[name] for name in misspelled(product.lower(), written)]
        return (within or tuple(dict.fromkeys(similar)))[:_MAX_SUGGESTIONS]

    def meant(self, name: str) -> tuple[Gpu, ...]:
        """Return the GPUs that a person may mean by `name`, the likeliest first; empty for a name that fits none.

        Every word of `name` is a word of the product, or several that are written as one: `H100`, `a100 80gb`,
        `rtx4090`, `MI325X`. A full name means one GPU. The GPU with the least memory comes first, because what fits it
        fits the others, then the fastest.
        """
        exact = self._by_key.get(_key(name)) or self._mig_profile(_key(name))
        if exact is not None:
            return (exact,)
        words = _key(name).replace(".", "-").split("-")
        if all(_MEMORY.fullmatch(word) for word in words):  # `80GB` alone names no product
            return ()
        found = [gpu for gpu in self._gpus if all(_has_word(_key(gpu.product), word) for word in words)]
        return tuple(sorted(found, key=lambda gpu: (gpu.memory_gib, -gpu.tflops)))

    def offered(self, inventory: Inventory) -> tuple[Gpu, ...]:
        """Return the GPUs of the schedulable nodes, ordered by product.

        The memory is the smallest that was measured, so that a job fits on any node with the product. A product that is
        not in the table has its measured memory alone; one whose memory is unknown is omitted. The nodes are read once
        for all jobs.
        """
        known = self._offered.get(inventory.cluster)
        if known is None or known[0] is not inventory:
            known = self._offered[inventory.cluster] = (inventory, self._of_nodes(inventory))
        return known[1]

    def _of_nodes(self, inventory: Inventory) -> tuple[Gpu, ...]:
        nodes = [(gpu, node.gpus) for node in inventory.nodes if (gpu := self._of_node(node)) is not None]
        products = sorted({gpu.product for gpu, _ in nodes})
        return tuple(_merge_nodes([pair for pair in nodes if pair[0].product == product]) for product in products)

    def _of_node(self, node: Node) -> Gpu | None:
        if not node.product or node.gpus < 1 or not node.is_open:
            return None
        known = self.find(node.product, node.memory_mib / 1024 if node.memory_mib > 0 else None)
        if node.memory_mib < 1:
            host = node.allocatable_memory_gib
            return None if known is None else replace(known, product=node.product, host_gib=host)
        measured: dict[str, Any] = {
            "product": node.product,
            "memory_gib": round(node.memory_mib / 1024, 2),
            "source": f"measured on node {node.name}",
            "host_gib": node.allocatable_memory_gib,
        }
        if known is None:
            is_amd = node.product.lower().startswith(("amd", "instinct"))
            return Gpu(vendor=Vendor.AMD if is_amd else Vendor.NVIDIA, **measured)
        return replace(known, **measured)

    def _containing(self, key: str) -> list[Gpu]:
        """Return the GPUs whose names contain all words of `key` and start with its first word."""
        words = key.split("-")
        names = [(_key(gpu.product).split("-"), gpu) for gpu in self._gpus]
        return [gpu for name, gpu in names if name[0] == words[0] and set(words) <= set(name)]

    def _short_name(self, product: str, key: str, memory_gib: float | None) -> Gpu | None:
        """Return what all GPUs with a short name have in common: the lowest speed and the highest price."""
        gpus = [
            gpu
            for gpu in self._containing(key)
            if memory_gib is None or isclose(gpu.memory_gib, memory_gib, rel_tol=_SAME_MEMORY)
        ]
        if not gpus or len({gpu.memory_gib for gpu in gpus}) > 1:
            return None
        if len(gpus) == 1:
            return gpus[0]
        return replace(
            gpus[0],
            product=product,
            price=max(gpu.price for gpu in gpus),
            tflops=min(gpu.tflops for gpu in gpus),
            bandwidth_gbs=min(gpu.bandwidth_gbs for gpu in gpus),
            autoconf="",
            source=f"the minimum of {', '.join(gpu.product for gpu in gpus)}",
        )

    def _mig_profile(self, key: str) -> Gpu | None:
        """Return a MIG slice as a GPU: its fraction of the compute, its own memory."""
        match = _MIG.search(key)
        if match is None:
            return None
        whole = self._by_key.get(key[: match.start()])
        if whole is None and match.start():
            return None
        slices = 4 if whole is not None and whole.product.startswith(_FOUR_SLICES) else _SLICES
        fraction = min(1.0, int(match["slices"]) / slices)
        nominal = int(match["gb"])
        memory = _MIG_GIB.get(nominal, round(nominal * _MIG_FRACTION, 2))
        source = "nvidia-smi mig -lgip" if nominal in _MIG_GIB else f"{_MIG_FRACTION:.0%} of the profile's nominal size"
        if whole is None:
            return Gpu(product=f"mig-{match['name']}", memory_gib=memory, price=fraction, source=source)
        return replace(
            whole,
            product=f"{whole.product}-MIG-{match['name']}",
            memory_gib=min(memory, whole.memory_gib),
            price=round(whole.price * fraction, 3),
            tflops=whole.tflops * fraction,
            bandwidth_gbs=whole.bandwidth_gbs * min(1.0, memory / whole.memory_gib),
            autoconf="",
            source=source,
        )


def _key(product: str) -> str:
    """Return the name in lower case, without vendor prefixes, with one `-` between words."""
    if len(product) > _MAX_LENGTH:
        return ""
    name = re.sub(r"[^a-z0-9.+]+", "-", product.lower()).strip("-")
    name = re.sub(r"^(?:nvidia\.com-)", "", name)
    name = re.sub(r"^(?:nvidia-)?(?:nvidia|tesla|geforce|quadro|amd-instinct|amd|instinct)-(?=.)", "", name)
    return name.removeprefix("geforce-").removesuffix("-shared")


_MEMORY = re.compile(r"(?:\d+gb?)?")
_AMD = re.compile(r"mi\d+x")
"""Names that vendors write with an X, and drivers without: `MI325X` is `AMD_Instinct_MI325_OAM`."""


def _has_word(key: str, word: str) -> bool:
    """Return whether a name has a word, written as one or as several: `80g`, `sxm`, `rtx4090`, `mi325x`."""
    parts = key.split("-")
    joined = {"".join(parts[start:end]) for start in range(len(parts)) for end in range(start + 1, len(parts) + 1)}
    is_beginning = any(part.startswith(word) and part[len(word) :] in _ENDINGS for part in parts)
    return word in joined or is_beginning or (bool(_AMD.fullmatch(word)) and word[:-1] in parts)


_ENDINGS = {"b", "gb", "2", "3", "4", "5", "6"}
"""What people omit at the end of a word: `80g` and `80` of 80GB, `SXM` of SXM4."""


def _merge_nodes(nodes: list[tuple[Gpu, int]]) -> Gpu:
    """Merge the same product on several nodes, each with its number of GPUs."""
    smallest = min((gpu for gpu, _ in nodes), key=lambda gpu: (gpu.memory_gib, gpu.source))
    counts = [count for _, count in nodes]
    hosts = [gpu.host_gib for gpu, _ in nodes if gpu.host_gib]
    return replace(smallest, per_node=max(counts), in_all=sum(counts), host_gib=min(hosts, default=0))
