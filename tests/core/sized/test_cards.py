"""A job is sized for what its pods can get, and told where names and evidence disagree."""

from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from reconciler.core.config import SizingSettings
from reconciler.core.evidence.inventory import Inventory, Node, Taint
from reconciler.core.kinds.registry import BUILT_IN
from reconciler.core.sized.cards import Offered
from reconciler.core.sized.job import SizedJob, SizingContext, size_job
from reconciler.core.sizing.answers import NO_ANSWERS
from tests.core.sized.sized_cases import document, no_files
from tests.core.sizing.tables import TABLES

A10, A100, H200, L40S = "NVIDIA-A10", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H200", "NVIDIA-L40S"
_MEMORY = {A10: 23028, A100: 81920, H200: 143771, L40S: 46068}
_LINE = (
    "accelerate launch --num_processes 1 -m tuning.sft_trainer --model_name_or_path meta-llama/Llama-3.1-8B "
    "--peft_method lora --gradient_checkpointing true --max_seq_length 1024 --per_device_train_batch_size 8"
)


def node(product: str, *taints: Taint, **labels: str) -> Node:
    name = f"{product}-{len(taints)}-{'-'.join(labels.values())}"
    found = {"nvidia.com/gpu.product": product, **{key.replace("_", "/"): value for key, value in labels.items()}}
    return Node(
        name=name, labels=found, product=product, gpus=8, memory_mib=_MEMORY[product], taints=taints, allocatable_gpus=8
    )


def job(*, variable: str = "", resource: str = "nvidia.com/gpu", worker: str = "", **pod: Any) -> str:
    container: dict[str, Any] = {"name": "pytorch", "image": "i", "command": ["bash", "-c"], "args": [_LINE]}
    container["env"] = [{"name": "AUTOCONF_GPU_MODEL", "value": variable}] if variable else []
    container["resources"] = {"limits": {resource: 1}, "requests": {resource: 1}}
    master = {"replicas": 1, "template": {"spec": {"containers": [container], **pod}}}
    specs = {"Master": master}
    if worker:
        selector = {"nodeSelector": {"nvidia.com/gpu.product": worker}}
        specs["Worker"] = {"replicas": 1, "template": {"spec": {"containers": [container], **selector}}}
    labels = {"autoconf-plugin-name": "resource-requirements-appwrapper"}
    metadata = {"name": "tune", "namespace": "team", "labels": labels}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": metadata}
    return yaml.safe_dump({**body, "spec": {"pytorchReplicaSpecs": specs}}, sort_keys=False)


def selecting(product: str) -> dict[str, Any]:
    return {"nodeSelector": {"nvidia.com/gpu.product": product}}


