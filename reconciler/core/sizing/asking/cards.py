"""Which cards a job may get: what it names wins over what the settings say, and that over what the cluster offers."""

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.launch import Diagnostic
from reconciler.core.sizing.gpus import Gpu, closest_gpus, find_gpu

OFFERED = "what the cluster offers"
"""Origin of cards that neither the job nor the settings name."""


class Cards(Struct, frozen=True, kw_only=True):
    """The cards to choose among, and who named them."""

    gpus: tuple[Gpu, ...]
    origin: str


def pick_cards(
    *,
    variable: str = "",
    selected: str = "",
    default: str = "",
    offered: Sequence[Gpu] = (),
    prices: Sequence[tuple[str, float]] = (),
) -> Cards | Diagnostic:
    """Return the cards of a job: one that is named, else all that are offered.

    In this order: `variable` (AUTOCONF_GPU_MODEL), `selected` (node selector, or an affinity that allows exactly one
    product), `default` of the settings, then `offered` (by the queue's flavors and the nodes that were measured).
    What was measured of a card wins over the table, `prices` of the settings over both. A card that nobody knows is a
    trouble, not a reason to look further.
    """
    named = (
        (variable, "env AUTOCONF_GPU_MODEL"),
        (selected, "node selection"),
        (default, "spec.sizing.defaultGpuModel"),
    )
    for product, origin in named:
        if product:
            gpu = _card(product, offered)
            return _unknown(product, origin) if gpu is None else Cards(gpus=(_priced(gpu, prices),), origin=origin)
    if offered:
        return Cards(gpus=tuple(_priced(gpu, prices) for gpu in offered), origin=OFFERED)
    hint = "name it by the node selector nvidia.com/gpu.product, spec.sizing.defaultGpuModel, or --gpu"
    return Diagnostic(rule="sizing.gpu", message="nothing says which GPU the job will get", hint=hint)


@lru_cache(maxsize=256)
def _known(product: str) -> Gpu | None:
    return find_gpu(product)


def _card(product: str, offered: Sequence[Gpu]) -> Gpu | None:
    known = _known(product)
    names = {product} if known is None else {product, known.product}
    return next((gpu for gpu in offered if gpu.product in names), known)


def _priced(gpu: Gpu, prices: Sequence[tuple[str, float]]) -> Gpu:
    price = dict(prices).get(gpu.product)
    return gpu if price is None else replace(gpu, price=price)


def _unknown(product: str, origin: str) -> Diagnostic:
    close = closest_gpus(product)
    hint = f"did you mean {', '.join(close)}?" if close else "write it as the node label nvidia.com/gpu.product says"
    return Diagnostic(rule="sizing.gpu", message=f"the GPU {product[:_SHOWN]!r} of {origin} is not known", hint=hint)


_SHOWN = 60
