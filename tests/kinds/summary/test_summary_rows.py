"""Rows are read from the body alone: GPUs, products, queues, quotas and references of every kind that runs pods."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kinds.kai import QUEUE
from reconciler.kinds.kueue import LOCAL_QUEUE
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import Demand, ObjectSummary, Quota, summarize
from tests.plan.plan_cases import (
    KAI_QUEUE,
    KUEUE_QUEUE,
    PRODUCT,
    Body,
    claim,
    cluster_queue,
    flavor,
    job,
    kai_queue,
    local_queue,
    plain,
    pod_spec,
)

TEMPLATE = {"spec": pod_spec(8)}
SMALL = {"spec": pod_spec(1)}
NONE = {"spec": pod_spec(None)}


def read(body: Any) -> ObjectSummary:
    return summarize(BUILT_IN, cluster="main", body=body, path="main/ml/x.yaml", digest="d")


def workload(api: str, kind: str, **spec: Any) -> Body:
    return plain(kind, "x", api=api, spec=spec)


def replicas(count: int, template: Body = TEMPLATE) -> Body:
    return {"replicas": count, "template": template}


LEADER_WORKERS = {"size": 3, "leaderTemplate": SMALL, "workerTemplate": TEMPLATE}
RAY = {
    "headGroupSpec": {"template": NONE},
    "workerGroupSpecs": [
        {"replicas": 2, "numOfHosts": 2, "template": TEMPLATE},
        {"replicas": 0, "minReplicas": 1, "template": SMALL},
        {"template": TEMPLATE},
    ],
}
KINDS: dict[str, tuple[Body, int, int, int]] = {
    "job": (workload("batch/v1", "Job", parallelism=4, completions=4, template=TEMPLATE), 32, 4, 8),
    "job of one pod": (workload("batch/v1", "Job", template=TEMPLATE), 8, 1, 8),
    "job with fewer completions": (
        workload("batch/v1", "Job", parallelism=4, completions=1, template=TEMPLATE),
        8,
        1,
        8,
    ),
    "job of no pods": (workload("batch/v1", "Job", parallelism=0, template=TEMPLATE), 0, 0, 8),
    "cron job": (workload("batch/v1", "CronJob", jobTemplate={"spec": replicas(0) | {"parallelism": 2}}), 16, 2, 8),
    "pod": (plain("Pod", "x", spec=pod_spec(4)), 4, 1, 4),
    "deployment": (workload("apps/v1", "Deployment", **replicas(3)), 24, 3, 8),
    "deployment of one": (workload("apps/v1", "Deployment", template=TEMPLATE), 8, 1, 8),
    "stateful set": (workload("apps/v1", "StatefulSet", **replicas(2)), 16, 2, 8),
    "daemon set": (workload("apps/v1", "DaemonSet", template=TEMPLATE), 0, 0, 8),
    "job set": (
        workload(
            "jobset.x-k8s.io/v1alpha2",
            "JobSet",
            replicatedJobs=[
                {"name": "workers", "replicas": 3, "template": {"spec": {"parallelism": 2, "template": TEMPLATE}}},
                {"name": "driver", "template": {"spec": {"template": NONE}}},
            ],
        ),
        48,
        7,
        8,
    ),
    "pytorch job": (
        workload("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs={"Master": replicas(1), "Worker": replicas(3)}),
        32,
        4,
        8,
    ),
    "mpi job": (
        workload(
            "kubeflow.org/v2beta1", "MPIJob", mpiReplicaSpecs={"Launcher": replicas(1, NONE), "Worker": replicas(2)}
        ),
        16,
        3,
        8,
    ),
    "train job": (
        workload(
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            trainer={"numNodes": 4, "resourcesPerNode": {"limits": {"nvidia.com/gpu": 8}}},
        ),
        32,
        4,
        8,
    ),
    "ray cluster": (workload("ray.io/v1", "RayCluster", **RAY), 33, 6, 8),
    "ray job": (workload("ray.io/v1", "RayJob", rayClusterSpec=RAY), 33, 6, 8),
    "ray service": (workload("ray.io/v1", "RayService", rayClusterConfig=RAY), 33, 6, 8),
    "leader worker set": (
        workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", replicas=2, leaderWorkerTemplate=LEADER_WORKERS),
        34,
        6,
        8,
    ),
    "app wrapper": (
        workload(
            "workload.codeflare.dev/v1beta2",
            "AppWrapper",
            components=[
                {"template": workload("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs={"Worker": replicas(2)})},
                {"template": plain("Pod", "p", spec=pod_spec(1))},
                {"template": claim("data")},
            ],
        ),
        17,
        3,
        8,
    ),
    "volcano job": (workload("batch.volcano.sh/v1alpha1", "Job", tasks=[replicas(2)]), 16, 2, 8),
    "kind with a pod template": (workload("argoproj.io/v1alpha1", "Rollout", **replicas(5)), 40, 5, 8),
}


@pytest.mark.parametrize(("body", "gpus", "pods", "each"), KINDS.values(), ids=KINDS)
def test_gpus_of_every_kind(body: Body, gpus: int, pods: int, each: int) -> None:
    found = read(body)
    assert (found.gpus, found.pods, found.gpus_per_pod) == (gpus, pods, each)
    assert found.is_workload
    assert sum(demand.gpus for demand in found.demands) == gpus


def container(name: str, gpus: int, **rest: Any) -> Body:
    return {"name": name, "resources": {"limits": {"nvidia.com/gpu": gpus}}, **rest}


@pytest.mark.parametrize(
    ("containers", "inits", "expected"),
    [
        ([container("a", 2), container("b", 3)], [], 5),
        ([container("a", 2)], [container("i", 4)], 4),
        ([container("a", 2)], [container("i", 1), container("j", 1)], 2),
        ([container("a", 2)], [container("side", 1, restartPolicy="Always")], 3),
        ([container("a", 1)], [container("side", 1, restartPolicy="Always"), container("i", 4)], 5),
    ],
)
def test_init_containers_count_by_the_rule_of_the_scheduler(containers: Any, inits: Any, expected: int) -> None:
    assert read(plain("Pod", "x", spec={"containers": containers, "initContainers": inits})).gpus == expected


@pytest.mark.parametrize(
    ("amount", "gpus"),
    [
        (8, 8),
        ("8", 8),
        ("1k", 1000),
        ("2Ki", 2048),
        (-1, 0),
        ("-4", 0),
        (True, 0),
        (None, 0),
        ("x", 0),
        ([], 0),
        (1.5, 0),
        ("9" * 40, 1_000_000),
        (f"{8:040}", 8),
    ],
)
def test_amounts_of_devices(amount: Any, gpus: int) -> None:
    assert read(job(pods=1, gpus=amount)).gpus == gpus


def test_requests_count_where_no_limit_is_given() -> None:
    spec = {"containers": [{"name": "a", "resources": {"requests": {"amd.com/gpu": 4}}}]}
    found = read(plain("Pod", "x", spec=spec))
    assert (found.gpus, found.vendor) == (4, "amd.com/gpu")


def test_slices_are_devices_of_their_own() -> None:
    """F-035: resource keys of both vendors; a MIG slice never adds up with whole GPUs of a product."""
    spec = pod_spec(None, product="A100")
    spec["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] = 2
    found = read(plain("Pod", "x", spec=spec))
    assert found.demands == (Demand("nvidia.com/mig-1g.10gb", "nvidia.com/mig-1g.10gb", 2, 1),)


@pytest.mark.parametrize(
    ("annotations", "gpus"),
    [
        ({"gpu-fraction": "0.5"}, 5),
        ({"gpu-fraction": "0.05"}, 0.5),
        ({"gpu-fraction": "0.1"}, 1),
        ({"gpu-fraction": "0.333", "gpu-fraction-num-devices": "2"}, 6.6),
        ({"gpu-memory": "2000"}, 10),
        ({"gpu-memory": "2000", "gpu-fraction-num-devices": "2"}, 20),
    ],
)
def test_a_share_of_a_gpu_counts_as_kai_counts_it(annotations: dict[str, str], gpus: float) -> None:
    """KAI 0.12 rounds a share to hundredths; of how much memory is, only nodes tell, so that it counts as a device."""
    body = job(pods=10, gpus=None)
    body["spec"]["template"]["metadata"] = {"annotations": annotations}
    found = read(body)
    assert (found.gpus, found.uncounted) == (gpus, ())
    assert type(found.gpus) is type(gpus)


@pytest.mark.parametrize(
    ("annotations", "gpus", "refused"),
    [
        ({"gpu-fraction": "0.5"}, 1, "gpu-fraction beside nvidia.com/gpu"),
        ({"gpu-memory": "2000"}, 1, "gpu-memory beside nvidia.com/gpu"),
        ({"gpu-fraction": "0.5", "gpu-memory": "2000"}, None, "gpu-fraction beside gpu-memory"),
        ({"gpu-fraction-num-devices": "2"}, None, "gpu-fraction-num-devices without gpu-fraction or gpu-memory"),
        ({"gpu-fraction": "1.5"}, None, "gpu-fraction: 1.5, which is not between 0 and 1"),
        ({"gpu-fraction": "x"}, None, "gpu-fraction: x, which is not between 0 and 1"),
        ({"gpu-memory": "2Gi"}, None, "gpu-memory: 2Gi, which is no positive integer"),
        (
            {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "0"},
            None,
            "gpu-fraction-num-devices: 0, which is no positive integer",
        ),
    ],
)
def test_what_kai_refuses_is_named(annotations: dict[str, str], gpus: int | None, refused: str) -> None:
    body = job(gpus=gpus)
    body["spec"]["template"]["metadata"] = {"annotations": annotations}
    (one,) = read(body).uncounted
    assert (one.field, one.what) == ("spec.template.metadata.annotations", f"what KAI refuses: {refused}")


def affinity(*terms: list[str]) -> Body:
    expressions = [{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": values}]} for values in terms]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": expressions}}
    return {"affinity": {"nodeAffinity": required}}


@pytest.mark.parametrize(
    ("spec", "product"),
    [
        ({"nodeSelector": {PRODUCT: "H100"}}, "H100"),
        ({"nodeSelector": {"amd.com/gpu.product-name": "MI300X"}}, "MI300X"),
        ({"nodeSelector": {"gpu.nvidia.com/class": "A100_PCIE_80GB"}}, "A100_PCIE_80GB"),
        ({"nodeSelector": {"zone": "a"}}, ""),
        (affinity(["H100"]), "H100"),
        (affinity(["H100"], ["H100"]), "H100"),
        (affinity(["H100", "A100"]), ""),
        (affinity(["H100"], ["A100"]), ""),
        ({"nodeSelector": "H100", "affinity": [1]}, ""),
    ],
)
def test_the_one_product_that_pods_select(spec: Body, product: str) -> None:
    assert read(job(**spec)).product == product


def test_several_products_stay_apart() -> None:
    specs = {
        "Master": replicas(1, {"spec": pod_spec(8, product="A100")}),
        "Worker": replicas(2, {"spec": pod_spec(8, product="H100")}),
    }
    found = read(workload("kubeflow.org/v1", "PyTorchJob", pytorchReplicaSpecs=specs))
    assert found.product == ""
    assert {(demand.product, demand.gpus) for demand in found.demands} == {("A100", 8), ("H100", 16)}


def test_queue_of_the_object_wins_over_that_of_its_pods() -> None:
    body = job(queue="outer", label=KUEUE_QUEUE)
    body["spec"]["template"]["metadata"] = {"labels": {KAI_QUEUE: "inner"}}
    found = read(body)
    assert (found.queue, found.queue_kind) == ("outer", LOCAL_QUEUE)
    del body["metadata"]["labels"]
    found = read(body)
    assert (found.queue, found.queue_kind) == ("inner", QUEUE)
    assert found.references[0].field == 'spec.template.metadata.labels["kai.scheduler/queue"]'


def cron_job(where: str, label: str = KUEUE_QUEUE, *, suspend: bool = False) -> Body:
    template: Body = {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": pod_spec(8)}}}
    body = workload("batch/v1", "CronJob", suspend=suspend, jobTemplate=template)
    places = {"object": body, "jobs": template, "pods": template["spec"]["template"]}
    places[where]["metadata"]["labels"] = {label: "q"}
    return body


@pytest.mark.parametrize(
    ("where", "label", "queue"),
    [
        ("jobs", KUEUE_QUEUE, "q"),
        ("object", KUEUE_QUEUE, ""),
        ("object", KAI_QUEUE, "q"),
        ("jobs", KAI_QUEUE, ""),
        ("pods", KAI_QUEUE, "q"),
    ],
)
def test_kueue_reads_the_label_of_each_job_that_a_cron_job_creates(where: str, label: str, queue: str) -> None:
    found = read(cron_job(where, label))
    assert (found.queue, found.gpus) == (queue, 8)
    prefix = {"jobs": "spec.jobTemplate.", "pods": "spec.jobTemplate.spec.template."}.get(where, "")
    assert [one.field for one in found.references] == ([f'{prefix}metadata.labels["{label}"]'] if queue else [])


def test_a_suspended_cron_job_creates_no_jobs_in_any_queue() -> None:
    assert read(cron_job("jobs", suspend=True)).suspended
    assert not read(cron_job("jobs")).suspended


def test_the_older_queue_label_counts() -> None:
    assert read(job(queue="old", label="runai/queue")).queue == "old"


def test_what_kueue_queues_is_not_suspended() -> None:
    """Kueue keeps `suspend: true` while a workload waits; outside its queues the same field is a person's wish."""
    assert not read(job(label=KUEUE_QUEUE, suspend=True)).suspended
    assert read(job(label=KAI_QUEUE, suspend=True)).suspended
    assert read(job(label=KUEUE_QUEUE, pods=0)).suspended, "it gets no pods when Kueue admits it"
    kubeflow = workload("kubeflow.org/v1", "PyTorchJob", runPolicy={"suspend": True}, pytorchReplicaSpecs={})
    assert read(kubeflow).suspended


