"""The breaker: how many nodes the fast lane may take for one cause, and when it must stop and ask."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.values import plural
from reconciler.nodehealth.fleet.decisions import BreakerAlert
from reconciler.nodehealth.fleet.state import Admission, BreakerState, FleetNode, Onset
from reconciler.nodehealth.policy import BreakerLimits

_MANY = 0.01  # of all nodes: a cause that begins on so many at one time is no matter of a pool
_CALM = 0.8  # of a limit: what tripped is let go only well below it


class FenceRequest(Struct, frozen=True, kw_only=True):
    """A node that fast rules want to take out of use. Any of its causes is enough."""

    node: str
    causes: tuple[str, ...]
    is_fatal: bool = False


class Fleet(Struct, frozen=True, kw_only=True):
    """Counts of a fleet before the candidates. Cordoned nodes are planned maintenance, which does not count.

    nodes, pools, models: all nodes. unavailable: of those that are not cordoned. schedulable: by pool and model.
    """

    facts: Mapping[str, FleetNode]
    nodes: int
    uncordoned: int
    unavailable: int
    pools: Mapping[str, int]
    models: Mapping[str, int]
    schedulable: Mapping[tuple[str, str], int]

    @staticmethod
    def of(facts: Mapping[str, FleetNode], out: frozenset[str]) -> "Fleet":
        """Count; `out` are the nodes that we keep out of use."""
        free = [node for node in facts.values() if node.is_available and node.name not in out]
        pools = Counter(node.pool for node in facts.values())
        uncordoned = sum(not node.cordoned for node in facts.values())
        return Fleet(
            facts=facts,
            nodes=len(facts),
            uncordoned=uncordoned,
            unavailable=uncordoned - len(free),
            pools=pools,
            models=Counter(node.product for node in facts.values()),
            schedulable=Counter((node.pool if pools[node.pool] > 1 else "", node.product) for node in free),
        )

    def flavor(self, node: FleetNode) -> tuple[str, str]:
        """Return pool and model; pools of one node are together one."""
        return node.pool if self.pools[node.pool] > 1 else "", node.product


class Admitted(Struct, frozen=True, kw_only=True):
    """The nodes that the breaker admitted in this round, and its reasons against the others."""

    state: BreakerState
    nodes: Mapping[str, str] = {}  # with the cause of each
    refused: Mapping[str, str] = {}
    alerts: tuple[BreakerAlert, ...] = ()


def reset(state: BreakerState, limits: BreakerLimits) -> BreakerState:
    """Return an empty breaker if a commit raised the generation."""
    if limits.reset_generation <= state.generation:
        return state
    return BreakerState(generation=limits.reset_generation)


Failing = Mapping[str, Collection[str]]
"""Nodes by the cause that they fail with now."""


def freeze(
    state: BreakerState,
    onsets: Sequence[Onset],
    failing: Failing,
    limits: BreakerLimits,
    *,
    facts: Mapping[str, FleetNode],
    now: float,
) -> tuple[BreakerState, tuple[BreakerAlert, ...]]:
    """Remember causes that began, freeze one that did so on too many nodes of a pool or the fleet, and thaw others.

    A cause thaws when it has begun nowhere for long, and does not fail on more nodes than its limit allows: the breaker
    can tell a bad rule or driver, which fails everywhere, from a few faults at one time.
    """
    recent = tuple(one for one in (*state.onsets, *onsets) if now - one.at < limits.spike_window)
    frozen_at = {
        scope: at
        for scope, at in state.frozen_at.items()
        if now - at < limits.thaw or not _is_calm(scope, failing, limits, facts)
    }
    frozen = {scope: why for scope, why in state.frozen.items() if scope in frozen_at or scope not in state.frozen_at}
    alerts = []
    for scope, nodes in _spikes(recent, {one.check for one in onsets}, limits, facts):
        frozen_at[scope] = now
        if scope not in state.frozen_at:
            frozen[scope] = (
                f"{scope} began to fail on {plural(len(nodes), 'node')} within {_hours(limits.spike_window)}"
            )
            alerts.append(BreakerAlert(reason=frozen[scope], check=scope, nodes=nodes, common=_shared(nodes, facts)))
    if (recent, frozen, frozen_at) == (state.onsets, dict(state.frozen), dict(state.frozen_at)):
        return state, ()
    return replace(state, onsets=recent, frozen=frozen, frozen_at=frozen_at), tuple(alerts)


def _spikes(
    recent: Sequence[Onset], causes: Collection[str], limits: BreakerLimits, facts: Mapping[str, FleetNode]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield causes that began on too many nodes of a pool, or of all pools together."""
    pools = {node.pool for node in facts.values()}
    everywhere = limits.spike_nodes if len(pools) <= 1 else max(2 * limits.spike_nodes, math.ceil(_MANY * len(facts)))
    for cause in sorted(causes):
        nodes = sorted({one.node for one in recent if one.check == cause and one.node in facts})
        if len(nodes) >= everywhere:
            yield cause, tuple(nodes)
        for pool in sorted({facts[name].pool for name in nodes}) if len(pools) > 1 else ():
            mine = tuple(name for name in nodes if facts[name].pool == pool)
            if len(mine) >= limits.spike_nodes:
                yield _scope(cause, pool), mine


def _scope(cause: str, pool: str) -> str:
    return f"{cause} in pool {pool}"


