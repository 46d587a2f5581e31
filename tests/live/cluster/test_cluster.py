"""The adapter on the real API server: discovery, lists, reads, writes, watches."""

import threading

import pytest

from reconciler.kube.client import KubernetesCluster
from reconciler.kube.client.port import ClusterError, EventType, Expired, UnknownKind
from reconciler.kube.objects import ObjectKey
from tests.cluster.parts import KUBERNETES_MINOR
from tests.live.cluster.fixtures import config_map, config_map_key


def test_the_version_of_the_server(live: KubernetesCluster) -> None:
    assert live.version().startswith(f"v1.{KUBERNETES_MINOR}")


def test_every_served_version_of_a_kind_is_found(live: KubernetesCluster) -> None:
    """One request for the core and one for all groups tell everything; the preferred version comes first."""
    assert not live.discover().failed
    assert live.resource("", "ConfigMap").plural == "configmaps"
    assert live.resource("batch", "Job").api_version == "batch/v1"
    queue = live.resource("kueue.x-k8s.io", "ClusterQueue", "v1beta1")
    assert (queue.plural, queue.namespaced, queue.version) == ("clusterqueues", False, "v1beta1")
    assert {"list", "watch", "patch", "delete"} <= queue.verbs


def test_a_kind_that_is_not_served(live: KubernetesCluster) -> None:
    with pytest.raises(UnknownKind, match=r"does not offer Foo of example\.com; install its CRD"):
        live.resource("example.com", "Foo")
    with pytest.raises(UnknownKind, match="does not offer Job of batch in version v2"):
        live.resource("batch", "Job", "v2")


def test_apply_read_and_delete(live: KubernetesCluster, namespace: str) -> None:
    """A dry run stores nothing; an apply says whether the object is new; a deletion names the UID."""
    key, body = config_map_key(namespace, "a"), config_map(namespace, "a")
    assert live.apply(body, dry_run=True).is_new
    assert live.get(key) is None
    first, second = live.apply(body), live.apply(body)
    assert (first.is_new, second.is_new) == (True, False)
    assert second.body["metadata"]["resourceVersion"] == first.body["metadata"]["resourceVersion"]
    stored = live.get(key)
    assert stored is not None
    assert stored["metadata"]["managedFields"][0]["manager"] == "reconciler"
    with pytest.raises(ClusterError, match="409 Conflict") as conflict:
        live.delete(key, uid="00000000-0000-0000-0000-000000000000")
    assert (conflict.value.status, conflict.value.reason, conflict.value.retryable) == (409, "Conflict", False)
    uid = stored["metadata"]["uid"]
    assert live.delete(key, uid=uid, dry_run=True)
    assert live.get(key) == stored, "a dry run deletes nothing"
    assert live.delete(key, uid=uid, propagation="Background")
    assert not live.delete(key, uid=uid, propagation="Background")


def test_an_unknown_field_is_refused_with_its_path(live: KubernetesCluster, namespace: str) -> None:
    body = {**config_map(namespace, "a"), "dta": {}}
    with pytest.raises(ClusterError, match=r"cannot apply ConfigMap/.*: .*\.dta"):
        live.apply(body)


def test_patch_and_replace(live: KubernetesCluster, namespace: str) -> None:
    """A merge patch, a JSON patch, and a replacement that names the version it replaces."""
    key = config_map_key(namespace, "a")
    made = live.create(config_map(namespace, "a")).body
    assert live.patch(key, {"data": {"b": "2"}}).body["data"] == {"a": "1", "b": "2"}
    changed = live.patch(key, [{"op": "remove", "path": "/data/a"}]).body
    assert changed["data"] == {"b": "2"}
    with pytest.raises(ClusterError) as conflict:
        live.replace({**made, "data": {"c": "3"}})
    assert conflict.value.reason == "Conflict"
    assert live.replace({**changed, "data": {"c": "3"}}).body["data"] == {"c": "3"}


def test_a_list_has_all_pages(live: KubernetesCluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages are read as they are needed; every object has its type; metadata alone is smaller."""
    monkeypatch.setattr("reconciler.kube.client.cluster.PAGE_SIZE", 2)
    names = [f"item-{number}" for number in range(7)]
    for name in names:
        live.apply(config_map(namespace, name))
    resource = live.resource("", "ConfigMap")
    listing = live.list(resource, namespace=namespace)
    objects = list(listing.objects)
    assert [body["metadata"]["name"] for body in objects] == names
    assert {(body["apiVersion"], body["kind"]) for body in objects} == {("v1", "ConfigMap")}
    assert listing.resource_version.isdigit()
    (one,) = live.list(resource, namespace=namespace, fields="metadata.name=item-3", metadata_only=True).objects
    assert (one["metadata"]["name"], one["kind"], "data" in one) == ("item-3", "ConfigMap", False)
    assert not list(live.list(resource, namespace=namespace, labels="a=b").objects)


def test_a_watch_continues_from_a_list(live: KubernetesCluster, namespace: str) -> None:
    """Events come in order, and another thread can end the watch while it waits."""
    resource = live.resource("", "ConfigMap")
    since = live.list(resource, namespace=namespace).resource_version
    body = live.apply(config_map(namespace, "a")).body
    live.apply(config_map(namespace, "a", b="2"))
    live.delete(config_map_key(namespace, "a"), uid=body["metadata"]["uid"], propagation="Background")
    watch = live.watch(resource, since, namespace=namespace, seconds=60)
    events = [next(watch) for _ in range(3)]
    assert [event.type for event in events] == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]
    assert int(events[0].resource_version) > int(since)
    timer = threading.Timer(0.2, watch.close)
    timer.start()
    assert list(watch) == []


def test_a_version_that_is_too_old(live: KubernetesCluster) -> None:
    """410 comes as an error of its own: list again."""
    with pytest.raises(Expired) as expired, live.watch(live.resource("", "ConfigMap"), "1", seconds=5) as watch:
        list(watch)
    assert expired.value.status == 410


def test_reviews_have_no_name(live: KubernetesCluster) -> None:
    review = live.create({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    assert review.body["status"]["userInfo"]["username"] == "admin"


def test_an_object_that_does_not_exist(live: KubernetesCluster, namespace: str) -> None:
    assert live.get(config_map_key(namespace, "none")) is None
    assert live.get(ObjectKey(group="kueue.x-k8s.io", kind="ClusterQueue", namespace="", name="none")) is None
