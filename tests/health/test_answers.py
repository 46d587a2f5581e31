"""The agents' HTTP interface with real servers: one node, many nodes, batches, and nodes that do not answer."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest

from reconciler.health.agent import Agent, AgentOptions
from reconciler.health.agent.process import Fetch, Locate, fetch, health_api, read_query
from reconciler.health.directory import NodeSelection
from reconciler.health.measuring.node_tests import NodeTests
from reconciler.nodehealth.findings import HealthFinding, ProbeProfile
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.readings import NodeReading, ReadingId
from reconciler.web.listener import HttpListener
from tests.health.test_agent import StoppedClock, Told
from tests.health.test_node_tests import judged
from tests.nodehealth.reports import FAIL, PASS, SKIP, finding, result, slot

FINDINGS = (
    finding("remap.pending", PASS, slot=slot(0)),
    finding("remap.pending", FAIL, slot=slot(1)),
    finding("throttle", PASS, slot=slot(0)),
    finding("pcie.h2d", PASS, slot=slot(0), observed=26.5, unit="GB/s"),
    finding("ecc.sram", SKIP, slot=slot(0)),
)


def nowhere(selection: NodeSelection) -> Mapping[str, str]:
    raise AssertionError(selection)


@contextmanager
def serving(
    node: str,
    findings: tuple[HealthFinding, ...] = FINDINGS,
    locate: Locate = nowhere,
    ask: Fetch = fetch,
    tests: NodeTests | None = None,
) -> Iterator[str]:
    """Run the interface of one node, with its agent."""

    def probe(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        return result(*findings, profile=profile, node=node)

    agent = Agent(probe, None, StoppedClock(), AgentOptions(node=node, pause=0), Told())
    agent.tests = tests
    listener = HttpListener("127.0.0.1:0", health_api(agent, node, locate, ask))
    thread = threading.Thread(target=agent.run, daemon=True)
    thread.start()
    listener.start()
    try:
        yield f"http://127.0.0.1:{listener.port}"
    finally:
        listener.stop()
        agent.stop()
        thread.join(10)


def ask(url: str, accept: str = "") -> tuple[int, str]:
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.netloc, timeout=30)) as connection:
        connection.request("GET", f"{parts.path}?{parts.query}", headers={"Accept": accept})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def get(url: str) -> str:
    status, text = ask(url)
    assert status in (200, 202), text
    return text


def get_json(url: str) -> Any:
    status, text = ask(url, "application/json")
    assert status == 200, text
    return json.loads(text)


def test_single_checks_and_all_of_them() -> None:
    """F-092: names of Autopilot and of the catalogue."""
    with serving("node-1") as url:
        assert get(f"{url}/remapped").splitlines() == [
            "node-1 FAIL",
            f"node-1 remap.pending {slot(0)} PASS remap.pending is PASS",
            f"node-1 remap.pending {slot(1)} FAIL remap.pending is FAIL",
            "node-1 remap.failure UNKNOWN not measured on this node",
        ]
        assert get(f"{url}/status?check=throttle") == f"node-1 PASS\nnode-1 throttle {slot(0)} PASS throttle is PASS\n"
        assert "26.5 GB/s" in get(f"{url}/pciebw")
        (everything,) = get_json(f"{url}/status?check=all")
        assert {row["check"] for row in everything["checks"]} == {one.check for one in FINDINGS} | {"agent.sweep"}
        assert "UNKNOWN" in get(f"{url}/dcgm?r=3")
        assert "deep run is requested" in get(f"{url}/invasive")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/nothing", 404),
        ("/status?batch=0", 400),
        ("/status?batch=many", 400),
        ("/status?batch=999", 400),
        ("/dcgm?r=5", 400),
        ("/status?r=x", 400),
        ("/status?r=2", 400),
        ("/status?check=gpu.xid&r=2", 400),
        ("/status?check=dcgm.level1&r=2", 400),
    ],
)
def test_wrong_requests_are_refused(path: str, status: int) -> None:
    with serving("node-1") as url:
        assert ask(url + path)[0] == status


@pytest.fixture
def fleet() -> Iterator[Callable[..., str]]:
    """Return what starts five agents, of which the first knows all, and returns its address."""
    with ExitStack() as stack:

        def start(seen: list[NodeSelection], ask: Fetch = fetch) -> str:
            known: dict[str, str] = {"node-dead": "http://127.0.0.1:9", "node-new": ""}

            def locate(selection: NodeSelection) -> Mapping[str, str]:
                seen.append(selection)
                return dict(sorted(known.items()))

            known |= {f"node-{n}": stack.enter_context(serving(f"node-{n}")) for n in range(2, 6)}
            known["node-1"] = "http://not.used.example.com"
            return stack.enter_context(serving("node-1", locate=locate, ask=ask))

        yield start


def test_many_nodes_are_asked_and_dead_ones_are_told(fleet: Callable[..., str]) -> None:
    """F-092: the union of all selections; a node without an answer is UNKNOWN and hides no other."""
    seen: list[NodeSelection] = []
    url = fleet(seen)
    answers = get_json(f"{url}/status?check=remapped&host=node-1,node-2&host=node-3&job=team-a:app=train&nodelabel=a=b")
    assert seen == [NodeSelection(hosts=("node-1", "node-2", "node-3"), job="team-a:app=train", node_label="a=b")]
    by_name = {answer["node"]: answer for answer in answers}
    assert list(by_name) == ["node-1", "node-2", "node-3", "node-4", "node-5", "node-dead", "node-new"]
    assert [by_name[f"node-{n}"]["status"] for n in range(1, 6)] == ["FAIL"] * 5
    assert {row["check"] for row in by_name["node-2"]["checks"]} == {"remap.pending", "remap.failure"}
    assert by_name["node-dead"]["status"] == by_name["node-new"]["status"] == "UNKNOWN"
    assert "cannot be reached" in by_name["node-dead"]["problem"]
    assert by_name["node-new"]["problem"] == "no agent has reported from this node"


@pytest.mark.parametrize("batch", [1, 2])
def test_no_more_nodes_than_the_batch_are_asked_at_one_time(fleet: Callable[..., str], batch: int) -> None:
    """F-092: batch=2 is at most two in flight."""
    lock, flight, most = threading.Lock(), [0], [0]

    def counted(address: str, path: str) -> bytes:
        with lock:
            flight[0] += 1
            most[0] = max(most[0], flight[0])
        try:
            return fetch(address, path)
        finally:
            with lock:
                flight[0] -= 1

    url = fleet([], counted)
    assert len(get_json(f"{url}/status?host=all&batch={batch}")) == 7
    assert most[0] <= batch


def test_hostile_answers_of_other_agents_are_unknown(fleet: Callable[..., str]) -> None:
    url = fleet([], lambda *_: b'[{"node": 5}]')
    statuses = {answer["node"]: answer["status"] for answer in get_json(f"{url}/status?host=all")}
    assert statuses == {"node-1": "FAIL"} | {f"node-{n}": "UNKNOWN" for n in (2, 3, 4, 5, "dead", "new")}


def test_names_of_checks_are_not_damaged() -> None:
    """F-092: names of both vocabularies, once each, in order."""
    query = read_query("check=iperf,pciebw,ecc.sram,pciebw&host=,a,a")
    assert query.checks == ("net.iperf", "pcie.h2d", "pcie.d2h", "ecc.sram")
    assert query.nodes == NodeSelection(hosts=("a",))
    assert read_query("check=all").checks == ()


def test_a_request_makes_the_tests_that_it_names() -> None:
    """F-092: `ping` measures now, `r` a level of diagnostics; `all` starts nothing, nor does a level that nobody named."""
    made: list[str] = []

    def measure(name: str, last: SweepResult | None) -> NodeReading:
        assert last is not None
        made.append(name)
        return NodeReading(name=ReadingId(name), value="FAIL")

    names = ("net.ping", "dcgm.level1", "dcgm.level2")
    tests = NodeTests({name: partial(measure, name) for name in names}, judged, StoppedClock())
    with serving("node-1", tests=tests) as url:
        get(f"{url}/status")
        get(f"{url}/status?check=all")
        assert "UNKNOWN not measured" in get(f"{url}/dcgm")
        assert made == []
        assert get(f"{url}/ping").splitlines()[0] == "node-1 FAIL"
        assert get(f"{url}/dcgm?r=2").splitlines() == ["node-1 FAIL", "node-1 dcgm.level2 FAIL dcgm.level2 is FAIL"]
        assert made == ["net.ping", "dcgm.level2"]
        assert {row["check"] for row in get_json(f"{url}/status?check=all")[0]["checks"]} >= {"net.ping", "dcgm.level2"}


def test_a_long_level_is_a_deep_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """F-092: r=3 asks the controller for it, r=4 is left to people."""
    asked: list[str] = []
    monkeypatch.setattr(Agent, "request_deep_run", lambda _: asked.append("deep"))
    with serving("node-1", tests=NodeTests({}, judged, StoppedClock())) as url:
        get(f"{url}/dcgm?r=4")
        assert asked == []
        assert get(f"{url}/dcgm?r=3") == "node-1 UNKNOWN\nnode-1 dcgm.level3 UNKNOWN not measured on this node\n"
        assert asked == ["deep"]


def test_other_agents_get_the_level(fleet: Callable[..., str]) -> None:
    asked: list[str] = []

    def noted(address: str, path: str) -> bytes:
        asked.append(path)
        return fetch(address, path)

    get(f"{fleet([], noted)}/dcgm?host=all&r=2")
    assert set(asked) == {"/status?check=dcgm.level2&r=2"}
