"""Applies that meet trouble on the real API server: finalizers, kinds of the same plan, full disks, clocks that jump."""

import datetime as dt
from typing import Any

import pytest

from reconciler.clock import SystemClock
from reconciler.kube.objects import ObjectKey
from tests.cluster.server import wait_until
from tests.live.apply.conftest import Site


def test_a_stuck_finalizer_is_named_and_not_forgotten(site: Site) -> None:
    """The deletion is asked for, the wait ends in time, and the object stays in the inventory until it is gone."""
    site.config_map("one")
    site.config_map("two")
    assert site.reconcile().code == 0
    key = site.key("ConfigMap", "one")
    site.cluster.patch(key, {"metadata": {"finalizers": ["example.com/stuck"]}}, manager="kubectl")
    site.remove("jobs/one.yaml")
    assert site.plan().code == 0
    ran = site.apply("--timeout", "0.5")
    assert ran.code == 6
    assert "is being deleted, waiting for example.com/stuck" in ran.out
    assert "applied, but 1 object not ready in time" in ran.err
    assert key in site.inventory().uids()
    site.cluster.patch(key, {"metadata": {"finalizers": None}}, manager="kubectl")
    site.config_map("three")
    assert site.reconcile().code == 0
    assert key not in site.inventory().uids()


def test_a_kind_and_its_objects_in_one_plan(site: Site) -> None:
    """The object waits until the server serves its kind (Established)."""
    group = f"{site.name}.example.com"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    site.write(
        "queues/crd.yaml",
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
        },
    )
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": site.metadata("w"), "spec": {"size": 1}}
    site.write("jobs/widget.yaml", widget)
    ran = site.reconcile()
    assert ran.code == 0, ran.out + ran.err
    assert site.live("Widget", "w", group)["spec"] == {"size": 1}
    assert site.plan().code == 0
    assert site.changes() == []


def test_a_full_disk_changes_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a line in the decision log nothing is applied."""
    site.config_map("one")
    assert site.plan().code == 0
    monkeypatch.setenv("RECONCILER_DECISION_LOG", "/dev/full")
    ran = site.apply()
    assert ran.code == 6
    assert "the decision log /dev/full cannot be written: No space left on device" in ran.err
    assert not site.exists("ConfigMap", "one")
    assert site.inventory().members == frozenset()


def test_a_clock_that_jumps(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The date is for records alone: deadlines do not depend on it."""
    dates = iter([dt.datetime(2040, 1, 1, tzinfo=dt.UTC), *([dt.datetime(1999, 1, 1, tzinfo=dt.UTC)] * 9)])
    monkeypatch.setattr(SystemClock, "now", lambda _: next(dates))
    site.config_map("one")
    ran = site.reconcile()
    assert ran.code == 0, ran.out + ran.err
    begun, ended = site.records()
    assert (begun["started"][:4], ended["started"][:4], ended["finished"][:4]) == ("2040", "2040", "1999")
    assert ended["result"] == "Applied"


def edit_image(site: Site, old: str, new: str) -> None:
    site.fleet.edit("jobs/train.yaml", old, new)
    site.fleet.commit()
    committed = site.fleet.run("commit")
    assert committed.code == 0, committed.out + committed.err


def jobs(site: Site) -> dict[str, dict[str, Any]]:
    listing = site.cluster.list(site.cluster.resource("batch", "Job"), namespace=site.name)
    return {body["metadata"]["name"]: body for body in listing.objects}


@pytest.mark.parametrize("suspended", [False, True], ids=["running", "suspended"])
def test_a_new_generation_starts_only_when_the_old_one_is_gone(site: Site, *, suspended: bool) -> None:
    """onImmutableChange: replace. The old gang stops first; one that is suspended does not have to be gone."""
    site.queue(f"all-{site.name}")
    site.queue(f"q-{site.name}", parent=f"all-{site.name}")
    site.job("train")
    site.fleet.edit(
        "jobs/train.yaml", "labels:", "annotations: {gpureconciler.io/on-immutable-change: replace}, labels:"
    )
    if suspended:
        site.fleet.edit("jobs/train.yaml", "spec:\n  template", "spec:\n  suspend: true\n  template")
    site.fleet.commit()
    assert site.fleet.run("commit").code == 0
    ran = site.reconcile()
    assert ran.code == 0, ran.out + ran.err
    (old,) = jobs(site)
    edit_image(site, "train:1", "train:2")
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    process = site.start()
    wait_until(lambda: jobs(site)[old]["metadata"].get("deletionTimestamp"), "the deletion of the old job")
    if suspended:
        wait_until(lambda: len(jobs(site)) == 2, "the new generation")
    else:
        assert list(jobs(site)) == [old]
    site.cluster.patch(site.key("Job", old, "batch"), {"metadata": {"finalizers": None}}, manager="collector")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, out + err
    (new,) = jobs(site)
    assert new.startswith("train-g")
    assert site.key("Job", new, "batch") in site.inventory().uids()


def test_rollback_restores_sources_as_a_commit(site: Site) -> None:
    """Settings and evidence stay; files that are new since then go; the result applies like any change."""
    site.config_map("one", a="1")
    assert site.reconcile().code == 0
    good = site.fleet.git("rev-parse", "HEAD")
    site.config_map("one", a="2")
    site.config_map("two")
    site.fleet.write("policies/NOTES.md", "kept\n")
    assert site.reconcile().code == 0
    ran = site.fleet.run("rollback", good)
    assert ran.code == 0, ran.err
    assert ran.out.split() == ["jobs/one.yaml", "jobs/two.yaml"]
    assert site.fleet.git("log", "-1", "--format=%s").startswith(f"Roll back to {good[:12]}")
    assert (site.fleet.root / "policies/NOTES.md").exists()
    assert site.reconcile().code == 0
    assert site.live("ConfigMap", "one")["data"] == {"a": "1"}
    assert not site.exists("ConfigMap", "two")
    again = site.fleet.run("rollback", good)
    assert (again.code, again.out) == (0, "")
    assert "nothing to roll back" in again.err


def test_rollback_needs_a_revision_with_sources(site: Site) -> None:
    assert site.fleet.run("rollback", "no-such-revision").code == 6
    empty = site.fleet.git("commit-tree", site.fleet.git("hash-object", "-t", "tree", "/dev/null"), "-m", "empty")
    ran = site.fleet.run("rollback", empty)
    assert ran.code == 2
    assert "has no source files" in ran.err


def test_a_queue_with_running_pods_is_not_deleted(site: Site) -> None:
    """F-142: the queue left Git, but a pod runs in it."""
    name = f"busy-{site.name}"
    site.queue(name)
    site.config_map("one")
    assert site.reconcile().code == 0
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**site.metadata("worker"), "labels": {"kai.scheduler/queue": name}},
        "spec": {"nodeName": "n", "containers": [{"name": "main", "image": "x"}]},
    }
    site.cluster.create(pod)
    site.remove(f"queues/{name}.yaml")
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    ran = site.apply()
    assert ran.code == 5
    assert "1 Pod runs in it; stop or move them, or approve the plan" in ran.out
    assert site.cluster.get(ObjectKey(group="scheduling.run.ai", kind="Queue", namespace="", name=name)) is not None
