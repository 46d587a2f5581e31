"""Every field of the four schemas changes what is rendered, or is reported: none is read and dropped in silence."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler import resources
from reconciler.kinds.preemption import IdleRules, with_config
from reconciler.kube.yaml import read
from reconciler.repo.config import Backend
from reconciler.sizing.inventory import Inventory
from tests.cluster.judges import Judge
from tests.kinds.kaiwo.kaiwo_cases import FLEET, invalid, rendered
from tests.kinds.walking import Path, Result, with_value

GROUPS = {"kaiwojob": "kaiwo", "kaiwoservice": "kaiwo", "kaiwoqueueconfig": "kaiwo", "kaiwoconfig": "config.kaiwo"}
KINDS = {"kaiwojob": "KaiwoJob", "kaiwoservice": "KaiwoService", "kaiwoqueueconfig": "KaiwoQueueConfig"}
REPORTED = {"kaiwo.ignored", "kaiwo.unsupported", "kaiwo.override"}


def schema(kind: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(resources.read(f"schemas/{GROUPS[kind]}.silogen.ai/v1alpha1/{kind}.json"))
    return loaded


def leaves(root: dict[str, Any], node: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every field that holds a value, through references and lists of closed objects."""
    if "$ref" in node:
        node = root["$defs"][node["$ref"].rpartition("/")[2]]
    if node.get("properties") and node.get("additionalProperties") is False:
        for name, child in node["properties"].items():
            yield from leaves(root, child, (*path, name))
    elif node.get("type") == "array" and ("$ref" in node["items"] or "properties" in node["items"]):
        yield from leaves(root, node["items"], (*path, 0))
    else:
        yield path, node


BUCKET = {"name": "b", "files": [{"path": "f", "targetPath": "t"}], "folders": [{"path": "d", "targetPath": "e"}]}
SECRET = {"secretName": "s", "secretKey": "k"}
STORAGE = {
    "storageEnabled": True,
    "data": {
        "storageSize": "1Gi",
        "download": {
            "s3": [{"endpointUrl": "https://s3", "accessKeyId": SECRET, "secretKey": SECRET, "buckets": [BUCKET]}],
            "gcs": [{"applicationCredentials": SECRET, "buckets": [BUCKET]}],
            "azureBlob": [{"connectionString": SECRET, "containers": [BUCKET]}],
            "git": [
                {"repository": "https://git/a.git", "targetPath": "code", "username": SECRET, "token": SECRET},
            ],
        },
    },
    "huggingFace": {"storageSize": "1Gi", "preCacheRepos": [{"repoId": "a/b"}]},
}
COMMON = {
    "gpus": 8,
    "image": "train:1",
    "env": [{"name": "BASE"}],
    "imagePullSecrets": [{"name": "pull"}],
    "secretVolumes": [{"name": "v", "secretName": "s", "key": "k", "mountPath": "/v"}],
    "storage": STORAGE,
}
POD = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}}
SERVED = {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, **POD}}
SERVED["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
RAY = {"spec": {"entrypoint": "python main.py"}}
SERVE = {"spec": {"serveConfigV2": "applications: []\n"}}
TOPOLOGY = {"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": "rack"}]}}
QUOTA = {"name": "cpu", "nominalQuota": 1, "borrowingLimit": 2}
GROUP = {"coveredResources": ["cpu"], "flavors": [{"name": "f", "resources": [QUOTA]}]}
BASES: dict[str, list[dict[str, Any]]] = {
    "kaiwojob": [
        COMMON,
        {"replicas": 1, "gpusPerReplica": 4, "image": "a:1", "gpuVendor": "other"},
        {"job": {"spec": {"template": POD}}},
        {"ray": True, "entrypoint": "python main.py", "gpus": 8},
        {"rayJob": RAY},
        {"image": "a:1", "entrypoint": "python main.py"},
    ],
    "kaiwoservice": [
        COMMON,
        {"replicas": 1, "gpusPerReplica": 4, "image": "a:1", "gpuVendor": "other"},
        {"deployment": {"spec": SERVED}},
        {"ray": True, "serveConfigV2": "applications: []\n", "gpus": 8},
        {"rayService": SERVE},
        {"image": "a:1", "serveConfigV2": "applications: []\n"},
    ],
    "kaiwoqueueconfig": [
        {
            "topologies": [TOPOLOGY],
            "resourceFlavors": [
                {"name": "f", "nodeLabels": {"a": "b"}, "taints": [{"key": "t", "effect": "NoSchedule"}]},
            ],
            "clusterQueues": [{"name": "q", "spec": {"resourceGroups": [GROUP], "cohort": "c"}}],
            "workloadPriorityClasses": [{"metadata": {"name": "high"}, "value": 1}],
        },
        {
            "resourceFlavors": [{"name": "f", "tolerations": [{"key": "t", "operator": "Exists"}]}],
            "clusterQueues": [{"name": "q", "spec": {}}],
        },
        {"resourceFlavors": [{"name": "f", "tolerations": [{"key": "t", "operator": "Equal", "effect": "NoExecute"}]}]},
    ],
    "kaiwoconfig": [{}, {"nodes": {"addTaintsToGpuNodes": True}}],
}
WORKLOADS = [
    ("KaiwoJob", {"ray": True, "entrypoint": "python main.py", "gpus": 8, "storage": STORAGE}),
    ("KaiwoJob", {"image": "a:1", "gpuVendor": "other", "gpusPerReplica": 1}),
]
"""Workloads that have the defaults of a KaiwoConfig."""

