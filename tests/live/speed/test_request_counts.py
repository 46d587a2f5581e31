"""How many requests a plan and an apply make: each creation is dry-run once, and what is known is not asked again."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.repo.git.command import Git
from tests.live.apply.conftest import Site
from tests.live.speed.conftest import Requests

if TYPE_CHECKING:
    import subprocess

_MANY = 60  # more than are asked for one by one


def write_many(site: Site, count: int = _MANY, key: str = "a") -> None:
    for number in range(count):
        site.config_map(f"many-{number:03}", **{key: "1"})


def test_each_creation_is_dry_run_once(site: Site, requests: Requests) -> None:
    """F-141: the plan asks about every creation, the apply carries out what the server accepted then."""
    assert site.reconcile().code == 0  # the namespace
    write_many(site)
    requests.take()
    assert site.plan().code == 0
    assert requests.take()["dry-run"] == _MANY
    assert site.apply("--no-wait").code == 0
    made = requests.take()
    assert (made["dry-run"], made["apply"]) == (0, _MANY)
    assert made["read"] < _MANY


def test_the_first_record_is_created_once(site: Site, requests: Requests) -> None:
    """F-141: its namespace is made before, because the server lets a creation in a missing one wait."""
    site.config_map("one")
    assert site.plan().code == 0
    requests.take()
    assert site.apply("--no-wait").code == 0
    assert requests.take()["create"] == 5  # who we are, the namespace, the record, the inventory, the event


def test_without_waiting_nothing_is_looked_at_afterwards(site: Site, requests: Requests) -> None:
    """F-141: what was applied is listed only to see whether it is ready."""
    assert site.reconcile().code == 0  # the namespace
    lists = []
    for key, flags in (("a", ["--no-wait"]), ("b", [])):
        write_many(site, key=key)
        assert site.plan().code == 0
        requests.take()
        assert site.apply(*flags).code == 0
        lists.append(requests.take()["list"])
    assert lists[1] == lists[0] + 1


def test_an_apply_reads_all_objects_of_git_at_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """F-141: the number of git processes does not depend on the number of objects."""
    started: list[str] = []
    start = Git._start

    def noted(self: Git, *arguments: str, **options: Any) -> "subprocess.Popen[bytes]":
        started.append(arguments[0])
        return start(self, *arguments, **options)

    monkeypatch.setattr(Git, "_start", noted)
    counts = []
    for count in (_MANY, 5 * _MANY):
        write_many(site, count, key=f"a{count}")
        site.fleet.run("commit")
        assert site.plan().code == 0
        started.clear()
        assert site.apply("--no-wait").code == 0
        counts.append(len(started))
    assert counts[0] == counts[1]


def test_what_was_applied_is_not_read_again(site: Site, requests: Requests) -> None:
    """F-141: nothing changed: no writes, and as many requests for many objects as for a few."""
    write_many(site)
    assert site.reconcile().code == 0
    requests.take()
    assert site.plan("--exit-code").code == 0
    few = requests.take()
    assert not few.keys() & {"apply", "dry-run", "create", "replace", "patch", "delete"}
    write_many(site, 2 * _MANY)
    assert site.reconcile().code == 0
    requests.take()
    assert site.plan("--exit-code").code == 0
    assert requests.take() == few


def test_an_edit_of_another_is_still_found(site: Site) -> None:
    """What is remembered names the version of the object: any later write of another makes it worth nothing."""
    write_many(site)
    assert site.reconcile().code == 0
    site.cluster.patch(site.key("ConfigMap", "many-007"), {"data": {"a": "theirs"}}, manager="kubectl-edit")
    assert site.plan().code == 0
    assert site.changes() == ["update ConfigMap/many-007"]


def test_a_name_that_is_taken_meanwhile_stops_the_apply(site: Site) -> None:
    """F-141: an object of another appears among many planned creations: nothing is written at all."""
    assert site.reconcile().code == 0
    write_many(site)
    assert site.plan().code == 0
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": site.metadata("many-030"), "data": {"a": "theirs"}}
    site.cluster.create(theirs, manager="kubectl")
    ran = site.apply()
    assert ran.code == 3, ran.err
    assert "live.foreign" in ran.out + ran.err
    assert not site.exists("ConfigMap", "many-000")
    assert site.live("ConfigMap", "many-030")["data"] == {"a": "theirs"}


def test_a_refused_creation_is_not_taken_for_accepted(site: Site) -> None:
    """F-141: what the server refused in the dry run of the plan is refused again, before anything is written."""
    assert site.reconcile().code == 0
    write_many(site, key="not a key!")
    assert site.plan().code == 3
    assert site.apply().code == 3
    assert not site.exists("ConfigMap", "many-000")


def test_objects_of_a_new_namespace_are_not_asked_about(site: Site, requests: Requests) -> None:
    """The server cannot judge an object before its namespace exists, so it is not asked 60 times."""
    write_many(site)
    requests.take()
    assert site.plan().code == 0
    assert requests.take()["dry-run"] == 1
    (cluster,) = json.loads(site.plan_file.read_bytes())["clusters"]
    assert len(cluster["unchecked"]) == _MANY
    assert site.apply("--no-wait").code == 0
    assert site.exists("ConfigMap", "many-059")


def test_many_objects_are_read_by_lists(site: Site, requests: Requests) -> None:
    """Without a cache, as after the restart of a pod: objects are listed, once for all source files."""
    write_many(site, 300)
    assert site.reconcile().code == 0
    requests.take()
    assert site.plan("--cache", "off", "--exit-code").code == 0
    made = requests.take()
    assert made["read"] < 10
    assert made["list"] < 20
    assert made["dry-run"] == 0
