"""Edits that people make on a cluster, beside what Git says: each is told with who made it, and reverted by an apply."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from reconciler.kube.client import KubernetesCluster, load_access
from reconciler.kube.objects import ObjectKey, split_api_version
from tests.cli.fleet import Fleet
from tests.cluster.bed.bed import Bed
from tests.live.apply.conftest import Site, settled

pytestmark = [pytest.mark.usefixtures("kueue"), pytest.mark.timeout(600)]
NAME = "live-edits"
_STALE = 5
SOURCES = Path(__file__).with_name("edited.yaml").read_text().replace("NAME", NAME)
_CONTAINER = "spec.template.spec.containers[name=web]"
_IN_POD = "/spec/template/spec/containers/0"


class LiveEdit(NamedTuple):
    """An edit of an object (`Kind/name`): a merge patch or a JSON patch, and the field that drift names."""

    object: str
    patch: Any
    field: str


def _spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def _add(path: str, value: Any) -> list[dict[str, Any]]:
    return [{"op": "add", "path": path, "value": value}]


def _set(path: str, value: Any) -> list[dict[str, Any]]:
    return [{"op": "replace", "path": path, "value": value}]


_QUOTA = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
_TOLERATION = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
_SELECTOR = {"matchLabels": {"team": "x"}}
EDITS = [
    LiveEdit("Deployment/web", _spec(replicas=3), "spec.replicas"),
    LiveEdit("Deployment/web", _set(f"{_IN_POD}/image", "example.com/web:hot"), f"{_CONTAINER}.image"),
    LiveEdit("Deployment/web", _set(f"{_IN_POD}/env/0/value", "2"), f"{_CONTAINER}.env[name=A].value"),
    LiveEdit("Deployment/web", _add(f"{_IN_POD}/env/-", {"name": "B", "value": "2"}), f"{_CONTAINER}.env[name=B].value"),
    LiveEdit("Deployment/web", [{"op": "remove", "path": f"{_IN_POD}/env"}], f"{_CONTAINER}.env"),
    LiveEdit("Deployment/web", _set(f"{_IN_POD}/resources/limits/cpu", "2"), f"{_CONTAINER}.resources.limits.cpu"),
    LiveEdit("Deployment/web", _add("/spec/template/spec/containers/-", {"name": "side", "image": "side:1"}), "[name=side]"),
    LiveEdit("Deployment/web", _add("/spec/template/metadata/labels/tier", "gold"), "spec.template.metadata.labels.tier"),
    LiveEdit("Deployment/web", _spec(strategy={"type": "Recreate", "rollingUpdate": None}), "spec.strategy.type"),
    LiveEdit("Deployment/web", {"metadata": {"labels": {"team": "other"}}}, "metadata.labels.team"),
    LiveEdit("ClusterQueue/live-edits", _set(_QUOTA, 64), "nominalQuota"),
    LiveEdit("ClusterQueue/live-edits", _spec(stopPolicy="HoldAndDrain"), "spec.stopPolicy"),
    LiveEdit("ClusterQueue/live-edits", _spec(preemption={"withinClusterQueue": "LowerPriority"}), "withinClusterQueue"),
    LiveEdit("ClusterQueue/live-edits", _spec(namespaceSelector=_SELECTOR), "spec.namespaceSelector.matchLabels"),
    LiveEdit("LocalQueue/queue", _spec(stopPolicy="Hold"), "spec.stopPolicy"),
    LiveEdit("ResourceFlavor/flavor-live-edits", _spec(tolerations=[_TOLERATION]), "spec.tolerations"),
    LiveEdit("Queue/live-edits", _spec(priority=900), "spec.priority"),
    LiveEdit("Queue/live-edits", _spec(resources={"gpu": {"quota": 64}}), "spec.resources.gpu.quota"),
    LiveEdit("ConfigMap/settings", {"data": {"a": "2"}}, "data.a"),
    LiveEdit("ConfigMap/settings", {"data": {"b": None}}, "data.b"),
    LiveEdit("ConfigMap/settings", {"data": {"c": "3"}}, "data.c"),
    LiveEdit("Service/web", _add("/spec/ports/-", {"name": "debug", "port": 6060}), "spec.ports"),
    LiveEdit("CronJob/nightly", _spec(schedule="* * * * *"), "spec.schedule"),
    LiveEdit("CronJob/nightly", _spec(suspend=True), "spec.suspend"),
    LiveEdit("PodDisruptionBudget/web", _spec(minAvailable=0), "spec.minAvailable"),
    LiveEdit("Role/reader", _set("/rules/0/verbs", ["*"]), "rules"),
    LiveEdit("RoleBinding/readers", _add("/subjects/-", {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "eve"}), "subjects"),
    LiveEdit("ResourceQuota/gpus", _spec(hard={"requests.nvidia.com/gpu": "64"}), "spec.hard"),
    LiveEdit("NetworkPolicy/inside", _spec(ingress=[{}]), "spec.ingress"),
]  # fmt: skip


def _keys() -> dict[str, ObjectKey]:
    found = {}
    for body in yaml.safe_load_all(SOURCES):
        group, metadata = split_api_version(body["apiVersion"])[0], body["metadata"]
        key = ObjectKey(group=group, kind=body["kind"], namespace=metadata.get("namespace", ""), name=metadata["name"])
        found[f"{key.kind}/{key.name}"] = key
    return found


KEYS = _keys()


@pytest.fixture(scope="module")
def made(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Make a repository of all objects for the cluster; the first test applies it."""
    folder = tmp_path_factory.mktemp("edits")
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        KubernetesCluster(load_access({}, kubeconfig=str(bed.kubeconfig))) as cluster,
    ):
        site = Site(Fleet(folder / "fleet", None), cluster, bed.server, folder, NAME)  # type: ignore[arg-type]  # each test has its own
        settled(site, monkeypatch)
        site.write("queues/edited.yaml", SOURCES)
        yield site


