"""`reconciler plan --live` on the real API server: what an apply would do, and what drifted."""

from typing import Any

import pytest

from reconciler.kinds.manifests.ownership import LABEL, OWNER
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from tests.cluster.parts import KUBERNETES_MINOR
from tests.cluster.server import ApiServer
from tests.live.cluster.conftest import LiveFleet
from tests.live.cluster.fixtures import key_of, remove_own

QUEUE = ObjectKey(group="scheduling.run.ai", kind="Queue", namespace="", name="h100")


def changes(plan: dict[str, Any]) -> list[tuple[str, str]]:
    return [(change["operation"], f"{change['key']['kind']}/{change['key']['name']}") for change in plan["changes"]]


def test_an_empty_cluster_gets_everything_and_then_nothing_differs(live_fleet: LiveFleet) -> None:
    """Everything is created; once it is applied, defaults, quantities and managers of the server are no difference."""
    ran, plan = live_fleet.plan_json()
    assert ran.code == 0, ran.err
    assert {operation for operation, _ in changes(plan)} == {"create"}
    assert len(plan["changes"]) == len(live_fleet.rendered())
    (state,) = plan["clusters"]
    assert (state["cluster"], state["objects"], state["unknown"]) == ("main", 0, [])
    assert state["version"].startswith(f"v1.{KUBERNETES_MINOR}")
    live_fleet.apply_rendered()
    ran, plan = live_fleet.plan_json("--exit-code")
    assert (ran.code, changes(plan), plan["drift"]) == (0, [], [])
    assert plan["unchanged"] == plan["clusters"][0]["objects"] == len(live_fleet.rendered())


def test_a_webhook_that_writes_a_quantity_its_own_way_makes_no_difference(live_fleet: LiveFleet) -> None:
    """Kueue's webhook stores `nvidia.com/gpu: 8` of a PyTorchJob as "8": equal in meaning, so there is nothing to do."""
    live_fleet.apply_rendered()
    (body,) = (one for one in live_fleet.rendered() if one["metadata"]["name"] == "vit" and one["kind"] == "PyTorchJob")
    path = "/spec/pytorchReplicaSpecs/Worker/template/spec/containers/0/resources/limits/nvidia.com~1gpu"
    live_fleet.cluster.patch(key_of(body), [{"op": "replace", "path": path, "value": "8"}], manager="kueue")
    _, plan = live_fleet.plan_json()
    assert (changes(plan), plan["drift"]) == ([], [])
    live_fleet.cluster.patch(key_of(body), [{"op": "replace", "path": path, "value": "7"}], manager="kueue")
    _, plan = live_fleet.plan_json()
    assert changes(plan) == [("update", "PyTorchJob/vit")]


def test_a_field_that_left_git_is_given_up_although_another_owns_it(live_fleet: LiveFleet) -> None:
    """Of two that apply Git, the first gives a removed field up, the last removes it: neither waits for the other."""
    live_fleet.apply_rendered()
    (queue,) = (one for one in live_fleet.rendered() if one["kind"] == "Queue")
    labels = {**queue["metadata"]["labels"], "tier": "gold"}
    labelled = {**queue, "metadata": {**queue["metadata"], "labels": labels}}
    for manager in ("reconciler", "argocd-controller"):  # what Git said before
        live_fleet.cluster.apply(labelled, manager=manager, force=True)
    _, plan = live_fleet.plan_json()
    (change,) = plan["changes"]
    (field,) = change["fields"]
    assert (field["path"], field["before"], field["hasAfter"]) == ("metadata.labels.tier", "gold", False)
    live_fleet.cluster.apply(queue, force=True)
    _, plan = live_fleet.plan_json()
    assert changes(plan) == [], "now the label is the other's alone"
    live_fleet.cluster.apply(queue, manager="argocd-controller", force=True)
    assert "tier" not in (live_fleet.cluster.get(QUEUE) or {})["metadata"]["labels"]


def test_a_plan_stores_nothing(live_fleet: LiveFleet) -> None:
    """Dry runs only: neither the cluster nor the repository changes."""
    live_fleet.plan_json()
    assert live_fleet.cluster.get(QUEUE) is None
    assert live_fleet.fleet.git("status", "--porcelain") == ""


