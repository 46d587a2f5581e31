"""`Controller`: the loop. Sources are due at intervals and after edits, webhooks and failures; workers make passes."""

import hashlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from reconciler.console.access import ClusterFlags
from reconciler.console.logs import Log
from reconciler.controller.contested import contested
from reconciler.controller.exporting import SpanExporter
from reconciler.controller.notifying import Notifier, conditions_of, use_conditions
from reconciler.controller.outcome import PassFailure, PassOutcome, failure
from reconciler.controller.reconcile import ChildWork, Request, open_remote
from reconciler.controller.sources.source import ConfigSource
from reconciler.controller.sources.status import READY, RECONCILING, STALLED, SourceStatus, finished, is_news, started
from reconciler.controller.sources.store import SourceStore
from reconciler.controller.use import UseGauges
from reconciler.errors import ReconcilerError
from reconciler.kube.secrets import mask_text
from reconciler.kube.times import timestamp, unix_time
from reconciler.plan.live.choices import ContestedField
from reconciler.repo.git.remote import remove_mirror
from reconciler.web.metrics import Metrics

# What passes and statuses mean for the metrics.


_KIND = "ConfigSource"


def count_pass(metrics: Metrics, source: ConfigSource, outcome: PassOutcome, seconds: float, now: float) -> None:
    """Count one pass."""
    failed = outcome.failure
    result = "success" if failed is None else "stalled" if failed.stalled else "failure"
    metrics.observe("reconcile_duration_seconds", seconds, kind=_KIND, result=result)
    for span in outcome.spans:
        if span.name in ("fetch", "push"):
            metrics.count("git_request_total", type=span.name, result="failure" if span.error else "success")
            metrics.observe("git_request_duration_seconds", span.seconds, type=span.name)
        if span.name == "apply":
            metrics.observe("apply_duration_seconds", span.seconds, result="failure" if failed else "success")
    if outcome.push_result:
        metrics.count("commit_request_total", result=outcome.push_result)
    if outcome.plan and any(name.startswith("deletes.") for name in outcome.plan.breaches):
        metrics.count("deletion_budget_blocked_total")
    for name, count in outcome.operations.items():
        action, _, ending = name.partition(" ")
        metrics.count("apply_operations_total", count, action=action, result=ending)
    metrics.count("resource_conflicts_total", outcome.conflicts)
    if (outcome.pushed or (_changed(outcome) and not outcome.is_applied)) and outcome.committed_at:
        metrics.observe("commit_to_applied_seconds", now - unix_time(outcome.committed_at), mode=source.mode.value)


def _changed(outcome: PassOutcome) -> bool:
    """Return whether a pass changed objects of a cluster, and all that it had to."""
    words = {name.partition(" ")[0] for name in outcome.operations}
    is_done = outcome.failure is None or outcome.failure.is_waiting
    return is_done and bool(words & {"created", "configured", "deleted"})


def set_gauges(
    metrics: Metrics, sources: Mapping[str, ConfigSource], found: Mapping[str, SourceStatus], suspended: int
) -> None:
    """Set the gauges about sources, from those that are not suspended, by key."""
    statuses = [*found.values()]
    metrics.set("suspend_status", suspended, kind=_KIND)
    metrics.replace("reconcile_condition", count_conditions(statuses))
    changes: Counter[tuple[str, ...]] = Counter()
    results: Counter[tuple[str, ...]] = Counter()
    gpus: dict[tuple[str, ...], float] = {}
    for plan in (status.plan for status in statuses if status.plan):
        changes.update({(name,): count for name, count in plan.changes.items()})
        results.update({(name,): count for name, count in plan.results.items()})
        for product, delta in plan.gpus.items():
            label = (product, "up" if delta > 0 else "down")
            gpus[label] = gpus.get(label, 0.0) + abs(delta)
    metrics.replace("plan_changes", changes)
    metrics.replace("policy_results", results)
    metrics.replace("gpu_quota_delta", gpus)
    metrics.set("drift_objects", sum(status.plan.drift for status in statuses if status.plan))
    synced: dict[tuple[str, ...], float] = {(key,): unix_time(status.last_sync_time) for key, status in found.items()}
    metrics.replace("last_sync_timestamp_seconds", synced)
    metrics.replace("interval_seconds", {(key,): source.interval for key, source in sources.items()})


