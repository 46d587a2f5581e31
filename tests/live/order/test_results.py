"""Readiness as kstatus reads it, and the lines of the decision log."""

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.kube.objects import ObjectKey
from reconciler.live.apply.readiness import State, is_established, readiness
from reconciler.live.apply.results import Ending, Record, StepResult, count, decode_record, encode_record, failures
from reconciler.live.apply.steps import Verb
from reconciler.live.pages.applied import render_history


def condition(kind: str, status: str, message: str = "because") -> dict[str, Any]:
    return {"status": {"conditions": [{"type": kind, "status": status, "message": message}]}}


@pytest.mark.parametrize(
    ("body", "state", "message"),
    [
        (None, State.GONE, ""),
        ({}, State.READY, ""),
        (condition("Ready", "True"), State.READY, ""),
        (condition("Ready", "False"), State.IN_PROGRESS, "because"),
        (condition("Active", "Unknown"), State.IN_PROGRESS, "because"),
        (condition("Stalled", "True"), State.FAILED, "because"),
        (condition("Failed", "True"), State.FAILED, "because"),
        ({"status": {"phase": "Active"}}, State.READY, ""),
        ({"status": {"phase": "Pending"}}, State.IN_PROGRESS, "phase Pending"),
        ({"status": {"phase": "Failed", "message": "no"}}, State.FAILED, "no"),
        ({"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}, State.IN_PROGRESS, "its controller"),
        ({"metadata": {"generation": 2}, "status": {"observedGeneration": 2}}, State.READY, ""),
        ({"spec": {"replicas": 2}, "status": {"replicas": 2, "readyReplicas": 1}}, State.IN_PROGRESS, "1 of 2"),
        ({"spec": {"replicas": 2}, "status": {"replicas": 2, "readyReplicas": 2}}, State.READY, ""),
        (
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}},
            State.IN_PROGRESS,
            "is being deleted, waiting for a.b/c",
        ),
    ],
)
def test_readiness(body: dict[str, Any] | None, state: State, message: str) -> None:
    found = readiness(body)
    assert found.state is state
    assert found.message.startswith(message)


def test_a_claim_without_a_pod_is_ready() -> None:
    assert readiness({"status": {"phase": "Pending"}}, waits_for_user=True).state is State.READY


def test_established() -> None:
    assert is_established(condition("Established", "True"))
    assert not is_established(condition("Established", "False"))
    assert not is_established({})


def test_a_release_is_a_record_without_a_plan() -> None:
    begun = Record(
        cluster="main", server="s", user="jane", plan="", commit="c", base="", started="t", released=("Job/a/b",)
    )
    assert begun.result == "Started"
    done = replace(begun, finished="u")
    assert done.result == "Released"
    assert decode_record(encode_record(done)) == done
    (line,) = render_history([done])
    assert line.split() == ["tZ", "Released", "main", "c", "-", "jane", "Job/a/b"]


def result(ending: Ending, message: str = "") -> StepResult:
    key = ObjectKey(group="batch", kind="Job", namespace="a", name="b")
    return StepResult(verb=Verb.CREATE, key=key, path="main/a/job-b.yaml", ending=ending, message=message)


def record(**more: Any) -> Record:
    values = {"cluster": "main", "server": "https://x", "user": "me", "plan": "sha256:1", "commit": "c", "base": "b"}
    return Record(**{**values, "started": "2026-01-01T00:00:00Z", **more})


def test_records_survive_their_line() -> None:
    made = record(counts={"create done": 2}, failures=(result(Ending.DENIED, "no"),), finished="2026-01-01T00:00:01Z")
    line = encode_record(made)
    assert line.count(b"\n") == 1
    assert decode_record(line) == made


def test_records_have_no_secrets() -> None:
    line = encode_record(record(failures=(result(Ending.FAILED, "password=hunter2hunter2"),)))
    assert b"hunter2" not in line


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({}, "Started"),
        ({"finished": "x"}, "Applied"),
        ({"finished": "x", "interrupted": True}, "Interrupted"),
        ({"finished": "x", "failures": (result(Ending.STALE),)}, "Failed"),
    ],
)
def test_result_in_one_word(more: dict[str, Any], word: str) -> None:
    assert record(**more).result == word


def test_counts_and_failures() -> None:
    results = [result(Ending.DONE), result(Ending.DONE), result(Ending.SKIPPED)]
    assert count(results) == {"create done": 2, "create skipped": 1}
    assert failures(results) == (results[2],)
