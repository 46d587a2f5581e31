"""Changes that take data, GPUs or a running pod away: each is a risk of the plan."""

import copy
from typing import Any

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.plan.risks import RISKS
from tests.plan.plan_cases import Body, cluster_queue, flavor, local_queue, plain, plan

MEMBER = cluster_queue("a", {"h100": 16}, cohort="all", borrowing=8)
VOLUME = plain("PersistentVolume", "v", namespace="", spec={"persistentVolumeReclaimPolicy": "Delete"})
RETAINED = plain("PersistentVolume", "v", namespace="", spec={"persistentVolumeReclaimPolicy": "Retain"})
STORE = plain("StatefulSet", "s", api="apps/v1", spec={"replicas": 3, "volumeClaimTemplates": [{}]})
STORAGE = plain("StorageClass", "fast", namespace="", api="storage.k8s.io/v1", provisioner="a", reclaimPolicy="Retain")
TEMPORARY = {**STORAGE, "reclaimPolicy": "Delete", "metadata": {"name": "fast", "annotations": {}}}


def with_spec(body: Body, **fields: Any) -> Body:
    changed = copy.deepcopy(body)
    changed["spec"].update(fields)
    return {**changed, "spec": {name: value for name, value in changed["spec"].items() if value is not None}}


def lending(amount: Any, borrowing: Any = 8) -> Body:
    changed = copy.deepcopy(MEMBER)
    resource, *_ = changed["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    resource |= {"lendingLimit": amount, "borrowingLimit": borrowing}
    return changed


def retention(**policy: str) -> Body:
    return with_spec(STORE, persistentVolumeClaimRetentionPolicy=policy)


@pytest.mark.parametrize(
    ("before", "after", "rule", "words"),
    [
        (
            MEMBER,
            with_spec(MEMBER, stopPolicy="Hold"),
            "risk.queue-stop",
            "admits no more workloads (stopPolicy: Hold)",
        ),
        (MEMBER, with_spec(MEMBER, stopPolicy="HoldAndDrain"), "risk.queue-stop", "evicts those that run in it"),
        (
            local_queue("l", "a"),
            with_spec(local_queue("l", "a"), stopPolicy="HoldAndDrain"),
            "risk.queue-stop",
            "evicts those that run in it",
        ),
        (MEMBER, with_spec(MEMBER, cohortName=None), "risk.queue-sharing", "it leaves cohort all: its workloads"),
        (MEMBER, with_spec(MEMBER, cohortName="b"), "risk.queue-sharing", "it leaves cohort all for b"),
        (
            MEMBER,
            lending(0),
            "risk.queue-sharing",
            "it lends 0 of its 16 nvidia.com/gpu of flavor h100 instead of all",
        ),
        (
            lending(8),
            lending(4),
            "risk.queue-sharing",
            "it lends 4 of its 16 nvidia.com/gpu of flavor h100 instead of 8",
        ),
        (MEMBER, lending(16, 2), "risk.queue-sharing", "it may borrow 2 nvidia.com/gpu of flavor h100 instead of 8"),
        (flavor("f", "H100"), flavor("f", "A100"), "risk.flavor", "stands for other nodes"),
        (VOLUME, None, "risk.volume-data-loss", "its reclaim policy is Delete"),
        (RETAINED, VOLUME, "risk.volume-data-loss", "the reclaim policy becomes Delete"),
        (STORAGE, TEMPORARY, "risk.volume-data-loss", "data of volumes that are made from now on"),
        (STORAGE, None, "risk.storage-class-delete", "claims of it that have no volume yet stay Pending"),
        (STORE, retention(whenDeleted="Delete"), "risk.volume-data-loss", "whenDeleted becomes Delete"),
        (STORE, retention(whenScaled="Delete"), "risk.volume-data-loss", "whenScaled becomes Delete"),
        (retention(whenDeleted="Delete"), None, "risk.volume-data-loss", "deleted with it"),
        (
            retention(whenScaled="Delete"),
            with_spec(retention(whenScaled="Delete"), replicas=1),
            "risk.volume-data-loss",
            "the claims of the last 2 pods are deleted",
        ),
    ],
)
def test_what_a_change_takes_away(before: Body, after: Body | None, rule: str, words: str) -> None:
    """F-062: seen before anything happens, with what to do about it."""
    (risk,) = [risk for risk in plan([before], [after] if after else []).risks if risk.rule == rule]
    assert words in risk.message
    assert risk.hint


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lending(4), lending(8)),
        (MEMBER, cluster_queue("a", {"h100": 20}, cohort="all", borrowing=4)),  # its own instead of borrowed
        (lending(4), with_spec(lending(4), stopPolicy="None")),
        (with_spec(MEMBER, stopPolicy="Hold"), MEMBER),
        (with_spec(MEMBER, cohortName=None), MEMBER),
        (RETAINED, None),
        (VOLUME, RETAINED),
        (STORE, with_spec(STORE, replicas=1)),
        (retention(whenDeleted="Delete"), retention(whenDeleted="Retain")),
        (plain("StatefulSet", "s", api="apps/v1", spec={}), None),
    ],
)
def test_nothing_is_taken_away(before: Body, after: Body | None) -> None:
    rules = {risk.rule for risk in plan([before], [after] if after else []).risks}
    assert not rules & {"risk.queue-stop", "risk.queue-sharing", "risk.volume-data-loss", "risk.flavor"}


def test_a_renamed_volume_is_deleted() -> None:
    renamed = {**VOLUME, "metadata": {"name": "w"}}
    assert [risk.rule for risk in plan([VOLUME], [renamed]).risks] == ["risk.volume-data-loss"]


def test_every_loss_is_in_the_table() -> None:
    """Losses of built-in kinds name rules of the table, so that they have a harm and a place in the order."""
    pairs = [(MEMBER, with_spec(MEMBER, stopPolicy="Hold")), (VOLUME, None), (flavor("f", "A"), flavor("f", "B"))]
    named = {
        loss.rule
        for before, after in pairs
        for row in [BUILT_IN.of(before)]
        if row.life.losses is not None
        for loss in row.life.losses(before, after)
    }
    assert named == {"risk.queue-stop", "risk.volume-data-loss", "risk.flavor"}
    assert named <= {rule.rule for rule in RISKS}
