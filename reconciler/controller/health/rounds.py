"""One round over the clusters of a source: act by what was merged, then tell Git what was done."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from reconciler import wiring
from reconciler.adapters.clock import SystemClock
from reconciler.adapters.git.remote import Credentials, GitRemote, RemoteLimits
from reconciler.app.health.fast_lane import LaneRound, run_round
from reconciler.app.health.quarantine_files import HealthSources, mirror_files
from reconciler.app.health.state_store import StateStore, claim_fleet
from reconciler.controller.health.branches import CaseBranches, ClusterRound
from reconciler.controller.health.notifying import tell, webhooks
from reconciler.controller.health.steps import acknowledge_preflights, start_tests, watch_jobs
from reconciler.controller.outcome import PassOutcome, failure
from reconciler.controller.reconcile import Request, author_of, require_folder
from reconciler.controller.sources.source import Mode
from reconciler.core.health.exports.fleet_gauges import FleetSamples, fleet_samples
from reconciler.core.secrets import mask_text
from reconciler.core.values import plural
from reconciler.errors import (
    ConfigError,
    OutsideError,
    ReconcilerError,
    RemoteError,
    RepositoryError,
    StalePlan,
    one_line,
)
from reconciler.outputs.commit import ENGINE, SOURCE_COMMIT, commit
from reconciler.outputs.terminal.logs import Log
from reconciler.ports.clock import Clock
from reconciler.settings import ALERT_WEBHOOKS
from reconciler.version import __version__
from reconciler.wiring.cluster import cluster_opener

HEALTH_POLICY = "Reconciler-Health-Policy"
"""The digest of the policies that allowed what a commit mirrors."""

_GIT_SECONDS = 30.0
_ATTEMPTS = 3
_log = Log(__name__)


def health_round(request: Request, environ: dict[str, str], clock: Clock | None = None) -> PassOutcome:
    """Make one round. Without Git the fast lane goes on by the last known revision; its commits follow later."""
    try:
        with ExitStack() as stack:
            remote = _open_mirror(request, environ)
            head = _known_head(request, remote)
            run = _run(request, environ, remote, head)
            rounds = _act(request, environ, run, stack, clock or SystemClock())
            outcome = PassOutcome(revision=request.source.revision(head), commit=head)
            try:
                outcome = _tell(request, environ, remote, rounds, outcome)
            except (RemoteError, StalePlan) as error:
                outcome = replace(outcome, failure=failure(error))
    except Exception as error:  # noqa: BLE001 - every failure is part of the outcome
        return PassOutcome(failure=failure(error))
    failed = next((one.failure for one in rounds if one.failure is not None), None)
    return replace(outcome, message=_summary(rounds), gauges=_gauges(rounds), failure=failed or outcome.failure)


def _open_mirror(request: Request, environ: dict[str, str]) -> GitRemote:
    """Open a mirror of its own, so that a pass over the source may run at the same time."""
    return GitRemote(
        Path(request.folder) / "health",
        request.source.url,
        environ=environ,
        credentials=Credentials.from_secret(request.secret),
        limits=RemoteLimits(seconds=min(request.source.timeout, _GIT_SECONDS), file_bytes=request.max_repository),
    )


def _known_head(request: Request, remote: GitRemote) -> str:
    """Return the revision to act by: the accepted one, else the last that was fetched. Git is asked only without it."""
    if not (Path(request.folder) / "health" / ".git").is_dir():
        remote.fetch([request.source.ref])
    repository = remote.repository(request.source.path)
    try:
        return repository.resolve(request.accepted or request.source.ref).oid
    except RepositoryError:
        remote.fetch([request.source.ref])
        return repository.resolve(request.source.ref).oid


def _run(request: Request, environ: dict[str, str], remote: GitRemote, commit_id: str) -> wiring.Run:
    flags = {
        "revision": commit_id,
        "base": commit_id,
        "cluster": request.source.cluster or None,
        "cache_dir": str(Path(request.folder) / "cache"),
    }
    repository = remote.repository(request.source.path, identity=author_of(request.source))
    require_folder(repository, commit_id, request.source)
    return wiring.open_repository(repository, flags, environ)


def _sources(run: wiring.Run) -> list[HealthSources]:
    index = run.workspace.compile()
    return [HealthSources(runtime=run.workspace.runtime, index=index, cluster=cluster) for cluster in index.clusters]


def _act(
    request: Request, environ: dict[str, str], run: wiring.Run, stack: ExitStack, clock: Clock
) -> list[ClusterRound]:
    """Make a round on every cluster; one that cannot be reached, or whose state is damaged, stops no other."""
    opener = cluster_opener(request.access, environ, run.workspace.config, run.settings)
    rounds = []
    for sources in _sources(run):
        name = sources.cluster.name
        try:
            live = stack.enter_context(opener(sources.cluster))
            namespace = run.settings.inventory_namespace
            is_dry, rules = request.source.mode is Mode.OBSERVE, sources.rules()
            if not is_dry:
                claim_fleet(live, namespace=namespace, source=f"{request.source.key} (cluster {name})")
            store = StateStore(live, namespace=namespace, source=f"{run.workspace.config.name}-{name}")
            done = run_round(live, store, rules, clock=clock, dry_run=is_dry)
            if not is_dry:
                done = acknowledge_preflights(live, store, done, rules, clock)
                _tell_people(environ, store, done, name)
                done = start_tests(environ, live, store, done, rules)
                file, kinds = Path(request.folder) / f"jobs-{name}.json", run.workspace.runtime.kinds
                done = watch_jobs(file, live, store, done, kinds=kinds, clock=clock)
            rounds.append(ClusterRound(cluster=name, store=store, done=done))
        except (OutsideError, ConfigError, StalePlan) as error:
            rounds.append(ClusterRound(cluster=name, failure=failure(error)))
    return rounds


def _tell_people(environ: dict[str, str], store: StateStore, done: LaneRound, cluster: str) -> None:
    """Send what is new to the webhooks, and remember it. Whatever fails stops no round."""
    try:
        receivers = webhooks(environ.get(ALERT_WEBHOOKS, ""))
        told = tell(done.evaluation, done.state.told, receivers, _not_told, cluster)
        if told != done.state.told:
            stored = store.read()
            store.write(replace(stored.state, told=told), stored)
    except (ReconcilerError, OSError) as error:
        _not_told(str(error))


def _not_told(problem: str) -> None:
    _log.event("warning", "a message about node health was not sent", error=mask_text(problem))


def _gauges(rounds: Sequence[ClusterRound]) -> dict[str, FleetSamples]:
    """Return the samples of the clusters that were looked at."""
    return {
        one.cluster: fleet_samples(
            one.done.evaluation, one.done.reading.facts, one.done.reading.reports, one.done.state.jobs
        )
        for one in rounds
        if one.done is not None
    }


def _tell(
    request: Request, environ: dict[str, str], remote: GitRemote, rounds: Sequence[ClusterRound], outcome: PassOutcome
) -> PassOutcome:
    """Commit what the fast lane did, and push what the reviewed lane proposes, for clusters that were looked at."""
    seen = {one.cluster: one for one in rounds if one.done is not None}
    if not seen or request.source.mode is Mode.OBSERVE:
        return outcome
    branches = CaseBranches(remote, request.source)
    for _ in range(_ATTEMPTS):
        tips = dict(remote.fetch([request.source.ref, *branches.refs(seen.values())]))
        head = tips[request.source.ref]
        run = _run(request, environ, remote, head)
        sources = [one for one in _sources(run) if one.cluster.name in seen]
        try:
            pushed = _mirror(request, remote, run, sources, seen)
        except StalePlan:
            continue
        if pushed:
            return replace(outcome, pushed=pushed, push_result="pushed")  # proposals follow on top of it
        branches.propose(run, sources, seen, tips)
        return replace(outcome, push_result="unchanged")
    raise StalePlan(f"{request.source.ref} moved at every attempt to push", hint="the next round tries again")


def _mirror(
    request: Request,
    remote: GitRemote,
    run: wiring.Run,
    sources: Sequence[HealthSources],
    seen: dict[str, ClusterRound],
) -> str:
    """Push one commit with the quarantines that the fast lane began and ended; return its id, empty without one."""
    files: dict[str, bytes | None] = {}
    policies = []
    for one in sources:
        done = seen[one.cluster.name].done
        assert done is not None  # noqa: S101 - only clusters with a round
        files |= mirror_files(one, done)
        policies.append(one.rules().policies.digest)
    head = run.workspace.tree.commit
    if not files or head is None:
        return ""
    if not request.source.ref.startswith("refs/heads/"):
        raise ConfigError("spec.ref is not a branch, so the actions of node health cannot be committed")
    branch = request.source.ref.removeprefix("refs/heads/")
    made = commit(
        run.workspace.runtime.repository,
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


def _summary(rounds: Sequence[ClusterRound]) -> str:
    """Return one line about all clusters, for the log."""
    parts = []
    for one in rounds:
        if one.done is None:
            parts.append(f"{one.cluster}: not checked{f': {one.failure.message}' if one.failure is not None else ''}")
            continue
        decisions = one.done.evaluation.decisions.values()
        out = sum(decision.phase.is_out for decision in decisions)
        text = f"{one.cluster}: {plural(len(decisions), 'node')}, {out} out of use, {len(one.done.written)} written"
        breaker = one.done.evaluation.state.breaker
        text += f", breaker tripped: {breaker.tripped}" if breaker.tripped else ""
        text += f", deep runs started on {', '.join(one.done.tested)}" if one.done.tested else ""
        parts.append("; ".join([text, *one.done.failures[:3], *one.done.reading.notes[:3]]))
    return one_line(mask_text("; ".join(parts)), 1000)
