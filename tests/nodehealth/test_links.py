"""Network and storage: which links are tested, and what the answers mean."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.nodehealth.active.links import PingTarget, interfaces, ping_targets, rounds, turn_of
from reconciler.nodehealth.findings import CheckStatus, HealthFinding
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId, Sweep, Value

PASS, WARN, FAIL, UNKNOWN, SKIP = CheckStatus


def _found(check: str, *readings: NodeReading) -> HealthFinding:
    (finding,) = judge(Sweep(node="n", taken_at=1.0, readings=readings), only=(check,))
    return finding


@given(st.sets(st.text("abcdef-", min_size=1, max_size=4), max_size=24))
def test_every_two_nodes_meet_once_and_nobody_twice_a_round(nodes: set[str]) -> None:
    """F-086: n-1 rounds for n nodes, disjoint pairs, each node once a round; an odd number rests one node a round."""
    schedule = rounds(sorted(nodes))
    even = len(nodes) + len(nodes) % 2
    assert len(schedule) == max(0, even - 1)
    for pairs in schedule:
        met = [node for pair in pairs for node in (pair.client, pair.server)]
        assert len(met) == len(set(met)) == len(nodes) - len(nodes) % 2
    assert sorted(tuple(sorted((pair.client, pair.server))) for pairs in schedule for pair in pairs) == sorted(
        tuple(sorted(pair)) for pair in combinations(nodes, 2)
    )


@given(st.sets(st.text("abcdef-", min_size=1, max_size=4), min_size=2, max_size=12))
def test_turns_follow_the_schedule_without_a_word(nodes: set[str]) -> None:
    """F-086: every node finds out its turn from names and time; after the last round all rest until the next day."""
    day, slot = 86_400.0, 120.0
    for number, pairs in enumerate(rounds(nodes)):
        now = 20_000 * day + number * slot + 3.0
        turns = {node: turn_of(node, nodes, now, every=day, slot=slot) for node in nodes}
        assert {turn.pair for turn in turns.values() if turn is not None} == set(pairs)
        assert {(turn.starts_at, turn.ends_at) for turn in turns.values() if turn is not None} == {(now - 3, now + 117)}
    late = 20_000 * day + len(rounds(nodes)) * slot
    assert {turn_of(node, nodes, late, every=day, slot=slot) for node in nodes} == {None}


def test_a_turn_that_began_before_the_day_is_nobodys() -> None:
    """A slot that does not divide the period."""
    assert turn_of("a", ("a", "b"), 1000.0, every=1000.0, slot=300.0) is None
    assert turn_of("a", ("a", "b"), 1200.0, every=1000.0, slot=300.0) is not None
    assert turn_of("c", ("a", "b"), 1200.0, every=1000.0, slot=300.0) is None


def test_targets_are_all_interfaces_of_all_other_nodes() -> None:
    """F-085: the pods' annotation names the interfaces; a ping leaves through the same interface where we have it."""
    status = '[{"name":"ovn","interface":"eth0","ips":["10.0.0.%d"],"default":true},{"name":"rdma","interface":"net1-0","ips":["192.168.1.%d"]},{"name":"none"}]'
    pods = {f"node-{number}": interfaces(status % (number, number)) for number in (1, 2)}
    pods["node-3"] = {"eth0": "10.0.0.3", "net1-1": "192.168.2.3"}
    assert ping_targets(pods, "node-1") == (
        PingTarget(node="node-2", address="10.0.0.2", interface="eth0", source="10.0.0.1"),
        PingTarget(node="node-2", address="192.168.1.2", interface="net1-0", source="192.168.1.1"),
        PingTarget(node="node-3", address="10.0.0.3", interface="eth0", source="10.0.0.1"),
        PingTarget(node="node-3", address="192.168.2.3", interface="net1-1"),
    )
    with pytest.raises(ValueError, match="not a list"):
        interfaces("{}")


def _pings(*received: int | None) -> NodeReading:
    rows: list[Value] = [
        {"node": "b", "address": f"10.0.0.{number}", "interface": "net1", "sent": 10, "received": count}
        if count is not None
        else {"node": "b", "address": f"10.0.0.{number}", "interface": "net1", "error": "Network is unreachable"}
        for number, count in enumerate(received)
    ]
    return NodeReading(name=ReadingId("net.ping"), value=rows)


def test_an_address_that_never_answers_fails() -> None:
    """F-085: 100 % loss fails with that address; some loss warns; what could not be sent is unknown, and hides nothing."""
    assert _found("net.ping", _pings(10, 10)).status is PASS
    dead = _found("net.ping", _pings(10, 0, 10, None))
    assert (dead.status, dead.observed) == (FAIL, "10.0.0.1")
    assert dead.message == "1 of 4 addresses do not answer: 10.0.0.1 (b net1)"
    assert (_found("net.ping", _pings(10, 9)).status, _found("net.ping", _pings(10, None)).status) == (
        WARN,
        UNKNOWN,
    )
    assert _found("net.ping").status is SKIP
    assert _found("net.ping", NodeReading(name=ReadingId("net.ping"), value=[])).status is SKIP
    assert _found("net.ping", NodeReading(name=ReadingId("net.ping"), error=ReadError.NOT_SUPPORTED)).status is SKIP


def test_iperf_is_told_and_not_judged() -> None:
    rows: list[Value] = [{"address": "a", "receivedGbps": 90.5}, {"address": "b", "receivedGbps": 3.25}]
    finding = _found("net.iperf", NodeReading(name=ReadingId("net.iperf"), value=rows))
    assert (finding.status, finding.observed, finding.unit) == (PASS, 3.25, "Gb/s")
    broken: list[Value] = [*rows, {"error": "c:5200: Connection refused"}]
    assert _found("net.iperf", NodeReading(name=ReadingId("net.iperf"), value=broken)).status is UNKNOWN
    assert _found("net.iperf", NodeReading(name=ReadingId("net.iperf"), value=[])).status is UNKNOWN
    assert _found("net.iperf").status is SKIP


@pytest.mark.parametrize(("phase", "status"), [("Bound", PASS), ("Pending", FAIL), ("Lost", FAIL), ("gone", FAIL)])
def test_phases_of_a_claim(phase: str, status: CheckStatus) -> None:
    """F-087: only a bound claim passes."""
    value: Value = {"phase": phase, "storageClass": "fast", "seconds": 90.0}
    assert _found("storage.pvc", NodeReading(name=ReadingId("storage.pvc"), value=value)).status is status
    assert _found("storage.pvc").status is SKIP
