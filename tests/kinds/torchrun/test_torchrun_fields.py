"""Every field of both schemas either changes what is rendered, or is reported: nothing is read and dropped in silence."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler import resources
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.yaml import Document
from reconciler.repo.config import Backend
from tests.cluster.judges import Judge
from tests.kinds.torchrun.torchrun_cases import CATALOGUE, documents, rendered
from tests.kinds.walking import Path, Result, with_value

REPORTED = {"torchrun.unsupported", "torchrun.no-queueing", "torchrun.backend"}


def schema(kind: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(resources.read(f"schemas/torchrun.ai/v1alpha1/{kind}.json"))
    return loaded


def leaves(root: dict[str, Any], node: dict[str, Any], path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield every field that holds a value, through references and lists of closed objects."""
    if "$ref" in node:
        node = root["$defs"][node["$ref"].rpartition("/")[2]]
    if node.get("properties") and node.get("additionalProperties") is False:
        for name, child in node["properties"].items():
            yield from leaves(root, child, (*path, name))
    elif node.get("type") == "array" and node["items"].get("additionalProperties") is False:
        yield from leaves(root, node["items"], (*path, 0))
    else:
        yield path, node


FLAT_QUEUE = {
    "image": "train:1",
    "nodeResources": {"gpus": 8, "cpus": 96, "memory": "800Gi"},
    "storage": {
        "workspace": {"sizePerGPU": "1Gi"},
        "datasets": {"size": "1Gi"},
        "checkpoints": {"size": "1Gi"},
    },
}
FLAT_JOB = {"jobQueue": "base", "command": "python train.py", "numGPUs": 16}
CLAIM = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
CLAIM_SPEC = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
TYPED_QUEUE = {
    "queue": {"parentQueue": "default"},
    "podTemplate": {"spec": {"containers": [{"name": "trainer", "image": "train:1", "resources": {"limits": {}}}]}},
    "workspaceStorage": {"source": "git", "url": "https://git.example.com/a.git"},
    "resources": [{"name": "extra", "template": {**CLAIM, "spec": CLAIM_SPEC}}],
}
TYPED_JOB = {
    "queue": "base",
    "command": "python train.py",
    "numNodes": 2,
    "env": [{"name": "BASE"}],
    "volumes": {
        "additionalVolumes": [{"name": "scratch", "emptyDir": {}}, {"name": "sample", "emptyDir": {}}],
        "additionalMounts": [{"name": "scratch", "mountPath": "/scratch"}],
    },
}
ZIP_QUEUE = {"image": "train:1", "workspaceStorage": {"source": "zip", "url": "https://example.com/a.zip"}}
BARE_JOB = {"jobQueue": "base", "command": "python train.py"}
NETWORK_QUEUE = {
    "image": "train:1",
    "nodeResources": {"gpus": 8},
    "network": "rdma-hca",
    "networks": [{"name": "rdma-hca", "env": [{"name": "NCCL_IB_HCA", "value": "mlx5"}]}],
}
BASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (FLAT_QUEUE, FLAT_JOB),
    (TYPED_QUEUE, TYPED_JOB),
    (ZIP_QUEUE, BARE_JOB),
    (NETWORK_QUEUE, {**BARE_JOB, "numGPUs": 16}),
]

