"""Acknowledge failed preflight checks once their nodes are marked, so that no pod is replaced on the same node."""

from msgspec.structs import replace

from reconciler.app.health.fast_lane import HealthRules, LaneRound
from reconciler.app.health.jobs.preflight import acknowledge
from reconciler.app.health.state_store import StateStore
from reconciler.errors import one_line
from reconciler.ports.clock import Clock
from reconciler.ports.cluster import ClusterError, LiveCluster


def acknowledge_preflights(
    cluster: LiveCluster, store: StateStore, done: LaneRound, rules: HealthRules, clock: Clock
) -> LaneRound:
    """Acknowledge what is new, and remember it. A failure is told, and the next round tries again."""
    most = rules.policies.base.jobs.preflight.retries
    try:
        found = acknowledge(cluster, done.state.preflights, done, most, clock)
    except ClusterError as error:
        text = f"preflight checks cannot be acknowledged: {one_line(error.message)}"
        return replace(done, failures=(*done.failures, text))
    if found.attempts == done.state.preflights:
        return done
    stored = store.read()
    state = replace(stored.state, preflights=found.attempts)
    store.write(state, stored)
    return replace(done, state=state)
