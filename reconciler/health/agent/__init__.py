"""The agent of a node: sweeps, merges, publishes. What fails is reported, and hides nothing else."""

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from reconciler.clock import Clock
from reconciler.errors import ReconcilerError, one_line
from reconciler.health.measuring.node_tests import NodeTests
from reconciler.health.reports import ReportStore, StoredReport
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.inflight.preflight import PreflightResult, joined
from reconciler.nodehealth.merging import SweepResult, finished, is_worth_writing, merged, with_run, youngest_failure
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.readings import Sweep
from reconciler.nodehealth.report import HEARTBEAT_SECONDS, NodeReport, ProfileRun

SWEEP_CHECK = "agent.sweep"
"""The check of the agent itself: whether a sweep came to an end."""

_RECENT = 600.0
"""Seconds for which the agent remembers the result of a preflight check, which the pod repeats as it waits."""

Probe = Callable[[ProbeProfile, NodeExpectation], SweepResult]
"""Reads the node once, and judges it by what is expected of it."""


class Tell(Protocol):
    """Takes what happened, for the log."""

    def __call__(self, level: str, message: str, **fields: object) -> None:
        """Take one event."""
        ...


class AgentOptions(Struct, frozen=True, kw_only=True):
    """The settings of an agent. Times are in seconds; 0 for `invasive` asks for no deep run.

    deadline: how long a sweep may take before it is reported as UNKNOWN. pause: the least time between two sweeps.
    confirm: the time until the next sweep after a new failure.
    """

    node: str
    interval: float = 60.0
    heartbeat: float = HEARTBEAT_SECONDS
    deadline: float = 45.0
    pause: float = 2.0
    confirm: float = 10.0
    invasive: float = 0.0
    identity: Mapping[str, object] = {}


class AgentState(Struct, frozen=True, kw_only=True):
    """The state of the agent: its report, everything that the last sweep said, and how writing went.

    tested: what the last tests beside the sweeps said, by check.
    """

    report: NodeReport | None = None
    result: SweepResult | None = None
    tested: Mapping[str, tuple[HealthFinding, ...]] = {}
    sweep_seconds: float = 0.0
    is_overdue: bool = False
    writes: int = 0
    failures: int = 0
    problem: str = ""

    @property
    def findings(self) -> tuple[HealthFinding, ...]:
        """Everything that the last sweep and the last tests said."""
        swept = self.result.findings if self.result is not None else ()
        return swept + tuple(one for found in self.tested.values() for one in found)


