"""The use of GPUs as evidence: pods up to the owner at the root, and what a Prometheus says of their GPUs.

The Prometheus is a server of this test, which answers as the HTTP API describes; objects are those of a cluster's lists.
"""

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import pytest

from reconciler.errors import OutsideError
from reconciler.kube.yaml import read
from reconciler.live.observe.prometheus import AMD, ENGINE, UTIL, MetricsWindow, PrometheusClient, read_windows
from reconciler.live.observe.utilisation import UseObjects, observe_utilisation
from reconciler.repo.evidence.utilisation import GpuUtilisation, GpuWindow, parse_utilisation, write_utilisation

WINDOW = MetricsWindow(end=dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC), seconds=1800, interval=30)


class Prometheus(BaseHTTPRequestHandler):
    """Answers instant queries from values by metric and function."""

    values: ClassVar[dict[tuple[str, str], list[tuple[dict[str, str], str]]]] = {}
    asked: ClassVar[list[str]] = []
    status: ClassVar[int] = 200

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        parameters = parse_qs(urlsplit(self.path).query)
        self.asked.append(parameters["query"][0])
        function, metric = re.findall(r"(\w+)_over_time\(\(?(\w+)[^\[]*\[1800s", parameters["query"][0])[0]
        function = "idle" if "<" in parameters["query"][0] else function
        rows = [{"metric": labels, "value": [1.0, value]} for labels, value in self.values.get((metric, function), [])]
        body = json.dumps({"status": "success", "data": {"resultType": "vector", "result": rows}}).encode()
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def prometheus(
    values: Mapping[tuple[str, str], list[tuple[dict[str, str], str]]], status: int = 200
) -> Iterator[tuple[PrometheusClient, list[str]]]:
    """Run a Prometheus with these values."""
    asked: list[str] = []
    handler = type("Prometheus", (Prometheus,), {"values": dict(values), "asked": asked, "status": status})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield PrometheusClient(f"http://127.0.0.1:{server.server_port}"), asked
        finally:
            server.shutdown()


def series(
    metric: str, labels: dict[str, str], *, high: str, mean: str, samples: str, idle: str = ""
) -> dict[Any, Any]:
    values = {"max": high, "avg": mean, "count": samples, **({"idle": idle} if idle else {})}
    return {(metric, function): [(labels, value)] for function, value in values.items()}


def test_the_metrics_of_both_vendors() -> None:
    """AMD by partition, NVIDIA by two metrics in percent; a scrape's own labels give way to those of the workload."""
    amd = {"namespace": "team", "pod": "a", "gpu_id": "0", "gpu_partition_id": "1"}
    nvidia = {
        "namespace": "monitoring",
        "pod": "exporter",
        "exported_namespace": "team",
        "exported_pod": "b",
        "gpu": "3",
    }
    values = {
        **series(AMD, amd, high="7.5", mean="1.25", samples="60", idle="30"),
        **series(ENGINE, nvidia, high="0.04", mean="0.01", samples="59"),
        **series(UTIL, nvidia, high="97", mean="80", samples="59"),
    }
    with prometheus(values) as (client, asked):
        found = read_windows(client, WINDOW)
    assert found == {
        ("team", "a"): (GpuWindow(gpu="0.1", metric=AMD, max=7.5, mean=1.25, samples=60, expected=60, idle=0.5),),
        ("team", "b"): (
            GpuWindow(gpu="3", metric=ENGINE, max=4.0, mean=1.0, samples=59, expected=60, idle=0.0),
            GpuWindow(gpu="3", metric=UTIL, max=97.0, mean=80.0, samples=59, expected=60, idle=0.0),
        ),
    }
    assert len(asked) == 12


def test_what_is_no_number_is_no_sample() -> None:
    """D-24: an absent metric, NaN and a GPU without a pod are no windows, and no zeros."""
    labels = {"namespace": "team", "pod": "a", "gpu_id": "0"}
    with prometheus(series(AMD, labels, high="NaN", mean="0", samples="60")) as (client, _):
        assert read_windows(client, WINDOW) == {}
    with prometheus(series(AMD, {"gpu_id": "0"}, high="0", mean="0", samples="60")) as (client, _):
        assert read_windows(client, WINDOW) == {}


def test_a_prometheus_that_fails() -> None:
    """D-23: no answer is an error, and not an idle fleet."""
    with prometheus({}, status=503) as (client, _), pytest.raises(OutsideError, match="answered 503"):
        read_windows(client, WINDOW)


