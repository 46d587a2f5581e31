"""Our label on live objects: somebody removes or changes it, hands an object over, or replaces it under its name."""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.kinds.manifests.ownership import LABEL
from tests.live.apply.conftest import Site
from tests.live.drift.test_ownership import foreign, words
from tests.live.drift.test_policy import decide, edit

TEMPLATE = Path(__file__).resolve().parents[3] / "gitops-repo-template"
_FIELD = f'metadata.labels["{LABEL}"]'
_MANY = 60  # more than are asked for one by one


def label(site: Site, name: str, value: str | None, manager: str = "helm") -> None:
    """Set our label of a ConfigMap, or remove it."""
    site.cluster.patch(site.key("ConfigMap", name), {"metadata": {"labels": {LABEL: value}}}, manager=manager)


def labels(site: Site, name: str) -> dict[str, str]:
    found: dict[str, str] = site.live("ConfigMap", name)["metadata"].get("labels", {})
    return found


def uid(site: Site, name: str) -> str:
    return str(site.live("ConfigMap", name)["metadata"]["uid"])


def managers(site: Site, name: str) -> set[str]:
    return {entry["manager"] for entry in site.live("ConfigMap", name)["metadata"].get("managedFields", ())}


def delete(site: Site, name: str) -> None:
    site.cluster.delete(site.key("ConfigMap", name), uid=uid(site, name), propagation="Background")


def drift(site: Site, *arguments: str) -> list[dict[str, Any]]:
    ran = site.fleet.run("drift", "-o", "json", *site.flags, *arguments)
    assert ran.code == 0, ran.err
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


@pytest.fixture
def applied(site: Site) -> Site:
    """Return a site with two applied ConfigMaps."""
    site.config_map("one", a="1", b="1")
    site.config_map("other", a="1")
    assert site.reconcile().code == 0
    return site


def test_a_label_that_another_manager_changed_is_drift_of_its_object(applied: Site) -> None:
    """The inventory knows the object by its UID: it is shown with who did it, set back, and stops no other object."""
    label(applied, "one", "Helm")
    edit(applied, "other", a="edited")
    shown = applied.fleet.run("drift", "--exit-code", *applied.flags)
    assert shown.code == 1, shown.err
    assert f"ConfigMap/{applied.name}/one on main: {_FIELD}: Helm (Git: gpu-reconciler): revert" in shown.out
    assert "changed by helm (Update" in shown.out
    assert f"ConfigMap/{applied.name}/other on main: data.a: edited (Git: 1): revert" in shown.out
    assert shown.err == ""

    applied.config_map("new")
    planned = applied.plan()
    assert planned.code == 0, planned.out + planned.err
    assert applied.changes() == ["create ConfigMap/new", "update ConfigMap/one", "update ConfigMap/other"]
    before = uid(applied, "one")
    assert applied.apply().code == 0
    assert labels(applied, "one") == {LABEL: "gpu-reconciler"}
    assert uid(applied, "one") == before
    assert applied.plan("--exit-code").code == 0


def test_a_label_that_somebody_removed_is_drift_without_rendered_files(applied: Site) -> None:
    """An object does not tell who removed a label, so the last writer is named. `rendered/` of the base has nothing."""
    edit(applied, "one", c="theirs")
    label(applied, "one", None, manager="kubectl-label")
    added, found = sorted(drift(applied), key=lambda one: str(one["field"]))
    assert (added["field"], added["live"], added["hasGit"]) == ("data.c", "theirs", False)
    assert (found["field"], found["hasLive"], found["git"]) == (_FIELD, False, "gpu-reconciler")
    assert (found["managers"], found["action"]) == ([], "revert")
    assert found["lastWriter"].startswith("kubectl-edit at 20")
    shown = applied.fleet.run("drift", *applied.flags)
    assert "changed by somebody who removed it (last written by kubectl-edit at 20" in shown.out
    planned = applied.plan()
    assert "somebody who removed it (last written by kubectl-edit at" in words(planned)
    assert applied.apply().code == 0
    assert labels(applied, "one") == {LABEL: "gpu-reconciler"}
    assert applied.live("ConfigMap", "one")["data"] == {"a": "1", "b": "1"}