def count_conditions(statuses: Sequence[SourceStatus]) -> dict[tuple[str, ...], float]:
    """Count sources by type and status of condition; all combinations are there, so that alerts see zeros."""
    kinds = (READY, RECONCILING, STALLED)
    counts: dict[tuple[str, ...], float] = {
        (kind, value): 0.0 for kind in kinds for value in ("True", "False", "Unknown")
    }
    for status in statuses:
        for kind in kinds:
            found = status.condition(kind)
            absent = "Unknown" if kind == READY else "False"
            counts[kind, found.status if found else absent] += 1
    return counts


# `WorkQueue`: which source is due, one worker for each at a time, as work queues of Kubernetes controllers do.


class WorkQueue:
    """Keys with the time at which each is due. Safe to use from any thread.

    A key that is taken is handed out again only after `done`; what was asked for meanwhile follows then.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._due: dict[str, float] = {}
        self._taken: set[str] = set()
        self._changed = threading.Condition()
        self._is_closed = False

    def add(self, key: str, delay: float = 0.0) -> None:
        """Make a key due after `delay` seconds, or sooner if it is due sooner already."""
        with self._changed:
            at = self._now() + delay
            self._due[key] = min(at, self._due.get(key, at))
            self._changed.notify_all()

    def forget(self, key: str) -> None:
        """Drop a key."""
        with self._changed:
            self._due.pop(key, None)

    def take(self) -> str | None:
        """Wait for a key that is due and take it; None after `close`."""
        with self._changed:
            while not self._is_closed:
                waiting = [(at, key) for key, at in self._due.items() if key not in self._taken]
                at, key = min(waiting, default=(None, ""))
                if at is not None and at <= self._now():
                    del self._due[key]
                    self._taken.add(key)
                    return key
                self._changed.wait(None if at is None else max(at - self._now(), 0.001))
            return None

    def done(self, key: str) -> None:
        """Hand a key back."""
        with self._changed:
            self._taken.discard(key)
            self._changed.notify_all()

    def depth(self) -> int:
        """Count the keys that are due and not taken."""
        with self._changed:
            now = self._now()
            return sum(1 for key, at in self._due.items() if at <= now and key not in self._taken)

    def close(self) -> None:
        """Let all workers end after what they do now."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()


_REFRESH_SECONDS = 60.0  # the list of sources is read again at least this often

_MAX_RETRY = 600.0

_MAX_INTERVALS = 4
"""Intervals that a pause lasts at most after failures: a source that is read often recovers soon."""

_log = Log(__name__)


class Runner(Protocol):
    """Makes passes."""

    def run(self, request: Request) -> PassOutcome:
        """Make one pass. Every failure is part of the outcome."""
        ...

    def interrupt(self) -> None:
        """Ask all running passes to end."""
        ...

    def stop(self) -> None:
        """Ask all passes to end: those that run, and those that start later."""
        ...


class LoopOptions(Struct, frozen=True, kw_only=True):
    """Limits of the loop. `retry` is the first pause after a failure in seconds; it doubles with every further one."""

    state: Path
    workers: int = 4
    retry: float = 2.0
    max_repository: int = 1 << 30
    access: ClusterFlags = ClusterFlags()


