"""The agent on a store in memory: it publishes what is new, and nothing that fails hides anything else."""

import datetime as dt
import threading
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reconciler.health.agent import SWEEP_CHECK, Agent, AgentOptions, run_once
from reconciler.health.reports import StoredReport
from reconciler.kube.client.port import ClusterUnavailable
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.inflight.preflight import PreflightResult
from reconciler.nodehealth.merging import SweepResult, merged
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.report import NodeReport
from tests.nodehealth.reports import FAIL, NOW, PASS, UNKNOWN, WARN, finding, gpus, result, slot

DEEP = ProbeProfile.DEEP
OPTIONS = AgentOptions(node="node-1", interval=60, deadline=30, pause=0)


class Told(list[str]):
    """What an agent logs."""

    def __call__(self, level: str, message: str, **fields: object) -> None:
        del level, fields
        self.append(message)


class StoppedClock:
    """A clock that a test moves."""

    at = NOW

    def now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.at, dt.UTC)

    def elapsed(self) -> float:
        return self.at

    def pause(self, seconds: float) -> None:
        self.at += seconds


class MemoryStore:
    """A store with versions, which may be away."""

    def __init__(self) -> None:
        self.stored, self.writes, self.is_away = StoredReport(), 0, False

    def read(self, node: str) -> StoredReport:
        del node
        return self.stored

    def update(self, node: str, change: Callable[[StoredReport], NodeReport | None]) -> StoredReport:
        del node
        if self.is_away:
            raise ClusterUnavailable("the server does not answer")
        report = change(self.stored)
        if report is not None:
            self.writes += 1
            self.stored = replace(self.stored, report=report, version=str(self.writes), problem="")
        return self.stored

    @property
    def report(self) -> NodeReport:
        assert self.stored.report is not None
        return self.stored.report