class Agent:
    """Sweeps a node again and again. `state` may be read from any thread."""

    def __init__(
        self, probe: Probe, store: ReportStore | None, clock: Clock, options: AgentOptions, tell: Tell
    ) -> None:
        """Without a store nothing is published."""
        self._probe, self._store, self._clock, self._options, self._tell = probe, store, clock, options, tell
        self.tests: NodeTests | None = None
        self._tested_run = 0.0  # the start of the deep run that our tests belong to
        self._pending: tuple[HealthFinding, ...] = ()  # of tests, not published yet
        self._stored = StoredReport()
        self._expected = NodeExpectation()  # what the last write found
        self._due = threading.Event()
        self._stopped = threading.Event()
        self._swept = threading.Condition()
        self._running: _SweepThread | None = None
        self._incoming: deque[PreflightResult] = deque()
        self._tested: tuple[PreflightResult, ...] = ()  # until they are published
        self._taken: dict[str, float] = {}
        self.state = AgentState()

    def run(self) -> None:
        """Sweep at once, then at every interval and whenever something happens, until `stop`."""
        while not self._stopped.is_set():
            self._due.clear()
            started = self._clock.elapsed()
            self.step()
            with self._swept:
                self._swept.notify_all()
            self._stopped.wait(self._options.pause)
            self._due.wait(max(self._gap() - (self._clock.elapsed() - started), 0))

    def wake(self) -> None:
        """Sweep soon: something happened on this node."""
        self._due.set()

    def refreshed(self, seconds: float) -> AgentState:
        """Sweep now, and return the state after it, or after this time."""
        with self._swept:
            self.wake()
            self._swept.wait(seconds)
        return self.state

    def test(self, checks: Collection[str], seconds: float) -> tuple[str, ...]:
        """Make tests now, as far as these checks have any; return those that still run after this time."""
        if self.tests is None:
            return ()
        self.tests.begin(checks, self.state.result)
        return self.tests.wait(checks, seconds)

    def stop(self) -> None:
        """End `run`."""
        self._stopped.set()
        self._due.set()

    def step(self) -> None:
        """Make one sweep, and publish what is new."""
        result = self._sweep()
        self._take_tests(result)
        self._tested += tuple(self._incoming.popleft() for _ in range(len(self._incoming)))
        self.state = replace(self.state, result=result, report=self._follow(self.state.report, result))
        self._begin_tests(result)
        if self._store is None:
            self._pending, self._tested = (), ()
            return
        try:
            if self._publish(result):
                self._pending, self._tested = (), ()
        except ReconcilerError as error:
            self.state = replace(self.state, failures=self.state.failures + 1, problem=one_line(error.message))
            self._tell("warning", "the report cannot be written", error=error.message)

    def request_deep_run(self) -> None:
        """Ask the controller for a deep run, with the next report."""
        now = self._clock.now().timestamp()
        if self.state.report is not None:
            self.state = replace(self.state, report=_requested(self.state.report, now))
        self.wake()

    def take(self, tested: PreflightResult) -> None:
        """Take what the preflight check of a pod found, once, and publish it with a sweep that begins now."""
        if self._taken.get(tested.uid) != tested.measured_at:
            now = self._clock.now().timestamp()
            recent = {uid: at for uid, at in self._taken.items() if now - at < _RECENT}
            self._taken = {**recent, tested.uid: tested.measured_at}
            self._incoming.append(tested)
            self.wake()

    def verdict(self, uid: str) -> str:
        """Return what the controller says about the preflight check of a pod; empty as long as it says nothing."""
        if self._store is None:
            return ""
        try:
            return self._store.read(self._options.node).acknowledged.get(uid, "")
        except ReconcilerError:
            return ""  # the next question may be answered

    def _gap(self) -> float:
        """Return the time between two sweeps: short after a new failure, so that it is confirmed or disproved soon."""
        report = self.state.report
        is_new = report is not None and youngest_failure(report) < self._options.interval
        return min(self._options.confirm, self._options.interval) if is_new else self._options.interval

    # Sweeps.

    def _sweep(self) -> SweepResult:
        """Return the result of a sweep; of one that does not end, or fails, that it is not known."""
        if self._running is None or not self._running.is_alive():
            self._running = _SweepThread(self._probe, self._expected)
            self._running.start()
        started = self._clock.elapsed()
        self._running.join(self._options.deadline)
        seconds = self._clock.elapsed() - started
        thread = self._running
        self.state = replace(self.state, sweep_seconds=seconds, is_overdue=thread.is_alive())
        if thread.is_alive():
            return self._unknown(f"the sweep has not ended within {self._options.deadline:g} s")
        if thread.result is None:
            self._tell("error", "the sweep failed", error=thread.problem)
            return self._unknown(f"the sweep failed: {thread.problem}")
        passed = HealthFinding(
            check=SWEEP_CHECK, status=CheckStatus.PASS, message="the sweep ended", observed=round(seconds, 3), unit="s"
        )
        return replace(thread.result, findings=(*thread.result.findings, passed))

    def _unknown(self, message: str) -> SweepResult:
        """Return what is known without a sweep: nothing about any check that said something before."""
        report, now = self.state.report, self._clock.now().timestamp()
        sweep = Sweep(node=self._options.node, taken_at=now)
        if report is not None:
            sweep = replace(sweep, boot_id=report.boot_id, driver=report.driver, gpus=report.gpus)
        keys = {one.key: one.uuid for one in report.findings} if report else {}
        keys |= {(check, ""): "" for check in (report.passed if report else ())}
        keys[SWEEP_CHECK, ""] = ""
        findings = (
            HealthFinding(check=check, slot=slot, uuid=uuid, status=CheckStatus.UNKNOWN, message=message)
            for (check, slot), uuid in sorted(keys.items())
        )
        return SweepResult(sweep=sweep, findings=tuple(findings))

    def _follow(self, before: NodeReport | None, result: SweepResult) -> NodeReport:
        identity = {"heartbeat_seconds": self._options.heartbeat, **self._options.identity}
        report = merged(before, result, **identity)
        if self._pending:
            tested = replace(result, findings=self._pending, profile=ProbeProfile.DEEP, is_partial=True)
            report = merged(report, tested, **identity)
        report = joined(report, self._tested)
        every, now = self._options.invasive, result.sweep.taken_at
        last = report.run(ProbeProfile.DEEP)
        is_due = every > 0 and (last is None or now - max(last.requested_at, last.finished_at) >= every)
        return _requested(report, now) if is_due else report

    # Tests beside the sweeps.

    def _begin_tests(self, result: SweepResult) -> None:
        """Make our tests once for every deep run of this node, as soon as the report says that it has begun."""
        run = self.state.report.run(ProbeProfile.DEEP) if self.state.report else None
        if self.tests is None or run is None or run.started_at <= self._tested_run:
            return
        if run.is_running(result.sweep.taken_at):
            self._tested_run = run.started_at
            self.tests.begin(self.tests.deep, result)

    def _take_tests(self, result: SweepResult) -> None:
        found = self.tests.findings(result) if self.tests is not None else ()
        if found:
            by_check: dict[str, tuple[HealthFinding, ...]] = {}
            for one in found:
                by_check[one.check] = (*by_check.get(one.check, ()), one)
            self._pending = tuple(one for one in self._pending if one.check not in by_check) + found
            self.state = replace(self.state, tested={**self.state.tested, **by_check})

    # Publishing.

    def _publish(self, result: SweepResult) -> bool:
        """Write the report if it is worth a write. What another writer added since, such as a deep run, is kept.

        False: Git expects something else by now, so nothing is written before a sweep that is judged by that.
        """
        assert self._store is not None  # noqa: S101 - `step` checked
        report, judged_by = self.state.report, self._expected
        if report is None or not is_worth_writing(self._stored.report, report):
            return True

        def change(stored: StoredReport) -> NodeReport | None:
            self._expected = stored.expected
            if stored.expected != judged_by:
                return None
            if stored.problem:
                self._tell("warning", "the stored report cannot be read and is replaced", error=stored.problem)
            is_ours = stored.version == self._stored.version
            base = self.state.report if is_ours else stored.report
            return self._kept_request(self._follow(base, result))

        stored = self._store.update(self._options.node, change)
        if self._expected != judged_by:
            self._tell("info", "Git expects something else of this node: the next sweep is judged by it")
            self.wake()
            return False
        self._stored = stored
        self.state = replace(self.state, report=stored.report, writes=self.state.writes + 1, problem="")
        return True

    def _kept_request(self, report: NodeReport) -> NodeReport:
        """Return the report with the request that this agent has made since its last write."""
        own = self.state.report.run(ProbeProfile.DEEP) if self.state.report else None
        other = report.run(ProbeProfile.DEEP)
        if own is None or own.requested_at <= (other.requested_at if other else 0.0):
            return report
        return with_run(report, replace(other or own, requested_at=own.requested_at))


