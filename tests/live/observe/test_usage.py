"""What runs where and since when, and what waits: from pods and Kueue's workloads to the evidence."""

import datetime as dt
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from reconciler.kube.client.port import ApiResource, Listing
from reconciler.live.observe.evidence import _owners
from reconciler.live.observe.prometheus import read_waits
from reconciler.live.observe.usage import UsageSources, observe_usage
from reconciler.repo.evidence.usage import ADMITTED, RUNNING, SUSPENDED, WAITING, Usage, UsedWorkload, write_usage

AT = "2026-11-28T12:00:00Z"
KUEUE, BATCH = "kueue.x-k8s.io/v1beta2", "batch/v1"


def body(api: str, kind: str, name: str, *owners: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return an object; the last owner is its controller."""
    references = [
        {**{key: owner[key] for key in ("apiVersion", "kind")}, "name": owner["metadata"]["name"]}
        | {"uid": owner["metadata"]["uid"], "controller": len(owners) == 1}
        for owner in owners
    ]
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": "team",
        "uid": f"{kind}-{name}",
        "creationTimestamp": "2026-11-28T10:00:00Z",
    }
    metadata |= {"ownerReferences": references, "labels": more.pop("labels", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def pod(name: str, *owners: dict[str, Any], node: str = "n1", gpus: int = 8, **more: Any) -> dict[str, Any]:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}, "limits": limits}}]}
    spec |= {"initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}}]}
    spec |= {"nodeName": node, "priority": 7, "priorityClassName": "high"} | more.pop("spec", {})
    placed = {
        "type": "PodScheduled",
        "status": "True" if node else "False",
        "lastTransitionTime": "2026-11-28T10:00:05Z",
    }
    if not node:
        placed |= {"reason": "Unschedulable", "message": "0/9 nodes are available"}
    status = {"phase": "Running" if node else "Pending", "startTime": "2026-11-28T10:00:09Z", "conditions": [placed]}
    return body("v1", "Pod", name, *owners, spec=spec, status=status, **more)


def queued(name: str, *owners: dict[str, Any], sets: list[dict[str, Any]], **status: Any) -> dict[str, Any]:
    conditions = [
        {
            "type": kind,
            "status": value,
            "reason": reason,
            "message": message,
            "lastTransitionTime": "2026-11-28T10:00:03Z",
        }
        for kind, value, reason, message in status.pop("conditions", ())
    ]
    spec = {"queueName": "lq", "priority": 100, "priorityClassRef": {"name": "urgent"}, "podSets": sets}
    return body(KUEUE, "Workload", name, *owners, spec=spec, status={"conditions": conditions, **status})


def template(count: int, **more: Any) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": "8", "memory": "1024Mi"}}
    spec = {"containers": [{"name": "c", "resources": resources}], "overhead": {"memory": "1Gi"}}
    return {"name": "main", "count": count, "template": {"spec": spec}, **more}


def observed(*pods: dict[str, Any], known: tuple[dict[str, Any], ...] = (), **more: Any) -> Usage:
    by_uid = {one["metadata"]["uid"]: one for one in known}

    def owners(reference: Mapping[str, Any], _: str) -> Mapping[str, Any] | None:
        return by_uid.get(reference["uid"])

    aliases = [{"metadata": {"namespace": "team", "name": "lq"}, "spec": {"clusterQueue": "cq"}}]
    return observe_usage("main", UsageSources(pods=iter(pods), owners=owners, local_queues=aliases, **more), AT)


def only(usage: Usage) -> UsedWorkload:
    (found,) = usage.workloads
    return found


RESERVED = ("QuotaReserved", "True", "QuotaReserved", "")
WAITS = ("QuotaReserved", "False", "Pending", "couldn't assign flavors to pod set main: insufficient unused quota")


def test_a_running_workload_of_kueue() -> None:
    """F-158: the root owner, times, priority, flavors, what Kueue counts of one pod, and nodes by pod set."""
    job = body(BATCH, "Job", "train", labels={"team": "vision"})
    assigned = {"name": "main", "count": 2, "flavors": {"nvidia.com/gpu": "h100"}}
    assigned |= {"resourceUsage": {"cpu": "3", "nvidia.com/gpu": "16", "memory": "3Gi"}}
    admission = {"clusterQueue": "gpus", "podSetAssignments": [assigned]}
    workload = queued("w", job, sets=[template(4, minCount=1)], conditions=[RESERVED], admission=admission)
    found = observed(pod("a", job), pod("b", job, node="n2"), known=(job,), workloads=[workload], team_label="team")
    one = only(found)
    assert (one.kind, one.name, one.owner, one.state) == ("Job", "train", "vision", RUNNING)
    assert (one.queue, one.cluster_queue, one.priority, one.priority_class) == ("lq", "gpus", 100, "urgent")
    times = (one.created_at, one.admitted_at, one.started_at)
    assert times == ("2026-11-28T10:00:00Z", "2026-11-28T10:00:03Z", "2026-11-28T10:00:09Z")
    (pods,) = one.pod_sets
    assert (pods.count, pods.min_count, pods.nodes) == (2, 1, (("n1", 1), ("n2", 1)))
    assert pods.requests == {"cpu": "1500m", "memory": "1536Mi", "nvidia.com/gpu": "8"}
    assert (pods.flavors, one.gpus) == ({"nvidia.com/gpu": "h100"}, 16)


def test_waiting_and_stopped_workloads() -> None:
    """F-158: they are in the queue before new ones, with their reasons and what their templates request."""
    job = body(BATCH, "Job", "train")
    one = only(observed(known=(job,), workloads=[queued("w", job, sets=[template(2)], conditions=[WAITS])]))
    assert (one.state, one.cluster_queue, one.admitted_at, one.gpus) == (WAITING, "cq", "", 16)
    assert one.pod_sets[0].requests == {"memory": "2Gi", "nvidia.com/gpu": "8"}
    assert [(why.reason, why.message) for why in one.conditions] == [(WAITS[2], WAITS[3])]
    considered = [{"name": "main", "resources": {"nvidia.com/gpu": "16", "memory": "5Gi"}}]
    asked = queued("w", job, sets=[template(2)], conditions=[WAITS], resourceRequests=considered)
    assert only(observed(known=(job,), workloads=[asked])).pod_sets[0].requests["memory"] == "2560Mi"
    stopped = queued("w", job, sets=[template(2)])
    stopped["spec"]["active"] = False
    assert only(observed(known=(job,), workloads=[stopped])).state == SUSPENDED
    assert not observed(
        known=(job,), workloads=[queued("w", job, sets=[], conditions=[("Finished", "True", "", "")])]
    ).workloads


def test_pods_that_kueue_does_not_hold() -> None:
    """F-158: the queue of KAI by its label, pods that wait for a node, and pods without GPUs on nodes that have some."""
    deployment = body("apps/v1", "Deployment", "serve")
    replicas = body("apps/v1", "ReplicaSet", "serve-1", deployment)
    kai = pod("a", replicas, labels={"kai.scheduler/queue": "research"})
    stuck = pod("b", replicas, node="")
    agent = pod("agent", node="n1", gpus=0)
    elsewhere, done = pod("web", node="cpu-1", gpus=0), pod("done", replicas)
    done["status"]["phase"] = "Succeeded"
    found = observed(kai, stuck, agent, elsewhere, done, known=(deployment, replicas), gpu_nodes=frozenset({"n1"}))
    assert [(one.kind, one.name, one.queue, one.state) for one in found.workloads] == [
        ("Pod", "agent", "", RUNNING),
        ("Deployment", "serve", "research", RUNNING),
    ]
    serve = found.workloads[1]
    assert (serve.priority, serve.priority_class, serve.admitted_at) == (7, "high", "2026-11-28T10:00:05Z")
    assert serve.pod_sets[0].requests == {"cpu": "2", "nvidia.com/gpu": "8"}
    assert (serve.pod_sets[0].count, serve.pod_sets[0].nodes) == (2, (("n1", 1),))
    one = only(observed(stuck, known=(deployment, replicas)))
    assert (one.state, one.conditions[0].message) == (WAITING, "0/9 nodes are available")
    pending = pod("c", replicas)
    pending["status"]["phase"] = "Pending"
    assert only(observed(pending, known=(deployment, replicas))).state == ADMITTED


def test_several_workloads_of_one_root_are_each_their_own() -> None:
    """F-158: of a Deployment Kueue holds pods, and some of them wait."""
    deployment = body("apps/v1", "Deployment", "serve")
    pods = [pod("a", deployment), pod("b", deployment)]
    workloads = [
        queued("w-a", pods[0], sets=[template(1)], conditions=[RESERVED], admission={"clusterQueue": "cq"}),
        queued("w-b", pods[1], sets=[template(1)], conditions=[WAITS]),
    ]
    found = observed(pods[0], known=(deployment, *pods), workloads=workloads)
    assert [(one.kind, one.name, one.state) for one in found.workloads] == [
        ("Pod", "a", RUNNING),
        ("Pod", "b", WAITING),
    ]


def test_owners_that_cannot_be_read_are_told() -> None:
    """F-158: the workload has the name of the last owner that is known, and the evidence says that it may be another."""
    job = body(BATCH, "Job", "train")
    found = observed(pod("a", job), pod("b", job))
    assert (only(found).kind, only(found).name) == ("Job", "train")
    assert found.coverage == ("owners of the kind Job cannot be read: of 1 workload the root is not known",)


class Pages:
    """A cluster whose lists come page by page: it counts what is held at one time."""

    def __init__(self, jobs: int) -> None:
        self.jobs, self.asked = jobs, [0, 0]

    def resource(self, group: str, kind: str, version: str = "") -> ApiResource:
        return ApiResource(group=group, version=version or "v1", kind=kind, plural="", namespaced=True)

    def list(self, _: ApiResource, *, metadata_only: bool = False, **__: str) -> Listing:
        assert metadata_only
        self.asked[0] += 1
        return Listing(resource_version="1", objects=iter([self.job(number) for number in range(self.jobs)]))

    def job(self, number: int) -> dict[str, Any]:
        return {**body(BATCH, "Job", f"job-{number:05}"), "kind": "PartialObjectMetadata"}

    def pods(self) -> Iterator[dict[str, Any]]:
        for number in range(self.jobs):
            self.asked[1] += 1
            yield pod(f"p-{number:05}", {**self.job(number), "kind": "Job", "metadata": self.job(number)["metadata"]})


def test_ten_thousand_pods_are_read_one_by_one_and_fit() -> None:
    """F-158: their owners are one list of metadata; the file has at most a megabyte."""
    pages = Pages(10_000)
    sources = UsageSources(pods=pages.pods(), owners=_owners(pages))  # type: ignore[arg-type]
    found = observe_usage("main", sources, AT)
    assert (len(found.workloads), pages.asked) == (10_000, [1, 10_000])
    assert found.workloads[7].name == "job-00007"
    assert len(write_usage(found)) <= 1_000_000


class Waits:
    """A Prometheus with a histogram of Kueue 0.19."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, path: str) -> bytes:
        query = parse_qs(urlsplit(path).query)["query"][0]
        self.asked.append(query)
        values = {"gpus": "42.1", "idle": "0"} if "_count[" in query else {"gpus": "7.26", "idle": "NaN"}
        rows = [{"metric": {"cluster_queue": queue}, "value": [0, value]} for queue, value in values.items()]
        return json.dumps({"status": "success", "data": {"result": rows}}).encode()


def test_waiting_times_come_from_the_histogram_of_kueue() -> None:
    """F-158: the number of samples beside the quantiles; a queue that admitted nothing has none, and no zero."""
    waits = Waits()
    (found,) = read_waits(waits, dt.datetime(2026, 11, 28, 12, tzinfo=dt.UTC))
    assert (found.queue, found.samples, found.p50_seconds, found.window) == ("gpus", 42, 7.3, "7d")
    assert waits.asked[0] == "sum by (cluster_queue) (increase(kueue_admission_wait_time_seconds_count[7d]))"
    assert "histogram_quantile(0.9, sum by (cluster_queue, le)" in waits.asked[2]
