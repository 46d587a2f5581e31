"""Flux, Argo CD and our own apply work on the same objects, and none of them undoes what another did."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.bed.bed import Bed
from tests.cluster.bed.fleet import PRODUCTS
from tests.cluster.bed.git_http import GitServer
from tests.live.sync.config_repository import CLUSTERS
from tests.live.sync.engines import ArgoCd, Flux
from tests.live.sync.fleet import Fleet, fleet_repository

pytestmark = [
    pytest.mark.usefixtures("kwok", "scheduler", "kueue", "kai", "training_operator", "flux", "argo_cd"),
    pytest.mark.timeout(900),  # many steps, each with programs that wait for each other
]


@pytest.fixture
def fleet(bed: Bed, git_server: GitServer, tmp_path: Path) -> Iterator[Fleet]:
    """Make a fleet that both engines follow."""
    repository = fleet_repository(bed, git_server, tmp_path, "together", PRODUCTS[2])
    # Argo CD first: it sets back what another syncs while it knows of the commit before alone.
    engines = (ArgoCd(bed, repository), Flux(bed, repository))
    yield Fleet(bed, repository, *engines)
    for engine in engines:
        engine.leave()


def test_three_do_not_fight(fleet: Fleet) -> None:
    """F-143: they see no differences, write nothing twice, and what left Git goes, whoever owned it."""
    fleet.repository.edit("queues/h100.yaml", "metadata:\n", "metadata:\n  labels: {tier: gold}\n")
    commit = we_apply_first(fleet)
    nobody_sees_a_difference(fleet)
    nothing_is_written(fleet, commit)
    a_change_is_made_once(fleet)
    a_field_that_left_git_goes(fleet)
    an_edit_is_reverted_once(fleet)
    a_deletion_leaves_nothing_to_do(fleet)


def we_apply_first(fleet: Fleet) -> str:
    """Apply the template; then Flux and Argo CD take over what is there, pods and all."""
    commit = fleet.repository.push("The template")
    created = plan(fleet)["changes"]
    assert {one["operation"] for one in created} == {"create"}
    assert {one["result"] for one in apply(fleet)} == {"Applied"}
    assert plan(fleet)["changes"] == []
    uids = {path: body["metadata"]["uid"] for path, body in fleet.desired().items()}
    assert len(uids) == len(created)
    for engine in fleet.engines:
        engine.follow()
        engine.sync(commit)
    assert {path: body["metadata"]["uid"] for path, body in fleet.desired().items()} == uids
    return commit


def plan(fleet: Fleet) -> Any:
    """Return our plan of the last commit against the live objects."""
    return fleet.repository.plan_live(fleet.bed.kubeconfig)


def apply(fleet: Fleet) -> list[Any]:
    """Apply the saved plan."""
    return fleet.repository.apply(fleet.bed.kubeconfig)


def nobody_sees_a_difference(fleet: Fleet) -> None:
    """Expect that what Flux and Argo CD synced, labelled and annotated is in sync for all three."""
    seen = plan(fleet)
    assert (seen["changes"], seen["drift"]) == ([], [])
    for engine in fleet.engines:
        assert engine.out_of_sync() == []


def nothing_is_written(fleet: Fleet, commit: str) -> None:
    """Let all three run again: no object has another version or another time of its managers."""
    before = fleet.desired()
    assert plan(fleet)["changes"] == []
    fleet.sync(commit)
    assert fleet.desired() == before


def a_change_is_made_once(fleet: Fleet) -> None:
    """Expect that a change which the others have synced is no change for us."""
    fleet.repository.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    commit = fleet.arrive("More GPUs")
    assert queue(fleet)["spec"]["resources"]["gpu"]["quota"] == 40
    nothing_is_written(fleet, commit)


def a_field_that_left_git_goes(fleet: Fleet) -> None:
    """Remove a label that all three own: it is gone when the last of them has applied the commit without it."""
    fleet.repository.edit("queues/h100.yaml", "  labels: {tier: gold}\n", "")
    commit = fleet.arrive("Without the label")
    assert queue(fleet)["metadata"]["labels"]["tier"] == "gold"
    assert any("tier" in str(one) for one in plan(fleet)["changes"])
    assert {one["result"] for one in apply(fleet)} == {"Applied"}
    entries = queue(fleet)["metadata"]["managedFields"]
    assert "reconciler" not in {one["manager"] for one in entries if "f:tier" in str(one["fieldsV1"])}
    fleet.repository.edit("queues/h100.yaml", "quota: 40", "quota: 48")
    commit = fleet.arrive("Even more GPUs")
    assert "tier" not in queue(fleet)["metadata"]["labels"]
    nothing_is_written(fleet, commit)


def queue(fleet: Fleet) -> Any:
    """Return the queue of KAI."""
    return fleet.get("scheduling.run.ai/v2", "Queue", fleet.repository.name)


def an_edit_is_reverted_once(fleet: Fleet) -> None:
    """Someone edits a quota: whoever comes first takes it back, and the others find nothing to do."""
    body = {"spec": {"resources": {"gpu": {"quota": 7}}}}
    path = fleet.bed.server.client.path(queue(fleet))
    assert path is not None
    answer = fleet.bed.server.client.request("PATCH", path, body, content_type="application/merge-patch+json")
    assert answer.ok, answer.body
    fleet.bed.wait(lambda: queue(fleet)["spec"]["resources"]["gpu"]["quota"] == 48, "the edit is reverted")
    nobody_sees_a_difference(fleet)


def a_deletion_leaves_nothing_to_do(fleet: Fleet) -> None:
    """Remove a job from Git: it is pruned once, the others and we have nothing to delete; kept claims stay."""
    fleet.repository.remove("jobs/vision/vit.yaml")
    commit = fleet.arrive("The training is over")
    fleet.bed.wait(lambda: fleet.find("kubeflow.org/v1", "PyTorchJob", "vit", "kai") is None, "the job is gone")
    for cluster in CLUSTERS:
        assert fleet.find("v1", "PersistentVolumeClaim", "vit-checkpoints", cluster) is not None
    nobody_sees_a_difference(fleet)
    nothing_is_written(fleet, commit)
