"""The tests of an agent: pings to the agents of other nodes, a claim of a volume, short diagnostics."""

import threading
from collections.abc import Collection, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from reconciler.clock import SystemClock
from reconciler.health.agent.ring import CHECK as RING_CHECK
from reconciler.health.agent.ring import IperfRing
from reconciler.health.directory import reporting
from reconciler.health.measuring.node_tests import Judge, NodeTests, Test
from reconciler.health.measuring.storage import ClaimTest, claim_volume, remove_leftovers
from reconciler.kube.client.port import ClusterError, LiveCluster
from reconciler.nodehealth.active.links import interfaces, ping_targets
from reconciler.nodehealth.active.plans import obstacles
from reconciler.nodehealth.findings import HealthFinding, ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.readers.diagnostics import read_diag
from reconciler.nodehealth.readers.network.ping import PingSource
from reconciler.nodehealth.readings import DIAG_READINGS, NodeReading, ReadingId, SourceReadings

ADDRESS = "POD_IP"
"""Variable with the address of the pod."""

NETWORKS = "POD_NETWORKS"
"""Variable with the annotation of the pod that names its interfaces; other agents ping them."""

ON_REQUEST_LEVELS = (1, 2)
"""Levels of `dcgmi diag` that a request may start, on idle GPUs; longer ones are deep runs."""

_PRIMARY = "eth0"


class StorageFlags(Struct, frozen=True, kw_only=True):
    """The claim that tests storage; nothing without a class. `image`: of the pod that writes to it."""

    storage_class: str = ""
    namespace: str = ""
    size: str = "100Mi"
    access: str = "ReadWriteMany"
    image: str = ""


class Stopped(Exception):
    """The agent ends."""


class StoppableClock(SystemClock):
    """A clock whose pauses end when the agent does, so that a test cleans up."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping

    def pause(self, seconds: float) -> None:
        """Wait. Raises `Stopped` if the agent ends."""
        if self._stopping.wait(seconds):
            raise Stopped


def node_tests(
    cluster: LiveCluster | None,
    node: str,
    environ: Mapping[str, str],
    *,
    judged: Judge,
    ping: bool,
    ring: IperfRing | None,
    storage: StorageFlags,
    stopping: threading.Event,
) -> NodeTests:
    """Return the tests that the flags ask for, and short diagnostics on request."""
    tests: dict[str, Test] = {DIAG_READINGS[level]: partial(_diagnose, level, environ) for level in ON_REQUEST_LEVELS}
    if cluster is not None and ping:
        tests[ReadingId.NET_PING] = lambda _: ping_others(cluster, node, environ)
    if ring is not None:
        tests[RING_CHECK] = ring.measure
    if cluster is not None and storage.storage_class:
        claim = _claim_test(storage, node, environ)
        tests[ReadingId.STORAGE_PVC] = lambda _: claim_volume(cluster, claim, StoppableClock(stopping))
        threading.Thread(target=_remove_leftovers, args=(cluster, claim), name="left claims", daemon=True).start()
    deep = [check for check in (ReadingId.NET_PING, ReadingId.STORAGE_PVC) if check in tests]
    return NodeTests(tests, judged, SystemClock(), deep=deep)


def judge_of(**tables: object) -> Judge:
    """Return the judge of readings of tests, each by the check of its name."""

    def judged(last: SweepResult, readings: Collection[NodeReading]) -> tuple[HealthFinding, ...]:
        sweep = replace(last.sweep, readings=(*last.sweep.readings, *readings))
        return judge(sweep, only={one.name for one in readings}, **tables)  # type: ignore[arg-type]

    return judged


def own_networks(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the addresses of this pod by interface: of its annotation, else the one that Kubernetes gave it."""
    try:
        found = interfaces(environ.get(NETWORKS) or "[]")
    except ValueError:
        found = {}
    address = environ.get(ADDRESS, "")
    return found or ({_PRIMARY: address} if address else {})


def ping_others(cluster: LiveCluster, node: str, environ: Mapping[str, str]) -> NodeReading:
    """Ping every address that the agents of other nodes report, from this agent's interface of the same name."""
    reports = reporting(cluster, SystemClock().now().timestamp())
    known = {name: report.networks for name, report in reports.items()}
    source = PingSource(ping_targets({**known, node: own_networks(environ)}, node), environ=environ)
    (reading,) = source.read(ProbeProfile.DEEP, SourceReadings()).readings
    return reading


def _diagnose(level: int, environ: Mapping[str, str], last: SweepResult | None) -> NodeReading:
    """Run the diagnostics of a level, unless a GPU is in use or nobody knows."""
    for error, detail in obstacles(last.sweep if last is not None else None):
        return NodeReading(name=DIAG_READINGS[level], error=error, detail=detail)
    return read_diag(level, environ=environ)


def _claim_test(storage: StorageFlags, node: str, environ: Mapping[str, str]) -> ClaimTest:
    name, uid = environ.get("POD_NAME", ""), environ.get("POD_UID", "")
    here = environ.get("POD_NAMESPACE", "")
    is_here = bool(name and uid) and storage.namespace in ("", here)
    return ClaimTest(
        namespace=storage.namespace or here or "default",
        node=node,
        storage_class=storage.storage_class,
        size=storage.size,
        access=storage.access,
        image=storage.image,
        owner={"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid} if is_here else {},
    )


def _remove_leftovers(cluster: LiveCluster, claim: ClaimTest) -> None:
    """Delete what a killed agent left; a server that is away is asked again before the next test."""
    try:
        remove_leftovers(cluster, claim)
    except ClusterError:
        return
