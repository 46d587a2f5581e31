"""Start deep runs on idle nodes that need one, where policies and the chart allow it."""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from reconciler.app.health.deep_runs import DeepRunSettings, start_due_runs
from reconciler.app.health.fast_lane import HealthRules, LaneRound
from reconciler.app.health.state_store import StateStore
from reconciler.core.health.active.due import due_runs
from reconciler.core.health.fleet.evaluate import FleetInput
from reconciler.core.values import NOT_JSON
from reconciler.errors import ConfigError
from reconciler.ports.cluster import LiveCluster
from reconciler.settings import DEEP_RUNS


def start_tests(
    environ: Mapping[str, str], cluster: LiveCluster, store: StateStore, done: LaneRound, rules: HealthRules
) -> LaneRound:
    """Start what is due, remember it, and return the round with what was started."""
    try:
        settings = deep_run_settings(environ)
    except ConfigError as error:
        return replace(done, failures=(*done.failures, error.message))
    if settings is None:
        return done
    reading = done.reading
    given = FleetInput(facts=reading.facts, reports=reading.reports, policies=rules.policies)
    due = due_runs(given, done.evaluation, done.state.deep_runs, done.now, seconds=settings.seconds)
    if not due.nodes or not due.free:
        return done
    made = start_due_runs(cluster, due, reading.reports, settings, done.now)
    if made.nodes:
        stored = store.read()
        started = {**stored.state.deep_runs, **dict.fromkeys(made.nodes, done.now)}
        store.write(replace(stored.state, deep_runs=started), stored)
    return replace(done, tested=made.nodes, failures=(*done.failures, *made.problems))


def deep_run_settings(environ: Mapping[str, str]) -> DeepRunSettings | None:
    """Return the settings; None without the variable: then none is started. Raises `ConfigError`."""
    text = environ.get(DEEP_RUNS)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=DeepRunSettings)
    except NOT_JSON as error:
        raise ConfigError(f"{DEEP_RUNS}: {error}", hint="the chart sets it with health.deepRuns.enabled") from error
