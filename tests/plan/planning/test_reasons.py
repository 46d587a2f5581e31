"""Reasons of differences: a changed field names the line of the sources that was edited."""

import random
from collections import Counter

import pytest

from reconciler.plan import Plan
from tests.index.fleets import MemoryFleet
from tests.plan.planning.edited_sources import EDITS, FILES
from tests.plan.planning.measured import Leaf, measure, measure_together, plan_of, rendered_fleet

LEAST = 0.95
"""Share of changed fields that name the edited line."""


@pytest.fixture(scope="module")
def fleet() -> MemoryFleet:
    return rendered_fleet()


def _report(leaves: list[Leaf]) -> str:
    """Return the shares by kind of edit, and the fields that name another line."""
    total, right = Counter(leaf.kind for leaf in leaves), Counter(leaf.kind for leaf in leaves if leaf.names_line)
    rows = [f"{right[kind] / count:6.1%} of {count:4} {kind}" for kind, count in sorted(total.items())]
    wrong = [f"{leaf.path}: {leaf.reason}" for leaf in leaves if not leaf.names_line]
    return "\n".join((*rows, f"{sum(right.values()) / len(leaves):6.1%} of {len(leaves):4} changed fields", *wrong))


def test_changed_fields_name_the_edited_line(fleet: MemoryFleet) -> None:
    """Each edit of one line, of every kind of source."""
    leaves: list[Leaf] = []
    for edit in EDITS:
        found = measure(fleet, edit)
        assert found, f"{edit} changes nothing"
        leaves += found
    report = _report(leaves)
    print(report)  # noqa: T201 - shown by `pytest -s`
    assert len(leaves) > 1_000
    assert sum(leaf.names_line for leaf in leaves) >= LEAST * len(leaves), report
    assert all(leaf.names_file for leaf in leaves), report


def test_of_several_edits_each_field_names_its_own(fleet: MemoryFleet) -> None:
    """Three edits at once: a field that only one of them changes names that one."""
    chance = random.Random(7)  # noqa: S311 - the same edits in every run
    leaves: list[Leaf] = []
    for _ in range(12):
        edits = tuple(chance.sample(EDITS, 3))
        if len({edit.path for edit in edits}) == len(edits):
            leaves += measure_together(fleet, edits)
    report = _report(leaves)
    print(report)  # noqa: T201 - shown by `pytest -s`
    assert len(leaves) > 50
    assert sum(leaf.names_line for leaf in leaves) >= LEAST * len(leaves), report
    assert sum(leaf.names_file for leaf in leaves) >= 0.99 * len(leaves), report


def _lines(plan: Plan, path: str) -> set[str]:
    """Return the edited lines that the fields of one rendered file name; removed ones begin with `-`."""
    change = next(change for change in plan.changes if path in (change.path, change.moved_from))
    reasons = [*change.because, *(field.why for field in change.fields if field.why is not None)]
    edited = {str(place) for why in reasons for place in why.edited}
    return edited | {f"-{place}" for why in reasons for place in why.removed}


def test_a_job_that_moves_to_another_cluster_names_both_files(fleet: MemoryFleet) -> None:
    work = fleet.repository.work
    kept = dict(work)
    try:
        work["jobs/edge/bert.yaml"] = work.pop("jobs/main/bert.yaml")
        plan = fleet.plan().plan
        paths = {change.path: change for change in plan.changes}
        (made,) = [path for path in paths if path.startswith("rendered/edge/") and path.endswith("job-bert.yaml")]
        assert str(paths[made].source) == "jobs/edge/bert.yaml:1:1"
        gone = "rendered/main/research/pytorchjob-bert.yaml"
        assert _lines(plan, gone) == {"-jobs/main/bert.yaml:1:1"}
    finally:
        work.clear()
        work.update(kept)


def test_reordered_items_name_their_lines(fleet: MemoryFleet) -> None:
    text = FILES["manifests/web.yaml"]
    mode, level = "            - {name: MODE, value: fast}\n", "            - {name: LEVEL, value: info}\n"
    plan = plan_of(fleet, {"manifests/web.yaml": text.replace(mode + level, level + mode)})
    line = text.splitlines().index(mode.rstrip("\n")) + 1
    named = _lines(plan, "rendered/main/research/deployment-web.yaml")
    assert named
    assert {name.lstrip("-").rpartition(":")[0] for name in named} <= {
        f"manifests/web.yaml:{line}",
        f"manifests/web.yaml:{line + 1}",
    }


def test_committed_edits_are_compared_with_the_sources_that_were_rendered_last() -> None:
    """A clean working tree whose `rendered/` is behind: base and head have the same sources."""
    fleet = rendered_fleet()
    edit = EDITS[0]
    fleet.repository.save({edit.path: edit.apply(FILES[edit.path]).encode()})
    plan = fleet.plan().plan
    path, line, _ = edit.expected(FILES[edit.path])
    assert any(name.startswith(f"{path}:{line}:") for name in _lines(plan, plan.changes[0].path))


def test_the_digest_does_not_depend_on_edited_lines() -> None:
    """The plan of the working tree and that of the commit have one digest, whatever happened in between."""
    fleet, other = rendered_fleet(), rendered_fleet()
    text = FILES["jobs/main/bert.yaml"]
    other.repository.save({"jobs/main/bert.yaml": text.replace("numGPUs: 16", "numGPUs: 16  # all").encode()})
    made = plan_of(fleet, {"jobs/main/bert.yaml": text.replace("--epochs 3", "--epochs 4")})
    again = plan_of(other, {"jobs/main/bert.yaml": text.replace("--epochs 3", "--epochs 4")})
    assert made.digest == again.digest
