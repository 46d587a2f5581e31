"""The plan: what changes and why, what moves, what is held back, and bytes that depend on nothing else."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from msgspec.structs import replace

from reconciler.errors import ConfigError, StalePlan
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Problem, Severity
from reconciler.plan import Approval, Inputs, Operation, Plan, digest, make_plan
from reconciler.plan.approvals import Approvals
from reconciler.plan.codec import encode, from_json, schema, to_json
from reconciler.repo.config import Cluster
from tests.plan.plan_cases import (
    Body,
    as_manifest,
    as_row,
    claim,
    cluster_queue,
    evaluate,
    flavor,
    inputs,
    inventory,
    job,
    kai_queue,
    plain,
    plan,
    rows,
)

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "schemas/gpureconciler.io/v1alpha1/plan.json"


def operations(made: Plan) -> list[tuple[str, str]]:
    return [(change.operation.value, str(change.key)) for change in made.changes]


def test_planning_on_what_is_there_changes_nothing() -> None:
    bodies = [job(), kai_queue("team-a"), claim("data")]
    made = plan(bodies, bodies)
    assert made.is_empty
    assert made.unchanged == 3
    assert [(line.before, line.after) for line in made.gpus] == [(16, 16)]


def test_every_change_is_listed_in_the_order_of_places() -> None:
    before = [job("a"), job("b"), claim("old")]
    after = [job("a", pods=4), job("b"), kai_queue("team-a")]
    made = plan(before, after)
    assert operations(made) == [
        ("create", "Queue/team-a"),
        ("replace", "Job/ml/a"),
        ("delete", "PersistentVolumeClaim/ml/old"),
    ]
    assert made.unchanged == 1
    update = made.changes[1]
    assert update.path == "rendered/main/ml/job-a.yaml"
    assert str(update.source) == "jobs/a.yaml:1:1"
    assert (update.gpus_before, update.gpus_after) == (16, 32)
    assert [(field.path, field.before, field.after) for field in update.fields] == [
        ("spec.parallelism", 2, 4),
        ("spec.completions", 2, 4),
    ]
    assert made.changes[2].source is None
    assert made.changes[2].because[0].rule == "plan.no-source"


def test_every_changed_field_has_its_reason() -> None:
    """F-141: each object is listed with a reason."""
    made = plan([job()], [job(pods=4), kai_queue("team-a")])
    for change in made.changes:
        assert change.because
        assert all(field.why and field.why.rule == "source" for field in change.fields)


def test_other_bytes_of_the_same_meaning_say_so() -> None:
    before, after = job(), job()
    before["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]["memory"] = "65536Mi"
    (change,) = plan([before], [after]).changes
    assert (change.fields, change.because[0].rule) == ((), "plan.formatting")


def test_a_file_that_cannot_be_read_is_written_anew() -> None:
    (change,) = plan([job()], [job(pods=4)], body=lambda _: None).changes
    assert change.operation is Operation.UPDATE
    assert all(not field.has_before for field in change.fields)


def test_a_deleted_file_that_cannot_be_read_still_has_a_name() -> None:
    (change,) = plan([job("gone")], [], body=lambda _: None, existing_rows={}).changes
    assert change.key == ObjectKey(group="", kind="job", namespace="ml", name="gone")


def test_a_renamed_object_is_a_move() -> None:
    made = plan([job("old"), job("stays")], [job("new"), job("stays")])
    assert operations(made) == [("move", "Job/ml/new")]
    (change,) = made.changes
    assert change.moved_from == "rendered/main/ml/job-old.yaml"
    assert [(field.path, field.before, field.after) for field in change.fields] == [("metadata.name", "old", "new")]
    (shown,) = made.jobs
    assert (shown.word, shown.key.name, shown.key_before and shown.key_before.name) == ("renamed", "new", "old")


def test_a_move_with_an_edit_is_still_a_move() -> None:
    before, after = job("old"), job("new")
    for body in (before, after):
        body["metadata"]["annotations"] = {f"note-{number}": "x" for number in range(20)}
    after["spec"]["template"]["spec"]["containers"][0]["image"] = "repo/train:2"
    assert operations(plan([before], [after])) == [("move", "Job/ml/new")]


def test_another_namespace_is_a_move_and_names_inside_follow() -> None:
    before, after = job("train", namespace="ml"), job("train", namespace="research")
    before["spec"]["template"]["spec"]["hostname"] = "train.ml"
    after["spec"]["template"]["spec"]["hostname"] = "train.research"
    assert operations(plan([before], [after])) == [("move", "Job/research/train")]


def test_different_objects_are_no_move() -> None:
    assert operations(plan([job("a", pods=1, gpus=1)], [job("b", pods=9, gpus=8, product="H100")])) == [
        ("delete", "Job/ml/a"),
        ("create", "Job/ml/b"),
    ]


def test_a_namespace_is_never_just_renamed() -> None:
    made = plan([plain("Namespace", "a", namespace="")], [plain("Namespace", "b", namespace="")])
    assert [change.operation.value for change in made.changes] == ["delete", "create"]


def test_each_object_moves_once() -> None:
    made = plan([job("a"), job("b")], [job("c"), job("d"), job("e")])
    assert sorted(change.operation.value for change in made.changes) == ["create", "move", "move"]
    assert len({change.moved_from for change in made.changes}) == 3


def broken(path: str = "jobs/a.yaml", severity: Severity = Severity.ERROR) -> Problem:
    return Problem(rule="yaml.syntax", place=SourceRef(path=path, line=1, column=1), message="bad", severity=severity)


def test_what_comes_from_a_file_with_errors_is_left_untouched() -> None:
    before, after = [job("a"), job("b"), kai_queue("q")], [job("a", pods=9)]
    made = plan(before, after, problems=(broken(),))
    assert made.changes == ()
    assert made.held_back == (
        "rendered/main/_cluster/queue.scheduling.run.ai-q.yaml",
        "rendered/main/ml/job-a.yaml",
        "rendered/main/ml/job-b.yaml",
    )
    assert [(line.before, line.after) for line in made.gpus] == [(32, 32)]
    assert made.errors


def test_known_origins_hold_back_only_what_is_theirs() -> None:
    """One bad file hides neither the others nor the plan of unaffected objects."""
    origins = {"main/ml/job-a.yaml": "jobs/bad.yaml"}
    made = plan([job("a"), claim("b")], [], problems=(broken("jobs/bad.yaml"),), origins=origins)
    assert operations(made) == [("delete", "PersistentVolumeClaim/ml/b")]
    assert made.held_back == ("rendered/main/ml/job-a.yaml",)


def test_warnings_hold_nothing_back() -> None:
    made = plan([job("a")], [], problems=(broken(severity=Severity.WARNING),))
    assert operations(made) == [("delete", "Job/ml/a")]


def test_what_is_marked_to_be_kept_stays_when_its_source_goes() -> None:
    kept = claim("data", annotations={"gpureconciler.io/keep": "true"})
    made = plan([kept, claim("other")], [])
    assert operations(made) == [("delete", "PersistentVolumeClaim/ml/other")]
    assert [(risk.rule, risk.key.name) for risk in made.risks] == [
        ("risk.pvc-data-loss", "other"),
        ("risk.kept", "data"),
    ]
    assert plan([kept], []).is_empty


CANARY = "c4n4ry"


def test_no_secret_leaves_with_a_plan() -> None:
    """Canaries in every place that may hold a secret are in no byte of the plan."""
    before = [
        plain("Secret", "s", data={"a": CANARY}),
        plain("Secret", "gone", stringData={"token": CANARY}),
        job("a", env=[]),
    ]
    after = [plain("Secret", "s", data={"a": f"{CANARY}2"}), plain("Secret", "new", data={"b": CANARY}), job("a")]
    container = after[2]["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "HF_TOKEN", "value": CANARY}]
    container["args"] = [f"--token={CANARY}", f"https://me:{CANARY}@host/"]
    after[2]["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": f"{{{CANARY}}}"}
    assert CANARY.encode() not in encode(plan(before, after))


def everything(seed: int = 0) -> Inputs:
    before: list[Body] = [
        *(kai_queue("root", 64), kai_queue("team-a", 32, parent="root"), kai_queue("gone", 8)),
        *(job(f"job-{number}", pods=number + 1) for number in range(6)),
        *(claim("old"), plain("Secret", "s", data={"a": "1"})),
        *(flavor("h100", "H100"), cluster_queue("cq", {"h100": 32})),
    ]
    after: list[Body] = [
        *(kai_queue("root", 64), kai_queue("team-a", 16, parent="root"), kai_queue("team-b", 8, parent="root")),
        *(job(f"job-{number}", pods=number + 2, suspend=number == 3) for number in range(5)),
        *(job("renamed", pods=6), claim("new", "20Gi"), plain("Secret", "s", data={"a": "2"})),
        *(flavor("h100", "H100"), cluster_queue("cq", {"h100": 64})),
    ]
    order = random.Random(seed)  # noqa: S311 - any order will do, the same each time
    order.shuffle(before)
    order.shuffle(after)
    found = evaluate(BUILT_IN, rows(after), Cluster(name="main"), inventory(), {})
    return inputs(
        before,
        after,
        inventories={"main": inventory()},
        verdicts=tuple(replace(one, place=SourceRef(path="jobs/a.yaml", line=1, column=1)) for one in found),
        problems=(broken("policies/x.yaml", Severity.WARNING),),
        folders={"queues": (2, 0), "jobs": (1, 1)},
    )


def test_the_same_inputs_give_the_same_bytes_in_any_order() -> None:
    """F-140: neither the order of files nor that of mappings has any influence."""
    expected = encode(make_plan(everything()))
    assert len({encode(make_plan(everything(seed))) for seed in range(8)} | {expected}) == 1


def test_a_plan_that_repeats_a_saved_one_computes_no_creation_again() -> None:
    """Creations of the same content keep the details of the saved plan; any other is computed."""
    given = inputs([], [job(), kai_queue("team-a"), claim("data")])
    made = make_plan(given)
    created = {change.path.removeprefix("rendered/"): change for change in made.changes if change.operation == "create"}
    asked: list[str] = []

    def manifest(path: str) -> Manifest:
        asked.append(path)
        return given.manifest(path)

    again = make_plan(replace(given, reviewed=created, manifest=manifest))
    assert again == made
    assert asked == []
    first = min(created)
    other = replace(created[first], digest_after="0" * 40, fields=())
    assert make_plan(replace(given, reviewed={**created, first: other}, manifest=manifest)) == made
    assert {*asked} == {first}


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "424242", "TZ": "Asia/Tokyo", "LC_ALL": "tr_TR.UTF-8"}],
)
def test_the_same_inputs_give_the_same_bytes_in_any_process(environment: dict[str, str]) -> None:
    """F-140: other hash seeds, time zones and locales give the same bytes."""
    script = (
        "import sys; from reconciler.plan import make_plan; from reconciler.plan.codec import encode; "
        "from tests.plan.test_plan import everything; sys.stdout.buffer.write(encode(make_plan(everything(5))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == encode(make_plan(everything()))


@pytest.mark.parametrize(
    "other",
    [
        {"engine": "1.1"},
        {"evidence": "e2"},
        {"policies": "p2"},
        {"base": replace(everything().base, tree="t3")},
        {"head": replace(everything().head, tree="t3")},
        {"desired": {}},
    ],
    ids=lambda other: next(iter(other)),
)
def test_the_digest_binds_what_the_plan_was_made_from(other: dict[str, Any]) -> None:
    given = everything()
    assert make_plan(replace(given, **other)).digest != make_plan(given).digest


def test_the_digest_does_not_depend_on_names_and_commits() -> None:
    given = everything()
    other = replace(given, head=replace(given.head, label="topic", commit="c" * 40))
    assert make_plan(other).digest == make_plan(given).digest


def test_an_approval_allows_one_plan() -> None:
    given = everything()
    made = make_plan(given)
    assert made.breaches
    assert made.unapproved == made.breaches
    approval = Approval(place=SourceRef(path="approvals/a.yaml"), plan=made.approval_digest, reason="r", expires="2")
    given = replace(given, approvals=Approvals(approvals=(approval,), date="1"))
    again = make_plan(given)
    assert again.unapproved == ()
    assert again.digest == made.digest
    assert make_plan(replace(given, judged_by="other")).unapproved == made.breaches


def test_a_plan_file_is_read_back_as_it_was() -> None:
    made = make_plan(everything())
    assert from_json(encode(made)) == made
    assert from_json(to_json(made)) == made


def test_a_plan_file_is_what_its_schema_says() -> None:
    made = json.loads(encode(make_plan(everything())))
    validator = jsonschema_rs.validator_for(json.loads(SCHEMA.read_bytes()))
    assert [error.message for error in validator.iter_errors(made)] == []
    assert list(made)[:2] == ["apiVersion", "kind"]
    assert "heldBack" in made
    made["changes"][0]["surprise"] = 1
    assert not validator.is_valid(made)


def test_the_shipped_schema_is_that_of_the_values() -> None:
    """`make golden` rewrites the file."""
    expected = json.dumps(schema(), indent=2) + "\n"
    if os.environ.get("GOLDEN"):
        SCHEMA.write_text(expected, encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == expected


@pytest.mark.parametrize(
    "data",
    [b"", b"{}", b"[]", b"\xff", b'{"apiVersion": "v1", "kind": "Plan"}', b"[" * 100_000, b'{"kind": 1e999}'],
)
def test_what_is_no_plan_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError):
        from_json(data)


def test_a_plan_file_with_values_of_other_types_is_refused() -> None:
    made = to_json(make_plan(everything()))
    with pytest.raises(ConfigError, match="cannot read"):
        from_json({**made, "changes": [{"operation": "explode"}]})


def test_an_edited_plan_file_is_stale() -> None:
    made = to_json(make_plan(everything()))
    with pytest.raises(StalePlan):
        from_json({**made, "evidence": "other"})


def test_rows_and_manifests_agree_on_paths() -> None:
    assert as_row(job()).path == "main/ml/job-train.yaml"
    assert digest(plan([], [job()])).startswith("sha256:")
    assert as_manifest(job()).key == as_row(job()).key
