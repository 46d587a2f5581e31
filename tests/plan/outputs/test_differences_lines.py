"""Lines of a difference: values as people write them, context where there is much, and never a loss."""

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from reconciler.kube.reasons import Why
from reconciler.plan import Change, FieldChange
from reconciler.plan.outputs.differences import diff_lines, group_fields, reason_parts, scalar, short_digests
from reconciler.plan.outputs.groups import ChangeGroup, group_changes, key_fields
from tests.plan.outputs import plans
from tests.plan.outputs.strategies import FIELD


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("24.08-py3", "24.08-py3"),
        ("1e4eca641a96615d", "1e4eca641a96615d"),
        ("64Gi", "64Gi"),
        ("two words", "two words"),
        ("1e3", '"1e3"'),
        ("12:30", '"12:30"'),
        ("2026-01-01T00:00:00Z", '"2026-01-01T00:00:00Z"'),
        ("0x1F", '"0x1F"'),
        ("1.10", '"1.10"'),
        ("no", '"no"'),
        ("NaN", '"NaN"'),
        (".5", '".5"'),
        ("a: b", '"a: b"'),
        ("", '""'),
        (" x", '" x"'),
        ("4", '"4"'),
        (4, "4"),
        (None, "null"),
        (True, "true"),
        ({}, "{}"),
        ([], "[]"),
    ],
)
def test_strings_are_bare_only_where_nobody_can_mistake_them(value: object, shown: str) -> None:
    assert scalar(value) == shown


def test_scripts_are_compared_line_by_line_with_context() -> None:
    before = "".join(f"line {n}\n" for n in range(20))
    field = FieldChange(path="x", before=before, after=before.replace("line 10", "changed"))
    lines = [(line.sign, line.text) for line in diff_lines(field)]
    assert lines == [
        ("…", "8 unchanged lines"),
        (" ", "line 8"),
        (" ", "line 9"),
        ("-", "line 10"),
        ("+", "changed"),
        (" ", "line 11"),
        (" ", "line 12"),
        ("…", "7 unchanged lines"),
    ]


def test_a_last_line_break_alone_is_seen() -> None:
    lines = diff_lines(FieldChange(path="x", before="a\nb", after="a\nb\n"))
    assert [line.text for line in lines] == ['"a\\nb"', '"a\\nb\\n"']


def test_values_in_values_are_written_as_yaml() -> None:
    field = FieldChange(path="x", has_before=False, after={"a": [{"b": "1", "c": "x\ny"}], "d": {}})
    assert [line.text for line in diff_lines(field)] == ["a:", '  - b: "1"', "    c: |", "      x", "      y", "d: {}"]


@settings(max_examples=80, deadline=None)
@given(FIELD)
def test_both_sides_can_be_read_off(field: FieldChange) -> None:
    """Removed and kept lines are the old value, added and kept ones the new: nothing is lost but counted context."""
    lines = diff_lines(field)
    if field.has_before != field.has_after or (field.has_before and field.before != field.after):
        assert any(line.sign in "+-" for line in lines)
    if not field.has_before:
        assert all(line.sign == "+" for line in lines)
    if not field.has_after:
        assert all(line.sign == "-" for line in lines)


def test_fields_with_one_reason_are_one_group() -> None:
    found = group_fields(plans.RESIZED.fields)
    assert [len(group.fields) for group in found] == [3, 1, 1, 1]
    assert found[0].why == plans.NODES


def _reason(why: Why, path: str = "") -> str:
    return ": ".join(reason_parts(why, path))


def test_reasons() -> None:
    assert _reason(plans.QUOTA, "spec.resources.gpu.quota") == "queues/h200.yaml:11:12"
    assert _reason(plans.QUOTA) == "queues/h200.yaml:11:12 spec.resources.gpu.quota"
    twice = plans.why("r", "a + b", ("f.yaml", 3, 1, "a"), ("f.yaml", 4, 1, "b"), ("g.yaml", 1, 1, ""))
    assert _reason(twice) == "f.yaml:3:1 a, :4:1 b and g.yaml: a + b [r]"
    assert _reason(Why(rule="source")) == "no reason recorded"


