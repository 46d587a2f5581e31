"""Whose a live object is: two config repositories on one cluster, foreign objects, and adoption by flag."""

import json
from pathlib import Path

from tests.cli.fleet import Fleet, Ran
from tests.live.apply.conftest import Site
from tests.live.drift.conftest import AnotherSite

_FOREIGN = {"labels": {"theirs": "yes"}}


def words(ran: Ran) -> str:
    """Return the output without its line breaks."""
    return " ".join(ran.out.split())


def foreign(site: Site, name: str) -> str:
    """Create an object of somebody else, and return its UID."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": site.metadata(name) | _FOREIGN,
        "data": {"a": "theirs"},
    }
    return str(site.cluster.create(body, manager="kubectl").body["metadata"]["uid"])


def test_two_repositories_that_define_one_object_are_told_of_each_other(site: Site, another_site: AnotherSite) -> None:
    """F-142: the second one neither overwrites the object nor deletes it later."""
    site.config_map("shared", a="first")
    site.config_map("alone")
    assert site.reconcile().code == 0
    other = another_site("other")
    other.config_map("shared", a="second")
    other.config_map("mine")
    refused = other.plan()
    assert refused.code == 3, refused.out + refused.err
    assert "live.claimed" in words(refused)
    assert "config repository fleet" in words(refused)
    assert "config repository other" in words(refused)
    assert other.changes() == ["create ConfigMap/mine"]
    assert other.apply().code != 0
    assert site.live("ConfigMap", "shared")["data"] == {"a": "first"}
    assert not other.exists("ConfigMap", "mine")

    other.remove("jobs/shared.yaml")
    assert other.reconcile().code == 0
    assert site.exists("ConfigMap", "shared")
    assert site.exists("ConfigMap", "alone"), "what only the first repository defines is not pruned by the second"


def test_an_object_moves_to_another_repository_by_flag(site: Site, another_site: AnotherSite) -> None:
    site.config_map("shared", a="same")
    assert site.reconcile().code == 0
    uid = site.live("ConfigMap", "shared")["metadata"]["uid"]
    other = another_site("other")
    other.config_map("shared", a="same")
    name = f"ConfigMap/{site.name}/shared"
    planned = other.plan("--adopt", name)
    assert planned.code == 0, planned.out + planned.err
    assert "risk.adoption" in words(planned)
    assert other.changes() == ["update ConfigMap/shared"]
    assert other.apply().code == 0
    assert other.inventory().uids()[site.key("ConfigMap", "shared")] == {uid}
    assert site.key("ConfigMap", "shared") not in site.inventory().uids()
    assert other.plan("--exit-code").code == 0

    contested = site.plan()
    assert contested.code == 3
    assert "config repository other" in words(contested)
    site.remove("jobs/shared.yaml")
    assert site.reconcile().code == 0
    assert site.live("ConfigMap", "shared")["metadata"]["uid"] == uid


def test_a_repository_of_the_same_name_is_not_the_same(site: Site, another_site: AnotherSite) -> None:
    """F-142: both have `metadata.name: fleet` and the cluster `main`; the history tells them apart."""
    site.config_map("one")
    assert site.reconcile().code == 0
    twin = another_site("twin/fleet")
    assert twin.place.name == site.place.name
    twin.config_map("two")
    planned = twin.plan()
    assert planned.code == 3, planned.out + planned.err
    assert "belongs to another repository of the name fleet" in words(planned)
    assert twin.changes() == ["create ConfigMap/two"]
    applied = twin.apply()
    assert applied.code == 3, applied.out + applied.err
    assert site.exists("ConfigMap", "one")
    assert not site.exists("ConfigMap", "two")
    assert site.plan("--exit-code").code == 0


def test_a_shallow_clone_does_not_apply(site: Site, tmp_path: Path) -> None:
    site.config_map("one")
    assert site.plan().code == 0
    clone = tmp_path / "clone"
    site.fleet.git("clone", "--quiet", "--depth", "1", f"file://{site.fleet.root}", str(clone))
    shallow = Site(Fleet(clone, site.fleet.capture), site.cluster, site.server, tmp_path, site.name)
    refused = shallow.apply()
    assert refused.code != 0
    assert "git fetch --unshallow" in refused.err, refused.err
    assert not site.exists("ConfigMap", "one")


def test_a_foreign_object_is_adopted_only_by_flag(site: Site) -> None:
    """F-142: the plan shows whose it is, and the apply adopts exactly what the plan says."""
    site.config_map("theirs", a="ours")
    site.config_map("other")
    assert site.reconcile().code == 0
    site.remove("jobs/theirs.yaml")
    assert site.reconcile().code == 0
    uid = foreign(site, "theirs")
    site.config_map("theirs", a="ours")
    name = f"ConfigMap/{site.name}/theirs"
    refused = site.plan()
    assert refused.code == 3
    assert f"--adopt {name}" in words(refused)
    assert "kubectl" in words(refused)

    misspelled = site.plan("--adopt", "ConfigMap/theirs")
    assert misspelled.code == 2
    assert "ConfigMap/theirs" in misspelled.err

    planned = site.plan("--adopt", name)
    assert planned.code == 0, planned.out + planned.err
    assert "kubectl" in words(planned)
    (change,) = json.loads(site.plan_file.read_bytes())["changes"]
    assert (change["operation"], change["adopts"], change["live"]["uid"]) == ("update", True, uid)
    assert site.apply().code == 0
    body = site.live("ConfigMap", "theirs")
    assert (body["metadata"]["uid"], body["data"]) == (uid, {"a": "ours"})
    assert body["metadata"]["labels"]["theirs"] == "yes"
    assert site.inventory().uids()[site.key("ConfigMap", "theirs")] == {uid}

    site.remove("jobs/theirs.yaml")
    assert site.reconcile().code == 0
    assert not site.exists("ConfigMap", "theirs")


def test_a_plan_that_adopts_is_stale_when_the_object_changes(site: Site) -> None:
    site.config_map("theirs", a="ours")
    assert site.reconcile().code == 0
    site.remove("jobs/theirs.yaml")
    assert site.reconcile().code == 0
    foreign(site, "theirs")
    site.config_map("theirs", a="ours")
    assert site.plan("--adopt", f"ConfigMap/{site.name}/theirs").code == 0
    site.cluster.patch(site.key("ConfigMap", "theirs"), {"data": {"a": "edited"}}, manager="kubectl-edit")
    assert site.apply().code == 5
    assert site.live("ConfigMap", "theirs")["data"] == {"a": "edited"}


def test_a_kind_that_left_the_repository_is_still_pruned(site: Site) -> None:
    """F-142: the kind is neither in the head nor in the base; the inventory still lists its objects."""
    site.config_map("one")
    site.queue("gone")
    assert site.reconcile().code == 0
    site.remove("queues/gone.yaml")
    site.fleet.commit("the queue leaves")
    site.config_map("one", a="2")
    planned = site.plan("--base", "HEAD")
    assert planned.code == 0, planned.out + planned.err
    assert "delete Queue/gone" in site.changes()
    assert site.apply("--base", "HEAD").code == 0
    assert site.key("Queue", "gone", "scheduling.run.ai").kind not in {key.kind for key in site.inventory().uids()}