class Node:
    """A node whose checks say what the test wants."""

    def __init__(self, clock: StoppedClock) -> None:
        self.clock, self.findings = clock, [finding("a", PASS)]
        self.block: threading.Event | None = None
        self.expected: list[NodeExpectation] = []

    def __call__(self, profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        self.expected.append(expected)
        if self.block is not None:
            self.block.wait()
        return result(*self.findings, profile=profile, at=self.clock.at)


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def node(clock: StoppedClock) -> Node:
    return Node(clock)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def agent(node: Node, store: MemoryStore, clock: StoppedClock, told: Told) -> Agent:
    return Agent(node, store, clock, OPTIONS, told)


def statuses(report: NodeReport) -> dict[str, CheckStatus]:
    return {one.check: one.status for one in report.findings}


def test_only_news_and_heartbeats_are_written(
    agent: Agent, node: Node, store: MemoryStore, clock: StoppedClock
) -> None:
    """F-088, F-095: an hour of sweeps without news is one write every two minutes."""
    agent.step()
    assert (store.writes, store.report.passed) == (1, ("a", SWEEP_CHECK))
    for _ in range(60):
        clock.at += 60
        agent.step()
    assert store.writes == 31
    node.findings = [finding("a", FAIL, slot=slot(0))]
    clock.at += 1
    agent.step()
    assert (store.writes, statuses(store.report)) == (32, {"a": FAIL})


def test_a_server_that_is_away_stops_nothing(
    agent: Agent, node: Node, store: MemoryStore, clock: StoppedClock, told: Told
) -> None:
    store.is_away = True
    agent.step()
    node.findings = [finding("a", FAIL)]
    clock.at += 60
    agent.step()
    assert agent.state.report is not None
    assert statuses(agent.state.report) == {"a": FAIL}
    assert (agent.state.failures, agent.state.problem) == (2, "the server does not answer")
    assert told == ["the report cannot be written"] * 2
    store.is_away, clock.at = False, clock.at + 60
    agent.step()
    assert (store.writes, statuses(store.report)) == (1, {"a": FAIL})
    assert (store.report.findings[0].since, agent.state.problem) == (NOW + 60, "")


def test_a_failure_outlives_the_agent(agent: Agent, node: Node, store: MemoryStore, clock: StoppedClock) -> None:
    """F-090: a restart forgets nothing."""
    node.findings = [finding("hbm", FAIL, profile=DEEP), finding("a", WARN)]
    run_once(node, store, clock, OPTIONS, DEEP)
    node.findings, clock.at = [finding("a", WARN)], clock.at + 60
    agent.step()
    assert statuses(store.report) == {"hbm": FAIL, "a": WARN}
    assert [one.since for one in store.report.findings] == [NOW, NOW]


def test_a_sweep_that_hangs_is_unknown_and_the_agent_lives(node: Node, store: MemoryStore, clock: StoppedClock) -> None:
    options = AgentOptions(node="node-1", deadline=0.05, pause=0)
    agent = Agent(node, store, clock, options, lambda *_, **__: None)
    node.findings = [finding("a", PASS), finding("b", FAIL, slot=slot(1))]
    threads = threading.active_count()
    agent.step()
    node.block = threading.Event()
    clock.at += 60
    for _ in range(3):
        agent.step()
        clock.at += 60
        assert agent.state.is_overdue
        assert statuses(store.report) == {"a": UNKNOWN, "b": FAIL, SWEEP_CHECK: UNKNOWN}
        assert store.report.passed == ()
    assert threading.active_count() <= threads + 1, "one sweep hangs, and no second one is begun"
    assert store.report.gpus == gpus(2)
    released, node.block = node.block, None
    assert released is not None
    released.set()
    for _ in range(2):  # the first takes the result of the sweep that hung
        assert agent._running is not None
        agent._running.join()
        agent.step()
        clock.at += 60
    assert statuses(store.report) == {"b": FAIL}


def test_a_sweep_that_breaks_is_unknown(store: MemoryStore, clock: StoppedClock, told: Told) -> None:
    def broken(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        raise RuntimeError("no such\nfield")

    agent = Agent(broken, store, clock, OPTIONS, told)
    agent.step()
    assert store.report.findings[0].message == "the sweep failed: RuntimeError: no such field"
    assert (store.report.status, told) == (UNKNOWN, ["the sweep failed"])


def test_what_another_writer_added_is_kept(agent: Agent, node: Node, store: MemoryStore, clock: StoppedClock) -> None:
    """F-089: the Job of a deep run writes into the same report."""
    agent.step()
    node.findings = [finding("hbm", FAIL, profile=DEEP)]
    run = run_once(node, store, clock, OPTIONS, DEEP)
    assert (run.status, run.failed) == (FAIL, ("hbm",))
    node.findings, clock.at = [finding("a", PASS)], clock.at + 120
    agent.step()
    assert statuses(store.report) == {"hbm": FAIL}
    assert store.report.run(DEEP) == run


def test_a_deep_run_that_breaks_is_not_left_running(store: MemoryStore, clock: StoppedClock) -> None:
    """F-089: TESTING ends with the run, or at its deadline."""
    seen: list[NodeReport] = []

    def dies(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        seen.append(store.report)
        raise RuntimeError("the GPU is lost")

    with pytest.raises(RuntimeError):
        run_once(dies, store, clock, OPTIONS, DEEP)
    during, after = seen[0].run(DEEP), store.report.run(DEEP)
    assert during
    assert after
    assert during.is_running(NOW + 1)
    assert not during.is_running(NOW + OPTIONS.deadline)
    assert (after.is_running(NOW + 1), after.status) == (False, UNKNOWN)


@pytest.mark.parametrize(("every", "requests"), [(0.0, 0), (3600.0, 3)])
def test_deep_runs_are_asked_for_in_their_interval(
    node: Node, store: MemoryStore, clock: StoppedClock, every: float, requests: int
) -> None:
    """F-088: 0 asks for none, and is no error."""
    options = AgentOptions(node="node-1", invasive=every, pause=0)
    agent = Agent(node, store, clock, options, lambda *_, **__: None)
    seen = set()
    for _ in range(60 * 2 + 30):
        agent.step()
        clock.at += 60
        run = store.report.run(DEEP)
        seen |= {run.requested_at} if run else set()
    assert len(seen) == requests


def test_a_request_survives_a_write_of_another(
    agent: Agent, node: Node, store: MemoryStore, clock: StoppedClock
) -> None:
    agent.step()
    agent.request_deep_run()
    store.stored = StoredReport(report=merged(store.report, result(finding("b", WARN), at=NOW + 1)), version="other")
    clock.at += 2
    agent.step()
    run = store.report.run(DEEP)
    assert run is not None
    assert run.requested_at == NOW


def counted(gpus: int, clock: StoppedClock) -> Callable[[ProbeProfile, NodeExpectation], SweepResult]:
    def probe(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        status = FAIL if gpus < (expected.gpus or 0) else PASS
        return result(finding("gpu.count", status), profile=profile, at=clock.at)

    return probe


def test_nothing_is_published_that_was_judged_without_what_git_expects(
    store: MemoryStore, clock: StoppedClock, told: Told
) -> None:
    """A restarted agent knows nothing of Git, and must not end a failure that it cannot see."""
    eight = NodeExpectation(gpus=8, origin="HealthPolicy h100")
    failed = merged(None, result(finding("gpu.count", FAIL)))
    store.stored = StoredReport(report=failed, version="7", expected=eight)
    clock.at += 300
    agent = Agent(counted(7, clock), store, clock, OPTIONS, told)
    agent.step()
    assert (store.writes, statuses(store.report)) == (0, {"gpu.count": FAIL})
    agent.step()
    assert (store.writes, statuses(store.report)) == (1, {"gpu.count": FAIL})
    assert (store.report.findings[0].since, agent.state.failures) == (NOW, 0)
    assert told == ["Git expects something else of this node: the next sweep is judged by it"]
    store.stored, clock.at = replace(store.stored, expected=NodeExpectation(gpus=7)), clock.at + 120
    agent.step()
    agent.step()
    assert statuses(store.report) == {}


def test_what_a_test_found_is_kept_for_the_sweep_that_is_published(
    agent: Agent, node: Node, store: MemoryStore, clock: StoppedClock
) -> None:
    known = merged(None, result(finding("a", PASS)))
    store.stored = StoredReport(report=known, version="7", expected=NodeExpectation(gpus=8))
    clock.at += 300
    tested = PreflightResult(namespace="default", pod="a-0", uid="u-1", measured_at=clock.at, has_failed=True)
    agent.take(tested)
    agent.step()
    agent.step()
    assert [one.uid for one in store.report.preflights] == ["u-1"]
    assert node.expected == [NodeExpectation(), NodeExpectation(gpus=8)]


def test_a_deep_run_is_judged_by_what_git_expects(node: Node, store: MemoryStore, clock: StoppedClock) -> None:
    store.stored = StoredReport(expected=NodeExpectation(gpus=8))
    run_once(node, store, clock, OPTIONS, DEEP)
    assert node.expected == [NodeExpectation(gpus=8)]


def test_events_are_swept_at_once(node: Node, store: MemoryStore) -> None:
    """A wake-up does not wait for the interval; the first sweep does not, either."""
    from reconciler.clock import SystemClock  # noqa: PLC0415

    done = threading.Semaphore(0)

    class Counted(MemoryStore):
        def update(self, node: str, change: Callable[[StoredReport], NodeReport | None]) -> StoredReport:
            stored = super().update(node, change)
            done.release()
            return stored

    def probe(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        found: list[HealthFinding] = [finding("a", next(changing))]
        return result(*found, at=SystemClock().now().timestamp())

    changing = iter([PASS, FAIL, WARN])
    agent = Agent(
        probe, Counted(), SystemClock(), AgentOptions(node="n", interval=3600, pause=0), lambda *_, **__: None
    )
    thread = threading.Thread(target=agent.run)
    thread.start()
    for _ in range(3):
        assert done.acquire(timeout=10)
        agent.wake()
    agent.stop()
    thread.join(10)
    assert not thread.is_alive()