def group(*changes: Change) -> tuple[ChangeGroup, ...]:
    return group_changes(replace(plans.everything(), changes=changes))


def test_equal_edits_are_one_group_and_gpus_come_first() -> None:
    groups = group(plans.bumped("a"), plans.DELETED, plans.bumped("b"), plans.GROWN, plans.RESIZED)
    assert [members.first.key.name for members in groups] == [
        "gpt-35b-pretrain",
        "h200-research",
        "old-run-workspace",
        "a",
    ]
    assert [other.key.name for other in groups[3].others] == ["b"]
    other = replace(plans.bumped("c"), fields=plans.bumped("c").fields[:1])
    assert len(group(plans.bumped("a"), other)) == 2


def test_a_new_object_is_shown_by_its_key_fields() -> None:
    assert key_fields(plans.ADDED)[0] == ("image", "ghcr.io/lab/llama-sft:2026.11.1")
    assert ("queue", "h200-research") in key_fields(plans.ADDED)
    assert len(key_fields(plans.ADDED)) <= 7


def test_a_new_job_starts_with_image_gpus_queue_and_command() -> None:
    script = "set -eu\nexec torchrun \\\n  --nnodes=2 \\\n  --no-python python train.py --lr 1\n"
    container = {
        "name": "trainer",
        "command": ["bash", "-c", script],
        "image": f"ghcr.io/lab/x@sha256:{'a1' * 32}",
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    pods = {"priorityClassName": "train", "containers": [container]}
    fields = (
        FieldChange(path="metadata", has_before=False, after={"labels": {"kai.scheduler/queue": "h200"}}),
        FieldChange(path="spec", has_before=False, after={"parallelism": 2, "template": {"spec": pods}}),
    )
    shown = key_fields(replace(plans.ADDED, fields=fields, gpus_before=0, gpus_after=16))
    assert shown == (
        ("image", "ghcr.io/lab/x@sha256:a1a1a1a1a1a1…"),
        ("GPUs", "16 (2 x 8)"),
        ("queue", "h200"),
        ("command", "python train.py --lr 1"),
        ("parallelism", "2"),
        ("priorityClassName", "train"),
    )


def test_digests_are_cut_unless_they_would_look_equal() -> None:
    one, two = "a@sha256:" + "1" * 64, "a@sha256:" + "2" * 64
    assert short_digests(one, two) == ("a@sha256:111111111111…", "a@sha256:222222222222…")
    near = one[:-1] + "2"
    assert short_digests(one, near) == (one, near)
    assert short_digests(one + "1") == (one + "1",)


def test_deletions_for_one_reason_are_one_group() -> None:
    other = replace(plans.DELETED, key=replace(plans.DELETED.key, name="older"))
    (found,) = group(plans.DELETED, other)
    assert found.title == "2 PersistentVolumeClaims on main"
    assert found.names == ("research/old-run-workspace", "research/older")


def test_a_shared_reason_names_one_file_and_counts_the_others() -> None:
    def bumped(number: int) -> Change:
        why = plans.why("source", "", (f"jobs/{number}.yaml", 6, 13, "spec.timeZone"))
        first = plans.bumped(f"job-{number}")
        return replace(first, fields=tuple(replace(field, why=why) for field in first.fields))

    (found,) = group(*map(bumped, range(4)))
    why = found.first.fields[0].why
    assert why is not None
    assert found.reason(why, "spec.timeZone") == ("jobs/0.yaml:6:13 (and in 3 other files)",)
    (alone,) = group(bumped(1))
    assert alone.reason(why, "spec.timeZone") == ("jobs/0.yaml:6:13",)