class Controller:
    """Runs passes until it is stopped, while `leads` returns that this replica may work."""

    def __init__(
        self,
        store: SourceStore,
        runner: Runner,
        metrics: Metrics,
        exporter: SpanExporter,
        options: LoopOptions,
        *,
        environ: Mapping[str, str],
        leads: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.notifier: Notifier | None = None  # tells people about conditions
        self._store, self._runner, self._metrics, self._exporter = store, runner, metrics, exporter
        self._options, self._environ = options, dict(environ)
        self._leads, self._now = leads, now
        self._use = UseGauges(metrics)
        self._queue = WorkQueue(time.monotonic)
        self._lock = threading.Lock()
        self._sources: dict[str, ConfigSource] = {}
        self._statuses: dict[str, SourceStatus] = {}
        self._is_loaded = False
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._refresh, name="sources", daemon=True)]
        self._threads += [
            threading.Thread(target=self._work, name=f"worker-{number}", daemon=True)
            for number in range(options.workers)
        ]

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float = 25.0) -> None:
        """End the running passes and wait for the threads, at most `seconds`."""
        self._stopping.set()
        self._queue.close()
        self._store.close()
        self._runner.stop()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def hint(self, key: str) -> None:
        """Look at a source soon."""
        self._queue.add(key)

    def leadership_changed(self) -> None:
        """End all work unless it is ours, forget what another leader may have changed, and look at all sources."""
        if not self._leads():
            self._runner.interrupt()
        with self._lock:
            self._statuses = {}
            keys = [*self._sources]
        for key in keys:
            self._queue.add(key)

    def sources(self) -> dict[str, ConfigSource]:
        """Return all sources by key."""
        with self._lock:
            return dict(self._sources)

    def unhealthy(self) -> str:
        """Return the reason to restart this process; empty if there is none."""
        dead = [thread.name for thread in self._threads if not thread.is_alive()]
        return f"threads ended: {', '.join(dead)}" if dead and not self._stopping.is_set() else ""

    def unready(self) -> str:
        """Return why this replica is not ready: nothing loaded, or the last pass of every source of it failed."""
        if self._stopping.is_set():
            return "stopping"
        with self._lock:
            if not self._is_loaded:
                return "the sources are not loaded"
            ours = self._ours()
            waiting = [key for key in ours if not self._statuses.get(key, SourceStatus()).conditions]
            failed = [key for key in ours if not self._statuses.get(key, SourceStatus()).is_ready]
        if ours and len(waiting) == len(ours):
            return "no source has been reconciled yet"
        return f"the last pass of all {len(ours)} sources failed" if ours and len(failed) == len(ours) else ""

    def _ours(self) -> list[str]:
        return [key for key, source in self._sources.items() if not source.suspend] if self._leads() else []

    # -- sources -------------------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        while not self._stopping.is_set():
            try:
                self._load()
                self._store.wait(_REFRESH_SECONDS)
            except ReconcilerError as error:
                for problem in getattr(error, "problems", ()) or (error,):
                    _log.event(
                        "error",
                        "the sources cannot be read; the last known ones are kept",
                        error=mask_text(str(problem)),
                    )
                self._stopping.wait(5.0)
            except Exception as error:  # noqa: BLE001 - a bug must not end the thread
                _log.event("error", "bug while reading the sources", error=mask_text(repr(error)))
                self._stopping.wait(5.0)

    def _load(self) -> None:
        loaded = {source.key: source for source in self._store.load()}
        with self._lock:
            before, self._sources = self._sources, loaded
            is_first, self._is_loaded = not self._is_loaded, True
            for key in before.keys() - loaded.keys():
                self._statuses.pop(key, None)
        gone = [source for key, source in before.items() if key not in loaded or _place(loaded[key]) != _place(source)]
        for source in gone:
            self._queue.forget(source.key)
            remove_mirror(self._options.state / "sources" / _place(source))
        if is_first:
            self._remove_unknown(loaded)
        for key, source in loaded.items():
            if before.get(key) != source:
                self._queue.add(key)

    def _remove_unknown(self, loaded: Mapping[str, ConfigSource]) -> None:
        """Remove the mirrors of sources that were deleted while no controller ran."""
        folder = self._options.state / "sources"
        places = {_place(source) for source in loaded.values()}
        for left in folder.iterdir() if folder.is_dir() else ():
            if left.name not in places:
                remove_mirror(left)

    # -- passes --------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (key := self._queue.take()) is not None:
            try:
                delay = self.visit(key)
            except Exception as error:  # noqa: BLE001 - a bug in one source must not end the worker
                _log.event("error", "bug in a pass", source=key, error=mask_text(repr(error)))
                delay = _MAX_RETRY
            finally:
                self._queue.done(key)
            if delay is not None and not self._stopping.is_set():
                self._queue.add(key, delay)

    def visit(self, key: str) -> float | None:
        """Look at one source and make a pass if one is due. Return the seconds until the next visit, None for never."""
        with self._lock:
            source = self._sources.get(key)
            status = self._statuses.get(key)
        if source is None or source.suspend:
            return None
        if not self._leads():
            return source.interval
        if status is None:
            status = self._store.status(source)
            self._remember(key, status)
        start = self._now()
        outcome = self._pass(source, status)
        if outcome is None or not self._leads():
            return _spread(source.interval)  # without the lease, what a pass did is for the leader to find and report
        if self._stopping.is_set() and outcome.failure is not None:
            return None  # the pass was interrupted: the next process makes it again
        after = finished(status, source, outcome, timestamp(self._now()))
        self._remember(key, after)
        if is_news(status, after):
            self._save(source, after)
        if outcome.use is not None:
            self._use.take(key, outcome.use)
        self._notify(key, status, after, outcome)
        self._report(source, status, after, outcome, self._now() - start)
        if outcome.failure is None or outcome.failure.stalled:
            return _spread(source.interval)
        return pause_after(outcome.failure, after.failures, source.interval, self._options.retry)

    def _notify(self, key: str, before: SourceStatus, after: SourceStatus, outcome: PassOutcome) -> None:
        """Tell people what is new. What the last status said already, another process told."""
        if self.notifier is None:
            return
        self.notifier.sync(f"source/{key}", conditions_of(key, after), known=lambda: conditions_of(key, before))
        if outcome.use is not None:
            self.notifier.sync(f"use/{key}", use_conditions(outcome.use, self._now()))

    def _pass(self, source: ConfigSource, status: SourceStatus) -> PassOutcome | None:
        """Make a pass, or return None if nothing has changed since the last one."""
        try:
            request = self._request(source, status)
            if self._is_current(request, status):  # only the metrics tell that somebody looked
                self._remember(source.key, replace(status, last_sync_time=timestamp(self._now())))
                return None
            self._begin(source, status)
            return self._runner.run(request)
        except ReconcilerError as error:
            return PassOutcome(failure=failure(error), tips=status.tips)

    def _request(self, source: ConfigSource, status: SourceStatus) -> Request:
        return Request(
            source=source,
            folder=str(self._options.state / "sources" / _place(source)),
            secret=self._store.secret(source, source.secret) if source.secret else {},
            accepted=status.last_commit,
            contested=self._contested(source, status),
            attempted=status.last_attempted_revision,
            access=self._options.access,
            max_repository=self._options.max_repository,
        )

    def requests(self) -> dict[str, Request]:
        """Return a request for every source that a pass was made over."""
        with self._lock:
            rows = [(key, self._sources[key], self._statuses.get(key)) for key in self._sources]
        return {key: self._request(source, status) for key, source, status in rows if status and status.last_commit}

    def rounds(self, work: ChildWork) -> list[Request]:
        """Return a request for every source that asks for such rounds, if this replica made a pass over it."""
        with self._lock:
            rows = [(self._sources[key], self._statuses.get(key)) for key in self._ours()]
        return [
            replace(self._request(source, status), work=work)
            for source, status in rows
            if (source.health if work is ChildWork.HEALTH else source.reviews)
            and status is not None
            and status.last_commit
        ]

    @staticmethod
    def _contested(source: ConfigSource, status: SourceStatus) -> frozenset[ContestedField]:
        """Return the fields that a pass leaves alone, unless a person asked for the pass."""
        return contested(status.reverts) if source.requested_at == status.last_handled_reconcile_at else frozenset()

    def _is_current(self, request: Request, status: SourceStatus) -> bool:
        """Ask the Git server whether the references are where the last pass left them."""
        source = request.source
        if (
            source.is_live  # what changes on a cluster does not show in Git
            or not status.is_ready
            or status.observed_generation != source.generation
            or status.last_handled_reconcile_at != source.requested_at
        ):
            return False
        start, result = time.monotonic(), "failure"
        try:
            tips = open_remote(request, self._environ).tips(source.refs)
            result = "success"
        finally:
            self._metrics.count("git_request_total", type="ls-remote", result=result)
            self._metrics.observe("git_request_duration_seconds", time.monotonic() - start, type="ls-remote")
        return dict(tips) == status.tips

    def _begin(self, source: ConfigSource, status: SourceStatus) -> None:
        progressing = started(status, source, timestamp(self._now()))
        if progressing != status:
            self._remember(source.key, progressing)
            self._save(source, progressing)

    def _remember(self, key: str, status: SourceStatus) -> None:
        with self._lock:
            self._statuses[key] = status

    def _save(self, source: ConfigSource, status: SourceStatus) -> None:
        result = "success"
        try:
            self._store.save(source, status)
        except ReconcilerError as error:
            result = "failure"
            _log.event("warning", "the status was not written", source=source.key, error=mask_text(str(error)))
        self._metrics.count("status_write_total", result=result)

    # -- what others see -----------------------------------------------------------------------------------------------

    def _report(
        self, source: ConfigSource, before: SourceStatus, after: SourceStatus, outcome: PassOutcome, seconds: float
    ) -> None:
        self._exporter.export(outcome.spans)
        count_pass(self._metrics, source, outcome, seconds, self._now())
        self._metrics.count("resource_fights_total", len(contested(after.reverts) - contested(before.reverts)))
        ready, was = after.condition(READY), before.condition(READY)
        assert ready is not None  # noqa: S101 - every pass sets it
        failed = outcome.failure
        is_wrong = failed is not None and not failed.is_waiting
        _log.event(
            "error" if is_wrong else "info",
            "reconciled" if failed is None else "failed" if is_wrong else "waiting",
            source=source.key,
            mode=source.mode.value,
            revision=outcome.revision,
            reason=ready.reason,
            detail=ready.message,
            plan=outcome.plan.digest if outcome.plan else "",
            pushed=outcome.pushed,
            seconds=round(seconds, 3),
            trace_id=outcome.spans[0].trace if outcome.spans else "",
        )
        for line in outcome.objects:
            _log.event("info", "object changed", source=source.key, revision=outcome.revision, change=line)
        is_new = was is None or (was.status, was.reason, was.message) != (ready.status, ready.reason, ready.message)
        told = [(is_wrong, ready.reason, ready.message)] if is_new or outcome.pushed else []
        told += [(False, "ObjectsChanged", "; ".join(outcome.objects))] if outcome.objects else []
        for warning, reason, message in told:
            try:
                self._store.record_event(source, warning=warning, reason=reason, message=message)
            except ReconcilerError as error:
                _log.event("warning", "the event was not written", source=source.key, error=mask_text(str(error)))

    def update_gauges(self) -> None:
        """Set the gauges, which describe the sources of this replica at this moment."""
        with self._lock:
            sources = {key: self._sources[key] for key in self._ours()}
            statuses = {key: self._statuses.get(key, SourceStatus()) for key in sources}
            suspended = sum(1 for source in self._sources.values() if source.suspend)
        self._metrics.set("queue_depth", self._queue.depth())
        self._metrics.set("leader", float(self._leads()))
        set_gauges(self._metrics, sources, statuses, suspended)
        self._use.update(sources, self._now())


def pause_after(failed: PassFailure, failures: int, interval: float, retry: float) -> float:
    """Return the seconds until the next pass of a source after some failures in a row."""
    pause = retry * 2.0 ** min(failures - 1, 20)
    if failed.is_waiting:
        return min(pause, interval)
    longest = min(max(interval, _MAX_RETRY), interval * _MAX_INTERVALS)
    return max(min(pause, longest), failed.retry_after)


def _spread(seconds: float) -> float:
    """Vary an interval a little, so that sources do not become due together."""
    factor: float = random.uniform(0.95, 1.05)  # noqa: S311 - nothing depends on chance
    return seconds * factor


def _place(source: ConfigSource) -> str:
    """Name the folder of a source: another one for another object of the same name, or another repository."""
    text = f"{source.key} {source.uid} {source.url}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]
