"""The judge of our builds is Flux: what it applies from a repository is what we plan."""

import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from reconciler.plan import opening
from reconciler.plan.use_cases import render
from tests.adopting import repositories
from tests.adopting.test_adopting import adopt
from tests.cli.fleet import Fleet
from tests.cluster.bed import flux as flux_part
from tests.cluster.bed.bed import Bed, Body
from tests.cluster.bed.git_http import GitServer

pytestmark = pytest.mark.usefixtures("flux")
NAMESPACE, NAME = "training", "adopted-alpha"
_OBJECTS = {
    "Job": f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs",
    "LocalQueue": f"/apis/kueue.x-k8s.io/v1beta1/namespaces/{NAMESPACE}/localqueues",
    "ClusterQueue": "/apis/kueue.x-k8s.io/v1beta1/clusterqueues",
    "ResourceFlavor": "/apis/kueue.x-k8s.io/v1beta1/resourceflavors",
}
_KUSTOMIZATION = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{flux_part.NAMESPACE}/kustomizations/{NAME}"
_EMPTY = ("spec", "template", "metadata")  # the server records a mapping without anything in it
_OURS = {"app.kubernetes.io/managed-by", "gpureconciler.io/cluster"}


def test_what_flux_applies_is_what_we_plan(bed: Bed, git_server: GitServer, adopted: Fleet) -> None:
    """F-151: each object, each field and each value; the cluster's own names have a prefix that the overlay adds."""
    repositories.flux(adopted.root)
    overlay = adopted.root / "apps/alpha/kustomization.yaml"
    overlay.write_text(
        overlay.read_text() + "namePrefix: adopted-\nimages:\n  - {name: registry.example.com/train, newTag: v2}\n"
    )
    adopt(adopted, lambda _: None)
    url = git_server.create("adopted")
    adopted.git("push", "--quiet", url, "HEAD:main")
    bed.server.client.ensure_namespaces([NAMESPACE])
    kustomization = yaml.safe_load((adopted.root / "clusters/alpha/apps.yaml").read_text())
    follow(bed, url, kustomization["spec"])
    run = opening.open_run(str(adopted.root), {"cluster": "alpha"}, os.environ)
    bodies = [yaml.safe_load(raw) for raw in render(run.workspace).values()]
    assert len(bodies) == 29
    for body in bodies:
        live = bed.get(f"{_OBJECTS[body['kind']]}/{body['metadata']['name']}")
        ours, theirs = fields(plain(body)), {*applied(live)} - {_EMPTY}
        # A list that is replaced as a whole is one field there.
        assert {field for field in ours if not any(field[: len(one)] == one for one in theirs)} == set()
        assert {one for one in theirs if not any(field[: len(one)] == one for field in ours)} == set()
        assert [*differing(plain(body), live)] == []
    names = {item["metadata"]["name"] for path in _OBJECTS.values() for item in labelled(bed, path)}
    assert names == {body["metadata"]["name"] for body in bodies}


def follow(bed: Bed, url: str, spec: dict[str, Any]) -> None:
    """Let Flux deliver the repository, and wait until it has."""
    metadata = {"name": NAME, "namespace": flux_part.NAMESPACE}
    source = {"interval": "24h", "url": url, "ref": {"branch": "main"}}
    bed.apply(
        {"apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository", "metadata": metadata, "spec": source}
    )
    spec = {**spec, "interval": "24h", "prune": True, "sourceRef": {"kind": "GitRepository", "name": NAME}}
    bed.apply(
        {"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "metadata": metadata, "spec": spec}
    )

    def is_ready() -> bool:
        conditions = bed.get(_KUSTOMIZATION).get("status", {}).get("conditions") or ()
        (ready,) = [one for one in conditions if one["type"] == "Ready"] or [{"status": "", "reason": ""}]
        assert ready["reason"] not in {"BuildFailed", "ReconciliationFailed"}, ready
        return bool(ready["status"] == "True")

    bed.wait(is_ready, "Flux delivered the repository")


def labelled(bed: Bed, path: str) -> list[Body]:
    selector = f"labelSelector=kustomize.toolkit.fluxcd.io%2Fname%3D{NAME}"
    items: list[Body] = bed.get(f"{path}?{selector}")["items"]
    return items


def plain(body: Body) -> Body:
    """Return an object without what we add to it."""
    metadata = dict(body["metadata"])
    for name in ("labels", "annotations"):
        kept = {key: value for key, value in metadata.pop(name, {}).items() if key not in _OURS}
        metadata |= {name: kept} if kept else {}
    return {**body, "metadata": metadata}


def fields(node: Any, at: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    """Return the fields of an object that hold values, without positions in lists."""
    if isinstance(node, dict) and node:
        return {field for key, value in node.items() for field in fields(value, (*at, key))} - _IDENTITY
    if isinstance(node, list) and node and isinstance(node[0], dict):
        return {field for value in node for field in fields(value, at)}
    return {at}


_IDENTITY = {("apiVersion",), ("kind",), ("metadata", "name"), ("metadata", "namespace")}


def applied(live: Body) -> Iterator[tuple[str, ...]]:
    """Yield the fields that Flux applied, as the server recorded them."""
    (entry,) = [one for one in live["metadata"]["managedFields"] if one["manager"] == "kustomize-controller"]
    for field in _leaves(entry["fieldsV1"], ()):
        if not any(part.startswith("kustomize.toolkit.fluxcd.io/") for part in field):
            yield field


def _leaves(node: Body, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    children = {key: value for key, value in node.items() if key != "."}
    if not children:
        yield at
    for key, value in children.items():
        yield from _leaves(value, (*at, key[2:]) if key.startswith("f:") else at)


def differing(ours: Any, live: Any, at: str = "") -> Iterator[str]:
    """Yield the fields of ours that are another value on the server."""
    if isinstance(ours, dict):
        for key, value in ours.items():
            yield from differing(value, (live or {}).get(key), f"{at}.{key}")
    elif isinstance(ours, list) and isinstance(live, list) and len(ours) == len(live):
        for index, (one, other) in enumerate(zip(ours, live, strict=True)):
            yield from differing(one, other, f"{at}[{index}]")
    elif str(ours) != str(live):  # the server writes quantities as text
        yield f"{at}: {ours!r}, {live!r}"


@pytest.fixture(autouse=True)
def _leave(bed: Bed) -> Iterator[None]:
    """Remove what Flux delivered, and wait until it is gone."""
    yield
    bed.server.client.request("DELETE", _KUSTOMIZATION)
    deadline = time.monotonic() + 60
    while any(labelled(bed, path) for path in _OBJECTS.values()) and time.monotonic() < deadline:
        time.sleep(0.2)
