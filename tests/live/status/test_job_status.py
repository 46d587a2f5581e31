"""Phases, worker counts, restarts and times of jobs, and why a job waits: table tests on plain objects."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kinds.progress import Phase
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.objects import ObjectKey
from reconciler.live.status.job_status import JobStatus, gone_status, job_statuses, live_status
from reconciler.live.status.live import ClusterObjects
from reconciler.repo.evidence.runs import FinishedRun

OWNED = {"app.kubernetes.io/managed-by": "gpu-reconciler"}


def job(
    *, spec: dict[str, Any] | None = None, labels: dict[str, str] | None = None, gpus: int = 8, **status: Any
) -> dict[str, Any]:
    container = {"name": "trainer", "resources": {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}}
    template = {"metadata": {"labels": {}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "a", "uid": "job-1", "labels": OWNED | (labels or {})},
        "spec": {"parallelism": 2, "completions": 2, "template": template, **(spec or {})},
        "status": status,
    }


def condition(kind: str, status: str = "True", *, reason: str = "", message: str = "") -> dict[str, str]:
    at = "2026-11-01T12:00:00Z"
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at}


def pod(number: int, phase: str = "Running", *, ready: bool = False, **status: Any) -> dict[str, Any]:
    conditions = [condition("Ready", str(ready)), *status.pop("conditions", [])]
    owner = {"uid": "job-1", "controller": True}
    return {
        "metadata": {"name": f"train-{number}", "namespace": "a", "uid": f"pod-{number}", "ownerReferences": [owner]},
        "status": {"phase": phase, "conditions": conditions, **status},
    }


def waits(kind: str, message: str) -> dict[str, Any]:
    return {"name": "trainer", "restartCount": 2, "state": {"waiting": {"reason": kind, "message": message}}}


def node(gpus: int, product: str = "", **labels: str) -> dict[str, Any]:
    known = {"nvidia.com/gpu.product": product} if product else {}
    return {"metadata": {"labels": known | labels}, "status": {"allocatable": {"nvidia.com/gpu": str(gpus)}}}


def status_of(body: dict[str, Any], **state: Any) -> JobStatus:
    return live_status(BUILT_IN, "main", body, ClusterObjects(**({"nodes": [node(8), node(8)]} | state)))


def cut(status: JobStatus) -> tuple[str, str, str]:
    return status.phase.value, status.reason, status.message


UNSCHEDULABLE = condition("PodScheduled", "False", reason="Unschedulable", message="0/2 nodes: Insufficient cpu")
PHASES: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("Pending", job(), {}, ""),
    ("Starting", job(active=2), {"pods": [pod(0, "Pending"), pod(1, "Running", ready=True)]}, ""),
    ("Running", job(active=2, ready=2), {"pods": [pod(0, ready=True), pod(1, ready=True)]}, ""),
    ("Succeeded", job(succeeded=2, conditions=[condition("Complete")]), {}, ""),
    ("Failed", job(failed=4, conditions=[condition("Failed", reason="BackoffLimitExceeded")]), {}, "Failed"),
    ("TimedOut", job(failed=1, conditions=[condition("Failed", reason="DeadlineExceeded")]), {}, "TimedOut"),
    ("Suspended", job(spec={"suspend": True}), {}, "Suspended"),
    ("Terminating", job(spec={"suspend": True}, active=1, ready=1), {}, "Suspended"),
    ("Suspended", job(spec={"parallelism": 0}), {}, "Suspended"),
    ("Terminating", job(spec={"parallelism": 0}, active=1, ready=1), {}, "Suspended"),
    ("Pending", job(active=2), {"pods": [pod(0, "Pending", conditions=[UNSCHEDULABLE])]}, "Node"),
]


@pytest.mark.parametrize(("phase", "body", "state", "reason"), PHASES, ids=lambda value: str(value)[:12])
def test_phases_of_a_job(phase: str, body: dict[str, Any], state: dict[str, Any], reason: str) -> None:
    """F-057: a fixture per phase."""
    found = status_of(body, **state)
    assert (found.phase.value, found.reason) == (phase if reason != "Node" else "Starting", reason)


def test_one_failed_of_two_is_not_success() -> None:
    """F-057: a job ends when its controller says so, never by counting."""
    found = status_of(job(succeeded=1, failed=1))
    assert (found.phase, found.workers.succeeded, found.workers.failed) == (Phase.STARTING, 1, 1)
    assert found.finished_at == ""


def test_workers_restarts_and_times() -> None:
    """F-057: pods are counted by phase, restarts over all containers."""
    pods = [pod(0, ready=True, containerStatuses=[{"name": "t", "restartCount": 3}]), pod(1, "Pending")]
    found = status_of(job(active=2, ready=1, failed=1, startTime="2026-11-01T10:00:00Z"), pods=pods)
    workers = found.workers
    assert (workers.wanted, workers.running, workers.ready, workers.pending, workers.failed) == (2, 1, 1, 1, 1)
    assert (found.restarts, found.started_at, found.finished_at) == (4, "2026-11-01T10:00:00Z", "")
    ended = status_of(job(succeeded=2, completionTime="2026-11-01T12:30:00Z", conditions=[condition("Complete")]))
    assert ended.finished_at == "2026-11-01T12:30:00Z"


def test_syncing_and_preempted() -> None:
    """F-057, F-115: an init container copies the workspace, or waits for the download; a preempted pod says so."""
    running = {"name": "workspace-sync", "state": {"running": {"startedAt": "2026-11-01T10:00:00Z"}}}
    assert status_of(job(active=1), pods=[pod(0, "Pending", initContainerStatuses=[running])]).phase is Phase.SYNCING
    running["name"] = "wait-for-download"
    loading = status_of(job(active=1), pods=[pod(0, "Pending", initContainerStatuses=[running])])
    assert cut(loading) == ("Syncing", "Download", "its download is not complete")
    target = condition("DisruptionTarget", reason="PreemptionByScheduler")
    assert status_of(job(active=1), pods=[pod(0, "Failed", conditions=[target])]).phase is Phase.PREEMPTED


QUEUE = {"kueue.x-k8s.io/queue-name": "team"}
ALIAS = {"kind": "LocalQueue", "metadata": {"name": "team", "namespace": "a"}, "spec": {"clusterQueue": "gpus"}}
TARGET = {"kind": "ClusterQueue", "metadata": {"name": "gpus"}}
QUEUES = {"aliases": [ALIAS], "queues": [TARGET]}


def held(*conditions: dict[str, str], active: bool = True, **status: Any) -> dict[str, Any]:
    owner = {"uid": "job-1", "controller": True}
    return {
        "metadata": {"name": "job-train", "namespace": "a", "ownerReferences": [owner]},
        "spec": {"queueName": "team", "active": active},
        "status": {"conditions": list(conditions), **status},
    }


def reserved(message: str) -> dict[str, str]:
    return condition("QuotaReserved", "False", reason="Pending", message=message)


QUOTA = "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor h100, 8 more needed"
FLAVOR = "couldn't assign flavors to pod set main: untolerated taint {gpu true NoSchedule} in flavor h100"
PREEMPTS = "couldn't assign flavors to pod set main: insufficient unused quota. Pending the preemption of 1 workload(s)"
REASONS: list[tuple[dict[str, Any], tuple[str, str, str]]] = [
    ({"nodes": []}, ("Queued", "NoGPUs", "no schedulable node has nvidia.com/gpu")),
    ({"nodes": [node(8)]}, ("Queued", "InsufficientGPUs", "requests 16 of nvidia.com/gpu; the cluster has 8")),
    (
        {"nodes": [node(4)] * 4},
        ("Queued", "InsufficientGPUs", "requests 8 of nvidia.com/gpu on one node; the largest node has 4"),
    ),
    (
        {"aliases": [ALIAS | {"metadata": {"name": "team", "namespace": "b"}}]},
        ("Queued", "WrongQueueNamespace", "LocalQueue team is in namespace b, not in a"),
    ),
    ({"aliases": []}, ("Queued", "QueueNotFound", "no LocalQueue team in namespace a")),
    (
        {"queues": []},
        ("Queued", "ClusterQueueNotFound", "ClusterQueue gpus of LocalQueue team does not exist"),
    ),
    (
        {"queues": [TARGET | {"status": {"conditions": [condition("Active", "False", message="is stopped")]}}]},
        ("Queued", "QueueStopped", "ClusterQueue gpus: is stopped"),
    ),
    ({"workloads": [held(reserved(QUOTA))]}, ("Queued", "Quota", QUOTA)),
    ({"workloads": [held(reserved(FLAVOR))]}, ("Queued", "Flavor", FLAVOR)),
    ({"workloads": [held(reserved(PREEMPTS))]}, ("Queued", "Priority", PREEMPTS)),
    (
        {
            "workloads": [
                held(condition("QuotaReserved"), admissionChecks=[{"name": "dws", "state": "Pending", "message": "no"}])
            ]
        },
        ("Queued", "AdmissionCheck", "admission check dws is Pending: no"),
    ),
    (
        {"workloads": [held(reserved("x"), condition("Evicted", reason="Preempted", message="for train-2"))]},
        ("Preempted", "Priority", "for train-2"),
    ),
    (
        {"workloads": [held(condition("Evicted", reason="Deactivated", message="too many requeues"), active=False)]},
        ("Terminated", "Deactivated", "too many requeues"),
    ),
]


@pytest.mark.parametrize(("state", "expected"), REASONS, ids=lambda value: value[1] if isinstance(value, tuple) else "")
def test_why_a_job_waits(state: dict[str, Any], expected: tuple[str, str, str]) -> None:
    """F-034: one fixture per reason."""
    body = job(spec={"suspend": True}, labels=QUEUE)
    assert cut(status_of(body, **(QUEUES | state))) == expected


IMAGE = waits("ImagePullBackOff", 'Back-off pulling image "nope:1"')


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (pod(0, "Pending", conditions=[UNSCHEDULABLE]), ("Queued", "Node", "0/2 nodes: Insufficient cpu")),
        (
            pod(0, "Pending", containerStatuses=[IMAGE]),
            ("Starting", "Image", 'container trainer: ImagePullBackOff: Back-off pulling image "nope:1"'),
        ),
        (
            pod(0, "Pending", containerStatuses=[waits("CreateContainerConfigError", 'secret "hf" not found')]),
            ("Starting", "Config", 'container trainer: CreateContainerConfigError: secret "hf" not found'),
        ),
        (
            pod(
                0,
                "Pending",
                conditions=[
                    condition("PodScheduled", "False", message='persistentvolumeclaim "data" not found in Volume')
                ],
            ),
            ("Starting", "Volume", 'persistentvolumeclaim "data" not found in Volume'),
        ),
    ],
)
def test_why_pods_wait(one: dict[str, Any], expected: tuple[str, str, str]) -> None:
    """F-034: node, image, configuration, volume."""
    kai = [{"kind": "Queue", "metadata": {"name": "h100"}}]
    assert cut(status_of(job(labels={"kai.scheduler/queue": "h100"}, active=2), pods=[one], queues=kai)) == expected


def test_a_claim_without_a_volume() -> None:
    """F-115: the workload is pending, with the claim and what the scheduler says; a queue that holds it comes first."""
    body = job(active=2)
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    body["spec"]["template"]["spec"]["volumes"] = [volume]
    claim = {"metadata": {"namespace": "a", "name": "data"}, "spec": {"storageClassName": "fast"}}
    pending = {**claim, "status": {"phase": "Pending"}}
    unbound = condition("PodScheduled", "False", message="pod has unbound immediate PersistentVolumeClaims")
    waits_for_it = [pod(0, "Pending", conditions=[unbound])]
    said = "claim data is Pending (storage class fast)"
    found = status_of(body, claims=[pending], pods=waits_for_it)
    assert cut(found) == ("Pending", "Volume", f"{said}: {unbound['message']}")
    assert cut(status_of(body, claims=[pending])) == ("Pending", "Volume", said)
    assert status_of(body, claims=[{**claim, "status": {"phase": "Bound"}}]).phase is Phase.STARTING
    assert status_of(body, claims=None).phase is Phase.STARTING
    elsewhere = {**pending, "metadata": {"namespace": "b", "name": "data"}}
    assert status_of(body, claims=[elsewhere]).phase is Phase.STARTING
    assert cut(status_of(body, claims=[pending], nodes=[node(0)]))[1] == "NoGPUs"


DEADLINE = condition("Progressing", "False", reason="ProgressDeadlineExceeded", message="has timed out")
UNHEALTHY = {"applicationStatuses": {"llm": {"status": "UNHEALTHY", "message": "no replica"}}}
SERVICES = [
    ("apps/v1", "Deployment", {}, "Pending", ""),
    ("apps/v1", "Deployment", {"replicas": 2, "readyReplicas": 1}, "Starting", ""),
    ("apps/v1", "Deployment", {"replicas": 2, "readyReplicas": 2}, "Running", ""),
    ("apps/v1", "Deployment", {"replicas": 3, "readyReplicas": 2, "conditions": [DEADLINE]}, "Error", "has timed out"),
    ("ray.io/v1", "RayService", {}, "Pending", ""),
    ("ray.io/v1", "RayService", {"serviceStatus": ""}, "Starting", ""),
    ("ray.io/v1", "RayService", {"conditions": [condition("Ready")]}, "Running", ""),
    (
        "ray.io/v1",
        "RayService",
        {"activeServiceStatus": UNHEALTHY},
        "Failed",
        "application llm is UNHEALTHY: no replica",
    ),
    ("kaiwo.silogen.ai/v1alpha1", "KaiwoService", {"status": "ERROR"}, "Error", ""),
    ("kaiwo.silogen.ai/v1alpha1", "KaiwoService", {"status": "TERMINATED"}, "Terminated", ""),
]


@pytest.mark.parametrize(("api_version", "kind", "status", "phase", "message"), SERVICES)
def test_services(api_version: str, kind: str, status: dict[str, Any], phase: str, message: str) -> None:
    """F-115: what a KaiwoService becomes, and the KaiwoService itself; each is shown only where it is rendered."""
    metadata = {"name": "s", "namespace": "a", "labels": OWNED}
    body = {"apiVersion": api_version, "kind": kind, "metadata": metadata, "status": status}
    body["spec"] = {"replicas": 2} if kind == "Deployment" else {}
    found = status_of(body)
    assert (found.phase.value, found.message) == (phase, message)
    state = ClusterObjects(jobs=[body])
    assert job_statuses(BUILT_IN, "main", state, [], {}) == ()
    assert [one.phase for one in job_statuses(BUILT_IN, "main", state, [found.key], {})] == [found.phase]


def test_what_kai_says_of_a_gang() -> None:
    """F-034: the conditions of the pod group."""
    says = {"reason": "OverLimit", "message": "queue h100 has reached the limit of 8 GPUs"}
    group = {
        "metadata": {"name": "pg", "ownerReferences": [{"uid": "job-1", "controller": True}]},
        "status": {"schedulingConditions": [{"type": "UnschedulableOnNodePool", "status": "True", "reasons": [says]}]},
    }
    kai = [{"kind": "Queue", "metadata": {"name": "h100"}}]
    found = status_of(job(labels={"kai.scheduler/queue": "h100"}, active=2), pod_groups=[group], queues=kai)
    assert cut(found) == ("Queued", "Quota", "queue h100 has reached the limit of 8 GPUs")
    lost = status_of(job(labels={"kai.scheduler/queue": "h200"}, active=2), queues=kai)
    assert cut(lost) == ("Queued", "QueueNotFound", "queue h200 does not exist")


def test_the_life_of_a_terminated_job() -> None:
    """F-115: deleted, its pods leave, it is gone."""
    running = status_of(job(active=2, ready=2), pods=[pod(0, ready=True), pod(1, ready=True)])
    deleted = job(active=2, ready=2)
    deleted["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    leaving = status_of(deleted, pods=[pod(0, ready=True), pod(1, ready=True)])
    gone = gone_status(leaving)
    assert [one.phase.value for one in (running, leaving, gone)] == ["Running", "Terminating", "Terminated"]
    assert leaving.message == "the job is deleted; 2 pods left"
    assert gone.workers.running == 0
    ended = status_of(job(succeeded=2, conditions=[condition("Complete")]))
    assert gone_status(ended).phase is Phase.SUCCEEDED


def key(name: str) -> ObjectKey:
    return ObjectKey(group="batch", kind="Job", namespace="a", name=name)


def test_jobs_that_are_not_in_the_cluster() -> None:
    """F-056, F-057: finished ones as recorded, unread ones as unknown, others as not applied."""
    run = FinishedRun(
        api_version="batch/v1", key=key("old"), uid="1", result="Failed", finished_at="2026-11-01T12:00:00Z"
    )
    foreign = job()
    foreign["metadata"] |= {"name": "foreign", "labels": {}}
    state = ClusterObjects(jobs=[job(), foreign], nodes=None)
    found = job_statuses(BUILT_IN, "main", state, [key("old"), key("new"), key("train")], {run.key: run})
    assert [(one.key.name, *cut(one)) for one in found] == [
        ("new", "Pending", "NotApplied", "the cluster does not have it; it has not been applied yet"),
        ("old", "Failed", "", "ended, and is gone from the cluster"),
        ("train", "Pending", "", ""),
    ]
    unread = ClusterObjects(unread={("batch", "Job"): "jobs is forbidden"})
    (one,) = job_statuses(BUILT_IN, "main", unread, [key("new")], {})
    assert cut(one) == ("Unknown", "Unread", "jobs is forbidden")


def operator_job(*conditions: dict[str, str], **replicas: dict[str, int]) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "pytorch"}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train", "namespace": "a", "uid": "job-1"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 4, "template": template}}},
        "status": {"conditions": list(conditions), "replicaStatuses": replicas},
    }


@pytest.mark.parametrize(
    ("body", "phase", "running"),
    [
        (operator_job(), "Pending", 0),
        (operator_job(condition("Created"), Worker={"active": 4}), "Starting", 0),
        (operator_job(condition("Running"), Worker={"active": 4}), "Running", 4),
        (operator_job(condition("Running", "False"), condition("Restarting"), Worker={"active": 3}), "Starting", 0),
        (operator_job(condition("Succeeded"), Worker={"succeeded": 4}), "Succeeded", 0),
        (operator_job(condition("Failed"), Worker={"failed": 1, "succeeded": 3}), "Failed", 0),
        (
            operator_job(condition("Failed", message="it was active longer than specified deadline")),
            "TimedOut",
            0,
        ),
    ],
)
def test_jobs_of_the_training_operator(body: dict[str, Any], phase: str, running: int) -> None:
    """F-057: one failed worker is a failed job, whatever the others did."""
    found = status_of(body)
    assert (found.phase.value, found.workers.running, found.workers.wanted) == (phase, running, 4)


SENT = {"managedBy": "kueue.x-k8s.io/multikueue"}
HERE = {"nodes": [], **QUEUES}  # and no node of the cluster has a GPU
CHOSEN = {"workloads": [held(condition("Admitted"), clusterName="east")]}
ON_EAST = ("WorkerCluster", "on worker cluster east")


@pytest.mark.parametrize(
    ("body", "state", "expected"),
    [
        (job(spec=SENT, labels=QUEUE), {"workloads": [held(reserved(QUOTA))]}, ("Queued", "Quota", QUOTA)),
        (job(spec=SENT, labels=QUEUE, active=2), CHOSEN, ("Starting", *ON_EAST)),
        (job(spec=SENT, labels=QUEUE, active=2, ready=2), CHOSEN, ("Running", *ON_EAST)),
        (job(spec=SENT, labels=QUEUE, succeeded=2, conditions=[condition("Complete")]), CHOSEN, ("Succeeded", "", "")),
    ],
)
def test_a_job_on_a_worker_cluster(body: dict[str, Any], state: dict[str, Any], expected: tuple[str, str, str]) -> None:
    """F-057: its GPUs and pods are not those of this cluster; the status that Kueue copies is."""
    assert cut(status_of(body, **HERE, **state)) == expected


def test_a_job_set_counts_the_pods_of_its_jobs() -> None:
    """F-057: its own status counts Jobs, which is all there is of one that runs on a worker cluster."""
    replicated = [{"name": "node", "template": {"spec": {"parallelism": 4}}}, {"name": "rest", "replicas": 2}]
    status = {"replicatedJobsStatus": [{"name": "node", "active": 1, "ready": 1}, {"name": "rest", "active": 2}]}
    body = {**job(), "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "status": status}
    workers = status_of({**body, "spec": {"replicatedJobs": replicated}}).workers
    assert (workers.wanted, workers.running, workers.pending) == (6, 4, 2)


OTHERS = [
    ("jobset.x-k8s.io/v1alpha2", "JobSet", {"conditions": [condition("Completed")], "restarts": 2}, "Succeeded"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", {"conditions": [condition("Failed")]}, "Failed"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobsStatus": [{"active": 2, "ready": 2}]}, "Running"),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob", {"conditions": [condition("Complete")]}, "Succeeded"),
    ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Complete", "jobStatus": "FAILED"}, "Failed"),
    ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, "Running"),
    ("ray.io/v1", "RayJob", {"jobDeploymentStatus": "Something"}, "Unknown"),
    ("workload.codeflare.dev/v1beta2", "AppWrapper", {"phase": "Succeeded"}, "Succeeded"),
    ("batch.volcano.sh/v1alpha1", "Job", {"state": {"phase": "Terminated"}}, "Terminated"),
]


@pytest.mark.parametrize(("api_version", "kind", "status", "phase"), OTHERS)
def test_other_kinds(api_version: str, kind: str, status: dict[str, Any], phase: str) -> None:
    """F-057: every kind that ends has a reader."""
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "j", "namespace": "a"}, "status": status}
    assert status_of(body).phase.value == phase


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["True", "Complete", "Failed", "2", "", "Pending"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "conditions",
                    "type",
                    "status",
                    "active",
                    "ready",
                    "phase",
                    "state",
                    "replicaStatuses",
                    "Worker",
                    "spec",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.sampled_from([row.id for row in BUILT_IN.values() if row.life.progress or row.life.serving]), JSON, JSON)
def test_a_malformed_status_never_fails(kind: tuple[str, str], status: Any, spec: Any) -> None:
    body = {
        "apiVersion": f"{kind[0]}/v1",
        "kind": kind[1],
        "metadata": {"name": "j", "namespace": "a", "uid": "u"},
        "spec": spec,
        "status": status,
    }
    assert status_of(body).phase in Phase
