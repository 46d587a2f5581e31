"""An approval in Git covers the same changes of a live plan, and nothing that only the live plan does."""

import json
from typing import Any

import pytest
import yaml

from reconciler.kube.client.port import ClusterError
from reconciler.kube.objects import ObjectKey
from tests.cluster.server import wait_until
from tests.live.apply.conftest import Site


def begin(site: Site) -> str:
    """Apply a queue in which a pod runs and allow no deletion; `rendered/` is committed. Return the queue's name."""
    path = site.fleet.root / "reconciler.yaml"
    config = yaml.safe_load(path.read_text())
    config["spec"]["budgets"]["deletes"] = {"count": 0, "share": 1}
    path.write_text(yaml.safe_dump(config))
    name = f"busy-{site.name}"
    site.queue(name)
    site.config_map("one")
    site.fleet.commit("a queue")
    assert site.fleet.run("commit").code == 0
    assert site.reconcile().code == 0
    spec = {"nodeName": "n", "containers": [{"name": "main", "image": "x"}]}
    metadata = {**site.metadata("worker"), "labels": {"kai.scheduler/queue": name}}
    site.cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return name


def leave(site: Site, name: str) -> None:
    """Remove the queue from Git, and approve that."""
    site.remove(f"queues/{name}.yaml")
    approved = site.fleet.run("approve", "--reason", "the team is gone", "--expires", "2027-01-31")
    assert approved.code == 0, approved.err


def queue_key(name: str) -> ObjectKey:
    return ObjectKey(group="scheduling.run.ai", kind="Queue", namespace="", name=name)


def test_an_approval_of_the_plan_in_git_covers_the_live_plan(site: Site) -> None:
    """F-145: drift of other objects does not void it."""
    name = begin(site)
    site.remove(f"queues/{name}.yaml")
    refused = site.plan()
    assert refused.code == 5
    assert "over budget" in refused.err
    site.queue(name)
    leave(site, name)
    site.cluster.patch(site.key("ConfigMap", "one"), {"data": {"a": "drift"}}, manager="kubectl-edit")
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    assert sorted(site.changes()) == [f"delete Queue/{name}", "update ConfigMap/one"]
    applied = site.apply()
    assert applied.code == 0, applied.out + applied.err
    assert site.cluster.get(queue_key(name)) is None


def test_what_only_the_live_plan_deletes_is_not_approved(site: Site) -> None:
    """F-145: an object that was applied and never rendered is no part of the plan that was approved."""
    name = begin(site)
    site.config_map("extra")
    assert site.reconcile().code == 0
    site.remove("jobs/extra.yaml")
    leave(site, name)
    planned = site.plan()
    assert planned.code == 5, planned.out
    assert sorted(site.changes()) == ["delete ConfigMap/extra", f"delete Queue/{name}"]
    assert site.apply().code == 5
    assert site.cluster.get(queue_key(name)) is not None
    assert site.exists("ConfigMap", "extra")


@pytest.fixture
def no_deletions(site: Site) -> Any:
    """Deny deletions of queues by an admission policy of the cluster; return what removes it."""
    rule = {
        "apiGroups": ["scheduling.run.ai"],
        "apiVersions": ["*"],
        "operations": ["DELETE"],
        "resources": ["queues"],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": "no-deletions"}}
    validations = [{"expression": "false", "message": "not now"}]
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": validations}
    binding = {"policyName": "no-deletions", "validationActions": ["Deny"]}
    site.cluster.create(kind | {"kind": "ValidatingAdmissionPolicy", "spec": spec})
    site.cluster.create(kind | {"kind": "ValidatingAdmissionPolicyBinding", "spec": binding})

    def remove() -> None:
        for name in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
            key = ObjectKey(group="admissionregistration.k8s.io", kind=name, namespace="", name="no-deletions")
            if (body := site.cluster.get(key)) is not None:
                site.cluster.delete(key, uid=body["metadata"]["uid"], propagation="Background")

    yield remove
    remove()


def is_denied(site: Site, name: str) -> bool:
    body = site.cluster.get(queue_key(name))
    assert body is not None
    try:
        site.cluster.delete(queue_key(name), uid=body["metadata"]["uid"], dry_run=True)
    except ClusterError:
        return True
    return False


def test_a_plan_that_is_resumed_keeps_its_approval(site: Site, no_deletions: Any) -> None:
    """F-145: the digest of what is left is another one; the approval of the whole plan still lets the queue go."""
    name = begin(site)
    leave(site, name)
    site.config_map("one", a="2")
    site.remove("approvals/" + next((site.fleet.root / "approvals").glob("*.yaml")).name)
    assert site.fleet.run("approve", "--reason", "both", "--expires", "2027-01-31").code == 0
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    wait_until(lambda: is_denied(site, name), "the admission policy", seconds=20)
    first = site.apply()
    assert first.code == 7, first.out + first.err
    assert site.live("ConfigMap", "one")["data"] == {"a": "2"}
    assert site.cluster.get(queue_key(name)) is not None
    no_deletions()
    wait_until(lambda: not is_denied(site, name), "its end", seconds=20)
    second = site.apply()
    assert second.code == 0, second.out + second.err
    assert site.cluster.get(queue_key(name)) is None


def test_an_approval_of_the_live_plan_is_for_exactly_that(site: Site) -> None:
    """F-145: the live plan is carried out; an edit on the cluster of what it changes voids the approval."""
    name = begin(site)
    site.config_map("two")
    assert site.reconcile().code == 0
    site.remove(f"queues/{name}.yaml")
    site.config_map("two", a="new")
    approved = site.fleet.run("approve", "--live", *site.flags, "--reason", "gone", "--expires", "2027-01-31")
    assert approved.code == 0, approved.err
    assert "deletes.count" in approved.out
    assert site.plan().code == 0
    site.cluster.patch(site.key("ConfigMap", "two"), {"data": {"a": "theirs"}}, manager="kubectl-edit")
    refused = site.plan()
    assert refused.code == 5
    assert "over budget" in refused.err
    (approval,) = json.loads(site.plan_file.read_bytes())["approvals"]
    assert "but the approval digest of this plan is" in approval["ignored"]
    site.cluster.patch(site.key("ConfigMap", "two"), {"data": {"a": "1"}}, manager="kubectl-edit")
    assert site.plan().code == 0
    applied = site.apply()
    assert applied.code == 0, applied.out + applied.err
    assert site.cluster.get(queue_key(name)) is None


def test_flags_of_clusters_need_a_live_approval(site: Site) -> None:
    refused = site.fleet.run("approve", *site.flags, "--reason", "gone")
    assert (refused.code, "has no effect without --live" in refused.err) == (2, True)
