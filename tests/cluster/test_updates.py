"""A real API server and our rows of kinds agree on what can be changed in place."""

import copy
from typing import Any

import pytest

from reconciler.adapters import bundle
from reconciler.core.kinds.registry import BUILT_IN
from reconciler.core.manifests.manifest import Manifest
from reconciler.core.objects import ObjectKey, SourceRef, split_api_version
from reconciler.core.plan.comparison import compare
from reconciler.core.plan.replacements import shrinks
from reconciler.core.schemas import Catalogue
from tests.cluster.server import ApiServer

Body = dict[str, Any]
CATALOGUE = Catalogue(bundle)
NAMESPACE = "updates"


def is_refused(before: Body, after: Body) -> bool:
    """Return whether a plan would say that the object must be replaced, or that the change is an error."""
    group, _ = split_api_version(after["apiVersion"])
    metadata = after["metadata"]
    key = ObjectKey(group=group, kind=after["kind"], namespace=metadata.get("namespace", ""), name=metadata["name"])
    manifest = Manifest(cluster="main", key=key, body=after, source=SourceRef(path="a.yaml"))
    comparison = compare(BUILT_IN, CATALOGUE, before, manifest)
    return bool(comparison.frozen) or shrinks(comparison)


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
def test_an_indexed_job_may_be_resized(api_server: ApiServer, suspend: bool) -> None:
    """F-062: completions and parallelism change together."""
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
        "storageClassName": "expandable",
        "resources": {"requests": {"storage": "20Gi"}},
    }
    metadata = {"name": "x", "namespace": NAMESPACE}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    expandable = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "expandable"}}
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
