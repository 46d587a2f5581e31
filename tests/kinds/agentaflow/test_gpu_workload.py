"""A GPUWorkload becomes a Job: its GPUs, nodes, queue and priority; what cannot be followed is reported."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from reconciler import resources
from reconciler.kinds.agentaflow.wishes import placement_wish
from reconciler.kinds.facts import KindId
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary.summarize import ESTIMATE, summarize
from reconciler.kube.yaml import read
from reconciler.repo.config import Backend, PlacementSettings, PriorityClass
from reconciler.sizing.devices import Vendor
from reconciler.sizing.inventory import Inventory, Node
from tests.cluster.judges import Judge
from tests.kinds.kaiwo.kaiwo_cases import NO_PLACEMENT, documents, invalid, rendered
from tests.kinds.walking import Path, Result, with_value
from tests.seeds import AGENTAFLOW

SEED = AGENTAFLOW["my-workload.yaml"]
PYTORCH = AGENTAFLOW["examples/k8s/pytorch-training-workload.yaml"]
A100, H100, L40S = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-L40S"
(EVIDENCE,) = documents("apiVersion: v1\nkind: A\nmetadata: {name: a}\n", "evidence/main/nodes.yaml")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def fleet(*nodes: Node) -> Inventory:
    return Inventory(cluster="main", taken_at="2026-01-01T00:00:00Z", nodes=nodes, document=EVIDENCE)


def node(name: str, product: str, memory: int, gpus: int = 8, **more: Any) -> Node:
    labels = {"nvidia.com/gpu.product": product, **more.pop("labels", {})}
    return Node(name=name, product=product, gpus=gpus, memory_mib=memory, labels=labels, **more)


THREE = fleet(node("a", A100, 81920), node("b", H100, 81559), node("c", L40S, 46068))
TABLE = (PriorityClass(0, 3, "low"), PriorityClass(4, 6, "normal"), PriorityClass(7, 10, "high"))


def workload(spec: Mapping[str, Any] | None = None, **gpus: Any) -> str:
    pod = {"spec": {"containers": [{"name": "train", "image": "train:1"}]}}
    body = {"gpuMemoryRequired": 8192, "podTemplate": pod, **(spec or {})}
    if gpus:
        body["gpuRequirements"] = gpus
    return json.dumps(
        {"apiVersion": "agentaflow.io/v1", "kind": "GPUWorkload", "metadata": {"name": "x"}, "spec": body}
    )


def render(
    text: str,
    inventory: Inventory | None = THREE,
    *,
    backend: Backend | str = Backend.KUEUE,
    placement: PlacementSettings = NO_PLACEMENT,
    queues: Mapping[tuple[KindId, str], tuple[str, ...]] | None = None,
    vendor: Vendor = Vendor.NVIDIA,
    external: tuple[str, ...] = (),
) -> Result:
    names = {(LOCAL_QUEUE, "default"): ("team",)} if queues is None else queues
    definitions = {(kind, space, name): object() for (kind, space), found in names.items() for name in found}
    return rendered(text, backend, inventory, vendor, placement, external=external, definitions=definitions)


def pod(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = result.one("Job")["spec"]["template"]["spec"]
    return found


def required(result: Result) -> list[dict[str, Any]]:
    (term,) = pod(result)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    found: list[dict[str, Any]] = term["matchExpressions"]
    return found


def test_the_workload_of_the_readme(judged: Judge) -> None:
    """AF-01, F-025, agentaflow defect 8, agentaflow defect 13: one GPU on its container, and enough memory."""
    result = render(SEED, queues={(LOCAL_QUEUE, "agentaflow"): ("main",)})
    assert result.problems == ()
    job = result.one("Job")
    assert job["metadata"]["namespace"] == "agentaflow"
    assert job["metadata"]["name"] == "my-training-job"
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "main"}
    assert job["metadata"]["annotations"] == {
        "agentaflow.gpu/scheduling-strategy": "least_utilized",
        "agentaflow.gpu/priority": "5",
        "agentaflow.gpu/gpu-memory": "8192",
    }
    (container,) = pod(result)["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    assert required(result) == [{"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["8191"]}]
    judged(result.manifests)


def test_the_example_of_the_project(judged: Judge) -> None:
    """AF-02, agentaflow defect 5, agentaflow defect 12: what its pods say is kept, and its preferences are rendered."""
    result = render(PYTORCH, queues={(LOCAL_QUEUE, "agentaflow"): ("main",)})
    assert [problem.rule for problem in result.problems] == [
        "agentaflow.visible-devices",
        "agentaflow.node-label",
        "agentaflow.node-label",
    ]
    assert ":33:11:" in result.lines("visible-devices")[0]
    (preferred,) = pod(result)["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred == {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": "nvidia.com/gpu.product", "operator": "In", "values": [A100]}]},
    }
    assert required(result)[0]["values"] == ["16383"]
    template = result.one("Job")["spec"]["template"]
    assert template["metadata"]["labels"] == {"app": "pytorch-training", "workload": "training-job"}
    assert template["spec"]["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert template["spec"]["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert [volume["name"] for volume in template["spec"]["volumes"]] == ["training-data", "model-output", "workspace"]
    container = template["spec"]["containers"][0]
    assert {one["name"] for one in container["env"]} == {"CUDA_VISIBLE_DEVICES", "NCCL_DEBUG"}
    assert container["resources"]["limits"] == {"memory": "16Gi", "cpu": "8", "nvidia.com/gpu": "1"}
    assert result.one("Job")["metadata"]["annotations"][ESTIMATE] == "4h"
    row = summarize(BUILT_IN, cluster="main", body=result.one("Job"), path="", digest="")
    assert (row.hours, placement_wish(result.one("Job")).duration_seconds) == (4.0, 4 * 3600)
    judged(result.manifests)


def test_more_gpus_than_a_node_has(judged: Judge) -> None:
    """AF-08: 12 GPUs are 2 x 6, never 12 on one node; what cannot be spread is refused with the nearest sizes."""
    result = render(workload(gpuCount=12))
    job = result.one("Job")["spec"]
    assert (job["completionMode"], job["completions"], job["parallelism"]) == ("Indexed", 2, 2)
    assert pod(result)["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "6"}
    assert result.rules == ["agentaflow.separate-pods"]
    judged(result.manifests)
    refused = render(workload(gpuCount=17))
    assert refused.errors == ["agentaflow.distribution"]
    assert refused.manifests == ()
    assert "request 16 or 18" in refused.lines()[0]
    assert ":1:" in refused.lines()[0]


def test_nodes_that_nobody_measured() -> None:
    """Unknown is said: two GPUs may fit one node, twelve are refused."""
    assert render(workload(gpuCount=1), None).rules == []
    assert render(workload(gpuCount=2), None).rules == ["agentaflow.node-size-unknown"]
    assert render(workload(gpuCount=12), None).errors == ["agentaflow.node-size-unknown"]


def test_nodes_without_enough_memory_do_not_count() -> None:
    """The GPUs of a workload are spread over nodes whose GPUs have the memory."""
    small = fleet(node("a", A100, 81920, gpus=4), node("b", L40S, 46068))
    assert render(workload({"gpuMemoryRequired": 40000}, gpuCount=8), small).errors == []
    refused = render(workload({"gpuMemoryRequired": 60000}, gpuCount=8), small)
    assert refused.errors == ["agentaflow.distribution"]
    refused = render(workload({"gpuMemoryRequired": 90000}), small)
    assert refused.errors == ["agentaflow.memory"]
    assert "the largest has 81920" in refused.lines()[0]


def test_the_larger_memory_counts() -> None:
    """F-025: minGPUMemory and gpuMemoryRequired are both met."""
    result = render(workload({"gpuMemoryRequired": 8192}, minGPUMemory=50000))
    assert required(result)[0]["values"] == ["49999"]


def test_a_type_that_no_node_has() -> None:
    """AF-09: without such a GPU any other is taken, with a note; a required type is refused, and all are listed."""
    text = workload(preferredGPUType="NVIDIA B200")
    soft = render(text)
    assert (soft.errors, soft.rules) == ([], ["agentaflow.type"])
    assert "preferredDuringSchedulingIgnoredDuringExecution" not in pod(soft)["affinity"]["nodeAffinity"]
    hard = render(text, placement=PlacementSettings(is_type_required=True))
    assert "agentaflow.type" in hard.errors
    assert f"{A100}, {H100}, {L40S}" in hard.lines("type")[0]


def test_a_required_type() -> None:
    """AF-09: with `placement.preferredType: require` the type is a requirement, also for the spread."""
    text = workload(preferredGPUType="NVIDIA A100", gpuCount=8)
    result = render(text, placement=PlacementSettings(is_type_required=True))
    assert required(result)[1] == {"key": "nvidia.com/gpu.product", "operator": "In", "values": [A100]}
    refused = render(
        workload(preferredGPUType="NVIDIA A100", gpuCount=16), placement=PlacementSettings(is_type_required=True)
    )
    assert refused.errors == ["agentaflow.distribution"]


def test_a_shared_gpu(judged: Judge) -> None:
    """AF-10, F-025: the device plugin gives whole GPUs, with a note; KAI a part of one, and no GPU besides."""
    text = workload(exclusiveAccess=False, gpuCount=1)
    whole = render(text)
    assert whole.rules == ["agentaflow.whole-gpu"]
    assert pod(whole)["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "1"}
    shared = render(text, backend="kai", queues={})
    template = shared.one("Job")["spec"]["template"]
    assert template["metadata"]["annotations"] == {"gpu-memory": "8192"}
    assert "resources" not in template["spec"]["containers"][0]
    assert template["spec"]["schedulerName"] == "kai-scheduler"
    judged(shared.manifests)
    several = render(workload(exclusiveAccess=False, gpuCount=2), backend="kai", queues={})
    annotations = several.one("Job")["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"gpu-memory": "8192", "gpu-fraction-num-devices": "2"}


def test_an_unknown_strategy() -> None:
    """AF-15: an error with its place, and the name that was perhaps meant."""
    result = render(
        "apiVersion: agentaflow.io/v1\nkind: GPUWorkload\nmetadata: {name: x}\nspec:\n"
        "  gpuMemoryRequired: 1\n  schedulingStrategy: best-fitt\n"
        '  podTemplate: {spec: {containers: [{name: a, image: "a:1"}]}}\n'
    )
    (line,) = result.lines()
    assert line.startswith("jobs/test.yaml:6:23: spec.schedulingStrategy: 'best-fitt' is not a strategy")
    assert "did you mean best_fit?" in line
    assert result.errors == ["agentaflow.strategy"]


@pytest.mark.parametrize(
    ("backend", "label"), [("kueue", "kueue.x-k8s.io/priority-class"), ("kai", "priorityClassName"), ("none", "")]
)
def test_priorities_are_classes(backend: str, label: str) -> None:
    """F-025, F-029: the class of a priority, as the scheduler of the cluster reads it."""
    placed = PlacementSettings(priorities=TABLE)
    for priority, name in ((0, "low"), (3, "low"), (4, "normal"), (7, "high"), (10, "high")):
        job = render(workload({"priority": priority}), backend=backend, placement=placed).one("Job")
        assert job["metadata"].get("labels", {}).get(label) == (name if label else None)
        assert job["metadata"]["annotations"]["agentaflow.gpu/priority"] == str(priority)
        if backend == "kai":
            assert job["spec"]["template"]["metadata"]["labels"][label] == name


def test_the_queue_of_a_workload() -> None:
    """AF-01: the only queue of the namespace, `default` among several, or the only ClusterQueue with a LocalQueue."""
    label = "kueue.x-k8s.io/queue-name"
    assert render(workload()).one("Job")["metadata"]["labels"][label] == "team"
    some = {(LOCAL_QUEUE, "default"): ("default", "other")}
    assert render(workload(), queues=some).one("Job")["metadata"]["labels"][label] == "default"
    several = render(workload(), queues={(LOCAL_QUEUE, "default"): ("one", "two")})
    assert several.rules == ["agentaflow.queue"]
    brought = render(workload(), queues={(CLUSTER_QUEUE, ""): ("gpus",)})
    assert brought.one("LocalQueue")["spec"] == {"clusterQueue": "gpus"}
    assert brought.one("Job")["metadata"]["labels"][label] == "gpus"


def test_the_queues_that_the_cluster_has() -> None:
    """An external LocalQueue is used, and not rendered."""
    label, only = "kueue.x-k8s.io/queue-name", {(CLUSTER_QUEUE, ""): ("gpus",)}
    for external in ("LocalQueue/default/team", "LocalQueue/team"):
        named = render(workload(), queues=only, external=(external,))
        assert (named.kinds(), named.one("Job")["metadata"]["labels"][label]) == (["Job/x"], "team")
    unnamed = render(workload(), queues=only, external=("LocalQueue",))
    assert (unnamed.kinds(), unnamed.one("Job")["metadata"]["labels"][label]) == (["Job/x"], "gpus")


def test_amd_nodes() -> None:
    """AMD's node labeller has no number in MiB: the products with the memory are listed."""
    nodes = fleet(
        Node(
            name="a",
            product="AMD_Instinct_MI300X_OAM",
            gpus=8,
            memory_mib=183105,
            labels={"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"},
        ),
        Node(
            name="b",
            product="AMD_Instinct_MI210",
            gpus=8,
            memory_mib=61035,
            labels={"amd.com/gpu.product-name": "AMD_Instinct_MI210"},
        ),
    )
    result = render(workload({"gpuMemoryRequired": 100000}), nodes, vendor=Vendor.AMD)
    assert required(result) == [
        {"key": "amd.com/gpu.product-name", "operator": "In", "values": ["AMD_Instinct_MI300X_OAM"]}
    ]
    assert pod(result)["containers"][0]["resources"]["limits"] == {"amd.com/gpu": "1"}


