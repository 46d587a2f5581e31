"""KaiwoJob and KaiwoService: what they become, what they refuse, and the defects of Kaiwo that they do not have."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.download.config import read_config
from reconciler.kinds.kaiwo import kaiwo_progress
from reconciler.kinds.progress import Phase
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.problems import Severity
from reconciler.sizing.devices import Vendor
from tests.cluster.judges import Judge
from tests.kinds.kaiwo.kaiwo_cases import (
    FLEET,
    GPU,
    config,
    invalid,
    job,
    nodes,
    pod_of,
    queues,
    rendered,
    service,
    total_gpus,
)

PARALLEL = "env: [{name: PIPELINE_PARALLELISM, value: '2'}, {name: TENSOR_PARALLELISM, value: '8'}]"
RAY = "ray: true\nentrypoint: python main.py\n"
SERVE = "ray: true\nserveConfigV2: 'applications: []'\n"


def main(body: dict[str, Any]) -> dict[str, Any]:
    """Return the first container of a Job or Deployment."""
    found: dict[str, Any] = pod_of(body)["containers"][0]
    return found


def env(container: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in container["env"]}


# --- GPUs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "replicas", "gpus"),
    [
        ("gpus: 4", 1, 4),
        ("gpus: 8", 1, 8),
        ("gpus: 12", 2, 6),
        ("gpus: 16", 2, 8),
        ("gpus: 16\nreplicas: 4", 4, 4),
        ("gpus: 16\nreplicas: 1", 2, 8),
        ("gpus: 16\ngpusPerReplica: 4", 4, 4),
        ("replicas: 3\ngpusPerReplica: 5", 3, 5),
        ("gpusPerReplica: 4", 1, 4),
        ("gpus: 16\nenv: [{name: PIPELINE_PARALLELISM, value: '4'}, {name: TENSOR_PARALLELISM, value: '4'}]", 4, 4),
        ("", 1, 0),
        ("replicas: 3", 3, 0),
    ],
)
def test_gpus_are_spread_over_pods(spec: str, replicas: int, gpus: int, judged: Judge) -> None:
    """F-031, F-032, F-033, F-065, F-075, D-30: the sum is what was asked for, in every form of workload."""
    plain = rendered(job(f"image: a:1\n{spec}"))
    spread = plain.one("Job")
    found = spread["spec"].get("parallelism", 1), int(main(spread)["resources"]["limits"].get(GPU, 0))
    assert found == (replicas, gpus)
    ray = rendered(job(f"{RAY}{spec}"))
    group = ray.one("RayJob")["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (replicas,) * 3
    served = rendered(service(f"image: a:1\n{spec}"))
    assert served.one("Deployment")["spec"]["replicas"] == replicas
    wrapped = rendered(service(f"{SERVE}{spec}"))
    bodies = (spread, ray.one("RayJob"), served.one("Deployment"), wrapped.one("AppWrapper"))
    assert [total_gpus(body) for body in bodies] == [replicas * gpus] * 4
    assert env(main(spread)) | {"NUM_GPUS": str(replicas * gpus), "NUM_REPLICAS": str(replicas)} == env(main(spread))
    judged([one for result in (plain, ray, served, wrapped) for one in result.manifests])


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gpus: 9", "request 8 or 10"),
        ("gpus: 17", "request 16 or 18"),
        ("gpus: 40", "request"),
        ("gpus: 10\nreplicas: 4", "request 8 or 12"),
        ("gpus: 10\ngpusPerReplica: 4", "request 8 or 12"),
        ("gpus: 16\nreplicas: 2\ngpusPerReplica: 4", "16 GPUs contradict 2 replicas x 4 GPUs = 8"),
        ("replicas: 2\ngpusPerReplica: 9", "fits no node: the largest has 8"),
        ("replicas: 9\ngpusPerReplica: 4", "room for 8"),
        ("gpus: 12\nenv: [{name: PIPELINE_PARALLELISM, value: '2'}, {name: TENSOR_PARALLELISM, value: '8'}]", "= 16"),
        (
            f"replicas: 4\ngpusPerReplica: 4\n{PARALLEL}",
            "contradict PIPELINE_PARALLELISM",
        ),
    ],
)
def test_gpus_that_do_not_add_up_are_refused(spec: str, message: str) -> None:
    """KA-13, D-30, F-031, F-032: never another number than the one that was asked for."""
    result = rendered(job(f"image: a:1\n{spec}"))
    assert result.manifests == ()
    (line,) = (str(problem) for problem in result.problems if problem.severity is Severity.ERROR)
    assert message in line


@given(
    gpus=st.integers(0, 40),
    replicas=st.integers(0, 5),
    each=st.integers(0, 9),
    fleet=st.sampled_from([FLEET, nodes(3, 4), nodes(1, 8)]),
    form=st.sampled_from(["job", "ray", "service", "serve"]),
)
def test_the_sum_is_what_was_asked_or_it_is_refused(gpus: int, replicas: int, each: int, fleet: Any, form: str) -> None:
    """D-30, F-032: for every combination of numbers."""
    spec = "".join(
        f"{name}: {value}\n"
        for name, value in (("gpus", gpus), ("replicas", replicas), ("gpusPerReplica", each))
        if value
    )
    texts = {"job": job(f"image: a:1\n{spec}"), "ray": job(f"{RAY}{spec}"), "service": service(f"image: a:1\n{spec}")}
    result = rendered(texts.get(form) or service(f"{SERVE}{spec}"), inventory=fleet)
    if result.errors:
        assert result.manifests == ()
        return
    asked = gpus or max(replicas, 1) * each
    (body,) = (one.body for one in result.manifests if one.key.kind != "LocalQueue")
    assert total_gpus(body) == asked
    templates = BUILT_IN.pod_sets(body) or []
    most = max(int(c["resources"]["limits"].get(GPU, 0)) for t in templates for c in t.template["spec"]["containers"])
    assert most <= max(node.gpus for node in fleet.nodes)


def test_a_job_of_several_nodes_is_no_single_pod() -> None:
    """D-03, F-065: an Indexed Job, whose pods run the entrypoint once each, which is said."""
    result = rendered(job("image: a:1\ngpus: 16\nentrypoint: python main.py"))
    spec = result.one("Job")["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 2, 2)
    assert main(result.one("Job"))["resources"]["limits"][GPU] == "8"
    (line,) = result.lines("kaiwo.separate-pods")
    assert "jobs/test.yaml:6:9: spec.gpus: " in line
    assert "ray: true" in line


@pytest.mark.parametrize("field", ["parallelism: 3", "completions: 5", "completionMode: NonIndexed"])
def test_the_pods_of_a_written_job_are_not_changed(field: str) -> None:
    """D-03, F-072: other numbers than those of the workload are refused."""
    text = job(f"image: a:1\ngpus: 16\njob: {{spec: {{{field}}}}}")
    assert rendered(text).errors == ["kaiwo.contradiction"]


def test_a_queue_is_no_label_of_the_document() -> None:
    """F-072: it would be on the download, too, which would wait for the workload that waits for it."""
    text = job("image: a:1\nclusterQueue: a", metadata="labels: {kueue.x-k8s.io/queue-name: a}")
    assert rendered(text).errors == ["kaiwo.contradiction"]


def test_the_size_of_nodes_has_to_be_known() -> None:
    """F-032: without evidence nothing says how many GPUs a node has; numbers for each pod need none."""
    assert rendered(job("image: a:1\ngpus: 4"), inventory=None).errors == ["kaiwo.node-size-unknown"]
    for spec in ("gpus: 1", "replicas: 2\ngpusPerReplica: 4", "gpus: 8\nreplicas: 2"):
        assert rendered(job(f"image: a:1\n{spec}"), inventory=None).errors == []


def test_cordoned_nodes_are_counted_on_later() -> None:
    """F-034: the workload fits the nodes, but not now."""
    result = rendered(job("image: a:1\ngpus: 16"), inventory=nodes(unschedulable=True))
    assert result.errors == []
    assert "kaiwo.not-now" in result.rules


@pytest.mark.parametrize(
    ("spec", "vendor", "key"),
    [
        ("gpuVendor: amd", Vendor.NVIDIA, "amd.com/gpu"),
        ("gpuVendor: NVIDIA", Vendor.AMD, "nvidia.com/gpu"),
        ("gpuVendor: acme", Vendor.AMD, "example.com/gpu"),
        ("", Vendor.AMD, "amd.com/gpu"),
        ("", Vendor.NVIDIA, "nvidia.com/gpu"),
    ],
)
def test_the_vendor_decides_on_the_resource(spec: str, vendor: Vendor, key: str) -> None:
    """D-04, F-035: no vendor is built in; in any case of letters; without one, that of the cluster."""
    defaults = config("nodes: {defaultGpuResourceKey: example.com/gpu}")
    text = defaults + job(f"image: a:1\nreplicas: 1\ngpusPerReplica: 2\n{spec}")
    body = rendered(text, inventory=None, vendor=vendor).one("Job")
    assert main(body)["resources"]["limits"][key] == "2"
    assert (
        main(rendered(job("image: a:1\ngpus: 2"), vendor=Vendor.NVIDIA).one("Job"))["resources"]["limits"][GPU] == "2"
    )


def test_models_are_required_beside_the_affinity_that_is_written() -> None:
    """F-036: Kaiwo's node label, in every alternative; the label of the vendor where nodes lack it."""
    spec = (
        "gpus: 8\nimage: a:1\ngpuModels: [mi300x]\njob: {spec: {template: {spec: {affinity: {nodeAffinity: "
        "{requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: "
        "[{key: zone, operator: In, values: [a]}]}]}}}, containers: [{name: a}]}}}}"
    )
    (term,) = pod_of(rendered(job(spec)).one("Job"))["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert [(one["key"], one["values"]) for one in term["matchExpressions"]] == [
        ("zone", ["a"]),
        ("kaiwo/gpu-model", ["mi300x"]),
    ]
    label = "amd.com/gpu.product-name"
    fleet = nodes(labels={label: "AMD-Instinct-MI300X"})
    affinity = json.dumps(pod_of(rendered(job(spec), inventory=fleet).one("Job"))["affinity"])
    assert f'"key": "{label}", "operator": "In", "values": ["AMD-Instinct-MI300X"]' in affinity
    assert rendered(job("gpus: 8\nimage: a:1\ngpuModels: [mi100]")).errors == ["kaiwo.distribution"]
    assert "affinity" not in pod_of(rendered(job("image: a:1\ngpuModels: [mi300x]")).one("Job"))


