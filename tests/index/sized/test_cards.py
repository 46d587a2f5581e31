"""A job is sized for what its pods can get, and told where names and evidence disagree."""

from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from reconciler.index.sized.cards import Offered
from reconciler.index.sized.job import SizedJob, SizingContext, size_job
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.yaml import write
from reconciler.sizing.answers import NO_ANSWERS
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.inventory import Inventory, Node, Taint
from reconciler.sizing.training_jobs import binds_all_pods, named_product
from tests.index.sized.sized_cases import document, job_of, no_files, patch, source
from tests.sizing.tables import TABLES

MI300 = "AMD-Instinct-MI300X"
A10, A100, H200, L40S = "NVIDIA-A10", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H200", "NVIDIA-L40S"
_MEMORY = {A10: 23028, A100: 81920, H200: 143771, L40S: 46068, MI300: 196608}
_LINE = (
    "accelerate launch --num_processes 1 -m tuning.sft_trainer --model_name_or_path meta-llama/Llama-3.1-8B "
    "--peft_method lora --gradient_checkpointing true --max_seq_length 1024 --per_device_train_batch_size 8"
)


def node(product: str, *taints: Taint, **labels: str) -> Node:
    name = f"{product}-{len(taints)}-{'-'.join(labels.values())}"
    label = "amd.com/gpu.product-name" if product == MI300 else "nvidia.com/gpu.product"
    found = {label: product, **{key.replace("_", "/"): value for key, value in labels.items()}}
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


def size(text: str, *nodes: Node, default: str = "", queue: tuple[str, ...] = (), named: bool = False) -> SizedJob:
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
        config_map=no_files,
    )
    found = size_job(document(text), context, named=named)
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
        (selecting(L40S), "", f"selects {L40S}, but the nodes in the evidence have {A10}, {H200}"),
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
        ({"nodeSelector": {"zone": "b"}}, "", f"the pods can get no GPU in the evidence ({A10}, {H200})"),
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
    assert told(found) == [f"{_SPEC}: the pods can get no GPU in the evidence ({H200}): {_SPEC} excludes its nodes"]
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


@pytest.mark.parametrize(
    ("pod", "default", "products"),
    [({}, "", f"{A100}, {H200}"), (selecting(A100), "", A100), ({}, H200, H200)],
)
def test_gpus_of_another_vendor_are_not_rewritten(pod: dict[str, Any], default: str, products: str) -> None:
    """F-005: a job that requests AMD's GPUs is not moved to NVIDIA's in silence."""
    found = size(job(resource="amd.com/gpu", **pod), node(A100), node(H200), default=default)
    path = f'{_SPEC}.containers[0].resources.limits["amd.com/gpu"]'
    assert told(found) == [f"{path}: requests amd.com/gpu, but the pods can only get {products}"]
    assert found.sized is None
    assert found.problems[0].place.line > 1


def test_the_requested_vendor_decides_among_several() -> None:
    """F-005: nodes of both vendors; the resource says which."""
    nodes = node(MI300), node(A100)
    assert product_of(size(job(resource="amd.com/gpu"), *nodes)) == MI300
    assert product_of(size(job(), *nodes)) == A100


def test_a_job_requests_the_gpus_of_one_vendor() -> None:
    body = yaml.safe_load(job())
    container = body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    container["resources"]["limits"]["amd.com/gpu"] = 1
    found = size(yaml.safe_dump(body, sort_keys=False), node(A100), node(MI300))
    assert "requests amd.com/gpu, but" in told(found)[0]
    assert told(found)[0].endswith("requests GPUs of the other vendor")


@pytest.mark.parametrize("resource", ["habana.ai/gaudi", "nvidia.com/gpu.shared"])
def test_devices_that_no_job_is_sized_for(resource: str) -> None:
    assert (
        f"requests {resource}, but jobs are sized for whole GPUs" in told(size(job(resource=resource), node(A100)))[0]
    )


def test_workers_that_select_nothing_get_the_card_of_the_master() -> None:
    """F-005: the Master selects a product; Workers must not land on a smaller one."""
    body = yaml.safe_load(job(worker=A100, **selecting(A100)).replace("batch_size 8", "batch_size 128"))
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"].pop("nodeSelector")
    small = [replace(node(product), gpus=1, allocatable_gpus=1) for product in (A100, A10)]
    found = size(yaml.safe_dump(body, sort_keys=False), *small)
    assert product_of(found) == A100
    assert found.sized is not None
    again = job_of(write(found.sized.data))
    assert len(again.pods) == len(("Master", "Worker"))
    assert binds_all_pods(again)


