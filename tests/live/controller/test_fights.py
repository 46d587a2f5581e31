"""A controller that changes our field back: we stop after some rounds, and a condition names both (mode apply)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.controller.contested import LIMIT, FieldReverts, RevertedField, contested, note_reverts
from reconciler.controller.sources.status import READY, STALLED
from reconciler.kinds.manifests.ownership import LABEL
from reconciler.kube.client import KubernetesCluster
from tests.cluster.server import ApiServer
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.ring import Ring
from tests.live.controller.ring import ring as started
from tests.live.controller.test_apply_mode import namespace, sources
from tests.live.controller.test_pass import push

__all__ = ["namespace"]

_FIELD = RevertedField(cluster="main", object="ConfigMap/a/b", field="data.a", manager="rival")


@pytest.fixture
def ring(
    server: GitServer, empty_cluster: KubernetesCluster, private_server: ApiServer, tmp_path: Path, namespace: str
) -> Iterator[Ring]:
    with started(server.url, empty_cluster, private_server.kubeconfig, tmp_path / "state", namespace) as made:
        yield made


def test_a_fight_is_named_and_ended(ring: Ring, person: Sandbox, namespace: str) -> None:
    """F-143: after three rounds the field is left alone and the condition names it; other changes still arrive."""
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    push(person, dict.fromkeys(others) | sources(namespace, "ours"))
    assert ring.visit() == "ours"
    assert [ring.round("theirs") for _ in range(LIMIT)] == ["ours"] * LIMIT
    assert ring.store.saved.is_ready

    ring.cluster.patch(ring.key, {"data": {"greeting": "theirs"}}, manager="rival")
    version = ring.version()
    assert [ring.visit() for _ in range(3)] == ["theirs"] * 3
    assert ring.version() == version
    ready, stalled = ring.store.saved.condition(READY), ring.store.saved.condition(STALLED)
    assert ready is not None
    assert stalled is not None
    assert (ready.status, ready.reason, stalled.status) == ("False", "ResourceFight", "True")
    assert f"ConfigMap/{namespace}/app data.greeting on main, which rival changes back" in ready.message
    assert ring.fights() == 1
    assert sum("ResourceFight" in event for event in ring.store.told) == 1, "one event, not one for each pass"

    push(person, sources(namespace, "new"))
    assert ring.visit() == "new", "a new revision tries again"
    assert ring.store.saved.is_ready


def test_an_object_that_somebody_keeps_deleting_is_not_created_for_ever(
    ring: Ring, person: Sandbox, namespace: str
) -> None:
    """F-143: a job that is deleted after each creation would run again and again."""
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    push(person, dict.fromkeys(others) | sources(namespace, "ours"))
    assert ring.visit() == "ours"
    for _ in range(LIMIT):
        ring.delete()
        assert ring.visit() == "ours"
        assert ring.store.saved.is_ready
    ring.delete()
    for _ in range(2):
        ring.controller.visit(ring.store.source.key)
        assert ring.cluster.get(ring.key) is None
    ready = ring.store.saved.condition(READY)
    assert ready is not None
    assert ready.reason == "ResourceFight"
    wanted = f"stopped creating 1 object: ConfigMap/{namespace}/app on main, which somebody keeps deleting."
    assert ready.message.startswith(wanted)
    assert ring.fights() == 1
    push(person, sources(namespace, "new"))
    assert ring.visit() == "new", "a new revision tries again"


def test_a_label_is_set_back_and_a_taken_name_stops_only_its_object(
    ring: Ring, person: Sandbox, namespace: str
) -> None:
    """The UID in the inventory decides: the label of our object is drift, and another object of its name stays."""
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    push(person, dict.fromkeys(others) | sources(namespace, "ours"))
    assert ring.visit() == "ours"
    ring.cluster.patch(ring.key, {"metadata": {"labels": {LABEL: "Helm"}}}, manager="helm")
    assert ring.visit() == "ours"
    assert (ring.cluster.get(ring.key) or {})["metadata"]["labels"] == {LABEL: "gpu-reconciler"}
    assert ring.store.saved.is_ready

    ring.delete()
    metadata = {"name": "app", "namespace": namespace}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"greeting": "theirs"}}
    ring.cluster.create(body, manager="helm")
    source = sources(namespace, "second")["jobs/app.yaml"] or b""
    push(person, {"jobs/second.yaml": source.replace(b"name: app,", b"name: second,")})
    assert [ring.visit() for _ in range(2)] == ["theirs"] * 2
    assert ring.cluster.get(replace(ring.key, name="second")) is not None, "other objects go on"
    ready, stalled = ring.store.saved.condition(READY), ring.store.saved.condition(STALLED)
    assert ready is not None
    assert stalled is not None
    assert (ready.status, ready.reason, stalled.status) == ("False", "ForeignObjects", "True")
    message = f"ConfigMap/{namespace}/app on main: another object of this name, last written by helm"
    assert ready.message.startswith(message)

    push(person, {"jobs/app.yaml": None})
    assert ring.visit() == "theirs"
    assert ring.store.saved.is_ready


def test_single_edits_are_no_fight() -> None:
    """F-143: reverts count within a window; a field that is as Git says again is forgotten."""
    known: tuple[FieldReverts, ...] = ()
    for hour in range(LIMIT + 2):
        known = note_reverts(known, [_FIELD], (), f"2026-01-01T{hour:02}:00:00Z", 60)
    assert contested(known) == frozenset()
    for minute in range(1, LIMIT):
        known = note_reverts(known, [_FIELD], (), f"2026-01-01T{hour:02}:{minute:02}:00Z", 60)
    assert contested(known) == {_FIELD.key}
    later = "2026-01-02T00:00:00Z"
    assert contested(note_reverts(known, (), [_FIELD], later, 60)) == {_FIELD.key}, "it drifts: we go on standing back"
    assert contested(note_reverts(known, (), None, later, 60)) == {_FIELD.key}, "not known is not the end of it"
    assert note_reverts(known, (), (), later, 60) == ()


def test_a_source_that_is_looked_at_rarely_has_a_longer_window() -> None:
    known: tuple[FieldReverts, ...] = ()
    for hour in range(LIMIT):
        known = note_reverts(known, [_FIELD], (), f"2026-01-01T{hour:02}:00:00Z", 3600)
    assert contested(known) == {_FIELD.key}