VALUES: list[Any] = [True, False, 2, 4, 16, 50, 0.5, "sample", "/sample", "3Gi", "2h", "3", "nvidia"]
MAPPING = {"a": "c", "team": "vision"}
NAMED: dict[str, list[Any]] = {
    "valueFrom": [{"secretKeyRef": {"name": "hub", "key": "token"}}],
    "gpuModels": [["mi300x"]],
    "labels": [MAPPING],
    "nodeLabels": [MAPPING],
    "podTemplateSpecLabels": [MAPPING],
    "annotations": [{"example.com/team": "a"}],
    "requests": [{"cpu": "3"}],
    "limits": [{"cpu": "3"}],
    "files": [["a.json"]],
    "targetNamespaces": [["a"]],
    "namespaces": [["a", "b"]],
    "defaultGpuResourceKey": ["example.com/gpu"],
    "admissionChecks": [["check"]],
    "admissionChecksStrategy": [{"admissionChecks": [{"name": "check"}]}],
    "namespaceSelector": [{}, {"matchLabels": {"a": "b"}}],
    "preemption": [{"withinClusterQueue": "LowerPriority"}],
    "fairSharing": [{"weight": 2}],
    "operator": ["Equal"],
    "name": ["sample"],
    "path": ["sample"],
    "duration": ["2h"],
    "spec": [
        {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "b", "image": "b:1"}]}}},
        {**SERVED, "minReadySeconds": 5},
        {"entrypoint": "python other.py"},
        {"serveConfigV2": "applications: [{}]\n"},
    ],
}
IDENTITY = {"apiVersion", "kind"}
"""Fields of inner objects that can have one value only."""
_RESOURCES: Path = ("clusterQueues", 0, "spec", "resourceGroups", 0)
TOGETHER = {(*_RESOURCES, "coveredResources"), (*_RESOURCES, "flavors", 0, "resources", 0, "name")}
"""Fields that change together only: test_a_quota_of_a_resource_that_is_not_covered."""


def document(kind: str, spec: dict[str, Any]) -> str:
    name = "base" if kind in ("kaiwojob", "kaiwoservice") else "kaiwo"
    group = GROUPS.get(kind, "kaiwo")
    proper = KINDS.get(kind, "KaiwoConfig" if kind == "kaiwoconfig" else kind)
    body = {"apiVersion": f"{group}.silogen.ai/v1alpha1", "kind": proper, "metadata": {"name": name}, "spec": spec}
    return json.dumps(body) + "\n---\n"


def render(kind: str, spec: dict[str, Any], inventory: Inventory | None) -> Result | None:
    """Render, or return None where a schema refuses the documents."""
    text = document(kind, spec)
    if invalid(text):
        return None
    if kind == "kaiwoconfig":
        for index, (other, workload) in enumerate(WORKLOADS):
            text += document(other, workload).replace('"base"', f'"base-{index}"')
    return rendered(text, Backend.KUEUE, inventory)


def bodies(result: Result) -> list[dict[str, Any]]:
    return [manifest.body for manifest in result.manifests]