def body(kind: str, name: str, owner: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": "team", "uid": f"uid-{kind}-{name}"}
    if owner is not None:
        reference = {key: owner[key] for key in ("apiVersion", "kind")}
        reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        metadata["ownerReferences"] = [reference]
    group = {"Pod": "v1", "Job": "batch/v1", "RayJob": "ray.io/v1", "RayCluster": "ray.io/v1"}
    return {"apiVersion": group.get(kind, "kueue.x-k8s.io/v1beta1"), "kind": kind, "metadata": metadata, **more}


def gpu_pod(name: str, owner: dict[str, Any] | None, *, node: str = "n1", phase: str = "Running") -> dict[str, Any]:
    resources = {"limits": {"amd.com/gpu": "2"}}
    spec = {"containers": [{"name": "c", "resources": resources}], **({"nodeName": node} if node else {})}
    status: dict[str, Any] = {"phase": phase, "startTime": "2026-11-28T10:00:00Z"}
    if not node:
        scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        status["conditions"] = [{**scheduled, "lastTransitionTime": "2026-11-28T11:00:00Z"}]
    return body("Pod", name, owner, spec=spec, status=status)


def observed(objects: UseObjects, owners: list[dict[str, Any]], windows: Any = None) -> GpuUtilisation:
    known = {one["metadata"]["uid"]: one for one in owners}

    def read_owner(reference: Mapping[str, Any], _: str) -> Mapping[str, Any] | None:
        return known.get(reference["uid"])

    return observe_utilisation(
        "main", objects, read_owner, windows or {}, taken_at="2026-11-28T12:00:00Z", seconds=1800
    )


def test_pods_count_for_the_owner_at_the_root() -> None:
    """F-113, D-24: all pods of a RayJob are one workload, with its queue; a pod that starts holds its GPUs, too."""
    job = body("RayJob", "train")
    cluster = body("RayCluster", "train-x", job)
    pods = [gpu_pod("a", cluster), gpu_pod("b", cluster, node="n2"), gpu_pod("c", cluster, phase="Pending")]
    admitted = body("Workload", "w", job, spec={"queueName": "q"}, status={"admission": {"clusterQueue": "kaiwo"}})
    window = GpuWindow(gpu="0", metric=AMD, max=1.0, mean=0.5, samples=60, expected=60)
    found = observed(UseObjects(pods, [admitted]), [job, cluster], {("team", "a"): (window,)})
    assert [(one.kind, one.name, one.queue, one.gpus) for one in found.workloads] == [("RayJob", "train", "kaiwo", 6)]
    assert [(one.name, one.node, len(one.windows)) for one in found.workloads[0].pods] == [
        ("a", "n1", 1),
        ("b", "n2", 0),
        ("c", "n1", 0),
    ]
    written = write_utilisation(found)
    assert parse_utilisation(read("u.yaml", written).documents[0], "main")[0] is not None
    assert written == write_utilisation(found)


def test_a_workload_starts_with_its_first_running_pod() -> None:
    """F-110: a pod that is bound and does not run yet starts nothing, and one without a time breaks nothing."""
    job = body("Job", "train")
    early, first, bound = gpu_pod("a", job, phase="Pending"), gpu_pod("b", job), gpu_pod("c", job, phase="Pending")
    early["status"]["startTime"], bound["status"] = "2026-11-28T07:00:00Z", {"phase": "Pending"}
    later = gpu_pod("d", job)
    later["status"]["startTime"] = "2026-11-28T11:00:00Z"
    found = observed(UseObjects([early, later, first, bound]), [job])
    assert [one.started_at for one in found.workloads] == ["2026-11-28T10:00:00Z"]
    found = observed(UseObjects([early, bound]), [job])
    assert [one.started_at for one in found.workloads] == [""]
    parsed, _ = parse_utilisation(read("u.yaml", write_utilisation(found)).documents[0], "main")
    assert parsed is not None
    assert parsed.workloads == found.workloads


def test_an_unknown_root_is_noted() -> None:
    """An owner that cannot be read, and owners in a circle: their use is unknown."""
    job = body("Job", "gone")
    found = observed(UseObjects([gpu_pod("a", job)]), [])
    assert found.workloads[0].notes == ("its owner Job/gone cannot be read",)
    one, other = body("Job", "one"), body("Job", "other", job)
    one["metadata"]["ownerReferences"] = [{**other, "name": "other", "uid": "uid-Job-other", "controller": True}]
    other["metadata"]["ownerReferences"] = [{**one, "name": "one", "uid": "uid-Job-one", "controller": True}]
    found = observed(UseObjects([gpu_pod("a", one)]), [one, other])
    assert "form a circle" in found.workloads[0].notes[0]


def test_who_waits() -> None:
    """D-22: workloads without quota, by the pods they ask for, and pods that no node takes; with what a queue grants."""
    job = body("Job", "new")
    pod_set = {"count": 2, "template": {"spec": gpu_pod("x", None, node="")["spec"] | {"nodeSelector": {"zone": "b"}}}}
    conditions = [{"type": "QuotaReserved", "status": "False", "lastTransitionTime": "2026-11-28T09:00:00Z"}]
    waits = body("Workload", "w", job, spec={"queueName": "q", "podSets": [pod_set]}, status={"conditions": conditions})
    finished = body(
        "Workload",
        "f",
        job,
        spec={"podSets": [pod_set]},
        status={"conditions": [{"type": "Finished", "status": "True"}]},
    )
    quota = {"flavors": [{"name": "f", "resources": [{"name": "amd.com/gpu", "nominalQuota": "16"}]}]}
    used = [{"name": "f", "resources": [{"name": "amd.com/gpu", "total": "13"}]}]
    queue = body("ClusterQueue", "kaiwo", spec={"resourceGroups": [quota]}, status={"flavorsReservation": used})
    local = body("LocalQueue", "q", spec={"clusterQueue": "kaiwo"})
    stuck = gpu_pod("p", None, node="", phase="Pending")
    found = observed(UseObjects([stuck], [waits, finished], [queue], [local]), [])
    assert [(one.kind, one.name, one.queue, one.gpus, one.headroom, one.since) for one in found.waiting] == [
        ("Job", "new", "kaiwo", 4, 3, "2026-11-28T09:00:00Z"),
        ("Pod", "p", "", 2, 2, "2026-11-28T11:00:00Z"),
    ]
    assert found.waiting[0].pods[0].node_selector == {"zone": "b"}