def test_quotas_of_queues() -> None:
    """F-039: a KAI queue keeps -1 as unlimited; Kueue's quotas are by flavor and borrow only inside a cohort."""
    assert read(kai_queue("a", 8, limit=-1, parent="root")).quotas == (Quota("", 8.0, None),)
    assert read(kai_queue("a", 8, parent="root")).parent == "root"
    assert read(kai_queue("a", -1, limit=0.5)).quotas == (Quota("", None, 0.5),)
    assert read(plain("Queue", "a", api="scheduling.run.ai/v2", spec={})).quotas == (Quota("", 0.0, 0.0),)
    gpu = "nvidia.com/gpu"
    both = (Quota("h100", 16, 16, gpu), Quota("a100", 8, 8, gpu))
    assert read(cluster_queue("c", {"h100": 16, "a100": "8"})).quotas == both
    assert read(cluster_queue("c", {"h100": 16}, cohort="all")).quotas == (Quota("h100", 16, None, gpu),)
    borrowing = read(cluster_queue("c", {"h100": 16}, cohort="all", borrowing=4))
    assert (borrowing.quotas, borrowing.parent) == ((Quota("h100", 16, 20, gpu),), "all")
    assert read(flavor("h100", "H100")).product == "H100"
    assert read(local_queue("l", "c")).parent == "c"
    hard = plain("ResourceQuota", "q", spec={"hard": {"requests.nvidia.com/gpu": "4", "pods": 3}})
    assert read(hard).quotas == (Quota("", 0.0, 4.0),)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), "8", True, None])