VALUES: list[Any] = [True, False, 0, 1, 3, 1024, "sample", "/sample", "3Gi", "a" * 64, "base", 2.5]
NAMED: dict[str, list[Any]] = {
    "affinity": [{"nodeAffinity": {}}],
    "tolerations": [[{"key": "gpu", "operator": "Exists"}]],
    "securityContext": [{"runAsUser": 1000}],
    "valueFrom": [{"secretKeyRef": {"name": "hub", "key": "token"}}],
    "spec": [{"containers": [{"name": "trainer", "image": "other:1"}]}],
    "template": [{"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}],
    "additionalVolumes": [[{"name": "scratch", "hostPath": {"path": "/scratch"}}, {"name": "sample", "emptyDir": {}}]],
    "accessModes": [["ReadWriteOnce"], ["ReadOnlyMany"]],
    "nodeSelector": [{"pool": "a"}],
    "labels": [{"team": "a"}],
    "annotations": [{"example.com/team": "a"}],
    "network": ["rdma-shared", "none"],
    "preset": ["rdma-shared"],
    "resources": [{"rdma/ib": 1}],
    "capabilities": [["SYS_RESOURCE"]],
    "queue": ["base"],
    "jobQueue": ["base"],
}


def document(kind: str, spec: dict[str, Any]) -> Document:
    body = {"apiVersion": "torchrun.ai/v1alpha1", "kind": kind, "metadata": {"name": "base"}, "spec": spec}
    (found,) = documents(json.dumps(body), f"{kind}.json")
    return found


def render(queue: dict[str, Any], job: dict[str, Any], backend: Backend) -> Result | None:
    """Render, or return None where a schema refuses the documents."""
    docs = (document("TorchrunQueue", queue), document("TorchrunJob", job))
    if any(CATALOGUE.validate(doc) for doc in docs):
        return None
    return rendered(docs, backend)


def bodies(result: Result) -> list[dict[str, Any]]:
    return [manifest.body for manifest in result.manifests]


def effect(kind: str, path: Path, node: dict[str, Any]) -> Result | None:
    """Return the first rendering that the field changes or that reports it."""
    values = node.get("enum") or NAMED.get(str(path[-1])) or VALUES
    for backend in Backend:
        for queue, job in BASES:
            base = render(queue, job, backend)
            assert base is not None
            assert base.errors == []
            for value in values:
                changed = with_value(queue if kind == "torchrunqueue" else job, path, value)
                if changed is None:
                    continue
                pair = (changed, job) if kind == "torchrunqueue" else (queue, changed)
                result = render(*pair, backend)
                if result is None or result.errors:
                    continue
                reported = REPORTED & (set(result.rules) - set(base.rules))
                if bodies(result) != bodies(base) or reported:
                    return result
    return None


FIELDS = [
    (kind, path, node)
    for kind in ("torchrunqueue", "torchrunjob")
    for path, node in leaves(schema(kind), schema(kind)["properties"]["spec"])
]
ALIASES = {("torchrunjob", ("queue",)), ("torchrunjob", ("jobQueue",))}  # required: one of them is in every base

NOT_RENDERED = {("torchrunqueue", ("onImmutableChange",))}  # plans read it: tests/cli/test_replacements.py


@pytest.fixture(scope="module")
def seen() -> dict[str, Manifest]:
    return {}


@pytest.mark.parametrize(
    ("kind", "path", "node"), FIELDS, ids=[f"{kind}.{'.'.join(map(str, path))}" for kind, path, _ in FIELDS]
)
def test_the_field_matters(kind: str, path: Path, node: dict[str, Any], judged: Judge) -> None:
    """F-041, F-054, F-061, F-064: setting the field changes an object, or says that it is not supported."""
    if (kind, path) in NOT_RENDERED:
        return
    if (kind, path) in ALIASES:
        assert node["description"].count("Also") == 1
        return
    result = effect(kind, path, node)
    assert result is not None, "the field has no effect and nothing says so"
    judged(result.manifests)


def test_the_walk_sees_all_fields() -> None:
    """The walk does not go past a section unnoticed."""
    names = {".".join(str(part) for part in path if not isinstance(part, int)) for _, path, _ in FIELDS}
    assert {"kaiQueue", "queue.resources.gpu.quota", "resources.nameMode", "distributed.minNodes", "env.value"} <= names
    assert len(FIELDS) > 100


def test_shared_sections_are_the_same_in_both_schemas() -> None:
    """One description of a section, in both files."""
    queue, job = schema("torchrunqueue")["$defs"], schema("torchrunjob")["$defs"]
    for name in ("quantity", "accessModes", "workspaceStorage"):
        assert queue[name] == job[name]
    assert queue["scheduling"]["properties"] == job["scheduling"]["properties"]
    elastic = {"minNodes", "maxNodes"}
    assert set(job["distributed"]["properties"]) - elastic == set(queue["distributed"]["properties"])


def objects(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if node.get("type") == "object" or "properties" in node:
            yield node
        for child in node.values():
            yield from objects(child)


@pytest.mark.parametrize("kind", ["torchrunqueue", "torchrunjob"])
def test_schemas_are_closed_and_described(kind: str) -> None:
    """Unknown fields are refused everywhere but in what Kubernetes itself defines; every field says what it means."""
    root = schema(kind)
    for path, node in leaves(root, root["properties"]["spec"]):
        assert node.get("description"), path
    for node in objects(root):
        if node.get("properties"):
            assert node.get("description") or node.get("additionalProperties") is not False
            assert "additionalProperties" in node