def run_once(
    probe: Probe, store: ReportStore, clock: Clock, options: AgentOptions, profile: ProbeProfile
) -> ProfileRun:
    """Run a heavier profile once and publish what it found, as the Job of a deep run does.

    The report says that it is running, and until when at most: a run that dies is over then.
    """
    now = clock.now().timestamp()
    empty = SweepResult(sweep=Sweep(node=options.node, taken_at=now), findings=(), profile=ProbeProfile.LIGHT)

    def start(stored: StoredReport) -> NodeReport:
        report = stored.report or merged(None, empty, **options.identity)
        before = report.run(profile) or ProfileRun(profile=profile)
        return with_run(report, replace(before, started_at=now, deadline=now + options.deadline))

    stored = store.update(options.node, start)
    begun = stored.report
    run = (begun.run(profile) if begun else None) or ProfileRun(profile=profile, started_at=now)
    result = SweepResult(sweep=empty.sweep, findings=(), profile=profile)
    try:
        result = probe(profile, stored.expected)
    finally:
        run = finished(run, [one for one in result.findings if one.profile.weight], clock.now().timestamp())

        def end(stored: StoredReport) -> NodeReport:
            if stored.report is not None and not result.findings:
                return with_run(stored.report, run)
            return with_run(merged(stored.report, result, **options.identity), run)

        store.update(options.node, end)
    return run


def _requested(report: NodeReport, now: float) -> NodeReport:
    before = report.run(ProbeProfile.DEEP) or ProfileRun(profile=ProbeProfile.DEEP)
    return with_run(report, replace(before, requested_at=now))


class _SweepThread(threading.Thread):
    """One sweep, in a thread of its own: nothing else bounds a call that hangs."""

    def __init__(self, probe: Probe, expected: NodeExpectation) -> None:
        super().__init__(name="sweep", daemon=True)
        self._sweep, self._expected = probe, expected
        self.result: SweepResult | None = None
        self.problem = ""

    def run(self) -> None:
        try:
            self.result = self._sweep(ProbeProfile.LIGHT, self._expected)
        except Exception as error:  # noqa: BLE001 - told by the agent, which goes on
            self.problem = one_line(f"{type(error).__name__}: {error}")
