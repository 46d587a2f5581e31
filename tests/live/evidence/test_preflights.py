"""Jobs whose ranks wait for each other's preflight checks."""

import datetime as dt
from typing import Any

import pytest

from reconciler.live.observe.preflights import incomplete_preflights
from reconciler.nodehealth.inflight.notes import JobNoteKind
from tests.nodehealth.reports import NOW

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "1", "controller": True}


def rank(
    number: int, state: dict[str, Any] | None, phase: str = "Pending", name: str = "gpu-preflight"
) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": phase}
    if state is not None:
        status["initContainerStatuses"] = [{"name": name, "state": state}]
    return {
        "metadata": {"name": f"train-{number}", "namespace": "vision", "ownerReferences": [JOB]},
        "spec": {"initContainers": [{"name": name}]},
        "status": status,
    }


def at(seconds_ago: float) -> str:
    return dt.datetime.fromtimestamp(NOW - seconds_ago, dt.UTC).isoformat().replace("+00:00", "Z")


def passed(seconds_ago: float, code: int = 0) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "startedAt": at(seconds_ago)}}


def test_missing_ranks_are_infrastructure_and_blame_no_node() -> None:
    """F-094: one has passed, one still measures, one has no node after ten minutes."""
    pods = [rank(0, passed(700)), rank(1, {"running": {"startedAt": at(30)}}), rank(2, None)]
    (note,) = incomplete_preflights(pods, NOW)
    assert (note.kind, note.namespace, note.name) == (JobNoteKind.PREFLIGHT, "vision", "train")
    assert note.text.startswith("2 of 3 ranks have not passed the preflight check ten minutes after the first began")
    assert "train-1, train-2" in note.text
    assert "no node is blamed" in note.text


@pytest.mark.parametrize(
    "pods",
    [
        [rank(0, passed(500)), rank(1, None)],
        [rank(0, None), rank(1, None)],
        [rank(0, passed(700), "Running"), rank(1, passed(700))],
        [rank(0, passed(700), "Failed"), rank(1, None)],
        [rank(0, passed(700), name="own"), rank(1, None, name="own")],
        [rank(0, {"running": {"startedAt": "yesterday"}}), rank(1, None)],
        [],
    ],
    ids=["not yet", "none has begun", "all passed", "ended", "no check", "no time", "nothing"],
)
def test_what_is_not_late(pods: list[dict[str, Any]]) -> None:
    assert incomplete_preflights(pods, NOW) == ()
