"""Which card a name means: the value of a node's label, ado-autoconf's name, or a short one. Never a guess."""

import re
from functools import cache
from math import isclose

from msgspec.structs import replace

from reconciler.core.sizing.gpus.gpu import Gpu
from reconciler.core.sizing.gpus.table import cards

_LONGEST = 200
_CLOSE = 5
_MIG = re.compile(
    r"(?:^|-)mig-(?P<name>(?:[1-7]c\.)?(?P<slices>[1-7])g\.(?P<gb>[0-9]{1,3})gb(?:[.+-]me(?:[.+-]all)?)?)$"
)
_NEAR = 0.05
_SLICES = 7  # of compute
_FOUR_SLICES = ("NVIDIA-A30", "NVIDIA-RTX-PRO-6000")
_READ = {5: 4.75, 6: 5.81, 10: 9.5, 12: 10.62, 18: 16.0, 20: 19.5, 24: 21.5, 35: 32.5, 40: 39.25, 80: 78.75, 141: 140.0}
"""GiB of a MIG profile by the gigabytes in its name: the least that `nvidia-smi mig -lgip` shows for it on any card."""
_UNREAD = 0.88  # of those gigabytes, for profiles without a reading: the least share among those with one


def find_gpu(product: str, memory_gib: float | None = None) -> Gpu | None:
    """Return the card that `product` names; None where there is none, or several of different size.

    Takes values of `nvidia.com/gpu.product` and `amd.com/gpu.product-name`, with or without the maker's prefix and the
    suffix `-SHARED`, ado-autoconf's names, and MIG profiles, on their card (`NVIDIA-A100-SXM4-80GB-MIG-3g.40gb`) or as
    the resource (`nvidia.com/mig-3g.40gb`). A short name counts if all cards that it may mean have the same memory
    (`A100-80GB`: PCIe and SXM); `H100` may be 80 or 94 GB, unless `memory_gib` tells (within 5 %).
    """
    key = _key(product)
    found = _index().get(key) or _profile(key)
    return found if found is not None else _class(product, key, memory_gib)


def closest_gpus(product: str) -> tuple[str, ...]:
    """Return products that may have been meant: first those whose name holds it, then those spelled alike."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for messages

    key = _key(product)
    names = {_key(gpu.product): gpu.product for gpu in all_gpus()}
    alike = [names[name] for name in get_close_matches(key, names, _CLOSE, 0.6)]
    return tuple(dict.fromkeys((*(gpu.product for gpu in _holding(key)), *alike)))[:_CLOSE]


@cache
def all_gpus() -> tuple[Gpu, ...]:
    """Return every card of the table."""
    return tuple(gpu for _, gpu in cards())


@cache
def _index() -> dict[str, Gpu]:
    return {_key(name): gpu for card, gpu in cards() for name in card.names.split()}


def _key(product: str) -> str:
    if len(product) > _LONGEST:
        return ""
    name = re.sub(r"[^a-z0-9.+]+", "-", product.lower()).strip("-")
    name = re.sub(r"^(?:nvidia\.com-)", "", name)
    name = re.sub(r"^(?:nvidia-)?(?:nvidia|tesla|geforce|quadro|amd-instinct|amd|instinct)-(?=.)", "", name)
    return name.removeprefix("geforce-").removesuffix("-shared")


def _holding(key: str) -> list[Gpu]:
    """Return the cards whose names hold all words of `key`, its first word first."""
    words = key.split("-")
    names = [(_key(gpu.product).split("-"), gpu) for gpu in all_gpus()]
    return [gpu for name, gpu in names if name[0] == words[0] and set(words) <= set(name)]


def _class(product: str, key: str, memory_gib: float | None) -> Gpu | None:
    """Return what all cards of a short name have in common: the slowest and the dearest of them."""
    meant = [gpu for gpu in _holding(key) if memory_gib is None or isclose(gpu.memory_gib, memory_gib, rel_tol=_NEAR)]
    if not meant or len({gpu.memory_gib for gpu in meant}) > 1:
        return None
    return replace(
        meant[0],
        product=product if len(meant) > 1 else meant[0].product,
        price=max(gpu.price for gpu in meant),
        tflops=min(gpu.tflops for gpu in meant),
        bandwidth_gbs=min(gpu.bandwidth_gbs for gpu in meant),
        autoconf=meant[0].autoconf if len(meant) == 1 else "",
        source=f"the least of {', '.join(gpu.product for gpu in meant)}" if len(meant) > 1 else meant[0].source,
    )


def _profile(key: str) -> Gpu | None:
    """Return a slice of a card as a card of its own: its share of compute, its own memory."""
    match = _MIG.search(key)
    if match is None:
        return None
    card = _index().get(key[: match.start()])
    if card is None and match.start():
        return None
    slices = 4 if card is not None and card.product.startswith(_FOUR_SLICES) else _SLICES
    share = min(1.0, int(match["slices"]) / slices)
    nominal = int(match["gb"])
    memory = _READ.get(nominal, round(nominal * _UNREAD, 2))
    source = "nvidia-smi mig -lgip" if nominal in _READ else f"{_UNREAD:.0%} of the profile's nominal size"
    if card is None:
        return Gpu(product=f"mig-{match['name']}", memory_gib=memory, price=share, source=source)
    return replace(
        card,
        product=f"{card.product}-MIG-{match['name']}",
        memory_gib=min(memory, card.memory_gib),
        price=round(card.price * share, 3),
        tflops=card.tflops * share,
        bandwidth_gbs=card.bandwidth_gbs * min(1.0, memory / card.memory_gib),
        autoconf="",
        source=source,
    )
