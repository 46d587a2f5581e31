"""Annotations of Flux and Argo CD that ask for a new object where an update is refused, on a real API server."""

import pytest

from tests.cluster.server import wait_until
from tests.live.apply.conftest import Site

FORCED = {
    "flux": {"kustomize.toolkit.fluxcd.io/force": "enabled"},
    "argo-cd": {"argocd.argoproj.io/sync-options": "Force=true,Replace=true"},
    "hook": {"argocd.argoproj.io/hook": "PostSync"},
}


def frozen_map(site: Site, value: str, annotations: dict[str, str]) -> None:
    metadata = {**site.metadata("fixed"), "annotations": annotations}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "immutable": True, "data": {"a": value}}
    site.write("jobs/fixed.yaml", body)


@pytest.mark.parametrize("annotations", FORCED.values(), ids=FORCED)
def test_an_immutable_object_is_deleted_and_created_again(site: Site, annotations: dict[str, str]) -> None:
    frozen_map(site, "1", annotations)
    assert site.reconcile().code == 0
    before = site.live("ConfigMap", "fixed")
    frozen_map(site, "2", annotations)
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    (name, value) = next(iter(annotations.items()))
    assert f"deleted and created again because of {name}: {value}" in planned.out
    ran, results = site.apply_json()
    assert ran.code == 0, ran.err
    assert [(one["verb"], one["ending"]) for one in results[0]["results"]] == [("recreate", "done")]
    after = site.live("ConfigMap", "fixed")
    assert after["data"] == {"a": "2"}
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["metadata"]["uid"] in site.inventory().uids()[site.key("ConfigMap", "fixed")]
    assert site.plan("--exit-code").code == 0


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"argocd.argoproj.io/sync-options": "Replace=true"},
        {"argocd.argoproj.io/hook": "PostSync", "argocd.argoproj.io/hook-delete-policy": "HookSucceeded"},
    ],
    ids=["none", "replace alone", "hook that stays"],
)
def test_without_them_the_plan_is_refused(site: Site, annotations: dict[str, str]) -> None:
    frozen_map(site, "1", annotations)
    assert site.reconcile().code == 0
    frozen_map(site, "2", annotations)
    planned = site.plan()
    assert planned.code == 5
    assert "immutable.refused" in planned.out + planned.err
    assert site.live("ConfigMap", "fixed")["data"] == {"a": "1"}


def test_a_claim_is_never_recreated(site: Site) -> None:
    """Its data would be lost."""

    def claim(mode: str) -> None:
        spec = {"accessModes": [mode], "resources": {"requests": {"storage": "1Gi"}}}
        metadata = {**site.metadata("data"), "annotations": FORCED["flux"]}
        site.write(
            "jobs/data.yaml",
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec},
        )

    claim("ReadWriteOnce")
    assert site.reconcile().code == 0
    claim("ReadWriteMany")
    planned = site.plan()
    assert planned.code == 3
    assert "immutable.claim" in planned.out + planned.err
    assert site.exists("PersistentVolumeClaim", "data")


def test_a_run_that_was_killed_between_the_two_requests_is_resumed(site: Site) -> None:
    site.job("train")
    site.queue(f"all-{site.name}")
    site.queue(f"q-{site.name}", parent=f"all-{site.name}")
    site.fleet.edit("jobs/train.yaml", "labels:", "annotations: {kustomize.toolkit.fluxcd.io/force: enabled}, labels:")
    ran = site.reconcile()
    assert ran.code == 0, ran.out + ran.err
    job = site.key("Job", "train", "batch")
    old = site.live("Job", "train", "batch")["metadata"]["uid"]
    site.fleet.edit("jobs/train.yaml", "train:1", "train:2")
    planned = site.plan()
    assert planned.code == 0, planned.out + planned.err
    assert "the workload is deleted and created again" in planned.out
    process = site.start()
    wait_until(lambda: site.live("Job", "train", "batch")["metadata"].get("deletionTimestamp"), "the deletion")
    process.kill()
    process.communicate()
    site.cluster.patch(job, {"metadata": {"finalizers": None}}, manager="collector")
    wait_until(lambda: not site.exists("Job", "train", "batch"), "the end of the old job")
    ran = site.apply()
    assert ran.code == 0, ran.out + ran.err
    new = site.live("Job", "train", "batch")
    assert new["metadata"]["uid"] != old
    assert new["spec"]["template"]["spec"]["containers"][0]["image"].endswith("train:2")
    assert new["metadata"]["uid"] in site.inventory().uids()[job]