def test_nodes_without_the_label_of_the_memory() -> None:
    """Where no memory was measured, the table of products knows it."""
    nodes = fleet(node("a", A100, 0), node("b", L40S, 0))
    result = render(workload({"gpuMemoryRequired": 60000}), nodes)
    assert required(result) == [{"key": "nvidia.com/gpu.product", "operator": "In", "values": [A100]}]


def test_labels_that_nodes_have_stay() -> None:
    """A label `agentaflow.gpu/…` that a node has is kept in the selector."""
    spec = {
        "podTemplate": {
            "spec": {"nodeSelector": {"agentaflow.gpu/enabled": "true"}, "containers": [{"name": "a", "image": "a:1"}]}
        }
    }
    nodes = fleet(node("a", A100, 81920, labels={"agentaflow.gpu/enabled": "true"}))
    result = render(workload(spec), nodes)
    assert result.rules == []
    assert pod(result)["nodeSelector"] == {"agentaflow.gpu/enabled": "true"}


def test_other_containers_have_no_gpus() -> None:
    """The sidecar gets no GPU; one that requests some contradicts the workload: agentaflow defect 12."""
    main = {"name": "a", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    side = {"name": "b", "image": "b:1"}
    result = render(workload({"podTemplate": {"spec": {"containers": [side, main]}}}))
    assert result.errors == []
    assert "resources" not in pod(result)["containers"][0]
    assert pod(result)["containers"][1]["resources"]["requests"] == {"nvidia.com/gpu": "2"}
    greedy = {**side, "resources": {"limits": {"nvidia.com/gpu": 1}}}
    assert render(workload({"podTemplate": {"spec": {"containers": [main, greedy]}}})).errors == [
        "agentaflow.contradiction"
    ]
    assert render(workload({"podTemplate": {"spec": {"containers": [main]}}}, gpuCount=4)).errors == [
        "agentaflow.contradiction"
    ]


def test_an_affinity_of_its_own_is_kept() -> None:
    """Each alternative of a written affinity requires the memory, too."""
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    affinity = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}}, "podAffinity": {}}
    spec = {"podTemplate": {"spec": {"affinity": affinity, "containers": [{"name": "a", "image": "a:1"}]}}}
    result = render(workload(spec))
    assert required(result)[0] == zone
    assert required(result)[1]["operator"] == "Gt"
    assert pod(result)["affinity"]["podAffinity"] == {}