def test_the_drift_policy_decides_about_the_label(applied: Site) -> None:
    """A label that may stay is not set back, and the object is still ours: its other fields are applied."""
    rule = {"action": "ignore", "fields": [_FIELD], "reason": "Helm owns the release", "expires": "2027-01-31"}
    decide(applied, rules=[rule])
    label(applied, "one", "Helm")
    (found,) = drift(applied)
    assert (found["action"], found["reason"]) == ("ignore", "Helm owns the release")
    assert applied.plan("--exit-code").code == 0
    applied.config_map("one", a="2", b="1")
    assert applied.reconcile().code == 0
    assert applied.live("ConfigMap", "one")["data"] == {"a": "2", "b": "1"}
    assert labels(applied, "one") == {LABEL: "Helm"}

    adopting = applied.fleet.run("drift", "--all", *applied.flags)
    assert f"reconciler release --write ConfigMap/{applied.name}/one [drift.not-adopted]" in adopting.err


def test_many_objects_without_their_label_are_found_by_lists(site: Site) -> None:
    """Also without a cache, where whole objects are listed by a label that one of them lacks."""
    for number in range(_MANY):
        site.config_map(f"many-{number:03}", a="1")
    assert site.reconcile().code == 0
    label(site, "many-007", None)
    assert site.plan("--cache", "off").code == 0
    assert site.changes() == ["update ConfigMap/many-007"]
    for number in range(_MANY):
        label(site, f"many-{number:03}", "Helm")
    site.config_map("many-000", a="2")
    assert site.reconcile().code == 0
    assert {labels(site, f"many-{number:03}")[LABEL] for number in range(_MANY)} == {"gpu-reconciler"}
    assert site.live("ConfigMap", "many-000")["data"] == {"a": "2"}
    assert site.plan("--exit-code", "--cache", "off").code == 0


