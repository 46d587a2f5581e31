"""Flux and Argo CD judge our builds: what they apply from a repository is what we plan, field by field."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from reconciler.plan import opening
from reconciler.plan.use_cases import render
from tests.adopting import repositories
from tests.adopting.test_adopting import adopt
from tests.cli.fleet import Fleet
from tests.cluster.bed import argo_cd, flux
from tests.cluster.bed.bed import Bed, Body
from tests.cluster.bed.git_http import GitServer

Leave = Callable[[str], None]
NAMESPACE, NAME = "training", "adopted-alpha"
_KINDS = {
    "Job": ("/apis/batch/v1", "jobs"),
    "LocalQueue": ("/apis/kueue.x-k8s.io/v1beta1", "localqueues"),
    "ClusterQueue": ("/apis/kueue.x-k8s.io/v1beta1", "clusterqueues"),
    "ResourceFlavor": ("/apis/kueue.x-k8s.io/v1beta1", "resourceflavors"),
}
_KUSTOMIZATION = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{flux.NAMESPACE}/kustomizations/{NAME}"
_ARGO_CD = f"/apis/argoproj.io/v1alpha1/namespaces/{argo_cd.NAMESPACE}"
_ADDED = ("kustomize.toolkit.fluxcd.io/", "argocd.argoproj.io/")
_EMPTY = ("spec", "template", "metadata")  # the server records a mapping without anything in it
_OURS = {"app.kubernetes.io/managed-by", "gpureconciler.io/cluster"}


@pytest.mark.usefixtures("flux")
def test_what_flux_applies_is_what_we_plan(bed: Bed, git_server: GitServer, adopted: Fleet, leave: Leave) -> None:
    """F-151: the cluster's own names have a prefix that the overlay adds."""
    repositories.flux(adopted.root)
    overlay = adopted.root / "apps/alpha/kustomization.yaml"
    overlay.write_text(
        overlay.read_text() + "namePrefix: adopted-\nimages:\n  - {name: registry.example.com/train, newTag: v2}\n"
    )
    url = published(adopted, git_server, "adopted")
    bed.server.client.ensure_namespaces([NAMESPACE])
    kustomization = yaml.safe_load((adopted.root / "clusters/alpha/apps.yaml").read_text())
    leave(_KUSTOMIZATION)
    follow(bed, url, kustomization["spec"])
    assert judged(bed, adopted, "kustomize-controller") == 29


@pytest.mark.usefixtures("argo_cd")
def test_what_argo_cd_applies_is_what_we_plan(bed: Bed, git_server: GitServer, adopted: Fleet, leave: Leave) -> None:
    """F-151: overlays to which an ApplicationSet adds a prefix and an image, and an Application of plain files."""
    repositories.argo(adopted.root)
    path = '        path: "{{.path.path}}"\n'
    options = "        kustomize: {namePrefix: adopted-, images: [registry.example.com/train:v2]}\n"
    adopted.edit("argocd/teams.yaml", path, path + options)
    published(adopted, git_server, "adopted-argo")
    applications = tuple(f"team-{team}" for team in repositories.TEAMS)
    leave(f"{_ARGO_CD}/applicationsets/teams")
    leave(f"{_ARGO_CD}/applications/shared")
    sync(bed, adopted, ("argocd/teams.yaml", "argocd/shared.yaml"), (*applications, "shared"))
    assert judged(bed, adopted, "argocd-controller") == 85


