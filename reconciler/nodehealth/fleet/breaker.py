"""The breaker: how many nodes the fast lane may take, and when it must stop and ask."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.values import plural
from reconciler.nodehealth.fleet.decisions import BreakerAlert
from reconciler.nodehealth.fleet.state import Admission, BreakerState, FleetNode, Onset
from reconciler.nodehealth.policy import BreakerLimits


class FenceRequest(Struct, frozen=True, kw_only=True):
    """A node that a fast rule wants to take out of use."""

    node: str
    check: str
    is_fatal: bool = False


class Fleet(Struct, frozen=True, kw_only=True):
    """Counts of a fleet before the candidates: nodes by pool, model and flavor, and how many of them can take work."""

    facts: Mapping[str, FleetNode]
    nodes: int
    unavailable: int
    pools: Mapping[str, int]
    models: Mapping[str, int]
    schedulable: Mapping[tuple[str, str], int]  # by pool and model

    @staticmethod
    def of(facts: Mapping[str, FleetNode], out: frozenset[str]) -> "Fleet":
        """Count; `out` are the nodes that we keep out of use."""
        pools: Counter[str] = Counter()
        models: Counter[str] = Counter()
        schedulable: Counter[tuple[str, str]] = Counter()
        nodes = unavailable = 0
        for node in facts.values():
            nodes += 1
            pools[node.pool] += 1
            models[node.product] += 1
            if node.name not in out and node.ready and not node.cordoned and not node.tainted:
                schedulable[node.pool, node.product] += 1
            else:
                unavailable += 1
        return Fleet(
            facts=facts, nodes=nodes, unavailable=unavailable, pools=pools, models=models, schedulable=schedulable
        )


class Admitted(Struct, frozen=True, kw_only=True):
    """The nodes that the breaker admitted in this round, and its reasons against the others."""

    state: BreakerState
    nodes: frozenset[str] = frozenset()
    refused: Mapping[str, str] = {}
    alerts: tuple[BreakerAlert, ...] = ()


def reset(state: BreakerState, limits: BreakerLimits) -> BreakerState:
    """Return an empty breaker if a commit raised the generation. Nothing else resets it."""
    if limits.reset_generation <= state.generation:
        return state
    return BreakerState(generation=limits.reset_generation)


def freeze(
    state: BreakerState, onsets: Sequence[Onset], limits: BreakerLimits, facts: Mapping[str, FleetNode], now: float
) -> tuple[BreakerState, tuple[BreakerAlert, ...]]:
    """Remember checks that began to fail, and freeze one that did so on too many nodes within the window."""
    recent = tuple(one for one in (*state.onsets, *onsets) if now - one.at < limits.spike_window)
    if recent == state.onsets and not onsets:
        return state, ()
    frozen, alerts = dict(state.frozen), []
    for check in sorted({one.check for one in onsets} - frozen.keys()):
        nodes = tuple(sorted({one.node for one in recent if one.check == check}))
        if len(nodes) < limits.spike_nodes:
            continue
        frozen[check] = f"{check} began to fail on {plural(len(nodes), 'node')} within {_hours(limits.spike_window)}"
        alerts.append(BreakerAlert(reason=frozen[check], check=check, nodes=nodes, common=_shared(nodes, facts)))
    return replace(state, onsets=recent, frozen=frozen), tuple(alerts)


def admit(
    state: BreakerState, candidates: Iterable[FenceRequest], fleet: Fleet, limits: BreakerLimits, now: float
) -> Admitted:
    """Admit candidates one by one, the fatal ones first, until a limit is reached; then the breaker trips."""
    kept = tuple(one for one in state.admitted if now - one.at < limits.window)
    state = state if kept == state.admitted else replace(state, admitted=kept)
    taken = _Taken(fleet, kept)
    passed: list[Admission] = []
    refused: dict[str, str] = {}
    tripped = state.tripped
    for one in sorted(candidates, key=lambda one: (not one.is_fatal, one.node)):
        node = fleet.facts[one.node]
        why = tripped or state.frozen.get(one.check, "")
        if not why:
            why = tripped = taken.exceeded(node, limits)
        why = why or taken.last_of_its_flavor(node)
        if why:
            refused[one.node] = why
            continue
        passed.append(Admission(at=now, node=one.node, pool=node.pool, product=node.product))
        taken.take(node)
    alerts: tuple[BreakerAlert, ...] = ()
    if tripped and not state.tripped:
        state = replace(state, tripped=tripped, tripped_at=now)
        alerts = (BreakerAlert(reason=tripped, nodes=tuple(sorted(refused))),)
    if passed:
        state = replace(state, admitted=(*state.admitted, *passed))
    return Admitted(state=state, nodes=frozenset(one.node for one in passed), refused=refused, alerts=alerts)


class _Taken:
    """The use of the limits so far, while candidates are admitted one by one."""

    def __init__(self, fleet: Fleet, admitted: Iterable[Admission]) -> None:
        self._fleet = fleet
        self._pools = Counter(one.pool for one in admitted)
        self._models = Counter(one.product for one in admitted)
        self._schedulable = Counter(fleet.schedulable)
        self._unavailable = fleet.unavailable

    def take(self, node: FleetNode) -> None:
        self._pools[node.pool] += 1
        self._models[node.product] += 1
        if node.is_available:
            self._schedulable[node.pool, node.product] -= 1
            self._unavailable += 1

    def last_of_its_flavor(self, node: FleetNode) -> str:
        if not node.is_available or self._schedulable[node.pool, node.product] > 1:
            return ""
        return f"{node.name} is the last schedulable node of {node.product or 'its model'} in {_pool(node)}"

    def exceeded(self, node: FleetNode, limits: BreakerLimits) -> str:
        """Return the limit that one more node would exceed; empty if none."""
        fleet, window = self._fleet, _hours(limits.window)
        cap = allowed(limits.per_pool, fleet.pools[node.pool], limits.minimum)
        if self._pools[node.pool] >= cap:
            return f"{_pool(node)} has had {plural(cap, 'new quarantine')} within {window}, its limit"
        cap = allowed(limits.per_model, fleet.models[node.product], limits.minimum)
        if self._models[node.product] >= cap:
            return f"{node.product or 'the model'} has had {plural(cap, 'new quarantine')} within {window}, its limit"
        cap = allowed(limits.unavailable, fleet.nodes, limits.minimum)
        unavailable = self._unavailable + node.is_available
        if unavailable > cap:
            return f"{unavailable} of {plural(fleet.nodes, 'node')} would be out of use; the limit is {cap}"
        return ""


def allowed(share: float, of: int, minimum: int) -> int:
    """Return the number of nodes that a share allows; small groups may have the minimum."""
    return max(minimum, int(share * of + 1e-9))


def _pool(node: FleetNode) -> str:
    return f"pool {node.pool}" if node.pool else "the fleet"


def _hours(duration: float) -> str:
    minutes = round(duration / 60)
    return f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"


def _shared(nodes: Sequence[str], facts: Mapping[str, FleetNode]) -> tuple[str, ...]:
    """Return the labels that all of these nodes have and not all nodes: a rack, a switch, a driver, an image."""
    known = [facts[name].labels.items() for name in nodes if name in facts]
    if not known:
        return ()
    everywhere = set.intersection(*(set(node.labels.items()) for node in facts.values()))
    common = set.intersection(*map(set, known)) - everywhere
    return tuple(f"{key}={value}" for key, value in sorted(common))