def test_an_object_that_a_controller_claims_is_still_ours(applied: Site) -> None:
    """As a Pod that a ReplicaSet adopts: we applied this object, so the controller did not make it from ours."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": uid(applied, "other"), "controller": True}
    key = applied.key("ConfigMap", "one")
    applied.cluster.patch(key, {"metadata": {"ownerReferences": [owner]}}, manager="controller")
    assert applied.plan("--exit-code").code == 0
    applied.config_map("one", a="2", b="1")
    assert applied.reconcile().code == 0
    assert applied.live("ConfigMap", "one")["data"] == {"a": "2", "b": "1"}


def test_an_object_that_git_drops_is_deleted_and_who_took_its_label_is_shown(applied: Site) -> None:
    """The UID in the inventory decides; whoever reviews the plan is told of the new label."""
    label(applied, "one", "Helm")
    label(applied, "other", None)
    applied.remove("jobs/one.yaml")
    applied.remove("jobs/other.yaml")
    planned = applied.plan()
    assert planned.code == 0, planned.out + planned.err
    assert applied.changes() == ["delete ConfigMap/one", "delete ConfigMap/other"]
    problems = [
        one for one in json.loads(applied.plan_file.read_bytes())["problems"] if one["rule"] == "live.unlabelled"
    ]
    taken, removed = sorted(problems, key=lambda one: str(one["place"]["path"]))
    assert (taken["severity"], removed["severity"]) == ("warning", "warning")
    assert f"although helm set the label {LABEL}: Helm at 20" in taken["message"]
    assert f"although somebody removed the label {LABEL}" in removed["message"]
    assert taken["hint"] == f"if it has a new owner: reconciler release --write ConfigMap/{applied.name}/one"
    assert applied.apply().code == 0
    assert not applied.exists("ConfigMap", "one")
    assert not applied.exists("ConfigMap", "other")


def test_an_object_that_others_created_again_stops_only_itself(applied: Site) -> None:
    """Its UID is not that of the inventory: it is never written, and the objects around it go on."""
    delete(applied, "one")
    theirs = foreign(applied, "one")
    (found,) = drift(applied)
    assert (found["field"], found["live"], found["action"]) == ("", "another object of this name", "foreign")
    assert found["managers"][0].startswith("kubectl (Update")
    shown = applied.fleet.run("drift", "--exit-code", *applied.flags)
    assert shown.code == 1
    line = f"ConfigMap/{applied.name}/one on main: another object of this name (Git: present): foreign"
    assert shown.out.splitlines()[0] == line
    assert shown.out.splitlines()[1].startswith("  last written by kubectl (Update")

    applied.config_map("other", a="2")
    planned = applied.plan()
    assert planned.code == 0, planned.out + planned.err
    assert "the object that we applied was deleted, and another one has its name" in words(planned)
    assert applied.changes() == ["update ConfigMap/other"]
    assert applied.apply().code == 0
    assert applied.live("ConfigMap", "other")["data"] == {"a": "2"}
    assert (uid(applied, "one"), applied.live("ConfigMap", "one")["data"]) == (theirs, {"a": "theirs"})
    refused = applied.fleet.run("drift", "--all", *applied.flags)
    assert "the object is not ours any more" in refused.err

    applied.remove("jobs/one.yaml")
    assert applied.reconcile().code == 0
    assert uid(applied, "one") == theirs, "Git drops the name, and not the object of somebody else"


def test_an_object_of_others_whose_update_the_server_would_refuse_stops_only_itself(site: Site) -> None:
    """A Job of other pods has the name: its template is immutable, and nobody asks the server to change it."""
    site.queue("parent")
    site.queue(f"q-{site.name}", parent="parent")
    site.job("train")
    site.config_map("other")
    assert site.reconcile().code == 0
    key = site.key("Job", "train", "batch")
    body = site.live("Job", "train", "batch")
    site.cluster.delete(key, uid=body["metadata"]["uid"], propagation="Background")
    container = {"name": "main", "image": "example.com/theirs:1"}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": site.metadata("train"), "spec": {"template": template}}
    site.cluster.create(job, manager="kubectl-create")
    site.config_map("other", a="2")
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    assert site.changes() == ["update ConfigMap/other"]
    assert site.apply().code == 0


def test_a_plan_is_stale_when_others_take_what_it_changes(applied: Site) -> None:
    """Nothing is left to do, but not because it was done: a creation, and an update of an object that is released."""
    delete(applied, "one")
    assert applied.plan().code == 0
    assert applied.changes() == ["create ConfigMap/one"]
    foreign(applied, "one")
    ran = applied.apply()
    assert ran.code == 5, ran.err
    assert f"the plan is stale: main/{applied.name}/configmap-one.yaml" in ran.err

    edit(applied, "other", a="edited")
    assert applied.plan().code == 0
    assert applied.changes() == ["update ConfigMap/other"]
    assert applied.fleet.run("release", "--write", f"ConfigMap/{applied.name}/other", *applied.flags).code == 0
    assert applied.apply().code == 5
    assert applied.live("ConfigMap", "other")["data"] == {"a": "edited"}


def test_an_object_that_was_created_again_is_adopted_by_flag(applied: Site) -> None:
    delete(applied, "one")
    theirs = foreign(applied, "one")
    name = f"ConfigMap/{applied.name}/one"
    planned = applied.plan("--adopt", name)
    assert planned.code == 0, planned.out + planned.err
    assert "risk.adoption" in words(planned)
    saved = json.loads(applied.plan_file.read_bytes())
    assert [one["field"] for one in saved["drift"] if not one["managers"]] == [], "what it lacks, nobody removed"
    assert applied.apply().code == 0
    assert (uid(applied, "one"), labels(applied, "one")[LABEL]) == (theirs, "gpu-reconciler")
    assert applied.inventory().uids()[applied.key("ConfigMap", "one")] == {theirs}
    assert drift(applied) == []


# Hand-over.


def test_an_object_is_released_and_stays(applied: Site) -> None:
    """It leaves the inventory, keeps all of its content, and nothing of ours is left on it."""
    name, key, before = f"ConfigMap/{applied.name}/one", applied.key("ConfigMap", "one"), uid(applied, "one")
    shown = applied.fleet.run("release", name, *applied.flags)
    assert shown.code == 0, shown.err
    assert shown.out.splitlines() == [
        f"to release: {name} on main (UID {before})",
        "Remove from Git, then run `reconciler commit`:",
        f"  jobs/one.yaml:1:1: the source of {name}",
    ]
    assert "nothing was written" in shown.err
    assert applied.inventory().uids()[key] == {before}

    done = applied.fleet.run("release", "--write", "-o", "json", name, *applied.flags)
    assert done.code == 0, done.err
    (one,) = json.loads(done.out)
    assert (one["uid"], one["released"], one["source"]["path"]) == (before, True, "jobs/one.yaml")
    body = applied.live("ConfigMap", "one")
    assert (body["metadata"]["uid"], body["data"], labels(applied, "one")) == (before, {"a": "1", "b": "1"}, {})
    assert managers(applied, "one") == set()
    assert before not in applied.inventory().uids()[key]
    assert [record["released"] for record in applied.records()[-2:]] == [[name], [name]]
    history = applied.fleet.run("history", *applied.flags)
    assert "Released" in history.out.splitlines()[0]
    assert name in history.out.splitlines()[0]


def test_a_release_says_how_many_objects_its_document_renders(site: Site) -> None:
    """Removing the document from Git deletes the others, unless they are released as well."""
    site.queue("default-parent-queue", 64)
    for name, source in (("h100", "queues/h100.yaml"), ("vit", "jobs/vision/vit.yaml")):
        text = (TEMPLATE / source).read_text()
        site.write(f"jobs/{name}.yaml", text.replace(f"name: {name}\n", f"name: {name}\n  namespace: {site.name}\n", 1))
    site.write("evidence/main/nodes.yaml", (TEMPLATE / "evidence/main/nodes.yaml").read_text())
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    assert site.apply("--no-wait").code == 0
    name = f"PersistentVolumeClaim/{site.name}/vit-workspace"
    shown = site.fleet.run("release", name, *site.flags)
    assert shown.code == 0, shown.err
    words = f"  jobs/vit.yaml:2:1: the source of {name} and of 2 other objects; an apply deletes what is not released"
    assert shown.out.splitlines()[-1] == words


def test_a_released_object_is_left_alone_until_git_drops_it(applied: Site) -> None:
    """Other objects go on meanwhile; then the object stays, and its name is free for Git again."""
    name, key, before = f"ConfigMap/{applied.name}/one", applied.key("ConfigMap", "one"), uid(applied, "one")
    assert applied.fleet.run("release", "--write", name, *applied.flags).code == 0
    label(applied, "one", "Helm")
    edit(applied, "one", a="theirs")
    applied.config_map("other", a="2")
    planned = applied.plan()
    assert planned.code == 0, planned.out + planned.err
    assert "the object was released" in words(planned)
    assert applied.changes() == ["update ConfigMap/other"]
    assert applied.apply().code == 0
    (found,) = drift(applied)
    assert (found["live"], found["action"]) == ("released", "foreign")

    applied.remove("jobs/one.yaml")
    applied.config_map("other", a="3")
    assert applied.reconcile().code == 0
    assert (uid(applied, "one"), applied.live("ConfigMap", "one")["data"]["a"]) == (before, "theirs")
    assert key not in applied.inventory().uids()
    assert drift(applied) == []


def test_a_released_object_is_not_ours_by_its_label(applied: Site) -> None:
    """The mark in the inventory decides, also for a release that was interrupted before it changed the object."""
    name = f"ConfigMap/{applied.name}/one"
    assert applied.fleet.run("release", "--write", name, *applied.flags).code == 0
    label(applied, "one", "gpu-reconciler", manager="kubectl-label")
    edit(applied, "one", a="theirs")
    assert applied.plan("--exit-code").code == 0
    assert applied.fleet.run("release", "--write", name, *applied.flags).code == 0
    assert LABEL not in labels(applied, "one")
    planned = applied.plan("--adopt", name)
    assert planned.code == 0, planned.out + planned.err
    assert applied.apply().code == 0
    assert applied.live("ConfigMap", "one")["data"]["a"] == "1"
    assert applied.inventory().uids()[applied.key("ConfigMap", "one")] == {uid(applied, "one")}


def test_the_fields_of_others_keep_their_managers(applied: Site) -> None:
    edit(applied, "one", c="theirs")
    assert applied.fleet.run("release", "--write", f"ConfigMap/{applied.name}/one", *applied.flags).code == 0
    assert managers(applied, "one") == {"kubectl-edit"}
    assert applied.live("ConfigMap", "one")["data"] == {"a": "1", "b": "1", "c": "theirs"}
    taken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": applied.metadata("one"), "data": {"a": "new"}}
    applied.cluster.apply(taken, manager="flux")
    assert applied.live("ConfigMap", "one")["data"]["a"] == "new", "nobody else has the field, so there is no conflict"


def test_what_is_not_in_the_inventory_is_not_released(applied: Site) -> None:
    """All wrong names are told at once, and nothing is written."""
    foreign(applied, "theirs")
    delete(applied, "other")
    names = [f"ConfigMap/{applied.name}/{name}" for name in ("theirs", "other", "ones", "one")]
    ran = applied.fleet.run("release", "--write", *names, *applied.flags)
    assert ran.code == 2
    assert f"no inventory lists {names[0]}" in ran.err
    assert f"{names[1]} does not exist on main" in ran.err
    assert f"no inventory lists {names[2]} (did you mean {names[3]}?)" in ran.err
    assert labels(applied, "one") == {LABEL: "gpu-reconciler"}
    foreign(applied, "other")
    replaced = applied.fleet.run("release", "--write", names[1], *applied.flags)
    assert replaced.code == 2
    assert "is not ours: it has another UID than the inventory lists" in replaced.err