def test_pods_come_again() -> None:
    """A Job owns the pods, so that evicted ones are created again: agentaflow defect 23."""
    result = render(workload())
    job = result.one("Job")
    assert (job["apiVersion"], job["metadata"]["namespace"]) == ("batch/v1", "default")
    assert pod(result)["restartPolicy"] == "Never"
    assert "backoffLimit" not in job["spec"]
    always = {"podTemplate": {"spec": {"restartPolicy": "Always", "containers": [{"name": "a", "image": "a:1"}]}}}
    assert render(workload(always)).errors == ["agentaflow.restart"]


def test_a_deadline_of_the_pods_is_that_of_the_job() -> None:
    """F-025: estimatedDuration stops nothing; a deadline in the template stops the Job."""
    spec = {
        "estimatedDuration": "1h",
        "podTemplate": {"spec": {"activeDeadlineSeconds": 60, "containers": [{"name": "a", "image": "a:1"}]}},
    }
    assert render(workload(spec)).one("Job")["spec"]["activeDeadlineSeconds"] == 60
    assert "activeDeadlineSeconds" not in render(workload({"estimatedDuration": "1h"})).one("Job")["spec"]


def test_labels_where_they_are_asked_for() -> None:
    """F-101: labels `agentaflow.gpu/…` of pods are rendered with `placement.annotate: true` only."""
    assert "metadata" not in render(workload()).one("Job")["spec"]["template"]
    made = render(workload(), placement=PlacementSettings(annotate=True)).one("Job")["spec"]["template"]["metadata"]
    assert made["labels"] == {"agentaflow.gpu/workload": "x", "agentaflow.gpu/managed": "true"}