@pytest.mark.usefixtures("argo_cd")
def test_a_chart_is_what_argo_cd_makes_of_it(bed: Bed, git_server: GitServer, adopted: Fleet, leave: Leave) -> None:
    """F-151: an umbrella chart with values of the Application above its own."""
    repositories.helm(adopted.root)
    (adopted.root / "releases/fleet.yaml").unlink()
    source = "path: charts/fleet\n    helm:\n      releaseName: fleet\n      valuesObject: {speech: {quota: 72}}"
    (adopted.root / "releases/application.yaml").write_text(repositories.application("chart", source))
    for file in (adopted.root / "charts").rglob("*.yaml"):
        file.write_text(file.read_text().replace("name: h100\n", "name: h100-chart\n"))
    published(adopted, git_server, "adopted-chart")
    leave(f"{_ARGO_CD}/applications/chart")
    sync(bed, adopted, ("releases/application.yaml",), ("chart",))
    assert judged(bed, adopted, "argocd-controller") == 85
    speech = bed.get(_path({"kind": "ClusterQueue", "metadata": {"name": "speech"}}))
    assert str(speech["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["nominalQuota"]) == "72"


def judged(bed: Bed, adopted: Fleet, manager: str) -> int:
    """Compare each object that we render for the cluster with what was applied; return how many there are."""
    run = opening.open_run(str(adopted.root), {"cluster": "alpha"}, os.environ)
    bodies = [yaml.safe_load(raw) for raw in render(run.workspace).values()]
    for body in bodies:
        live = bed.get(_path(body))
        ours, theirs = fields(plain(body)), {*applied(live, manager)} - {_EMPTY}
        # A list that is replaced as a whole is one field there.
        assert {field for field in ours if not any(field[: len(one)] == one for one in theirs)} == set()
        assert {one for one in theirs if not any(field[: len(one)] == one for field in ours)} == set()
        assert [*differing(plain(body), live)] == []
    assert {_path(item) for item in delivered(bed)} == {_path(body) for body in bodies}
    return len(bodies)


def published(adopted: Fleet, git_server: GitServer, name: str) -> str:
    """Adopt the repository and push it to a server, whose URL its own objects name; return the URL."""
    url = git_server.create(name)
    adopted.git("remote", "add", "origin", url)
    for file in adopted.root.rglob("*.yaml"):
        file.write_text(file.read_text().replace(repositories.URL, url))
    adopt(adopted, lambda _: None)
    adopted.git("push", "--quiet", "origin", "HEAD:main")
    return url


def follow(bed: Bed, url: str, spec: dict[str, Any]) -> None:
    """Let Flux deliver the repository, and wait until it has."""
    metadata = {"name": NAME, "namespace": flux.NAMESPACE}
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


def sync(bed: Bed, adopted: Fleet, paths: tuple[str, ...], applications: tuple[str, ...]) -> None:
    """Let Argo CD deliver what some files say, and wait until their applications are synced."""
    bed.apply(argo_cd.cluster_secret("alpha", bed.kubeconfig))
    bed.apply(*(yaml.safe_load((adopted.root / path).read_text()) for path in paths))

    def is_synced(name: str) -> bool:
        status = (bed.find(f"{_ARGO_CD}/applications/{name}") or {}).get("status", {})
        failed = [one for one in status.get("conditions") or () if one["type"].endswith("Error")]
        assert not failed, failed
        return bool(status.get("operationState", {}).get("phase") == "Succeeded")

    bed.wait(lambda: all(map(is_synced, applications)), "Argo CD synced its applications")


def delivered(bed: Bed) -> list[Body]:
    """Return the objects that Flux or Argo CD delivered for a test of this module."""
    items = [
        {**item, "kind": kind} for kind, (api, plural) in _KINDS.items() for item in bed.get(f"{api}/{plural}")["items"]
    ]
    return [item for item in items if _deliverer(item["metadata"]) in _DELIVERERS]


_DELIVERERS = {NAME, "shared", "chart", *(f"team-{team}" for team in repositories.TEAMS)}


def _deliverer(metadata: Body) -> str:
    """Return the name of the Kustomization or the Application that an object comes from."""
    tracking: str = (metadata.get("annotations") or {}).get("argocd.argoproj.io/tracking-id", "")
    name: str = (metadata.get("labels") or {}).get("kustomize.toolkit.fluxcd.io/name", tracking.partition(":")[0])
    return name


def _path(body: Body) -> str:
    (api, plural), metadata = _KINDS[body["kind"]], body["metadata"]
    where = f"namespaces/{metadata['namespace']}/" if "namespace" in metadata else ""
    return f"{api}/{where}{plural}/{metadata['name']}"


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


def applied(live: Body, manager: str) -> Iterator[tuple[str, ...]]:
    """Yield the fields that a manager applied, as the server recorded them."""
    (entry,) = [
        one for one in live["metadata"]["managedFields"] if (one["manager"], one["operation"]) == (manager, "Apply")
    ]
    for field in _leaves(entry["fieldsV1"], ()):
        if not any(part.startswith(_ADDED) for part in field):
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


@pytest.fixture
def leave(bed: Bed) -> Iterator[Leave]:
    """Return how to name what delivers, which is removed at the end with all that it delivered."""
    paths: list[str] = []
    yield paths.append
    for path in paths:
        bed.server.client.request("DELETE", path)
    bed.wait(lambda: not delivered(bed), "what was delivered is gone")
