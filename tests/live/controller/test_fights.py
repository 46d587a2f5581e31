"""A controller that changes our field back: we stop after some rounds, and a condition names both (mode apply)."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from reconciler.adapters.kubernetes import KubernetesCluster
from reconciler.controller.exporting import SpanExporter
from reconciler.controller.fights import LIMIT, FieldReverts, RevertedField, contested, note_reverts
from reconciler.controller.loop import Controller, LoopOptions
from reconciler.controller.metrics import Metrics
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.reconcile import Request, reconcile
from reconciler.controller.sources.source import ConfigSource, Mode
from reconciler.controller.sources.status import READY, STALLED, SourceStatus
from reconciler.core.objects import ObjectKey
from reconciler.wiring.cluster import ClusterFlags
from tests.cluster.server import ApiServer
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.test_apply_mode import namespace, sources
from tests.live.controller.test_pass import push

__all__ = ["namespace"]

_FIELD = RevertedField(cluster="main", object="ConfigMap/a/b", field="data.a", manager="rival")


class InProcess:
    """Makes passes in this process: a second one would prove nothing more here."""

    def run(self, request: Request) -> PassOutcome:
        return reconcile(request, dict(os.environ))

    def interrupt(self, keys: Iterable[str] | None = None) -> None:
        pass


class OneSource:
    """A store of one source, which remembers the last status and the events."""

    def __init__(self, source: ConfigSource) -> None:
        self.source, self.saved, self.told = source, SourceStatus(), list[str]()

    def load(self) -> tuple[ConfigSource, ...]:
        return (self.source,)

    def status(self, _: ConfigSource) -> SourceStatus:
        return self.saved

    def save(self, _: ConfigSource, status: SourceStatus) -> None:
        self.saved = status

    def secret(self, _: ConfigSource, __: str) -> dict[str, bytes]:
        return {}

    def tell(self, _: ConfigSource, *, warning: bool, reason: str, message: str) -> None:
        self.told.append(f"{'warning' if warning else 'normal'} {reason}: {message}")

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.05))

    def close(self) -> None:
        pass


class Ring:
    """The controller, the store of its only source, and the object that two parties write."""

    def __init__(self, controller: Controller, store: OneSource, metrics: Metrics, cluster: KubernetesCluster) -> None:
        self.controller, self.store, self.metrics, self.cluster = controller, store, metrics, cluster
        self.key = ObjectKey(group="", kind="ConfigMap", namespace="", name="app")

    def round(self, text: str, manager: str = "rival") -> str:
        """Let the rival write, then make a pass; return what the object says after it."""
        self.cluster.patch(self.key, {"data": {"greeting": text}}, manager=manager)
        return self.visit()

    def visit(self) -> str:
        self.controller.visit(self.store.source.key)
        return str((self.cluster.get(self.key) or {})["data"]["greeting"])

    def delete(self) -> None:
        metadata = (self.cluster.get(self.key) or {})["metadata"]
        self.cluster.delete(
            self.key, uid=metadata["uid"], resource_version=metadata["resourceVersion"], propagation="Background"
        )

    def fights(self) -> float:
        lines = self.metrics.exposition("text/plain")[1].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("reconciler_resource_fights_total "))


@pytest.fixture
def ring(
    server: GitServer, empty_cluster: KubernetesCluster, private_server: ApiServer, tmp_path: Path
) -> Iterator[Ring]:
    source = ConfigSource(namespace="default", name="fleet", url=server.url, mode=Mode.APPLY, timeout=60, interval=5)
    store, metrics = OneSource(source), Metrics()
    options = LoopOptions(
        state=tmp_path / "state", workers=0, access=ClusterFlags(kubeconfig=str(private_server.kubeconfig))
    )
    controller = Controller(store, InProcess(), metrics, SpanExporter({}, metrics), options, environ=dict(os.environ))
    controller.start()
    deadline = time.monotonic() + 10
    while not controller.sources() and time.monotonic() < deadline:
        time.sleep(0.01)
    yield Ring(controller, store, metrics, empty_cluster)
    controller.stop(5)


def test_a_fight_is_named_and_ended(ring: Ring, person: Sandbox, namespace: str) -> None:
    """F-143: after three rounds the field is left alone and the condition names it; other changes still arrive."""
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    push(person, dict.fromkeys(others) | sources(namespace, "ours"))
    ring.key = ObjectKey(group="", kind="ConfigMap", namespace=namespace, name="app")
    assert ring.visit() == "ours"
    assert [ring.round("theirs") for _ in range(LIMIT)] == ["ours"] * LIMIT
    assert ring.store.saved.is_ready

    version = ring.cluster.patch(ring.key, {"data": {"greeting": "theirs"}}, manager="rival").body["metadata"]
    assert [ring.visit() for _ in range(3)] == ["theirs"] * 3
    assert (ring.cluster.get(ring.key) or {})["metadata"]["resourceVersion"] == version["resourceVersion"]
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
    ring.key = ObjectKey(group="", kind="ConfigMap", namespace=namespace, name="app")
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
