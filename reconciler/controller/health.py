"""Node health of a source: rounds at every interval and soon after a report changed, and what the loop hears of one.

A round itself is `health.rounds`; here are the mirror, the credentials and the thread.
"""

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from reconciler.clock import Clock, SystemClock
from reconciler.controller.lanes import INTERVAL_SECONDS, RoundLane, RoundRunner
from reconciler.controller.outcome import PassOutcome, failure
from reconciler.controller.reconcile import (
    Request,
    author_of,
    change_requests,
    open_remote,
    require_folder,
    source_flags,
)
from reconciler.controller.sources.source import Mode
from reconciler.errors import ReconcilerError, RemoteError, RepositoryError, StalePlan
from reconciler.forge import ForgeError
from reconciler.health.rounds import RoundOptions, act, gauges, summary, tell_git
from reconciler.kube.client.port import EventType, LiveCluster, Watch
from reconciler.nodehealth.report import KIND
from reconciler.plan import opening
from reconciler.plan.live.clusters import cluster_opener
from reconciler.repo.config.config import GROUP
from reconciler.repo.git.remote import GitRemote

_GIT_SECONDS = 30.0


def health_round(request: Request, environ: dict[str, str], clock: Clock | None = None) -> PassOutcome:
    """Make one round. Without Git the fast lane goes on by the last known revision; its commits follow later."""
    source = request.source
    is_dry = source.mode is Mode.OBSERVE
    try:
        with ExitStack() as stack:
            remote = open_remote(request, environ, "health", most_seconds=_GIT_SECONDS)
            head = _known_head(request, remote)
            run = _run(request, environ, remote, head)
            opener = cluster_opener(request.access, environ, run.workspace.config, run.settings)
            options = RoundOptions(
                name=source.key,
                folder=Path(request.folder),
                environ=environ,
                clock=clock or SystemClock(),
                dry_run=is_dry,
            )
            rounds = act(run, opener, options, stack)
            outcome = PassOutcome(revision=source.revision(head), commit=head)
            try:
                if not is_dry and any(one.done is not None for one in rounds):
                    pushed = tell_git(
                        remote,
                        source.ref,
                        rounds,
                        lambda oid: _run(request, environ, remote, oid),
                        lambda read: change_requests(request, read, environ),
                    )
                    outcome = replace(outcome, pushed=pushed, push_result="pushed" if pushed else "unchanged")
            except (RemoteError, StalePlan, ForgeError) as error:
                outcome = replace(outcome, failure=failure(error))
    except Exception as error:  # noqa: BLE001 - every failure is part of the outcome
        return PassOutcome(failure=failure(error))
    failed = next((failure(one.error) for one in rounds if one.error is not None), None)
    return replace(outcome, message=summary(rounds), gauges=gauges(rounds), failure=failed or outcome.failure)


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


def _run(request: Request, environ: dict[str, str], remote: GitRemote, commit_id: str) -> opening.Run:
    flags = {**source_flags(request), "revision": commit_id, "base": commit_id}
    repository = remote.repository(request.source.path, identity=author_of(request.source))
    require_folder(repository, commit_id, request.source)
    return opening.open_repository(repository, flags, environ)


_VOLATILE = frozenset({"measuredAt", "utilization", "activity"})  # every report changes them


class Gauges(Protocol):
    """Takes what rounds counted."""

    def take(self, source: str, outcome: PassOutcome) -> None:
        """Keep what a round counted."""
        ...

    def keep(self, sources: Collection[str]) -> None:
        """Forget all other sources."""
        ...


class HealthLane(RoundLane):
    """Rounds of node health, and a thread that watches reports. Sources without `spec.health` cost nothing."""

    def __init__(
        self,
        find: Callable[[], list[Request]],
        runner: RoundRunner,
        open_cluster: Callable[[], LiveCluster],
        *,
        interval: float = INTERVAL_SECONDS,
        gauges: Gauges | None = None,
    ) -> None:
        super().__init__("node health", find, runner, interval=interval)
        self._open = open_cluster
        self._has_work = threading.Event()
        self._watch: Watch | None = None
        self._gauges = gauges
        self._seen: dict[str, str] = {}
        self._threads.append(threading.Thread(target=self._watch_reports, name="health-reports", daemon=True))

    def stop(self, seconds: float = 10.0) -> None:
        """End rounds and the watch."""
        self._stopping.set()
        self._has_work.set()
        if self._watch is not None:
            self._watch.close()
        super().stop(seconds)

    def found(self, requests: list[Request]) -> None:
        """Forget the gauges of other sources, and begin the watch with the first."""
        if self._gauges is not None:
            self._gauges.keep({request.source.key for request in requests})
        if requests:
            self._has_work.set()

    def took(self, request: Request, outcome: PassOutcome) -> None:
        """Keep what a round counted."""
        if self._gauges is not None:
            self._gauges.take(request.source.key, outcome)

    def _watch_reports(self) -> None:
        """Wake the rounds when a report says something else. Without a watch the interval remains."""
        self._has_work.wait()
        while not self._stopping.is_set():
            try:
                with self._open() as cluster:
                    self._follow(cluster)
            except ReconcilerError:
                self._stopping.wait(self._interval)

    def _follow(self, cluster: LiveCluster) -> None:
        resource = cluster.resource(GROUP, KIND)
        while not self._stopping.is_set():
            listing = cluster.list(resource)
            self._seen = {body["metadata"]["name"]: _said_by(body) for body in listing.objects}
            self._news.set()
            with cluster.watch(resource, listing.resource_version) as watch:
                self._watch = watch
                for event in watch:
                    if self._stopping.is_set():
                        return
                    if event.type is not EventType.BOOKMARK:
                        self._note(event.type, event.body)

    def _note(self, kind: EventType, body: Mapping[str, Any]) -> None:
        name, said = body["metadata"]["name"], _said_by(body) if kind is not EventType.DELETED else ""
        if self._seen.get(name) != said:
            self._seen[name] = said
            self._news.set()


def _said_by(body: Mapping[str, Any]) -> str:
    """Return a digest of a report without its time and load: agents repeat themselves to show that they are alive."""
    status = {key: value for key, value in (body.get("status") or {}).items() if key not in _VOLATILE}
    return sha256(msgspec.json.encode(status, order="sorted")).hexdigest()
