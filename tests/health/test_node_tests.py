"""Tests beside the sweeps: begun by a deep run or by a request, never twice at one time, part of the report."""

import threading
from collections.abc import Collection

import pytest
from msgspec.structs import replace

from reconciler.health.agent import Agent, AgentOptions
from reconciler.health.measuring.node_tests import FRESH_SECONDS, NodeTests
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.merging import SweepResult, with_run
from reconciler.nodehealth.readings import NodeReading, ReadingId
from reconciler.nodehealth.report import ProfileRun
from tests.health.test_agent import MemoryStore, Node, StoppedClock, Told, statuses
from tests.nodehealth.reports import FAIL, PASS, UNKNOWN, finding, slot

DEEP = ProbeProfile.DEEP


class Cable:
    """A test whose result a test of ours decides."""

    def __init__(self) -> None:
        self.status, self.count, self.block = PASS, 0, threading.Event()
        self.block.set()

    def __call__(self, last: SweepResult | None) -> NodeReading:
        assert last is not None
        self.count += 1
        self.block.wait(30)
        return NodeReading(name=ReadingId("net.ping"), value=self.status.value)


def judged(last: SweepResult, readings: Collection[NodeReading]) -> tuple[HealthFinding, ...]:
    del last
    return tuple(
        finding(one.name, CheckStatus(one.value) if one.error is None else UNKNOWN, profile=DEEP) for one in readings
    )


@pytest.fixture
def cable() -> Cable:
    return Cable()


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def agent(cable: Cable, clock: StoppedClock, store: MemoryStore) -> Agent:
    tests = NodeTests({"net.ping": cable}, judged, clock, deep=("net.ping",))
    made = Agent(Node(clock), store, clock, AgentOptions(node="node-1", pause=0), Told())
    made.tests = tests
    return made


def begin_run(store: MemoryStore, clock: StoppedClock, *older: HealthFinding) -> None:
    """Let the Job of a deep run write that it has begun, and what it found so far."""
    run = ProfileRun(profile=DEEP, started_at=clock.at, deadline=clock.at + 1800)
    report = replace(store.report, findings=(*store.report.findings, *older))
    store.stored = replace(store.stored, report=with_run(report, run), version="by the job")


def settle(agent: Agent, clock: StoppedClock) -> None:
    """Go on until the agent has seen the run, made its tests, and published them."""
    for _ in range(4):
        clock.at += 130  # a heartbeat
        agent.step()
        assert agent.tests is not None
        agent.tests.wait(("net.ping",), 30)


def test_a_deep_run_begins_the_tests_once(agent: Agent, cable: Cable, store: MemoryStore, clock: StoppedClock) -> None:
    """F-085, F-087: the report gets their result; what the run found itself stays."""
    agent.step()
    assert cable.count == 0
    cable.status = FAIL
    slow = finding("hbm.bandwidth", FAIL, slot=slot(0), profile=DEEP)
    begin_run(store, clock, slow)
    settle(agent, clock)
    assert cable.count == 1
    assert statuses(store.report) == {"net.ping": FAIL, "hbm.bandwidth": FAIL}
    cable.status = PASS
    begin_run(store, clock)
    settle(agent, clock)
    assert (cable.count, statuses(store.report)) == (2, {"hbm.bandwidth": FAIL})
    assert store.report.passed_by["net.ping"] is DEEP


def test_a_request_makes_a_test_at_once_and_not_again(agent: Agent, cable: Cable, clock: StoppedClock) -> None:
    """F-092: the answer waits for it; many requests are one test."""
    agent.step()
    for _ in range(3):
        assert agent.test(("net.ping", "remap.pending"), 30) == ()
    assert cable.count == 1
    agent.step()
    assert [one.status for one in agent.state.findings if one.check == "net.ping"] == [PASS]
    clock.at += FRESH_SECONDS
    agent.test(("net.ping",), 30)
    assert cable.count == 2


def test_a_test_that_takes_long_stops_no_sweep(agent: Agent, cable: Cable, store: MemoryStore) -> None:
    agent.step()
    cable.block.clear()
    assert agent.test(("net.ping",), 0.05) == ("net.ping",)
    agent.step()
    assert "net.ping" not in statuses(store.report)
    cable.block.set()


@pytest.mark.parametrize("problem", [OSError("no route"), ValueError("odd")])
def test_a_test_that_breaks_is_unknown(clock: StoppedClock, problem: Exception) -> None:
    def broken(last: SweepResult | None) -> NodeReading:
        raise problem

    agent = Agent(Node(clock), None, clock, AgentOptions(node="n"), Told())
    agent.tests = NodeTests({"net.ping": broken}, judged, clock)
    agent.step()
    agent.test(("net.ping",), 30)
    agent.step()
    assert [one.status for one in agent.state.findings if one.check == "net.ping"] == [UNKNOWN]


def test_without_the_server_a_result_waits(agent: Agent, cable: Cable, store: MemoryStore, clock: StoppedClock) -> None:
    agent.step()
    cable.status = FAIL
    agent.test(("net.ping",), 30)
    store.is_away = True
    agent.step()
    store.is_away = False
    begin_run(store, clock)  # somebody else wrote meanwhile
    clock.at += 60
    agent.step()
    assert statuses(store.report)["net.ping"] is FAIL
