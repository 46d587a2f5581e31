"""LimitRanges against the containers of a workload, as Kueue compares them before it admits the workload.

Kueue 0.19: pkg/util/limitrange/limitrange.go and pkg/workload/resources.go. Of ratios only the API server takes notice:
it creates no pod that exceeds one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from reconciler.kinds.terms import Amounts, ContainerRequest, LimitTerms, PodRequest
from reconciler.kube.quantities import canonical, parse_quantity

Values = dict[str, Fraction]


class LimitBreach(NamedTuple):
    """A fault in the resources of a container or pod, and its field below that of the pod."""

    field: str
    message: str


class LimitBounds:
    """The LimitRanges of one namespace together: the lowest maximum, the highest minimum, the first defaults."""

    def __init__(self, ranges: Iterable[LimitTerms]) -> None:
        self._items: dict[tuple[str, str], Values] = {}
        for one in ranges:
            for (kind, field), amounts in _completed(one).items():
                merged = self._items.setdefault((kind, field), {})
                for name, amount in amounts.items():
                    merged[name] = _merged(field, merged.get(name), amount)

    def of(self, kind: str, field: str) -> Values:
        """Return the amounts of a field for containers or pods."""
        return self._items.get((kind, field), {})

    def requests(self, container: ContainerRequest) -> tuple[Values, Values]:
        """Return requests and limits of a container with the defaults of the namespace."""
        given = container.field != "resources"
        limits = {**(self.of("Container", "default") if given else {}), **values(container.limits)}
        requests = {**(self.of("Container", "defaultRequest") if given else {}), **values(container.requests)}
        return {**limits, **requests}, limits

    def breaches(self, pods: PodRequest) -> Iterator[LimitBreach]:
        """Yield what is wrong with the resources of pods."""
        every = [(one, *self.requests(one)) for one in pods.containers]
        for container, requests, limits in every:
            field = container.field if container.field == "resources" else f"{container.field}.resources"
            over = _greater(requests, limits)
            if over:
                yield LimitBreach(field, f"requests more {over} than its limit")
            if container.field == "resources":
                continue
            low, high = _combined(min, requests, limits), _combined(max, requests, limits)
            yield from self._bounded(field, "Container", low, high)
            for name, ratio in self.of("Container", "maxLimitRequestRatio").items():
                if limits.get(name, 0) > ratio * requests.get(name, Fraction(0)):
                    yield LimitBreach(field, f"a limit of {name} of more than {_text(ratio)} times the request")
        total = pod_total(pods.overhead, [(one, requests) for one, requests, _ in every])
        yield from self._bounded("", "Pod", total, total)

    def _bounded(self, field: str, kind: str, low: Values, high: Values) -> Iterator[LimitBreach]:
        greatest, least = self.of(kind, "max"), self.of(kind, "min")
        if name := _greater(high, greatest):
            bound = f"at most {_text(greatest[name], name)}"
            yield LimitBreach(
                field, f"requests {_text(high[name], name)} of {name}, and a {kind.lower()} of it {bound}"
            )
        if name := _greater(least, low):
            bound = f"at least {_text(least[name], name)}"
            yield LimitBreach(field, f"requests {_text(low[name], name)} of {name}, and a {kind.lower()} of it {bound}")


def pod_total(overhead: Amounts, containers: Sequence[tuple[ContainerRequest, Values]]) -> Values:
    """Return what a pod requests: containers and sidecars together, or the largest init container; and its overhead."""
    total: Values = {}
    for container, requests in containers:
        if not container.is_first and container.field != "resources":
            for name, amount in requests.items():
                total[name] = total.get(name, Fraction(0)) + amount
    for container, requests in containers:
        if container.is_first:
            total = _combined(max, total, requests)
    for container, requests in containers:
        if container.field == "resources":
            total |= requests
    for name, amount in values(overhead).items():
        total[name] = total.get(name, Fraction(0)) + amount
    return total


def values(amounts: Amounts) -> Values:
    """Return amounts as numbers; what is no quantity is left out."""
    return {name: number for name, amount in amounts if (number := parse_quantity(amount)) is not None}


def _completed(limits: LimitTerms) -> dict[tuple[str, str], Values]:
    """Return the items with the defaults that an API server adds (SetDefaults_LimitRangeItem)."""
    items: dict[tuple[str, str], Values] = {}
    for kind, field, name, amount in limits.items:
        if (number := parse_quantity(amount)) is not None:
            items.setdefault((kind, field), {})[name] = number
    greatest, least = (items.get(("Container", field), {}) for field in ("max", "min"))
    default = {**greatest, **items.get(("Container", "default"), {})}
    requests = {**least, **default, **items.get(("Container", "defaultRequest"), {})}
    return {**items, ("Container", "default"): default, ("Container", "defaultRequest"): requests}


def _merged(field: str, known: Fraction | None, amount: Fraction) -> Fraction:
    if known is None:
        return amount
    if field in ("max", "maxLimitRequestRatio"):
        return min(known, amount)
    return max(known, amount) if field == "min" else known


def _combined(choose: Callable[[Fraction, Fraction], Fraction], one: Values, other: Values) -> Values:
    return {**one, **{name: choose(one.get(name, amount), amount) for name, amount in other.items()}}


def _greater(one: Mapping[str, Fraction], other: Mapping[str, Fraction]) -> str:
    """Return the first resource of which there is more in `one`, if both have it; empty if there is none."""
    return next((name for name in sorted(one) if name in other and one[name] > other[name]), "")


def _text(amount: Fraction, resource: str = "") -> str:
    """Return an amount as people write it: bytes by powers of two, if they are whole."""
    if resource not in _BYTES or amount % _MIB:
        return canonical(float(amount)) if amount.denominator != 1 else canonical(int(amount))
    return canonical(f"{amount // _MIB}Mi")


_BYTES, _MIB = ("memory", "ephemeral-storage", "storage"), 1 << 20