_CONTAINERS = {
    "pytorchjob": "pytorchReplicaSpecs/Master/template/spec/containers/0",
    "appwrapper": "components/0/template/spec/pytorchReplicaSpecs/Master/template/spec/containers/0",
    "job": "template/spec/containers/1",
    "jobset": "replicatedJobs/1/template/spec/template/spec/containers/0",
    "trainjob": "trainer",
    "rayjob": "rayClusterSpec/headGroupSpec/template/spec/containers/0",
    "torchrunjob": "",
}


def adapters(name: str) -> dict[str, Any]:
    """Return a job of a kind that trains adapters of an 8B model and selects no GPU product."""
    body: dict[str, Any] = yaml.safe_load(source(name).replace("nvidia.com/gpu.product:", "example.com/disk:"))
    facts = {"MODEL_NAME": "meta-llama/Llama-3.1-8B", "METHOD": "lora", "TOKENS_PER_SAMPLE": "1024", "BATCH_SIZE": "16"}
    container = body["spec"]
    for part in filter(None, _CONTAINERS[name].split("/")):
        container = container[int(part) if part.isdecimal() else part]
    own = container.get("env", [])
    container["env"] = [*own, *({"name": f"AUTOCONF_{key}", "value": value} for key, value in facts.items())]
    return body


def test_a_selector_of_an_initializer_binds_no_trainer() -> None:
    """F-005: what fetches the data may run elsewhere than what trains on it."""
    body = adapters("trainjob")
    own = patch("dataset-initializer", selecting(A10))
    body["spec"]["runtimePatches"] = [own]
    found = size(yaml.safe_dump(body), node(A100), node(A10), named=True)
    assert found.sized is not None, found.problems
    bound = found.sized.data["spec"]["runtimePatches"]
    assert bound == [own, patch("node", selecting(product_of(found)), manager="gpureconciler.io/sizing")]


@pytest.mark.parametrize("name", _CONTAINERS)
@pytest.mark.parametrize("default", ["", A100])
def test_every_kind_is_bound_to_its_card(name: str, default: str) -> None:
    """F-005: with several products in reach, all pods that train are bound to the one of the estimate."""
    found = size(yaml.safe_dump(adapters(name)), node(A100), node(H200), default=default, named=True)
    product = product_of(found)
    assert product == A100 or not default
    assert found.sized is not None, found.problems
    again = job_of(write(found.sized.data))
    assert (named_product(again) or [""])[0] == product
    assert binds_all_pods(again)


def test_two_nodes_of_a_plain_job_are_weighed_against_a_dearer_card() -> None:
    """F-005: a Job whose line names a rendezvous may run on two nodes; one that does not stays on one."""
    body = adapters("job")
    trainer = body["spec"]["template"]["spec"]["containers"][1]
    next(one for one in trainer["env"] if one["name"] == "AUTOCONF_BATCH_SIZE")["value"] = "4"
    body["spec"] |= {"parallelism": 1, "completions": 1}
    trainer["command"] = ["torchrun", "--nnodes=1", "--nproc_per_node=1", "--rdzv_endpoint=p-0.p:29500", "t.py"]
    trainer["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    nodes = [
        replace(node(product), gpus=1, allocatable_gpus=1, name=f"{product}-{at}")
        for product in (A100, H200)
        for at in "ab"
    ]
    found = size(yaml.safe_dump(body), *nodes, named=True)
    assert found.decision is not None
    layouts = {
        one.gpu.product: one.layout.workers
        for one in (found.decision.chosen, *found.decision.others)
        if one and one.fits
    }
    assert layouts == {A100: 2, H200: 1}, found.decision.text
    trainer["command"] = ["torchrun", "--standalone", "--nproc_per_node=1", "t.py"]
    alone = size(yaml.safe_dump(body), *nodes, named=True)
    assert product_of(alone) == H200
    assert alone.decision is not None
    assert f"only with a rendezvous address: 2 x {A100} on 2 nodes" in alone.decision.text
