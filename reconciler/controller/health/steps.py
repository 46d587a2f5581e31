"""Steps of a round besides marking nodes: preflight checks are acknowledged, deep runs start, jobs are watched.

Each returns the round with what it did. What fails is told as part of it, and the next round tries again.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from reconciler.app.health.deep_runs import DeepRunSettings, start_due_runs
from reconciler.app.health.fast_lane import HealthRules, LaneRound
from reconciler.app.health.jobs.preflight import acknowledge
from reconciler.app.health.jobs.running import JobWatch, look_at_jobs, tell_owners
from reconciler.app.health.state_store import StateStore
from reconciler.core.health.active.due import due_runs
from reconciler.core.health.fleet.evaluate import FleetInput
from reconciler.core.kinds.kind import Kinds
from reconciler.core.values import NOT_JSON
from reconciler.errors import ConfigError, one_line
from reconciler.ports.clock import Clock
from reconciler.ports.cluster import ClusterError, LiveCluster
from reconciler.settings import DEEP_RUNS


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


def watch_jobs(
    file: Path, cluster: LiveCluster, store: StateStore, done: LaneRound, *, kinds: Kinds, clock: Clock
) -> LaneRound:
    """Look at the jobs, remember and tell what is new, and return the round with what is said about them.

    Without pods or the file the rest of the round goes on.
    """
    try:
        made = look_at_jobs(cluster, kinds, read_watch(file), done)
        if made is None:
            return done
        stored = store.read()
        state = made.state(stored.state)
        store.write(state, stored)  # first: what cannot be stored is told by the next look
        tell_owners(cluster, made, clock)
        write_watch(file, made.watch)
    except (ClusterError, OSError) as error:
        return replace(done, failures=(*done.failures, f"jobs cannot be watched: {one_line(str(error))}"))
    return replace(done, state=state, failures=(*done.failures, *made.proven.problems))


def read_watch(file: Path) -> JobWatch:
    """Return what is kept; a file that is missing or damaged is as good as none."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=JobWatch)
    except (FileNotFoundError, msgspec.MsgspecError, RecursionError):
        return JobWatch()


def write_watch(file: Path, watch: JobWatch) -> None:
    """Replace the file, so that a crash leaves the old one or the new one."""
    new = file.with_suffix(".new")
    new.write_bytes(msgspec.json.encode(watch))
    new.replace(file)