def _is_calm(scope: str, failing: Failing, limits: BreakerLimits, facts: Mapping[str, FleetNode]) -> bool:
    """Say whether a cause fails on no more nodes than the limit of its pool, or of the fleet, lets it take."""
    cause, _, pool = scope.partition(" in pool ")
    members = {name for name, node in facts.items() if not pool or node.pool == pool}
    return len(members.intersection(failing.get(cause, ()))) <= allowed(limits.per_pool, len(members), limits.minimum)


def admit(
    state: BreakerState,
    candidates: Iterable[FenceRequest],
    fleet: Fleet,
    limits: BreakerLimits,
    *,
    now: float,
    held: Collection[str] = (),
) -> Admitted:
    """Admit candidates one by one, the fatal ones first, as far as the limits of their causes go.

    `held` are the nodes that are out of use by us alone: they count for as long as they are.
    """
    kept = tuple(one for one in state.admitted if now - one.at < limits.window or one.node in held)
    most = allowed(limits.unavailable, fleet.uncordoned, limits.minimum)
    tripped = state.tripped if fleet.unavailable > _CALM * most else ""
    taken = _Taken(fleet, kept)
    frozen = {scope: why for scope, why in state.frozen.items() if scope in state.frozen_at}
    passed, refused, full = list[Admission](), dict[str, str](), dict[str, str]()
    for one in sorted(candidates, key=lambda one: (not one.is_fatal, one.node)):
        node = fleet.facts[one.node]
        whys = {cause: _stopped(cause, node, frozen) or taken.exceeded(node, cause, limits) for cause in one.causes}
        cause = next((cause for cause, stop in whys.items() if stop is None), "")
        if not cause:
            full |= {stop.scope: stop.why for stop in whys.values() if stop is not None and stop.scope not in frozen}
            refused[one.node] = next(stop.why for stop in whys.values() if stop is not None)
            continue
        tripped = tripped or taken.too_many(node, most)
        if why := tripped or taken.last_of_its_flavor(node):
            refused[one.node] = why
            continue
        admission = Admission(at=now, node=one.node, pool=node.pool, product=node.product, cause=cause)
        passed.append(replace(admission, is_planned=node.cordoned))
        taken.take(node, passed[-1])
    alerts = [BreakerAlert(reason=why, check=scope) for scope, why in full.items() if scope not in state.frozen]
    if tripped and not state.tripped:
        alerts.append(BreakerAlert(reason=tripped, nodes=tuple(sorted(refused))))
    at = 0.0 if not tripped else state.tripped_at if state.tripped else now
    state = replace(state, admitted=(*kept, *passed), frozen={**frozen, **full}, tripped=tripped, tripped_at=at)
    return Admitted(state=state, nodes={one.node: one.cause for one in passed}, refused=refused, alerts=tuple(alerts))


class _Stop(Struct, frozen=True):
    """The reason against a cause, and what it stops: the cause, a pool or a model."""

    scope: str
    why: str


def _stopped(cause: str, node: FleetNode, frozen: Mapping[str, str]) -> _Stop | None:
    scopes = (cause, _scope(cause, node.pool))
    return next((_Stop(scope, frozen[scope]) for scope in scopes if scope in frozen), None)


class _Taken:
    """The use of the limits so far, while candidates are admitted one by one."""

    def __init__(self, fleet: Fleet, admitted: Iterable[Admission]) -> None:
        self._fleet = fleet
        counted = [one for one in admitted if not one.is_planned]
        self._pools = Counter((one.pool, one.cause) for one in counted)
        self._causes = Counter(one.cause for one in counted)
        self._models = Counter(one.product for one in counted)
        self._schedulable = Counter(fleet.schedulable)
        self._unavailable = fleet.unavailable

    def take(self, node: FleetNode, admission: Admission) -> None:
        if not admission.is_planned:
            self._pools[node.pool, admission.cause] += 1
            self._causes[admission.cause] += 1
            self._models[node.product] += 1
        if node.is_available:
            self._schedulable[self._fleet.flavor(node)] -= 1
            self._unavailable += 1

    def last_of_its_flavor(self, node: FleetNode) -> str:
        if not node.is_available or self._schedulable[self._fleet.flavor(node)] > 1:
            return ""
        return f"{node.name} is the last schedulable node of {node.product or 'its model'} in {_pool(node)}"

    def exceeded(self, node: FleetNode, cause: str, limits: BreakerLimits) -> _Stop | None:
        """Return the limit that one more node would exceed; none for a node that is cordoned."""
        fleet, product = self._fleet, node.product
        rows = (
            (
                _scope(cause, node.pool),
                _pool(node),
                self._pools[node.pool, cause],
                limits.per_pool,
                fleet.pools[node.pool],
            ),
            (cause, "the fleet", self._causes[cause], limits.per_pool, fleet.nodes),
            (
                f"model {product}",
                product or "the model",
                self._models[product],
                limits.per_model,
                fleet.models[product],
            ),
        )
        for scope, what, used, share, of in rows if not node.cordoned else ():
            cap = allowed(share, of, limits.minimum)
            if used >= cap:
                whom = "" if scope.startswith("model ") else f" for {cause}"
                why = f"{what} has had {plural(cap, 'new quarantine')}{whom} within {_hours(limits.window)}, its limit"
                return _Stop(scope, why)
        return None

    def too_many(self, node: FleetNode, most: int) -> str:
        """Return why one more node out of use is too many; empty if it is not."""
        unavailable = self._unavailable + node.is_available
        if unavailable <= most or node.cordoned:
            return ""
        return f"{unavailable} of {plural(self._fleet.uncordoned, 'node')} would be out of use; the limit is {most}"


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