@pytest.fixture
def site(made: Site, capsys: pytest.CaptureFixture[str]) -> Site:
    """Return the site, in sync with the cluster."""
    made.fleet.capture = capsys
    if not any((made.fleet.root / "rendered").rglob("*.yaml")):  # what somebody removed is seen from it
        made.fleet.commit()
        assert made.fleet.run("commit").code == 0
    apply(made)
    assert drift(made) == []
    return made


def apply(site: Site) -> None:
    """Apply what is committed; once more if a controller wrote in between. No pod has a node, so nobody waits for them."""
    for code in (_STALE, _STALE, 0):
        planned = site.plan()
        assert planned.code == 0, planned.out + planned.err
        applied = site.apply("--no-wait")
        if applied.code == 0:
            return
        assert applied.code == code, applied.out + applied.err


def drift(site: Site) -> list[dict[str, Any]]:
    ran = site.fleet.run("drift", "-o", "json", *site.flags)
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


def content(site: Site, key: ObjectKey) -> dict[str, Any]:
    """Return what an object says: all but its status, and what servers and controllers note in its metadata."""
    body = site.cluster.get(key)
    assert body is not None
    kept = {name: value for name, value in body.items() if name not in ("status", "metadata")}
    return {**kept, "labels": body["metadata"].get("labels")}


@pytest.mark.parametrize("edit", EDITS, ids=[f"{edit.object}: {edit.field}" for edit in EDITS])
def test_an_edit_is_told_with_its_author_and_reverted(site: Site, edit: LiveEdit) -> None:
    """F-143: changed, removed and added values alike. An edit that only removes leaves no trace of its author."""
    key = KEYS[edit.object]
    before = content(site, key)
    site.cluster.patch(key, edit.patch, manager="kubectl-edit")
    assert content(site, key) != before
    found = drift(site)
    assert {one["key"]["name"] for one in found} == {key.name}
    named = [one for one in found if edit.field in one["field"]]
    assert named, [one["field"] for one in found]
    first = named[0]
    who = [*first["managers"], first["lastWriter"]]
    body = site.cluster.get(key) or {}
    has_trace = "kubectl-edit" in [one["manager"] for one in body["metadata"]["managedFields"]]
    assert any(one.startswith("kubectl-edit ") for one in who) == has_trace, who
    assert {one["action"] for one in found} == {"revert"}
    apply(site)
    after = content(site, key)
    assert after == before, (after, before)
    assert drift(site) == []
