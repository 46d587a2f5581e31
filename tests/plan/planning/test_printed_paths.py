"""Every path that a plan prints works in `explain`, with the value that the plan shows."""

import pytest

from reconciler.kube.printed_paths import ORDER
from reconciler.plan import Change, FieldChange, Operation
from reconciler.plan.use_cases import explain
from tests.index.fleets import MemoryFleet
from tests.plan.planning.edited_sources import EDITS, FILES, SourceEdit
from tests.plan.planning.measured import rendered_fleet

_SOME = EDITS[::6]
"""Edits of every kind of source."""


@pytest.fixture(scope="module")
def fleet() -> MemoryFleet:
    return rendered_fleet()


def _check(fleet: MemoryFleet, change: Change, field: FieldChange) -> None:
    workspace = fleet.workspace(fleet.cache)
    explained = explain(workspace, change.path, field.path)
    values = [each.value for each in explained.fields if each.field]
    if field.path.endswith(ORDER) or not field.has_after:
        assert explained.fields
    elif isinstance(field.after, dict | list):
        assert values == [field.after], field
    else:
        assert [*map(str, values)] == [str(field.after).removesuffix(" (changed)")], field


@pytest.mark.parametrize("edit", _SOME, ids=lambda edit: f"{edit.kind}: {edit.new}")
def test_printed_paths_of_changed_objects_are_explained(fleet: MemoryFleet, edit: SourceEdit) -> None:
    kept = fleet.repository.work[edit.path]
    fleet.write(edit.path, edit.apply(FILES[edit.path]))
    try:
        changes = [change for change in fleet.plan().plan.changes if change.operation is not Operation.DELETE]
        for change in changes[:4]:
            for field in change.fields[:12]:
                _check(fleet, change, field)
    finally:
        fleet.repository.work[edit.path] = kept