# --- every field ---------------------------------------------------------------------------------------------------

BASES: list[dict[str, Any]] = [
    {"gpuMemoryRequired": 8192, "podTemplate": {"spec": {"containers": [{"name": "a", "image": "a:1"}]}}},
]
VALUES: dict[str, Any] = {
    "priority": 7,
    "gpuMemoryRequired": 9000,
    "estimatedDuration": "1h30m",
    "schedulingStrategy": "best_fit",
    "minGPUMemory": 20000,
    "preferredGPUType": "NVIDIA L40S",
    "gpuCount": 3,
    "exclusiveAccess": False,
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "b", "image": "b:1"}]},
}


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(resources.read("schemas/agentaflow.io/v1/gpuworkload.json"))
    return loaded


def leaves(node: Mapping[str, Any], path: Path = ()) -> list[Path]:
    if node.get("properties") and node.get("additionalProperties") is False:
        return [leaf for name, child in node["properties"].items() for leaf in leaves(child, (*path, name))]
    return [path]


FIELDS = leaves(schema()["properties"]["spec"])


@pytest.mark.parametrize("path", FIELDS, ids=lambda path: ".".join(map(str, path)))
def test_the_field_matters(path: Path) -> None:
    """F-025, agentaflow defect 5: each field of the schema changes the Job, or something says why not."""
    (base,) = BASES
    changed = with_value(base, path, VALUES[str(path[-1])])
    assert changed is not None
    before, after = render(workload(base)), render(workload(changed))
    assert after.errors == []
    assert before.one("Job") != after.one("Job") or set(after.rules) - set(before.rules)


def test_the_walk_sees_all_fields() -> None:
    """A new field needs a value here."""
    assert {str(path[-1]) for path in FIELDS} == set(VALUES)
    status = json.loads(workload()) | {"status": {"phase": "Running"}}
    assert render(json.dumps(status)).rules == ["agentaflow.ignored"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("priority", 11), ("gpuMemoryRequired", 0), ("estimatedDuration", "soon"), ("podTemplate", None), ("other", 1)],
)
def test_values_that_the_schema_refuses(field: str, value: Any) -> None:
    """F-025: values out of their range, and unknown fields."""
    assert invalid(workload({field: value}))


def test_names_of_two_namespaces_are_two_jobs() -> None:
    """A namespace is part of the key: agentaflow defect 16."""
    texts = [json.loads(workload()) for _ in range(2)]
    for text, namespace in zip(texts, ("a", "b"), strict=True):
        text["metadata"]["namespace"] = namespace
    result = render("\n---\n".join(map(json.dumps, texts)), queues={})
    assert {str(one.key) for one in result.manifests} == {"Job/a/x", "Job/b/x"}
    assert read("a.yaml", SEED.encode()).problems == ()
