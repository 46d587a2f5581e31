"""Reasons of differences: a changed field names the line of the sources that was edited."""

import random
from collections import Counter

import pytest

from tests.index.fleets import MemoryFleet
from tests.planning.edited_sources import EDITS
from tests.planning.measured import Leaf, measure, measure_together, rendered_fleet

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
