"""A real API server and our rows of kinds agree on what can be changed in place."""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.adapters import bundle
from reconciler.core.kinds.registry import BUILT_IN
from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import FieldPath, ObjectKey, SourceRef, format_path, split_api_version
from reconciler.core.plan.comparison import compare
from reconciler.core.plan.replacements import shrinks
from reconciler.core.schemas import Catalogue
from tests.cluster.client import Result
from tests.cluster.server import ApiServer

Body = dict[str, Any]
CATALOGUE = Catalogue(bundle)
NAMESPACE = "updates"


def row_of(body: Mapping[str, Any]) -> Any:
    group, _ = split_api_version(body["apiVersion"])
    return BUILT_IN.find(group, body["kind"])


SPECIMENS = [
    pytest.param(body, id=f"{body['apiVersion']}/{body['kind']}")
    for path in sorted((Path(__file__).parent / "specimens").glob("*.yaml"))
    for body in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    if row_of(body).immutable is not None or row_of(body).pods is not None
]


def is_refused(before: Body, after: Body) -> bool:
    """Return whether a plan would say that the object must be replaced, or that the change is an error."""
    group, _ = split_api_version(after["apiVersion"])
    metadata = after["metadata"]
    key = ObjectKey(group=group, kind=after["kind"], namespace=metadata.get("namespace", ""), name=metadata["name"])
    manifest = Manifest(cluster="main", key=key, body=after, source=SourceRef(path="a.yaml"))
    comparison = compare(BUILT_IN, CATALOGUE, before, manifest)
    return bool(comparison.frozen) or shrinks(comparison)


def edits(body: Body) -> Iterator[tuple[str, Body]]:
    """Yield the object with one value changed or removed, for every value outside its identity."""
    for path in _leaves(body, ()):
        if path[0] in {"apiVersion", "kind", "status"} or path[:2] in {("metadata", "name"), ("metadata", "namespace")}:
            continue
        for verb, change in (("change", _changed), ("remove", None)):
            edited = copy.deepcopy(body)
            holder: Any = edited
            for step in path[:-1]:
                holder = holder[step]
            if change is None:
                del holder[path[-1]]
            else:
                holder[path[-1]] = change(holder[path[-1]])
            yield f"{verb} {format_path(path)}", edited


def _changed(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str) and value.endswith("Gi"):
        return f"{int(value[:-2]) + 1}Gi"
    return f"{value}x"


def _leaves(node: Any, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(node, dict) and node:
        for key, value in node.items():
            yield from _leaves(value, (*path, key))
    elif isinstance(node, list) and node:
        for index, value in enumerate(node):
            yield from _leaves(value, (*path, index))
    else:
        yield path


def stored(api_server: ApiServer, body: Body, name: str) -> Body:
    """Create an object for real, under its own name in a namespace of these tests."""
    own = copy.deepcopy(body)
    own["metadata"]["name"] = name
    if own["metadata"].get("namespace") or CATALOGUE.is_namespaced(
        split_api_version(own["apiVersion"])[0], own["kind"]
    ):
        own["metadata"]["namespace"] = NAMESPACE
    (made,) = api_server.client.apply([own])
    assert made.ok, made.message
    return own


def under(body: Body, name: str) -> Body:
    return {**body, "metadata": {**body["metadata"], "name": name}}


@pytest.mark.parametrize("specimen", SPECIMENS)
def test_an_update_is_what_the_server_takes(api_server: ApiServer, specimen: Body) -> None:
    """F-062: of all edits that are valid in a new object, the server refuses those that we call a replacement."""
    before = stored(api_server, specimen, "before")
    try:
        cases = list(edits(before))
        valid = api_server.apply_dry_run([under(body, "new") for _, body in cases])
        cases = [case for case, result in zip(cases, valid, strict=True) if result.ok]
        results = api_server.apply_dry_run([body for _, body in cases])
        wrong = [
            f"{name}: {'refused by us alone' if result.ok else result.message}"
            for (name, body), result in zip(cases, results, strict=True)
            if result.ok is is_refused(before, body) and not _only_in_a_cluster(name, body, result)
        ]
        assert not wrong, "\n".join(wrong)
        assert cases
    finally:
        path = api_server.client.path(before)
        assert path is not None
        api_server.client.request("DELETE", f"{path}?propagationPolicy=Background&gracePeriodSeconds=0")


def suspended_job(**spec: Any) -> Body:
    resources = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": 1}}
    container = {"name": "a", "image": "busybox:1.36", "resources": resources, "env": [{"name": "A", "value": "b"}]}
    pod = {"restartPolicy": "Never", "containers": [container], "nodeSelector": {"gpu": "h100"}}
    template = {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "a"}}, "spec": pod}
    counts = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "backoffLimit": 3}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "x", "namespace": NAMESPACE},
        "spec": {**counts, "template": {**template}, **spec},
    }


@pytest.mark.parametrize("suspend", [True, False])
def test_a_suspended_job_may_be_placed_elsewhere(api_server: ApiServer, suspend: bool) -> None:
    """While a job is suspended, its pods may run elsewhere; what they do stays."""
    test_an_update_is_what_the_server_takes(api_server, suspended_job(suspend=suspend))
    before = stored(api_server, suspended_job(suspend=suspend), "resized")
    resized = copy.deepcopy(before)
    resized["spec"] |= {"parallelism": 4, "completions": 4}
    (result,) = api_server.apply_dry_run([resized])
    assert result.ok is not is_refused(before, resized), result.message


@pytest.mark.parametrize("size", ["10Gi", "20Gi", "30Gi"])
def test_a_bound_claim_grows_and_never_shrinks(api_server: ApiServer, size: str) -> None:
    """F-062: the server compares the size with the capacity of a bound claim."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": "20Gi"}},
    }
    metadata = {"name": "x", "namespace": NAMESPACE}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    expandable = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"}}
    (made,) = api_server.client.apply([{**expandable, "provisioner": "example.com/a", "allowVolumeExpansion": True}])
    assert made.ok, made.message
    before = stored(api_server, claim, f"bound-{size.lower()}")
    path = api_server.client.path(before, subresource="/status")
    assert path is not None
    status = {"status": {"phase": "Bound", "capacity": {"storage": "20Gi"}, "accessModes": ["ReadWriteOnce"]}}
    answer = api_server.client.request("PATCH", path, status, content_type="application/merge-patch+json")
    assert answer.ok, answer.body
    after = copy.deepcopy(before)
    after["spec"]["resources"]["requests"]["storage"] = size
    (result,) = api_server.apply_dry_run([after])
    assert result.ok is (size != "10Gi"), result.message
    assert result.ok is not is_refused(before, after)


def _only_in_a_cluster(name: str, body: Body, result: Result) -> bool:
    """Tell what this server cannot know, because an operator's webhook says it, or how it handles what becomes empty."""
    if 'Invalid value: "null"' in result.message:
        return True  # server-side apply leaves null where the last key of a mapping is removed
    if name == "remove spec.clusterIP":
        return True  # the server keeps the address that it gave
    if body["kind"] == "Pod" and name == "remove spec.priorityClassName":
        return True  # set again by an admission plugin
    field = name.partition(" ")[2]
    return any(body["kind"] == kind and field.startswith(start) for kind, start in _WEBHOOKS)


_WEBHOOKS = (("JobSet", "spec.replicatedJobs"), ("Job", 'metadata.labels["kueue.x-k8s.io/queue-name"]'))
"""Fields that webhooks of JobSet and Kueue protect."""
