"""Fields that others add beside ours are drift, on the real API server: told with who added them, and reverted."""

import json
from typing import Any

import pytest
import yaml

from reconciler.kube.objects import ObjectKey
from tests.cli.fleet import Ran
from tests.live.apply.conftest import Site
from tests.live.drift.test_policy import decide


def words(ran: Ran) -> str:
    return " ".join(ran.out.split())


_CLUSTER_QUEUE = {
    "apiVersion": "kueue.x-k8s.io/v1beta1",
    "kind": "ClusterQueue",
    "metadata": {"name": "shared"},
    "spec": {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["nvidia.com/gpu"],
                "flavors": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 8}]}],
            }
        ],
    },
}
_FLAVOR = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ResourceFlavor", "metadata": {"name": "h100"}}


def _deployment(site: Site) -> dict[str, Any]:
    labels = {"app": "web"}
    containers = [{"name": "web", "image": "example.com/web:1", "env": [{"name": "A", "value": "1"}]}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": site.metadata("web"),
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def _start(site: Site) -> None:
    site.queue("top")
    site.config_map("settings", a="1")
    site.write("jobs/web.yaml", _deployment(site))
    site.write("queues/flavor.yaml", _FLAVOR)
    site.write("queues/shared.yaml", _CLUSTER_QUEUE)
    assert site.reconcile().code == 0
    assert site.plan("--exit-code").code == 0


def _drift(site: Site) -> list[dict[str, Any]]:
    ran = site.fleet.run("drift", "-o", "json", *site.flags)
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


def _edit(site: Site, key: ObjectKey, changes: Any) -> None:
    site.cluster.patch(key, changes, manager="kubectl-edit")


def test_fields_that_others_add_are_told_and_reverted(site: Site) -> None:
    """F-143: of queues, pods and settings; nothing of it was in Git, so that an apply alone would not touch it."""
    _start(site)
    web, queue = (
        site.key("Deployment", "web", "apps"),
        ObjectKey(group="kueue.x-k8s.io", kind="ClusterQueue", namespace="", name="shared"),
    )
    kai = ObjectKey(group="scheduling.run.ai", kind="Queue", namespace="", name="top")
    _edit(site, queue, {"spec": {"stopPolicy": "HoldAndDrain", "preemption": {"withinClusterQueue": "LowerPriority"}}})
    _edit(site, kai, {"spec": {"priority": 900}})
    _edit(site, site.key("ConfigMap", "settings"), {"data": {"b": "2"}, "immutable": False})
    side = {"name": "side", "image": "example.com/side:1"}
    container = {"name": "web", "env": [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]}
    _edit(site, web, [
        {"op": "add", "path": "/spec/template/spec/containers/0/env/0", "value": container["env"][0]},
        {"op": "add", "path": "/spec/template/spec/containers/0", "value": side},
        {"op": "add", "path": "/metadata/labels/kueue.x-k8s.io~1priority-class", "value": "high"},
        {"op": "add", "path": "/metadata/annotations", "value": {"note": "by hand"}},
    ])  # fmt: skip
    found = _drift(site)
    fields = {f"{one['key']['kind']} {one['field']}" for one in found}
    assert {
        "ClusterQueue spec.stopPolicy",
        "ClusterQueue spec.preemption.withinClusterQueue",
        "Queue spec.priority",
        "ConfigMap data.b",
        'Deployment metadata.labels["kueue.x-k8s.io/priority-class"]',
        "Deployment spec.template.spec.containers[name=side].image",
        "Deployment spec.template.spec.containers[name=web].env[name=B].value",
    } <= fields
    assert "Deployment metadata.annotations.note" not in fields
    assert {one["managers"][0].partition(" ")[0] for one in found} == {"kubectl-edit"}
    assert {one["action"] for one in found} == {"revert"}

    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    assert "stopPolicy" in planned.out
    assert "kubectl-edit" in planned.out
    assert site.apply().code == 0
    body = site.live("Deployment", "web", "apps")
    (only,) = body["spec"]["template"]["spec"]["containers"]
    assert only["env"] == [{"name": "A", "value": "1"}]
    assert body["metadata"]["annotations"]["note"] == "by hand"
    assert "kueue.x-k8s.io/priority-class" not in body["metadata"]["labels"]
    assert site.live("ConfigMap", "settings")["data"] == {"a": "1"}
    spec = (site.cluster.get(queue) or {})["spec"]
    assert spec.get("stopPolicy", "None") == "None"
    assert spec["preemption"]["withinClusterQueue"] == "Never"
    assert "priority" not in (site.cluster.get(kai) or {})["spec"]
    assert _drift(site) == []
    assert site.plan("--exit-code").code == 0


@pytest.mark.parametrize("manager", ["sidecar-injector", "kube-controller-manager", "keda-operator"])
def test_what_programs_add_stays(site: Site, manager: str) -> None:
    """F-143: sidecars of a webhook or controller, and the replicas of an autoscaler, are theirs."""
    _start(site)
    site.cluster.patch(site.key("ConfigMap", "settings"), {"data": {"ca.crt": "x"}}, manager=manager)
    assert _drift(site) == []
    assert site.plan("--exit-code").code == 0


def test_a_value_that_is_the_default_is_no_drift(site: Site) -> None:
    """F-143: the server would set it again."""
    _start(site)
    _edit(site, site.key("Deployment", "web", "apps"), {"spec": {"minReadySeconds": 5}})
    _edit(site, site.key("Deployment", "web", "apps"), {"spec": {"minReadySeconds": 0, "paused": False}})
    assert _drift(site) == []
    assert site.plan("--exit-code").code == 0


def test_an_added_field_that_a_rule_ignores_stays(site: Site) -> None:
    """F-143: through applies of other fields."""
    _start(site)
    rule = {"action": "ignore", "kind": "ConfigMap", "reason": "the team tunes it", "expires": "2027-01-31"}
    decide(site, rules=[rule | {"fields": ["data.b"]}])
    _edit(site, site.key("ConfigMap", "settings"), {"data": {"b": "2", "c": "3"}})
    assert {(one["field"], one["action"]) for one in _drift(site)} == {("data.b", "ignore"), ("data.c", "revert")}
    assert site.reconcile().code == 0
    assert site.live("ConfigMap", "settings")["data"] == {"a": "1", "b": "2"}
    assert site.plan("--exit-code").code == 0
    site.config_map("settings", a="2")
    assert site.reconcile().code == 0
    assert site.live("ConfigMap", "settings")["data"] == {"a": "2", "b": "2"}


def test_what_is_added_to_an_empty_selector_is_told_and_reverted(site: Site) -> None:
    """F-143: an empty selector selects everything; the server replaces it as a whole."""
    _start(site)
    queue = ObjectKey(group="kueue.x-k8s.io", kind="ClusterQueue", namespace="", name="shared")
    _edit(site, queue, {"spec": {"namespaceSelector": {"matchLabels": {"team": "x"}}}})
    assert [one["field"] for one in _drift(site)] == ["spec.namespaceSelector.matchLabels.team"]
    assert site.reconcile().code == 0
    assert (site.cluster.get(queue) or {})["spec"]["namespaceSelector"] == {}


def test_what_others_added_can_be_adopted(site: Site) -> None:
    """F-143: fields, items of lists and whole containers, without the defaults of the server; then Git has them."""
    _start(site)
    high = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}}
    site.write("queues/high.yaml", {**high, "value": 10})
    site.fleet.commit()
    queue = ObjectKey(group="kueue.x-k8s.io", kind="ClusterQueue", namespace="", name="shared")
    _edit(site, queue, {"spec": {"stopPolicy": "Hold", "preemption": {"withinClusterQueue": "LowerPriority"}}})
    _edit(site, site.key("ConfigMap", "settings"), {"data": {"b": "2"}})
    side = {"name": "side", "image": "example.com/side:1", "ports": [{"containerPort": 80}]}
    _edit(site, site.key("Deployment", "web", "apps"), [
        {"op": "add", "path": "/spec/template/spec/containers/0/env/0", "value": {"name": "B", "value": "2"}},
        {"op": "add", "path": "/spec/template/spec/containers/0", "value": side},
        {"op": "add", "path": "/metadata/labels/kueue.x-k8s.io~1priority-class", "value": "high"},
    ])  # fmt: skip
    ran = site.fleet.run("drift", "--all", "--write", *site.flags)
    assert (ran.code, "not-adopted" in ran.err) == (0, False), ran.err

    def source(path: str) -> Any:
        return yaml.safe_load((site.fleet.root / path).read_text())

    assert source("jobs/settings.yaml")["data"] == {"a": "1", "b": "2"}
    spec = source("queues/shared.yaml")["spec"]
    assert (spec["stopPolicy"], spec["preemption"]) == ("Hold", {"withinClusterQueue": "LowerPriority"})
    web = source("jobs/web.yaml")
    assert web["metadata"]["labels"] == {"kueue.x-k8s.io/priority-class": "high"}
    old, new = web["spec"]["template"]["spec"]["containers"]
    assert old["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert new == {**side, "ports": [{"containerPort": 80}]}
    assert _drift(site) == []
    assert site.reconcile().code == 0
    assert site.live("ConfigMap", "settings")["data"] == {"a": "1", "b": "2"}
    assert site.plan("--exit-code").code == 0
