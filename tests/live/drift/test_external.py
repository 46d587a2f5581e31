"""Objects that become external are released, and a Namespace is deleted only with an approval, on the real server."""

import json

import yaml

from reconciler.kube.objects import ObjectKey
from tests.live.apply.conftest import Site
from tests.live.drift.test_additions import words


def _to_external(site: Site, *names: str) -> None:
    path = site.fleet.root / "reconciler.yaml"
    config = yaml.safe_load(path.read_text())
    config["spec"]["clusters"][0].setdefault("external", []).extend(names)
    path.write_text(yaml.safe_dump(config))


def _claim(site: Site) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": site.metadata("theirs"), "spec": spec}
    site.cluster.create(body, manager="kubectl")


def _start(site: Site) -> None:
    site.config_map("one")
    assert site.reconcile().code == 0


def test_an_object_that_becomes_external_is_released(site: Site) -> None:
    """F-142: the Namespace stays with all that is in it, and is nobody's business from then on."""
    _start(site)
    _claim(site)
    site.remove("queues/namespace.yaml")
    _to_external(site, f"Namespace/{site.name}")
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    assert site.changes() == []
    assert f"Namespace/{site.name} is external now" in words(planned)
    assert site.apply().code == 0
    body = site.cluster.get(ObjectKey(group="", kind="Namespace", namespace="", name=site.name))
    assert body is not None
    assert "deletionTimestamp" not in body["metadata"]
    assert "app.kubernetes.io/managed-by" not in body["metadata"].get("labels", {})
    assert site.exists("ConfigMap", "one")
    assert site.exists("PersistentVolumeClaim", "theirs")
    again = site.plan("--exit-code")
    assert (again.code, "is external now" in words(again)) == (0, False)


def test_a_namespace_is_deleted_only_with_an_approval(site: Site) -> None:
    """F-145: the plan counts what is in it, also what is not ours, before the server deletes all of it."""
    _start(site)
    _claim(site)
    site.remove("queues/namespace.yaml")
    site.remove("jobs/one.yaml")
    refused = site.plan()
    assert refused.code == 5, refused.out + refused.err
    assert f"deletes Namespace/{site.name} with 1 other object: PersistentVolumeClaim/{site.name}/theirs" in words(
        refused
    )
    assert site.apply().code == 5
    approved = site.fleet.run("approve", "--live", "--reason", "the team is gone", *site.flags)
    assert approved.code == 0, approved.out + approved.err


def test_an_empty_namespace_needs_no_approval(site: Site) -> None:
    _start(site)
    site.remove("queues/namespace.yaml")
    site.remove("jobs/one.yaml")
    assert site.plan().code == 0
    assert site.apply("--no-wait").code == 0
    plan = json.loads(site.plan_file.read_bytes())
    assert plan["breaches"] == []