def test_odd_numbers_of_quotas_count_nothing(number: Any) -> None:
    assert read(kai_queue("a", number)).quotas[0].guaranteed in (0.0, None)


@pytest.mark.parametrize("number", [10**15, 10**17, 1e20, 1e300, 10**400])
def test_huge_quotas_count_as_the_largest_number_and_never_as_nothing(number: Any) -> None:
    largest = 1e15
    assert read(kai_queue("a", number, limit=number)).quotas == (Quota("", largest, largest),)
    assert read(cluster_queue("c", {"h100": number})).quotas[0].guaranteed == largest


def test_references_of_pods_name_their_field() -> None:
    spec = pod_spec(
        1,
        serviceAccountName="trainer",
        priorityClassName="high",
        imagePullSecrets=[{"name": "pull"}],
        volumes=[
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "b", "configMap": {"name": "settings"}},
            {"name": "c", "secret": {"secretName": "maybe", "optional": True}},
            {"name": "d", "projected": {"sources": [{"secret": {"name": "inner"}}]}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
        ],
    )
    spec["containers"][0]["env"] = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}]
    spec["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}, {"secretRef": {"name": "more"}}]
    found = {(one.kind, one.namespace, one.name): one.field for one in read(plain("Pod", "x", spec=spec)).references}
    assert found == {
        ("ServiceAccount", "ml", "trainer"): "spec.serviceAccountName",
        ("PriorityClass", "", "high"): "spec.priorityClassName",
        ("Secret", "ml", "pull"): "spec.imagePullSecrets[0].name",
        ("PersistentVolumeClaim", "ml", "data"): "spec.volumes[0].persistentVolumeClaim.claimName",
        ("ConfigMap", "ml", "settings"): "spec.volumes[1].configMap.name",
        ("Secret", "ml", "inner"): "spec.volumes[3].projected.sources[0].secret.name",
        ("StorageClass", "", "fast"): "spec.volumes[4].ephemeral.volumeClaimTemplate.spec.storageClassName",
        ("Secret", "ml", "token"): "spec.containers[0].env[0].valueFrom.secretKeyRef.name",
        ("Secret", "ml", "more"): "spec.containers[0].envFrom[1].secretRef.name",
    }


def test_what_a_wrapper_brings_itself_is_no_reference() -> None:
    inner = plain("Pod", "p", spec=pod_spec(1, volumes=[{"persistentVolumeClaim": {"claimName": "data"}}]))
    components = [{"template": inner}, {"template": claim("data")}]
    wrapper = workload("workload.codeflare.dev/v1beta2", "AppWrapper", components=components, suspend=True)
    found = read(wrapper)
    assert found.references == ()
    assert found.suspended


def test_a_wrapper_of_wrappers_ends() -> None:
    body: Body = plain("Pod", "p", spec=pod_spec(1))
    for _ in range(60):
        body = workload("workload.codeflare.dev/v1beta2", "AppWrapper", components=[{"template": body}])
    assert read(body).gpus == 0


KEYS = sorted(
    {
        *(
            "apiVersion",
            "kind",
            "metadata",
            "labels",
            "annotations",
            "name",
            "namespace",
            "spec",
            "template",
            "suspend",
        ),
        *("containers", "initContainers", "resources", "limits", "requests", "nvidia.com/gpu", "volumes", "configMap"),
        *("parallelism", "completions", "replicas", "replicatedJobs", "pytorchReplicaSpecs", "workerGroupSpecs", "env"),
        *("headGroupSpec", "components", "leaderWorkerTemplate", "size", "trainer", "numNodes", "resourcesPerNode"),
        *(
            "nodeSelector",
            "affinity",
            "gpu",
            "quota",
            "limit",
            "resourceGroups",
            "flavors",
            "nominalQuota",
            "runPolicy",
        ),
        *(
            "jobTemplate",
            "rayClusterSpec",
            "valueFrom",
            "envFrom",
            "projected",
            "sources",
            "ephemeral",
            PRODUCT,
            KUEUE_QUEUE,
        ),
    }
)
API_KINDS = sorted({(body["apiVersion"], body["kind"]) for body, *_ in KINDS.values()})
CAPACITY = [
    ("scheduling.run.ai/v2", "Queue"),
    ("kueue.x-k8s.io/v1beta2", "ClusterQueue"),
    ("kueue.x-k8s.io/v1beta2", "Cohort"),
    ("kueue.x-k8s.io/v1beta2", "ResourceFlavor"),
    ("v1", "ResourceQuota"),
]
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["8", "1e999", "-1", "9" * 40, "1Gi", "", "x/y"]),
)
trees = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)


@given(st.sampled_from(API_KINDS + CAPACITY), trees, trees)
def test_no_body_makes_it_fail(identity: tuple[str, str], spec: Any, metadata: Any) -> None:
    body = {"apiVersion": identity[0], "kind": identity[1], "metadata": metadata, "spec": spec}
    found = read(body)
    assert msgspec.json.decode(msgspec.json.encode(found), type=ObjectSummary) == found
    assert 0 <= found.gpus < 2**63


@given(trees)
def test_not_even_one_without_an_identity(tree: Any) -> None:
    body = tree if isinstance(tree, dict) else {"spec": tree}
    assert read(body).cluster == "main"