def test_without_gpus_there_are_no_zeros() -> None:
    """D-09, F-065: CPU and memory of a pod without GPUs, and no GPU of any number."""
    resources = main(rendered(job("image: a:1\ngpus: 0")).one("Job"))["resources"]
    assert resources["limits"] == resources["requests"] == {"cpu": "2", "memory": "16Gi"}


# --- pods that are written -------------------------------------------------------------------------------------------

TWO = """
job:
  spec:
    template:
      spec:
        containers:
        - {name: train, image: a:1}
        - {name: logs, image: b:1, resources: {requests: {cpu: 100m}}}
"""


def test_only_the_main_container_gets_the_gpus() -> None:
    """D-13, KA-14: the others are named."""
    result = rendered(job("gpus: 8" + TWO))
    train, logs = pod_of(result.one("Job"))["containers"]
    assert train["resources"] == {"limits": {GPU: "8"}, "requests": {GPU: "8"}}
    assert logs["resources"] == {"requests": {"cpu": "100m"}}
    assert total_gpus(result.one("Job")) == 8
    (line,) = result.lines("kaiwo.main-container")
    assert "container train gets the GPUs of the pod; without any: logs" in line
    assert env(logs)["NUM_GPUS"] == "8"


def test_the_container_that_requests_gpus_is_the_main_one() -> None:
    """D-13: also if it is not the first; another number than the workload's is refused."""
    text = job("gpus: 8" + TWO.replace("{cpu: 100m}", f"{{{GPU}: 8}}"))
    train, logs = pod_of(rendered(text).one("Job"))["containers"]
    assert (train.get("resources"), logs["resources"]["limits"][GPU]) == (None, "8")
    result = rendered(text.replace(f"{GPU}: 8}}", f"{GPU}: 4}}"))
    assert result.errors == ["kaiwo.contradiction"]
    assert "spec.job.spec.template.spec.containers[1].resources.requests" in result.lines()[-1]