def requiring(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def size(text: str, *nodes: Node, default: str = "", queue: tuple[str, ...] = ()) -> SizedJob:
    inventory = Inventory(cluster="main", taken_at="2026-01-31T12:00:00Z", nodes=nodes)
    gpus = TABLES.gpus.offered(inventory)
    if queue:
        gpus = tuple(gpu for name in queue if (gpu := TABLES.gpus.find(name)) is not None)
    context = SizingContext(
        settings=SizingSettings(default_gpu_model=default),
        kinds=BUILT_IN,
        tables=TABLES,
        answers=NO_ANSWERS,
        offered=Offered(gpus=gpus, by_queue=bool(queue), nodes=inventory.gpu_shapes),
        file=no_files,
    )
    found = size_job(document(text), context)
    assert found is not None
    return found


def told(found: SizedJob) -> list[str]:
    return [f"{problem.field}: {problem.message}" for problem in found.problems if problem.rule == "sizing.gpu"]


def product_of(found: SizedJob) -> str:
    assert found.decision is not None, found.problems
    assert found.decision.chosen is not None, found.decision.text
    return found.decision.chosen.gpu.product


def selector(found: SizedJob) -> Any:
    assert found.sized is not None
    spec = found.sized.data["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    return spec.get("nodeSelector", {}).get("nvidia.com/gpu.product")


_SPEC = "spec.pytorchReplicaSpecs.Master.template.spec"


def test_a_variable_that_the_selector_contradicts() -> None:
    """F-005: an 8B model was sized for an H200 while its pods could only run on an A10."""
    found = size(job(variable=H200, **selecting(A10)), node(A10), node(H200))
    where = f"{_SPEC}.containers[0].env[0]"
    selects = f"{_SPEC}.nodeSelector"
    assert found.sized is None
    assert [text.split(":")[0] for text in told(found)] == [where]
    assert f"AUTOCONF_GPU_MODEL is {H200}, but the pods can only get {A10}" in told(found)[0]
    assert selects in told(found)[0]
    assert found.problems[0].place.line > 1
    assert "correct AUTOCONF_GPU_MODEL" in found.problems[0].hint


@pytest.mark.parametrize(
    ("pod", "default", "message"),
    [
        (selecting(L40S), "", f"selects {L40S}, but the nodes of the evidence have {A10}, {H200}"),
        ({}, A100, f"spec.sizing.defaultGpuModel is {A100}, but the pods can only get {A10}, {H200}"),
        (
            requiring({"key": "nvidia.com/gpu.product", "operator": "NotIn", "values": [H200, L40S]}),
            H200,
            f"spec.sizing.defaultGpuModel is {H200}, but the pods can only get {A10}",
        ),
        (
            requiring({"key": "nvidia.com/gpu.product", "operator": "In", "values": [A100, L40S]}),
            "",
            "nodeSelectorTerms excludes its nodes",
        ),
        ({"nodeSelector": {"zone": "b"}}, "", f"the pods can get no GPU of the evidence ({A10}, {H200})"),
    ],
)
def test_what_no_node_has_is_an_error(pod: dict[str, Any], default: str, message: str) -> None:
    """F-005: selectors, affinity and settings must agree with the evidence."""
    found = size(job(**pod), node(A10, zone="a"), node(H200, zone="a"), default=default)
    assert found.sized is None
    assert len(told(found)) == 1
    assert message in told(found)[0]
    assert found.problems[0].hint


def test_pods_of_one_job_select_one_product() -> None:
    found = size(job(worker=H200, **selecting(A10)), node(A10), node(H200))
    assert f"selects {H200}, but {_SPEC}.nodeSelector" in told(found)[0]
    assert told(found)[0].endswith(f"selects {A10}")


def test_a_taint_that_the_pods_do_not_tolerate() -> None:
    """F-005: what only a taint keeps away is not offered either; a GPU's own taint may be tolerated on admission."""
    taint = Taint(key="team", value="vision", effect="NoSchedule")
    own = Taint(key="nvidia.com/gpu", value="present", effect="NoSchedule")
    assert product_of(size(job(), node(H200, taint), node(A100, own))) == A100
    found = size(job(), node(H200, taint))
    assert told(found) == [f"{_SPEC}: the pods can get no GPU of the evidence ({H200}): {_SPEC} excludes its nodes"]
    tolerating = job(tolerations=[{"key": "team", "operator": "Exists"}])
    assert product_of(size(tolerating, node(H200, taint))) == H200
    assert product_of(size(job(), node(H200, taint), queue=(H200,))) == H200, "the queue's flavor may add tolerations"


def test_the_products_of_the_queue_count() -> None:
    found = size(job(**selecting(A10)), node(A10), node(A100), queue=(A100,))
    assert f"selects {A10}, but the queue offers {A100}" in told(found)[0]
    assert product_of(size(job(), node(A10), node(A100), queue=(A100,))) == A100


@pytest.mark.parametrize(
    ("operator", "values", "product"),
    [("Gt", ["40"], H200), ("Lt", ["40"], A100), ("In", ["80"], H200), ("DoesNotExist", [], L40S)],
)
def test_affinity_by_other_labels(operator: str, values: list[str], product: str) -> None:
    """F-005: conditions on any label of the evidence decide which products are offered."""
    expression = {"key": "example.com/size", "operator": operator, "values": values}
    nodes = [node(H200, **{"example.com_size": "80"}), node(A100, **{"example.com_size": "30"}), node(L40S)]
    assert product_of(size(job(**requiring(expression)), *nodes)) == product


def test_labels_that_the_evidence_does_not_keep_are_not_judged() -> None:
    assert product_of(size(job(nodeSelector={"example.com/rack": "7"}), node(A100))) == A100


def test_a_slice_of_a_gpu_is_not_a_whole_one() -> None:
    """F-005: a job that asks for a MIG slice was sized for the whole GPU."""
    found = size(job(resource="nvidia.com/mig-3g.40gb"), node(A100))
    assert "requests nvidia.com/mig-3g.40gb, a slice of a GPU, but jobs are sized for whole GPUs" in told(found)[0]


@pytest.mark.parametrize(("variable", "default"), [(A100, ""), ("A100-80GB", ""), ("", A100)])
def test_pods_are_bound_where_they_could_get_something_else(variable: str, default: str) -> None:
    """F-005: a job sized for one product must not land on another that its pods may get, too."""
    found = size(job(variable=variable), node(A100), node(A10), default=default)
    assert (product_of(found), selector(found)) == (A100, A100)
    alone = size(job(variable=variable), node(A100), default=default)
    assert (product_of(alone), selector(alone)) == (A100, None)


def test_a_short_name_means_what_the_cluster_has() -> None:
    """F-005: `A100-80GB` is SXM or PCIe; the nodes say which."""
    found = size(job(variable="A100-80GB"), node(A100))
    assert product_of(found) == A100
    both = TABLES.gpus.find("A100-80GB")
    assert both is not None
    assert TABLES.gpus.agree(A100, "A100-80GB")
    assert not TABLES.gpus.agree(A100, "NVIDIA-A100-80GB-PCIe")
    assert not TABLES.gpus.agree(replace(both, product="toaster").product, A100)
