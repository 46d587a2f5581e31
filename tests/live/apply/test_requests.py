"""One step on a real API server: preconditions, foreign objects, and what servers refuse."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.clock import SystemClock
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import summarize
from reconciler.kube.client.port import ClusterError, LiveCluster, ObjectText, Written
from reconciler.kube.objects import ObjectKey
from reconciler.live.apply.recent import RecentObjects
from reconciler.live.apply.requests import Rules, Target, carry_out, what_runs_in
from reconciler.live.apply.results import Ending, StepResult
from reconciler.live.apply.steps import Step, Verb
from tests.live.cluster.fixtures import config_map, config_map_key


def version(_: str, body: Mapping[str, Any]) -> str:
    """Return a version of a live object: its UID and its content, without its status."""
    metadata = {
        name: value for name, value in body["metadata"].items() if name not in ("managedFields", "resourceVersion")
    }
    content = json.dumps({**body, "metadata": metadata, "status": None}, sort_keys=True)
    return f"{metadata.get('uid')}-{hashlib.sha256(content.encode()).hexdigest()}"


def rules(uids: Mapping[ObjectKey, frozenset[str]] | None = None, *, approved: frozenset[str] = frozenset()) -> Rules:
    recent = RecentObjects(SystemClock())
    return Rules(kinds=BUILT_IN, version_of=version, uids=uids or {}, approved=approved, recent=recent)


def target(verb: Verb, body: Mapping[str, Any], planned: str = "") -> Target:
    namespace, name = body["metadata"].get("namespace", ""), body["metadata"]["name"]
    summary = summarize(BUILT_IN, cluster="main", body=body, path=f"main/{namespace}/{name}", digest="1")
    step = Step(verb=verb, summary=summary, before=summary if verb is Verb.UPDATE else None)
    return Target(step=step, desired=lambda: {} if verb is Verb.DELETE else body, planned=planned)


def found(live: LiveCluster, namespace: str, name: str) -> dict[str, Any]:
    body = live.get(config_map_key(namespace, name))
    assert body is not None
    return body


def deleted(live: LiveCluster, body: Mapping[str, Any], uids: frozenset[str], **more: Any) -> StepResult:
    key = config_map_key(body["metadata"]["namespace"], body["metadata"]["name"])
    planned = version("", live.get(key) or body)
    return carry_out(live, rules({key: uids}, **more), target(Verb.DELETE, body, planned))


def test_create_update_delete(live: LiveCluster, namespace: str) -> None:
    """The life of one object; each step twice gives the same."""
    wanted = config_map(namespace, "one")
    created = carry_out(live, rules(), target(Verb.CREATE, wanted))
    assert created.ending is Ending.DONE
    assert created.uid == found(live, namespace, "one")["metadata"]["uid"]
    assert carry_out(live, rules(), target(Verb.CREATE, wanted)).ending is Ending.DONE

    planned = version("", found(live, namespace, "one"))
    edited = config_map(namespace, "one", b="2")
    assert carry_out(live, rules(), target(Verb.UPDATE, edited, planned)).ending is Ending.DONE
    assert found(live, namespace, "one")["data"] == {"a": "1", "b": "2"}
    planned = version("", found(live, namespace, "one"))
    assert carry_out(live, rules(), target(Verb.UPDATE, edited, planned)).ending is Ending.UNCHANGED

    assert deleted(live, edited, frozenset({created.uid})).ending is Ending.DONE
    assert deleted(live, edited, frozenset({created.uid})).ending is Ending.UNCHANGED


def test_a_rendered_file_is_sent_as_it_is(live: LiveCluster, namespace: str) -> None:
    """What is written in YAML and not read is created, found again, and refused as an object is that was read."""
    key = config_map_key(namespace, "text")
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: text\n  namespace: {namespace}\n"
    written = f"{head}data:\n  a: 'on'\n  b: |\n    two\n    lines\n"
    wanted = config_map(namespace, "text", a="on", b="two\nlines\n")

    def sent(text: str) -> StepResult:
        one = ObjectText(key=key, version="v1", content=text.encode())
        return carry_out(live, rules(), replace(target(Verb.CREATE, wanted), text=one))

    created = sent(written)
    assert created.ending is Ending.DONE
    assert found(live, namespace, "text")["data"] == wanted["data"]
    assert created.resource_version == found(live, namespace, "text")["metadata"]["resourceVersion"]
    assert sent(written).ending is Ending.DONE
    refused = sent(f"{head}unknown: 1\n")
    assert (refused.ending, "unknown" in refused.message) == (Ending.DENIED, True)
    live.apply(config_map(namespace, "text", c="theirs"), manager="kubectl", force=True)
    assert sent(written).ending is Ending.STALE


class LateWebhook:
    """The real server, of which a webhook refuses one object twice, because it has not seen another one."""

    def __init__(self, live: LiveCluster, name: str, missed: str) -> None:
        self._live, self._name, self.refusals = live, name, 2
        denied = '403 Forbidden: admission webhook "late.example.com" denied the request'
        self.message = f"cannot apply it: {denied}: ConfigMap '{missed}' not found"

    def apply(self, body: Mapping[str, Any], **options: Any) -> Written:
        if body["metadata"]["name"] == self._name and self.refusals:
            self.refusals -= 1
            raise ClusterError(self.message, status=403)
        return self._live.apply(body, **options)


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_webhook_that_has_not_seen_what_was_just_created(live: LiveCluster, namespace: str, *, is_ours: bool) -> None:
    """It is asked again if this run created what it misses, and else its refusal counts."""
    late: Any = LateWebhook(live, "late", "early" if is_ours else "never")
    common = rules()
    assert carry_out(late, common, target(Verb.CREATE, config_map(namespace, "early"))).ending is Ending.DONE
    result = carry_out(late, common, target(Verb.CREATE, config_map(namespace, "late")))
    assert (result.ending, late.refusals) == ((Ending.DONE, 0) if is_ours else (Ending.DENIED, 1))


def test_a_foreign_object_that_appears_is_left_as_it_was(live: LiveCluster, namespace: str) -> None:
    """F-142: of an object that someone created after the plan, not one field is ours afterwards."""
    live.create(config_map(namespace, "theirs"), manager="kubectl")
    before = found(live, namespace, "theirs")
    wanted = config_map(namespace, "theirs", more="ours")
    result = carry_out(live, rules(), target(Verb.CREATE, wanted))
    after = found(live, namespace, "theirs")
    assert result.ending is Ending.STALE
    assert after["data"] == before["data"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert [entry["manager"] for entry in after["metadata"]["managedFields"]] == ["kubectl"]


def test_a_foreign_object_with_other_values_is_not_taken(live: LiveCluster, namespace: str) -> None:
    live.create({**config_map(namespace, "theirs"), "data": {"a": "theirs"}}, manager="kubectl")
    result = carry_out(live, rules(), target(Verb.CREATE, config_map(namespace, "theirs")))
    assert result.ending is Ending.STALE
    assert found(live, namespace, "theirs")["data"] == {"a": "theirs"}


def test_an_edit_after_the_plan_is_not_overwritten(live: LiveCluster, namespace: str) -> None:
    """F-143: `kubectl edit` between plan and apply; the message says who."""
    live.apply(config_map(namespace, "one"))
    planned = version("", found(live, namespace, "one"))
    live.patch(config_map_key(namespace, "one"), {"data": {"a": "edited"}}, manager="kubectl-edit")
    result = carry_out(live, rules(), target(Verb.UPDATE, config_map(namespace, "one", b="2"), planned))
    assert result.ending is Ending.STALE
    assert "it changed after the plan was made, last by kubectl-edit at 20" in result.message
    assert found(live, namespace, "one")["data"] == {"a": "edited"}
    uids = frozenset({found(live, namespace, "one")["metadata"]["uid"]})
    key = config_map_key(namespace, "one")
    gone = carry_out(live, rules({key: uids}), target(Verb.DELETE, config_map(namespace, "one"), planned))
    assert gone.ending is Ending.STALE
    assert found(live, namespace, "one")["metadata"]["uid"] in uids


def test_an_object_of_the_same_name_is_another_object(live: LiveCluster, namespace: str) -> None:
    """Deleted and created again by someone: the UID says so."""
    live.apply(config_map(namespace, "one"))
    old = found(live, namespace, "one")
    live.delete(config_map_key(namespace, "one"), uid=old["metadata"]["uid"], propagation="Background")
    live.create(config_map(namespace, "one"), manager="kubectl")
    uids = frozenset({old["metadata"]["uid"]})
    update = carry_out(live, rules(), target(Verb.UPDATE, config_map(namespace, "one", b="2"), version("", old)))
    assert update.ending is Ending.STALE
    result = deleted(live, config_map(namespace, "one"), uids)
    assert result.ending is Ending.REFUSED
    assert found(live, namespace, "one")["metadata"]["uid"] not in uids


def test_only_what_the_inventory_lists_is_deleted(live: LiveCluster, namespace: str) -> None:
    """F-142: our label alone does not make an object ours."""
    body = config_map(namespace, "labelled")
    body["metadata"]["labels"] = {"app.kubernetes.io/managed-by": "gpu-reconciler"}  # type: ignore[index]
    live.create(body, manager="kubectl")
    assert deleted(live, body, frozenset()).ending is Ending.REFUSED
    assert deleted(live, body, frozenset({""})).ending is Ending.REFUSED
    assert found(live, namespace, "labelled")


def test_a_creation_that_was_never_confirmed_is_ours(live: LiveCluster, namespace: str) -> None:
    """The program was killed between the creation and the note of its UID."""
    live.apply(config_map(namespace, "one"))
    assert deleted(live, config_map(namespace, "one"), frozenset({""})).ending is Ending.DONE


@pytest.mark.parametrize(
    "annotation", ["kustomize.toolkit.fluxcd.io/prune=disabled", "argocd.argoproj.io/sync-options=Prune=false"]
)
def test_annotations_in_the_cluster_keep_objects(live: LiveCluster, namespace: str, annotation: str) -> None:
    body = config_map(namespace, "kept")
    name, _, value = annotation.partition("=")
    body["metadata"]["annotations"] = {name: value}  # type: ignore[index]
    uid = live.apply(body).body["metadata"]["uid"]
    result = deleted(live, body, frozenset({uid}))
    assert (result.ending, result.message) == (Ending.EXCLUDED, f"{name}: {value}")


def test_immutable_fields_and_unknown_fields_are_denied(live: LiveCluster, namespace: str) -> None:
    body = {**config_map(namespace, "fixed"), "immutable": True}
    live.apply(body)
    planned = version("", found(live, namespace, "fixed"))
    changed = {**body, "data": {"a": "2"}}
    result = carry_out(live, rules(), target(Verb.UPDATE, changed, planned))
    assert result.ending is Ending.DENIED
    assert "immutable" in result.message
    unknown = carry_out(live, rules(), target(Verb.CREATE, {**config_map(namespace, "x"), "daat": {}}))
    assert unknown.ending is Ending.DENIED
    assert "daat" in unknown.message


def test_an_object_is_recreated_only_if_the_server_would_create_the_new_one(live: LiveCluster, namespace: str) -> None:
    body = {**config_map(namespace, "fixed"), "immutable": True}
    uid = live.apply(body).body["metadata"]["uid"]
    ours = rules({config_map_key(namespace, "fixed"): frozenset({uid})})
    planned = version("", found(live, namespace, "fixed"))
    refused = carry_out(live, ours, target(Verb.RECREATE, {**body, "data": {"not a key": "2"}}, planned))
    assert refused.ending is Ending.DENIED
    assert refused.message.startswith("it stays as it is, because a dry run of the new one failed: ")
    assert found(live, namespace, "fixed")["metadata"]["uid"] == uid

    changed = {**body, "data": {"a": "2"}}
    assert carry_out(live, rules(), target(Verb.RECREATE, changed, planned)).ending is Ending.REFUSED  # not ours
    assert carry_out(live, ours, target(Verb.RECREATE, changed, "another")).ending is Ending.STALE
    assert found(live, namespace, "fixed")["metadata"]["uid"] == uid
    made = carry_out(live, ours, target(Verb.RECREATE, changed, planned))
    assert made.ending is Ending.DONE
    assert made.uid == found(live, namespace, "fixed")["metadata"]["uid"] != uid


def test_a_secret_in_an_answer_is_masked(live: LiveCluster, namespace: str) -> None:
    """Servers repeat values in their answers."""
    canary = "canary-7f3b9d20c1"
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": namespace},
        "type": canary,
        "stringData": {"token": canary},
    }
    body["metadata"]["labels"] = {"x": f"{canary}!"}  # type: ignore[index]
    result = carry_out(live, rules(), target(Verb.CREATE, body))
    assert result.ending is Ending.DENIED
    assert canary not in result.message


def test_a_namespace_that_is_being_deleted_takes_nothing(live: LiveCluster, namespace: str) -> None:
    key = ObjectKey(group="", kind="Namespace", namespace="", name=namespace)
    body = live.get(key)
    assert body is not None
    live.delete(key, uid=body["metadata"]["uid"])
    result = carry_out(live, rules(), target(Verb.CREATE, config_map(namespace, "late")))
    assert result.ending is Ending.DENIED
    assert "is being terminated" in result.message


def test_a_kind_that_is_not_served(live: LiveCluster, namespace: str) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Absent", "metadata": {"name": "x", "namespace": namespace}}
    assert carry_out(live, rules(), target(Verb.CREATE, body)).ending is Ending.DENIED
    key = ObjectKey(group="example.com", kind="Absent", namespace=namespace, name="x")
    delete = target(Verb.DELETE, body, "1")
    assert carry_out(live, rules({key: frozenset({"1"})}), delete).ending is Ending.UNCHANGED


def pod(namespace: str, queue: str, label: str = "kai.scheduler/queue") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"in-{queue}", "namespace": namespace, "labels": {label: queue}},
        "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "x"}]},
    }


def kai_queue(name: str) -> dict[str, Any]:
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": {}}


@pytest.mark.parametrize("label", ["kai.scheduler/queue", "runai/queue"])
def test_a_queue_with_running_pods_stays(live: LiveCluster, namespace: str, label: str) -> None:
    """F-142: unless the plan is approved; pods without a node, and ended ones, do not count."""
    name = f"{namespace}-{label.partition('.')[0].partition('/')[0]}"
    queue = kai_queue(name)
    created = live.apply(queue).body
    live.create(pod(namespace, name, label))
    key = ObjectKey(group="scheduling.run.ai", kind="Queue", namespace="", name=name)
    uids = {key: frozenset({created["metadata"]["uid"]})}
    delete = target(Verb.DELETE, queue, version("", created))
    refused = carry_out(live, rules(uids), delete)
    assert refused.ending is Ending.REFUSED
    assert refused.message == "1 Pod runs in it; stop or move them, or approve the plan"
    assert carry_out(live, rules(uids, approved=frozenset({delete.step.path})), delete).ending is Ending.DONE


def test_what_runs_in_a_cluster_queue(live: LiveCluster, namespace: str) -> None:
    """Admitted workloads of Kueue count until they finish."""
    spec = {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": {"spec": {"containers": []}}}]}
    template = {"spec": {"containers": [{"name": "main", "image": "x"}], "restartPolicy": "Never"}}
    spec["podSets"][0]["template"] = template  # type: ignore[index]
    workload = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": namespace},
        "spec": spec,
    }
    key = ObjectKey(group="kueue.x-k8s.io", kind="Workload", namespace=namespace, name="w")
    live.create(workload)
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": f"{namespace}-cq"}}
    local = {**queue, "kind": "LocalQueue", "metadata": {"name": "lq", "namespace": namespace}}
    assert what_runs_in(live, BUILT_IN, queue) == ""
    admission = {"clusterQueue": f"{namespace}-cq", "podSetAssignments": [{"name": "main"}]}
    live.patch(key, {"status": {"admission": admission}}, version="v1beta1", subresource="status")
    assert what_runs_in(live, BUILT_IN, queue) == "1 Workload runs"
    assert what_runs_in(live, BUILT_IN, local) == "1 Workload runs"
    ended = {
        "type": "Finished",
        "status": "True",
        "reason": "x",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    live.patch(key, {"status": {"conditions": [ended]}}, version="v1beta1", subresource="status")
    assert what_runs_in(live, BUILT_IN, queue) == ""


def test_an_unreachable_server_is_a_result(live: LiveCluster) -> None:
    class Lost:
        def apply(self, *_: object, **__: object) -> None:
            raise ClusterError("connection reset", outcome_unknown=True)

    result = carry_out(Lost(), rules(), target(Verb.CREATE, config_map("a", "b")))  # type: ignore[arg-type]
    assert result.ending is Ending.UNKNOWN