def test_gpus_of_other_groups_are_counted() -> None:
    """D-12, D-30: a second group of workers with GPUs of its own is more than was asked for."""
    groups = (
        "rayJob: {spec: {entrypoint: python main.py, rayClusterSpec: {headGroupSpec: {template: {spec: {containers: "
        f"[{{name: h}}]}}}}}}, workerGroupSpecs: [{{groupName: a, template: {{spec: {{containers: [{{name: w}}]}}}}}}, "
        f"{{groupName: b, replicas: 1, template: {{spec: {{containers: [{{name: w, resources: {{limits: {{{GPU}: 4}}}}}}]}}}}}}]}}}}}}"
    )
    result = rendered(job(f"gpus: 8\n{groups}"))
    assert result.errors == ["kaiwo.contradiction"]
    assert f"its pods request 12 {GPU}, but the workload is to have 8" in result.lines()[0]


def test_errors_in_the_inner_object_have_its_places() -> None:
    """F-072: the inner object is validated as it is rendered, at the fields where it is written."""
    bad = rendered(job("gpus: 8" + TWO.replace("image: b:1", "image: b:1, imag: b")))
    assert bad.errors == ["schema.unknown-field"]
    (line,) = bad.lines("unknown-field")
    assert line.startswith("jobs/test.yaml:12:")
    assert "spec.job.spec.template.spec.containers[1].imag: " in line
    wrong = rendered(service(f"{SERVE}rayService: {{spec: {{rayClusterConfig: {{headGroupSpec: {{nothing: 1}}}}}}}}"))
    assert "spec.rayService.spec.rayClusterConfig.headGroupSpec.nothing" in wrong.lines("unknown-field")[0]


