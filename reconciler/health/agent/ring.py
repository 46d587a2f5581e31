"""Bandwidth to the other nodes by iperf3: in turns that a merged policy asks for, and only while all GPUs are idle."""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from reconciler.clock import Clock
from reconciler.errors import ReconcilerError
from reconciler.health.directory import reporting
from reconciler.kinds.health import POLICY, policy_from
from reconciler.kube.client.port import LiveCluster
from reconciler.kube.values import mapping, text
from reconciler.nodehealth.active.links import IperfTurn, slot_start, turn_of
from reconciler.nodehealth.active.plans import obstacles
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.policy import IperfRule, PolicyBook
from reconciler.nodehealth.readers.network.iperf import FIRST_PORT, iperf_client, iperf_servers, merged
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId
from reconciler.nodehealth.report import NodeReport

CHECK = ReadingId.NET_IPERF
_LATE_SECONDS = 5.0  # after the start of a turn nobody joins it any more
_SERVER_SECONDS = 3.0  # that the other node may need to start its server
_ATTEMPTS = 3


class IperfRing:
    """The turns of one node. What it measured as a client since it started is its reading."""

    def __init__(
        self, cluster: LiveCluster, node: str, networks: Mapping[str, str], environ: Mapping[str, str], clock: Clock
    ) -> None:
        self._cluster, self._node, self._networks, self._environ = cluster, node, dict(networks), environ
        self._clock = clock
        self._stopping = threading.Event()
        self._rows: dict[str, list[NodeReading]] = {}  # by the other node, of its last turn

    def follow(self, begin: Callable[[], None]) -> None:
        """Call `begin` at the start of every turn, while a policy asks for turns. Returns after `stop`."""
        slot = IperfRule().slot
        while not self._stopping.is_set():
            now = self._now()
            self._stopping.wait(slot_start(now, slot) + slot - now)
            try:
                rule = self._rule()
            except ReconcilerError:
                continue  # the server is away: the next turn asks again
            slot = rule.slot or slot
            if rule.every and not self._stopping.is_set():
                begin()

    def stop(self) -> None:
        """End turns and waiting."""
        self._stopping.set()

    def measure(self, last: SweepResult | None) -> NodeReading:
        """Take the turn that has just begun; return all that was measured, or why there is nothing."""
        rule = self._rule()
        if not rule.every:
            return _none("no HealthPolicy for all nodes asks for it (spec.iperf)")
        known = reporting(self._cluster, self._now())
        turn = turn_of(self._node, known, self._now(), every=rule.every, slot=rule.slot)
        if turn is None or self._now() - turn.starts_at > _LATE_SECONDS:
            return self._so_far()
        if blocked := _in_use(last):
            return blocked
        if turn.pair.server == self._node:
            self._serve(turn)
        elif not _is_busy(known[turn.pair.server]):
            self._rows[turn.pair.server] = self._send(turn, known[turn.pair.server], rule)
        return self._so_far()

    def _serve(self, turn: IperfTurn) -> None:
        with iperf_servers(1, environ=self._environ):
            self._stopping.wait(turn.ends_at - self._now() - _LATE_SECONDS)

    def _send(self, turn: IperfTurn, other: NodeReport, rule: IperfRule) -> list[NodeReading]:
        """Measure both directions over every interface of the other node, as far as the turn is long enough."""
        self._stopping.wait(_SERVER_SECONDS)
        readings: list[NodeReading] = []
        for interface, address in sorted(other.networks.items()):
            for is_back in (False, True):
                if self._stopping.is_set() or turn.ends_at - self._now() < rule.seconds + 2 * _LATE_SECONDS:
                    return readings
                readings.append(self._once(address, rule, source=self._networks.get(interface, ""), is_back=is_back))
        return readings

    def _once(self, address: str, rule: IperfRule, *, source: str, is_back: bool) -> NodeReading:
        measure = partial(
            iperf_client,
            address,
            FIRST_PORT,
            streams=rule.streams,
            seconds=rule.seconds,
            source=source,
            reverse=is_back,
            environ=self._environ,
        )
        reading = measure()
        for _ in range(_ATTEMPTS - 1):
            if reading.error is not ReadError.FAILED:
                break
            self._stopping.wait(1.0)
            reading = measure()
        return reading

    def _so_far(self) -> NodeReading:
        readings = [reading for found in self._rows.values() for reading in found]
        missing = next((one for one in readings if one.error is ReadError.NOT_SUPPORTED), None)
        if missing is not None:
            return missing  # there is no iperf3
        return merged(readings) if readings else _none("this node has not yet sent data to another node")

    def _rule(self) -> IperfRule:
        bodies = self._cluster.list(self._cluster.resource(*POLICY)).objects
        return base_policy(bodies)

    def _now(self) -> float:
        return self._clock.now().timestamp()


def base_policy(bodies: Iterable[Any]) -> IperfRule:
    """Return what the policies of a cluster ask for that mean all nodes: an agent may not read labels of its own."""
    documents = (
        policy_from(text(mapping(one.get("metadata")).get("name")), mapping(one.get("spec"))) for one in bodies
    )
    return PolicyBook(one for one in documents if not one.node_labels).base.iperf


def _in_use(last: SweepResult | None) -> NodeReading | None:
    """Return the reason that bandwidth is not measured now: a GPU of this node is in use, or nobody knows."""
    for error, detail in obstacles(last.sweep if last is not None else None):
        if error is not ReadError.NOT_SUPPORTED:
            return NodeReading(name=CHECK, error=error, detail=detail)
    return None


def _is_busy(report: NodeReport) -> bool:
    return any(one.occupied for one in report.activity) or any(one > 0 for one in report.utilization.values())


def _none(detail: str) -> NodeReading:
    return NodeReading(name=CHECK, error=ReadError.NOT_SUPPORTED, detail=detail)