def test_an_edit_is_an_update_with_the_version_it_was_planned_from(live_fleet: LiveFleet) -> None:
    """Only what Git changes differs, and the change names the UID and the version of the live object."""
    live_fleet.apply_rendered()
    live_fleet.fleet.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    _, plan = live_fleet.plan_json()
    (change,) = plan["changes"]
    assert (change["operation"], change["key"]["kind"]) == ("update", "Queue")
    (field,) = change["fields"]
    assert (field["path"], field["before"], field["after"]) == ("spec.resources.gpu.quota", 32, 40)
    live = live_fleet.cluster.get(QUEUE)
    assert live is not None
    metadata = live["metadata"]
    assert change["live"] == {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    assert plan["drift"] == []


def test_drift_names_its_owner(live_fleet: LiveFleet) -> None:
    """F-143: an edit on the cluster is reported with who made it, how, and both values."""
    live_fleet.apply_rendered()
    live_fleet.cluster.patch(QUEUE, {"spec": {"resources": {"gpu": {"quota": 64}}}}, manager="kubectl-edit")
    _, plan = live_fleet.plan_json()
    assert changes(plan) == [("update", "Queue/h100")]
    (drift,) = plan["drift"]
    assert (drift["field"], drift["live"], drift["git"]) == ("spec.resources.gpu.quota", 64, 32)
    assert drift["managers"][0].startswith("kubectl-edit (Update, 20")
    assert drift["source"]["path"] == "queues/h100.yaml"


def test_a_field_that_somebody_removed_is_drift(live_fleet: LiveFleet) -> None:
    """F-143: what is missing on the cluster has no owner."""
    live_fleet.apply_rendered()
    live_fleet.cluster.patch(
        QUEUE, [{"op": "remove", "path": "/spec/resources/gpu/overQuotaWeight"}], manager="kubectl-edit"
    )
    _, plan = live_fleet.plan_json()
    (drift,) = plan["drift"]
    assert (drift["field"], drift["hasLive"], drift["managers"]) == ("spec.resources.gpu.overQuotaWeight", False, [])


def test_what_left_git_is_deleted(live_fleet: LiveFleet) -> None:
    """An object of ours whose source is gone is a deletion, with its version."""
    live_fleet.apply_rendered()
    live_fleet.fleet.git("rm", "--quiet", "jobs/language/probe.yaml")
    _, plan = live_fleet.plan_json()
    assert {change["operation"] for change in plan["changes"]} == {"delete"}
    assert all(change["live"]["uid"] for change in plan["changes"])


def test_a_foreign_object_is_in_the_way(live_fleet: LiveFleet) -> None:
    """An object of the same name without our label is an error: it is neither taken over nor deleted."""
    live_fleet.cluster.create(
        {
            "apiVersion": "scheduling.run.ai/v2",
            "kind": "Queue",
            "metadata": {"name": "h100"},
            "spec": {"resources": {"gpu": {"quota": 1, "limit": 1, "overQuotaWeight": 1}}},
        },
        manager="kubectl-create",
    )
    try:
        ran, plan = live_fleet.plan_json()
        assert ran.code == 3
        (problem,) = [problem for problem in plan["problems"] if problem["severity"] == "error"]
        assert problem["rule"] == "live.foreign"
        assert "Queue/h100" not in [name for _, name in changes(plan)]
    finally:
        live = live_fleet.cluster.get(QUEUE)
        assert live is not None
        live_fleet.cluster.delete(QUEUE, uid=live["metadata"]["uid"], propagation="Background")


def test_access_flags_need_live(live_fleet: LiveFleet) -> None:
    ran = live_fleet.fleet.run("plan", "--context", "a")
    assert ran.code == 2
    assert "--context has no effect without --live" in ran.err


def test_the_page_shows_the_cluster_and_the_drift(live_fleet: LiveFleet) -> None:
    """F-143: who changed what, for people: in text and in Markdown."""
    live_fleet.apply_rendered()
    live_fleet.cluster.patch(QUEUE, {"spec": {"resources": {"gpu": {"quota": 64}}}}, manager="kubectl-edit")
    for output in ("text", "markdown"):
        page = live_fleet.plan("-o", output).out
        assert "Live clusters" in page
        assert "https://127.0.0.1" in page
        (line,) = [line for line in page.splitlines() if "overQuotaWeight" not in line and "kubectl-edit" in line]
        assert "Update" in line
        assert "spec.resources.gpu.quota" in page


def test_a_second_plan_asks_only_for_lists(live_fleet: LiveFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was found equal, and has not changed on either side, needs no request of its own."""
    live_fleet.apply_rendered()
    _, first = live_fleet.plan_json()

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a request for a single object")

    for name in ("apply", "get"):
        monkeypatch.setattr(KubernetesCluster, name, refuse)
    ran, second = live_fleet.plan_json()
    assert ran.code == 0, ran.err
    assert first == second


def test_objects_in_a_new_namespace_are_checked_by_the_apply(live_fleet: LiveFleet) -> None:
    """No server can check an object whose namespace the same plan creates; a namespace that nobody creates is an error."""
    live_fleet.fleet.write(
        "jobs/fresh.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: fresh}\n---\n"
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: fresh}\ndata: {a: b}\n",
    )
    ran, plan = live_fleet.plan_json()
    assert ran.code == 0, ran.err
    assert plan["clusters"][0]["unchecked"] == ["ConfigMap/fresh/settings"]
    assert "to be checked when what they need exists" in live_fleet.plan().out
    live_fleet.fleet.edit("jobs/fresh.yaml", "name: fresh}\n---", "name: other}\n---")
    _, plan = live_fleet.plan_json()
    refused = [problem for problem in plan["problems"] if problem["rule"] == "live.refused"]
    assert ["fresh" in problem["message"] for problem in refused] == [True]


def test_an_empty_cluster_has_nothing_of_ours(private_server: ApiServer, empty_cluster: KubernetesCluster) -> None:
    """The fixture finds objects of every kind, also of those that etcd keeps under another name."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    backend = {"service": {"name": "a", "port": {"number": 80}}}
    made: dict[tuple[str, str], dict[str, Any]] = {
        ("v1", "Node"): {},
        ("v1", "Service"): {"spec": {"ports": [{"port": 80}]}},
        ("v1", "Endpoints"): {},
        ("v1", "ReplicationController"): {"spec": {"selector": {"a": "b"}, "template": template}},
        ("networking.k8s.io/v1", "Ingress"): {"spec": {"defaultBackend": backend}},
        ("kueue.x-k8s.io/v1beta1", "ResourceFlavor"): {},
        ("rbac.authorization.k8s.io/v1", "ClusterRole"): {"rules": []},
    }
    private_server.client.ensure_namespaces(["empty"])
    keys = []
    for (version, kind), fields in made.items():
        metadata = {"name": "ours", "namespace": "empty", "labels": {LABEL: OWNER}}
        written = empty_cluster.create({"apiVersion": version, "kind": kind, "metadata": metadata, **fields})
        keys.append(key_of(written.body))
    assert all(empty_cluster.get(key) is not None for key in keys)
    remove_own(private_server, empty_cluster)
    assert [key for key in keys if empty_cluster.get(key) is not None] == []