def test_what_is_written_stays() -> None:
    """F-072: fields of the inner object that Kaiwo forces are kept: retries, time to live, its own resources."""
    inner = "job: {spec: {backoffLimit: 3, ttlSecondsAfterFinished: 60, template: {spec: {containers: [{name: a, image: b:1, "
    inner += "command: [run], args: [fast], resources: {limits: {memory: 1Gi}}}]}}}}"
    result = rendered(job(f"gpus: 2\nimage: a:1\nresources: {{limits: {{memory: 9Gi, cpu: 3}}}}\n{inner}"))
    spec = result.one("Job")["spec"]
    assert (spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == (3, 60)
    container = main(result.one("Job"))
    assert (container["image"], container["command"], container["args"]) == ("b:1", ["run"], ["fast"])
    assert container["resources"]["limits"] == {"memory": "1Gi", "cpu": 3, GPU: "2"}
    assert "securityContext" not in pod_of(result.one("Job"))


def test_a_container_needs_an_image() -> None:
    """D-10: refused, and not rendered empty; Ray has a default."""
    result = rendered(job("gpus: 8"))
    assert (result.errors, result.manifests) == (["kaiwo.image"], ())
    assert "a container has no image; add spec.image" in result.lines()[0]
    head = rendered(job(f"{RAY}gpus: 8")).one("RayJob")["spec"]["rayClusterSpec"]["headGroupSpec"]
    assert head["template"]["spec"]["containers"][0]["image"] == "ghcr.io/silogen/rocm-ray:6.4"


def test_a_key_of_a_secret_is_mounted() -> None:
    """D-11, F-074: only the key, as the file that the sub-path names; also in init containers."""
    volume = "{name: token, secretName: hub, key: token.txt, subPath: hf, mountPath: /secrets/hf}"
    inner = "job: {spec: {template: {spec: {initContainers: [{name: i, image: i:1}], containers: [{name: a}]}}}}"
    pod = pod_of(rendered(job(f"image: a:1\nsecretVolumes: [{volume}]\n{inner}")).one("Job"))
    (found,) = pod["volumes"]
    assert found["secret"] == {"secretName": "hub", "items": [{"key": "token.txt", "path": "hf"}]}
    mount = {"name": "token", "subPath": "hf", "mountPath": "/secrets/hf", "readOnly": True}
    assert [one["volumeMounts"] for one in (*pod["initContainers"], *pod["containers"])] == [[mount], [mount]]


def test_pods_run_as_a_user_without_rights() -> None:
    """F-074: as user 1000, unless the workload says that it is dangerous; and with the secrets of its registry."""
    pod = pod_of(rendered(job("image: a:1\nimagePullSecrets: [{name: pull}]")).one("Job"))
    assert pod["securityContext"] == {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert "securityContext" not in pod_of(rendered(job("image: a:1\ndangerous: true")).one("Job"))


def test_variables_are_there_once() -> None:
    """F-065, F-075: the workload's replace those of the container, and Kaiwo's numbers win over both."""
    inner = "job: {spec: {template: {spec: {containers: [{name: a, env: [{name: A, value: '1'}, {name: B, value: '2'}]}]}}}}"
    text = job(f"image: a:1\ngpus: 2\nenv: [{{name: A, value: ''}}, {{name: NUM_GPUS, value: '9'}}]\n{inner}")
    result = rendered(text)
    names = [one["name"] for one in main(result.one("Job"))["env"]]
    assert names == ["B", "A", "NUM_GPUS", "NUM_REPLICAS", "NUM_GPUS_PER_REPLICA"]
    assert env(main(result.one("Job"))) | {"A": "", "NUM_GPUS": "2"} == env(main(result.one("Job")))
    assert result.rules == ["kaiwo.override"]


@pytest.mark.parametrize(
    ("entrypoint", "command"),
    [
        ("|\n  python main.py \\\n    --fast\n", ["/bin/sh", "-c", "python main.py    --fast"]),
        ("|\n  #!/bin/bash\n  # a comment\n  echo 'a'\n", ["/bin/bash", "-c", "# a comment\necho 'a'"]),
    ],
)
def test_an_entrypoint_is_a_script(entrypoint: str, command: list[str]) -> None:
    """F-065: its first line may name a shell."""
    assert main(rendered(job(f"image: a:1\nentrypoint: {entrypoint}")).one("Job"))["command"] == command


def test_users_and_labels() -> None:
    """F-072: labels of pods, in which Kaiwo's win; annotations of the document, but not those of tools."""
    metadata = "labels: {team: vision}, annotations: {example.com/note: a, kubectl.kubernetes.io/last-applied: b}"
    spec = "image: a:1\nuser: Jürgen.Groß@Example.com\npodTemplateSpecLabels: {team: x, kaiwo.silogen.ai/name: other}"
    result = rendered(job(spec, metadata=metadata))
    pod = result.one("Job")["spec"]["template"]["metadata"]
    assert pod["labels"]["kaiwo.silogen.ai/user"] == "j-rgen-gro-example-com"
    assert (pod["labels"]["team"], pod["labels"]["kaiwo.silogen.ai/name"]) == ("x", "train")
    assert pod["annotations"] == {"example.com/note": "a"}
    assert result.rules == ["kaiwo.override"]


# --- Ray -------------------------------------------------------------------------------------------------------------


def test_every_group_of_workers_is_declared() -> None:
    """D-12: the AppWrapper declares head and all groups, with their hosts."""
    group = "{groupName: b, replicas: 3, numOfHosts: 2, template: {spec: {containers: [{name: w}]}}}"
    workers = f"[{{groupName: a, template: {{spec: {{containers: [{{name: w}}]}}}}}}, {group}]"
    inner = f"rayService: {{spec: {{rayClusterConfig: {{workerGroupSpecs: {workers}}}}}}}"
    body = rendered(service(f"{SERVE}gpus: 16\n{inner}")).one("AppWrapper")
    (component,) = body["spec"]["components"]
    declared = [
        (one["path"].removeprefix("template.spec.rayClusterConfig."), one["replicas"]) for one in component["podSets"]
    ]
    assert declared == [
        ("headGroupSpec.template", 1),
        ("workerGroupSpecs[0].template", 2),
        ("workerGroupSpecs[1].template", 6),
    ]
    assert [pods.replicas for pods in BUILT_IN.pod_sets(body) or []] == [1, 2, 6]
    assert total_gpus(body) == 16


def test_a_cluster_that_scales_itself_is_refused_under_kueue() -> None:
    """D-12: it would be admitted for too little."""
    inner = "rayJob: {spec: {rayClusterSpec: {enableInTreeAutoscaling: true}}}"
    assert rendered(job(f"{RAY}gpus: 8\n{inner}")).errors == ["kaiwo.autoscaling"]


def test_the_other_object_beside_ray_is_refused() -> None:
    """F-072: `job` of a workload in Ray, an entrypoint that nobody reads, and what is missing."""
    assert rendered(job(f"{RAY}job: {{}}")).errors == ["kaiwo.contradiction"]
    assert rendered(job("ray: true")).errors == ["kaiwo.entrypoint"]
    assert rendered(service("ray: true")).errors == ["kaiwo.entrypoint"]
    assert rendered(service(f"{SERVE}entrypoint: a")).rules == ["kaiwo.ignored"]
    assert rendered(job("ray: false\nrayJob: {spec: {entrypoint: a}}")).one("RayJob")["spec"]["entrypoint"] == "a"


def test_names_that_are_too_long_for_ray() -> None:
    assert rendered(job(RAY, name="a" * 48)).errors == ["kaiwo.name"]
    assert rendered(job("image: a:1", name="a" * 64)).errors == ["kaiwo.name"]


# --- queues ----------------------------------------------------------------------------------------------------------


def test_a_workload_brings_its_local_queue() -> None:
    """F-044, F-072: where neither a KaiwoQueueConfig nor the repository has one; queue and priority are labels."""
    result = rendered(job("image: a:1\ngpus: 8\nclusterQueue: team\npriorityClass: high"))
    local = result.one("LocalQueue", "team")
    assert (local["metadata"]["namespace"], local["spec"]) == ("default", {"clusterQueue": "team"})
    assert result.manifest("LocalQueue").is_shared
    labels = result.one("Job")["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "team"
    assert labels["kueue.x-k8s.io/priority-class"] == "high"
    own = (
        "apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\nmetadata: {name: kaiwo}\nspec: {clusterQueue: a}\n---\n"
    )
    assert rendered(own + job("image: a:1")).kinds() == ["Job/train"]


@pytest.mark.parametrize("external", ["LocalQueue", "LocalQueue/kaiwo", "LocalQueue/default/kaiwo"])
def test_a_local_queue_that_the_cluster_has_is_not_brought(external: str) -> None:
    assert rendered(job("image: a:1"), external=(external,)).kinds() == ["Job/train"]
    other = rendered(job("image: a:1\nclusterQueue: team"), external=("LocalQueue/default/kaiwo",))
    assert other.one("LocalQueue", "team")["spec"] == {"clusterQueue": "team"}


def test_a_deployment_is_queued_by_its_pods() -> None:
    """F-065: the pod template has queue and priority, which Kueue reads of each pod."""
    body = rendered(service("gpus: 4\nimage: a:1\nclusterQueue: team")).one("Deployment")
    assert body["spec"]["template"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"
    assert body["spec"]["selector"] == {"matchLabels": {"app": "train"}}


def test_a_namespace_that_the_queue_does_not_list() -> None:
    """D-29, F-034: the namespace is compared with the namespaces of the queue, not with its name."""
    text = queues("clusterQueues: [{name: kaiwo, namespaces: [kaiwo, ml], spec: {}}]")
    assert rendered(text + job("image: a:1")).errors == ["kaiwo.queue-namespace"]
    result = rendered(text + job("image: a:1", metadata="namespace: ml"))
    assert [one.key.namespace for one in result.manifests if one.key.kind == "LocalQueue"] == ["kaiwo", "ml"]
    assert not any(one.is_shared for one in result.manifests)


@pytest.mark.parametrize(("backend", "label"), [("kai", "kai.scheduler/queue"), ("none", "")])
def test_other_schedulers(backend: str, label: str) -> None:
    """F-034, F-035: KAI reads the queue from its own label; without a queue that is said."""
    result = rendered(job("image: a:1\ngpus: 8\nclusterQueue: team"), backend=backend)
    labels = result.one("Job")["metadata"]["labels"]
    assert labels.get(label, "") == ("team" if label else "")
    assert ("kaiwo.no-queueing" in result.rules) is not bool(label)
    assert pod_of(result.one("Job")).get("schedulerName") == ("kai-scheduler" if label else None)
    served = rendered(service(f"{SERVE}gpus: 8"), backend=backend)
    assert served.one("RayService")["spec"]["serveConfigV2"] == "applications: []"


def test_levels_of_topologies() -> None:
    """F-037: required wins over preferred; a level that no Topology has is an error."""
    text = queues("topologies: [{metadata: {name: t}, spec: {levels: [{nodeLabel: rack}]}}]")
    result = rendered(text + job("image: a:1\ngpus: 8\nrequiredTopologyLabel: rack"))
    annotations = result.one("Job")["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"kueue.x-k8s.io/podset-required-topology": "rack"}
    assert rendered(text + job("image: a:1\ngpus: 8\npreferredTopologyLabel: row")).errors == ["kaiwo.topology"]


# --- defaults --------------------------------------------------------------------------------------------------------


def test_defaults_of_a_cluster() -> None:
    """F-077, F-038: images, paths, classes, queue, scheduler and taint of the KaiwoConfig."""
    text = config(
        "ray: {defaultRayImage: ray:1, headPodMemory: 9Gi}\n"
        "storage: {defaultStorageClass: fast, defaultDataMountPath: /data, defaultHfMountPath: /hub}\n"
        "nodes: {addTaintsToGpuNodes: true}\ndefaultClusterQueueName: team\n"
    )
    spec = "storage: {storageEnabled: true, data: {storageSize: 1Gi}, huggingFace: {storageSize: 1Gi}}"
    result = rendered(text + job(f"{RAY}gpus: 8\n{spec}"))
    cluster = result.one("RayJob")["spec"]["rayClusterSpec"]
    head, worker = (one["template"]["spec"] for one in (cluster["headGroupSpec"], cluster["workerGroupSpecs"][0]))
    assert head["containers"][0]["image"] == "ray:1"
    assert head["containers"][0]["resources"]["limits"] == {"cpu": "2", "memory": "9Gi"}
    assert [one["mountPath"] for one in head["containers"][0]["volumeMounts"]] == ["/data", "/hub", "/dev/shm"]
    assert {one["spec"]["storageClassName"] for one in map(vars_of, result.manifests) if "claims" in one} == {"fast"}
    assert worker["tolerations"] == [{"key": "kaiwo.silogen.ai/gpu", "operator": "Exists", "effect": "NoSchedule"}]
    assert (head.get("tolerations"), worker["schedulerName"]) == (None, "kaiwo-scheduler")
    assert result.one("RayJob")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team"


def vars_of(manifest: Any) -> dict[str, Any]:
    """Return the body of a manifest, marked if it is a claim."""
    return {**manifest.body, **({"claims": True} if manifest.key.kind == "PersistentVolumeClaim" else {})}


def test_a_job_has_a_time_to_live_only_where_its_end_is_recorded() -> None:
    """F-065: else Argo CD or Flux would create it again, and it would run again."""
    assert "ttlSecondsAfterFinished" not in rendered(job("image: a:1")).one("Job")["spec"]
    assert rendered(job("image: a:1"), runs=True).one("Job")["spec"]["ttlSecondsAfterFinished"] == 3600


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("data: {defaultDataMountPath: /d}", "spec.data"),
        ("scheduling: {enablePreemption: true}", "spec.scheduling.enablePreemption"),
        ("resourceMonitoring: {enabled: true}", "spec.resourceMonitoring.enabled"),
        ("resourceMonitoring: {prometheusEndpoint: a}", "spec.resourceMonitoring.prometheusEndpoint"),
        ("kueue: {}", "spec.kueue"),
        ("defaultKaiwoQueueConfigName: a", "spec.defaultKaiwoQueueConfigName"),
    ],
)
def test_unknown_keys_are_named(field: str, hint: str) -> None:
    """D-14: keys that Kaiwo prunes in silence are errors with their places."""
    (line,) = invalid(config(field))
    assert f"{hint}: unknown field" in line
    assert line.startswith("jobs/test.yaml:5:")


# --- upstream's own manifests ----------------------------------------------------------------------------------------


def test_a_sample_that_kaiwo_reads_wrongly() -> None:
    """KA-18, D-14: a section at the wrong place, and an endpoint that is no string, with what to write instead."""
    spec = """
user: test@example.com
gpus: 0
storage:
  storageEnabled: true
  data:
    storageSize: 2Gi
    download:
      s3:
      - endpointUrl: {secretName: minio, secretKey: endpoint}
        buckets: [{name: test, files: [{path: a, targetPath: b}]}]
huggingFace:
  storageSize: 2Gi
"""
    lines = invalid(job(spec))
    assert any("spec.huggingFace: unknown field" in line and "spec.storage" in line for line in lines)
    assert any("endpointUrl: must be a string" in line for line in lines)


# --- status ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "phase"),
    [
        ("", Phase.PENDING),
        ("DOWNLOADING", Phase.SYNCING),
        ("STARTING", Phase.STARTING),
        ("ERROR", Phase.ERROR),
        ("RUNNING", Phase.RUNNING),
        ("COMPLETE", Phase.SUCCEEDED),
        ("FAILED", Phase.FAILED),
        ("TERMINATING", Phase.TERMINATING),
        ("TERMINATED", Phase.TERMINATED),
        ("NEVER-SEEN", Phase.UNKNOWN),
    ],
)
def test_the_status_of_the_operator(status: str, phase: Phase) -> None:
    """F-115, F-072: where Kaiwo's operator runs, its words are those of every job."""
    condition = {"type": "Schedulable", "status": "False", "message": "no GPUs"}
    body = {"status": {"status": status, "startTime": "2026-01-01T00:00:00Z", "conditions": [condition]}}
    progress = kaiwo_progress(body)
    assert (progress.phase, progress.started_at) == (phase, "2026-01-01T00:00:00Z")
    assert progress.message == ("" if phase in (Phase.RUNNING, Phase.SUCCEEDED) else "no GPUs")


# --- storage ---------------------------------------------------------------------------------------------------------

GIT = "git: [{repository: 'https://git.example.com/a.git', targetPath: code}]"
STORED = f"storage: {{storageEnabled: true, data: {{storageSize: 1Gi, download: {{{GIT}}}}}}}"


def test_a_cache_needs_no_repositories() -> None:
    """D-18: the claim is there whenever it is mounted."""
    result = rendered(job("image: a:1\nstorage: {storageEnabled: true, huggingFace: {storageSize: 2Gi}}"))
    claim = result.one("PersistentVolumeClaim", "train-hf")
    assert claim["spec"]["resources"]["requests"]["storage"] == "2Gi"
    assert claim["metadata"]["annotations"] == {"gpureconciler.io/keep": "true"}
    assert env(main(result.one("Job")))["HF_HOME"] == "/hf_cache"
    assert "initContainers" not in pod_of(result.one("Job"))


def test_a_workload_waits_for_its_download() -> None:
    """F-073: a Job whose name holds the digest of what it fetches, and an init container that waits for its file."""
    result = rendered(job(f"image: a:1\ngpus: 8\n{STORED}\nenv: [{{name: A, value: b}}]"))
    (fetch,) = (one.body for one in result.manifests if "-download-" in one.key.name and one.key.kind == "Job")
    digest = fetch["metadata"]["name"].removeprefix("train-download-")
    config = read_config("config.yaml", result.one("ConfigMap")["data"]["config.yaml"].encode())
    assert (config.root, config.marker) == ("/workload", digest)
    (waiting,) = pod_of(result.one("Job", "train"))["initContainers"]
    assert f"'/workload/.downloads/{digest}'" in waiting["command"][-1]
    assert env(pod_of(fetch)["containers"][0]) == {"A": "b"}
    assert pod_of(fetch)["containers"][0]["command"][:2] == ["reconciler", "download"]
    other = rendered(job(f"image: a:1\ngpus: 8\n{STORED.replace('code', 'src')}"))
    assert other.one("ConfigMap")["metadata"]["name"] != result.one("ConfigMap")["metadata"]["name"]
    same = rendered(job(f"image: a:2\ngpus: 4\n{STORED}"))
    assert same.one("ConfigMap")["metadata"]["name"] == result.one("ConfigMap")["metadata"]["name"]


def test_a_download_of_models_alone() -> None:
    """F-073: without a volume of data, the command keeps its marker on that of the models."""
    hub = "huggingFace: {storageSize: 2Gi, preCacheRepos: [{repoId: org/llm, revision: v1, files: [config.json]}]}"
    result = rendered(job(f"image: a:1\nstorage: {{storageEnabled: true, {hub}}}"))
    config = read_config("config.yaml", result.one("ConfigMap")["data"]["config.yaml"].encode())
    assert (config.root, config.hf_home, config.hf[0].revision) == ("/hf_cache", "/hf_cache", "v1")
    (waiting,) = pod_of(result.one("Job", "train"))["initContainers"]
    assert f"/hf_cache/.downloads/{config.marker}" in waiting["command"][-1]


def test_secrets_of_a_download_are_files() -> None:
    """F-073: the configuration names paths; the Job mounts the Secrets; no value is anywhere."""
    text = STORED.replace("targetPath", "token: {secretName: git, secretKey: token}, targetPath")
    result = rendered(job(f"image: a:1\n{text}"))
    (source,) = yaml.safe_load(result.one("ConfigMap")["data"]["config.yaml"])["git"]
    assert source["token"] == {"file": "/app/secrets/git/token"}
    (fetch,) = (one.body for one in result.manifests if "-download-" in one.key.name and one.key.kind == "Job")
    assert {"name": "secret-git", "secret": {"secretName": "git"}} in pod_of(fetch)["volumes"]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (STORED.replace("code", "../code"), "kaiwo.target-path"),
        (STORED.replace("code", "/code"), "kaiwo.target-path"),
        (STORED.replace("targetPath", "branch: a, commit: b, targetPath"), "kaiwo.contradiction"),
        (STORED.replace("targetPath", "token: {secretName: a}, targetPath"), "kaiwo.secret"),
        (STORED.replace("storageSize: 1Gi, ", ""), "kaiwo.storage"),
        ("storage: {storageEnabled: true, huggingFace: {preCacheRepos: [{repoId: a/b}]}}", "kaiwo.storage"),
        (STORED.replace("true", "false"), "kaiwo.ignored"),
        (
            STORED.replace("storageEnabled: true", "storageEnabled: true, accessMode: ReadWriteOnce"),
            "kaiwo.access-mode",
        ),
    ],
)
def test_storage_that_cannot_work(text: str, rule: str) -> None:
    """F-073, D-18: it is refused, or said to have no effect."""
    assert rule in rendered(job(f"image: a:1\n{text}")).rules


# --- generations -----------------------------------------------------------------------------------------------------


def test_a_new_generation_has_another_name() -> None:
    """KA-17, D-27: the Job alone; claims and everything else stay."""
    result = rendered(job(f"image: a:1\n{STORED}"), suffixes={"train": "-2"})
    assert result.one("Job", "train-2")["metadata"]["labels"]["kaiwo.silogen.ai/name"] == "train"
    assert result.one("PersistentVolumeClaim")["metadata"]["name"] == "train-data"


def test_the_annotation_that_stops_is_on_the_workload() -> None:
    result = rendered(job("image: a:1", metadata="annotations: {gpureconciler.io/suspend: 'true'}"))
    assert result.one("Job")["metadata"]["annotations"] == {"gpureconciler.io/suspend": "true"}
    assert "annotations" not in result.one("Job")["spec"]["template"]["metadata"]
