"""A round of node health: act on each cluster by what was merged, then tell Git and people what was done.

A round takes values alone: who starts it, and how its repository is fetched, is the caller's business.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.clock import Clock
from reconciler.console.logs import Log
from reconciler.errors import ConfigError, OutsideError, ReconcilerError, StalePlan, one_line
from reconciler.health.deep_runs import start_due_runs
from reconciler.health.fast_lane import HealthRules, LaneRound, run_round
from reconciler.health.jobs.preflight import acknowledge
from reconciler.health.jobs.running import JobWatch, look_at_jobs, notify_owners
from reconciler.health.proposals import CaseBranches, ChangeRequests, ClusterRound
from reconciler.health.quarantine_files import HealthSources, mirror_files
from reconciler.health.repairing import start_repairs
from reconciler.health.state_store import StateStore, claim_fleet
from reconciler.kinds.health.pods import DeepRunSettings
from reconciler.kinds.kind import Kinds
from reconciler.kube.client.port import ClusterError, LiveCluster
from reconciler.kube.secrets import mask_text
from reconciler.kube.values import NOT_JSON, plural
from reconciler.messages import receivers_in, send
from reconciler.nodehealth.active.due import due_runs
from reconciler.nodehealth.exports.fleet_gauges import FleetSamples, fleet_samples
from reconciler.nodehealth.exports.notices import notices
from reconciler.nodehealth.fleet.evaluate import FleetInput
from reconciler.plan import opening
from reconciler.plan.outputs.commit import ENGINE, SOURCE_COMMIT, commit
from reconciler.repo.config import Cluster
from reconciler.repo.git.remote import GitRemote
from reconciler.settings import ALERT_WEBHOOKS, DEEP_RUNS
from reconciler.version import __version__

HEALTH_POLICY = "Reconciler-Health-Policy"
"""The digest of the policies that allowed what a commit mirrors."""

Opener = Callable[[Cluster], LiveCluster]
"""Opens a cluster of the repository."""

_ATTEMPTS = 3
_log = Log(__name__)


class RoundOptions(Struct, frozen=True, kw_only=True, eq=False):
    """The circumstances of a round. `name` is that of the source, which claims the fleet."""

    name: str
    folder: Path  # of what a round remembers between two looks at jobs
    environ: Mapping[str, str]
    clock: Clock
    dry_run: bool = False  # nothing is written


def act(run: opening.Run, opener: Opener, options: RoundOptions, stack: ExitStack) -> list[ClusterRound]:
    """Make a round on every cluster; one that cannot be reached, or whose state is damaged, stops no other."""
    rounds = []
    for sources in sources_of(run):
        name = sources.cluster.name
        try:
            live = stack.enter_context(opener(sources.cluster))
            rounds.append(_act_on(run, live, sources, options))
        except (OutsideError, ConfigError, StalePlan) as error:
            rounds.append(ClusterRound(cluster=name, error=error))
    return rounds


def _act_on(run: opening.Run, live: LiveCluster, sources: HealthSources, options: RoundOptions) -> ClusterRound:
    environ, clock = options.environ, options.clock
    name, namespace, rules = sources.cluster.name, run.settings.inventory_namespace, sources.rules()
    if not options.dry_run:
        claim_fleet(live, namespace=namespace, source=f"{options.name} (cluster {name})")
    store = StateStore(live, namespace=namespace, source=f"{run.workspace.config.name}-{name}")
    done = run_round(live, store, rules, clock=clock, dry_run=options.dry_run)
    if not options.dry_run:
        done = acknowledge_preflights(live, store, done, rules, clock)
        _notify_people(environ, store, done, name)
        done = start_tests(environ, live, store, done, rules)
        done = start_repairs(environ, live, store, done, rules, clock=clock)
        kinds = run.workspace.runtime.engine.kinds
        done = watch_jobs(options.folder / f"jobs-{name}.json", live, store, done, kinds=kinds, clock=clock)
    return ClusterRound(cluster=name, store=store, done=done)


def sources_of(run: opening.Run) -> list[HealthSources]:
    """Return what the repository says about node health, by cluster."""
    index = run.workspace.compile()
    return [
        HealthSources(repository=run.workspace.repository, index=index, cluster=cluster) for cluster in index.clusters
    ]


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
        notify_owners(cluster, made, clock)
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


def _notify_people(environ: Mapping[str, str], store: StateStore, done: LaneRound, cluster: str) -> None:
    """Send what is new to the webhooks, and remember it. Whatever fails stops no round."""
    try:
        known, receivers = done.state.told, receivers_in(environ.get(ALERT_WEBHOOKS, ""))
        new = notices(done.evaluation, known, cluster) if receivers else ()
        told = send(new, known, receivers, _report_unsent, cluster)
        if told != known:
            stored = store.read()
            store.write(replace(stored.state, told=told), stored)
    except (ReconcilerError, OSError) as error:
        _report_unsent(str(error))


def _report_unsent(problem: str) -> None:
    _log.event("warning", "a message about node health was not sent", error=mask_text(problem))


def gauges(rounds: Sequence[ClusterRound]) -> dict[str, FleetSamples]:
    """Return the samples of the clusters that were looked at."""
    return {
        one.cluster: fleet_samples(
            one.done.evaluation, one.done.reading.facts, one.done.reading.reports, one.done.state.jobs
        )
        for one in rounds
        if one.done is not None
    }


def tell_git(
    remote: GitRemote,
    reference: str,
    rounds: Iterable[ClusterRound],
    open_run: Callable[[str], opening.Run],
    open_requests: Callable[[opening.Run], ChangeRequests | None] = lambda _: None,
) -> str:
    """Commit what the fast lane did, or else push what the reviewed lane proposes, for clusters that were looked at.

    reference: the branch that is read. open_run: opens a commit of the mirror. Returns the id of a commit that was
    pushed; proposals then follow on top of it in the next round. Raises `StalePlan` if others push at every attempt.
    open_requests: opens the forge of a repository that has one.
    """
    acted = {one.cluster: one for one in rounds if one.done is not None}
    branches = CaseBranches(remote)
    for _ in range(_ATTEMPTS):
        tips = dict(remote.fetch([reference, *branches.refs(acted.values())]))
        run = open_run(tips[reference])
        sources = [one for one in sources_of(run) if one.cluster.name in acted]
        try:
            pushed = _mirror(reference, remote, run, sources, acted)
        except StalePlan:  # somebody pushed meanwhile: the next attempt is on top of it
            continue
        if not pushed:
            CaseBranches(remote, open_requests(run)).propose(run, sources, acted, tips)
        return pushed
    raise StalePlan(f"{reference} moved at every attempt to push", hint="the next round tries again")


def _mirror(
    reference: str,
    remote: GitRemote,
    run: opening.Run,
    sources: Sequence[HealthSources],
    acted: dict[str, ClusterRound],
) -> str:
    """Push one commit with the quarantines that the fast lane began and ended; return its id, empty without one."""
    files: dict[str, bytes | None] = {}
    policies = []
    for one in sources:
        done = acted[one.cluster.name].done
        assert done is not None  # noqa: S101 - only clusters with a round
        files |= mirror_files(one, done)
        policies.append(one.rules().policies.digest)
    head = run.workspace.tree.commit
    if not files or head is None:
        return ""
    if not reference.startswith("refs/heads/"):
        raise ConfigError("spec.ref is not a branch, so the actions of node health cannot be committed")
    branch = reference.removeprefix("refs/heads/")
    made = commit(
        run.workspace.repository,
        files=files,
        message=_message(files),
        trailers={HEALTH_POLICY: f"sha256:{policies[0]}", SOURCE_COMMIT: head.oid, ENGINE: __version__},
        branch=branch,
        expected_head=head.oid,
    )
    if made is None:
        return ""
    remote.push(branch, made.oid, expected=head.oid)
    return made.oid


def _message(files: dict[str, bytes | None]) -> str:
    def names(paths: list[str]) -> str:
        return ", ".join(Path(path).stem for path in sorted(paths))

    added = [path for path, content in files.items() if content is not None]
    removed = [path for path, content in files.items() if content is None]
    parts = [f"quarantined {names(added)}"] if added else []
    parts += [f"released {names(removed)}"] if removed else []
    return one_line(f"Node health: {'; '.join(parts)}", 200)


def summary(rounds: Sequence[ClusterRound]) -> str:
    """Return one line about all clusters, for the log."""
    parts = []
    for one in rounds:
        if one.done is None:
            parts.append(f"{one.cluster}: not checked{f': {one.error.message}' if one.error is not None else ''}")
            continue
        decisions = one.done.evaluation.decisions.values()
        out = sum(decision.phase.is_out for decision in decisions)
        text = f"{one.cluster}: {plural(len(decisions), 'node')}, {out} out of use, {len(one.done.written)} written"
        breaker = one.done.evaluation.state.breaker
        text += f", breaker tripped: {breaker.tripped}" if breaker.tripped else ""
        text += f", deep runs started on {', '.join(one.done.tested)}" if one.done.tested else ""
        parts.append("; ".join([text, *one.done.failures[:3], *one.done.reading.notes[:3]]))
    return one_line(mask_text("; ".join(parts)), 1000)