def effect(kind: str, path: Path, node: dict[str, Any]) -> Result | None:
    """Return the first rendering that the field changes or that reports it."""
    values = node.get("enum") or [*NAMED.get(str(path[-1]), ()), *VALUES]
    for inventory in (FLEET, None):
        for spec in BASES[kind]:
            base = render(kind, spec, inventory)
            if base is None or base.errors:
                continue
            for value in values:
                changed = with_value(spec, path, value)
                result = None if changed is None else render(kind, changed, inventory)
                if result is None or result.errors:
                    continue
                if bodies(result) != bodies(base) or REPORTED & (set(result.rules) - set(base.rules)):
                    return result
    return None


PREEMPTION: dict[Path, Any] = {
    ("gpuPreemption", "defaultThreshold"): 20,
    ("gpuPreemption", "defaultGracePeriod"): "1h",
    ("gpuPreemption", "defaultPolicy"): "Always",
    ("gpuPreemption", "defaultAggregation"): "Min",
    ("scheduling", "pendingThresholdForPreemption"): "1.5h",
}
"""Fields that `reconciler preempt` reads, with other values than the built-in ones: they change no object."""

FIELDS = [
    (kind, path, node)
    for kind in GROUPS
    for path, node in leaves(schema(kind), schema(kind)["properties"]["spec"])
    if path[-1] not in IDENTITY and path not in TOGETHER and path not in PREEMPTION
]


@pytest.mark.parametrize(
    ("kind", "path", "node"), FIELDS, ids=[f"{kind}.{'.'.join(map(str, path))}" for kind, path, _ in FIELDS]
)
def test_the_field_matters(kind: str, path: Path, node: dict[str, Any], judged: Judge) -> None:
    """F-072, F-077, F-047: setting the field changes an object, or says that it has no effect."""
    result = effect(kind, path, node)
    assert result is not None, "the field has no effect and nothing says so"
    judged(result.manifests)


@pytest.mark.parametrize(("path", "value"), PREEMPTION.items(), ids=[path[-1] for path in PREEMPTION])
def test_the_field_matters_to_preemption(path: Path, value: Any) -> None:
    """F-114: a default of KaiwoConfig changes the rules, and nothing says that it has no effect."""
    spec = with_value({}, path, value)
    assert spec is not None
    rules, problems = with_config(IdleRules(), read("kaiwo.yaml", document("kaiwoconfig", spec).encode()).documents[0])
    assert (rules != IdleRules(), problems) == (True, [])
    result = render("kaiwoconfig", spec, FLEET)
    assert result is not None
    assert not result.errors
    assert not REPORTED & set(result.rules)


def test_the_walk_sees_all_fields() -> None:
    """The walk does not go past a section unnoticed."""
    names = {f"{kind}.{'.'.join(str(part) for part in path if not isinstance(part, int))}" for kind, path, _ in FIELDS}
    assert {
        "kaiwojob.storage.data.download.s3.buckets.folders.glob",
        "kaiwoservice.rayService.spec",
        "kaiwoqueueconfig.clusterQueues.spec.resourceGroups.flavors.resources.lendingLimit",
        "kaiwoconfig.gpuPreemption.defaultTTL",
    } <= names
    assert len(FIELDS) > 180


def test_the_common_fields_are_the_same_in_both_schemas() -> None:
    """One description of a field, in both files."""
    job, service = schema("kaiwojob"), schema("kaiwoservice")
    assert job["$defs"] == service["$defs"]
    own = {"entrypoint", "serveConfigV2", "job", "rayJob", "deployment", "rayService"}
    fields = [
        {k: v for k, v in one["properties"]["spec"]["properties"].items() if k not in own} for one in (job, service)
    ]
    assert fields[0] == fields[1]


def objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("properties"):
            yield node
        for child in node.values():
            yield from objects(child)


@pytest.mark.parametrize("kind", GROUPS)
def test_schemas_are_closed_and_described(kind: str) -> None:
    """Unknown fields are refused everywhere but in what Kubernetes itself defines; every field says what it means."""
    root = schema(kind)
    for path, node in leaves(root, root["properties"]["spec"]):
        assert node.get("description") or "const" in node, path
    for node in objects(root["properties"]["spec"]):
        assert node["additionalProperties"] is False
