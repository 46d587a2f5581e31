"""The sections of a page about a plan between its headline and the changed objects: one function for each.

To add a section, write a function that returns it, or None if there is nothing to show, and add it to `SECTIONS`.
"""

from collections.abc import Callable
from typing import NamedTuple

from reconciler.plan.outputs.sections.admissions import admissions
from reconciler.plan.outputs.sections.checks import (
    behind,
    budgets,
    edited,
    errors,
    exceptions,
    held_back,
    kept_specs,
    notes,
    risks,
    spent_approvals,
    warnings,
)
from reconciler.plan.outputs.sections.costs import costs
from reconciler.plan.outputs.sections.gpus import capacity, jobs, queues
from reconciler.plan.outputs.sections.health import quarantines
from reconciler.plan.outputs.sections.live import clusters, drift
from reconciler.plan.outputs.sections.model import PageSection, View
from reconciler.plan.outputs.sections.placement import placement
from reconciler.plan.outputs.sections.settings import settings
from reconciler.plan.outputs.sections.sizing import sizing
from reconciler.plan.outputs.sections.storage import storage


class SectionRow(NamedTuple):
    """One row of `SECTIONS`.

    in_lint: shown without a comparison, too.
    in_summary: shown by `--summary`.
    is_last: below the changed objects in text.
    """

    make: Callable[[View], PageSection | None]
    in_lint: bool = False
    in_summary: bool = False
    is_last: bool = False


SECTIONS: tuple[SectionRow, ...] = (
    SectionRow(clusters, in_summary=True),
    SectionRow(behind),
    SectionRow(settings, in_summary=True),
    SectionRow(queues, in_summary=True),
    SectionRow(capacity),
    SectionRow(quarantines, in_summary=True),
    SectionRow(jobs),
    SectionRow(placement),
    SectionRow(sizing),
    SectionRow(admissions),
    SectionRow(costs),
    SectionRow(storage),
    SectionRow(drift, in_summary=True),
    SectionRow(errors, in_lint=True, in_summary=True),
    SectionRow(edited),
    SectionRow(held_back, in_lint=True),
    SectionRow(kept_specs, in_summary=True),
    SectionRow(budgets, in_lint=True, in_summary=True),
    SectionRow(risks, in_lint=True, in_summary=True),
    SectionRow(warnings, in_lint=True),
    SectionRow(notes, in_lint=True),
    SectionRow(exceptions, in_lint=True, is_last=True),
    SectionRow(spent_approvals, is_last=True),
)
"""Every section, in the order of the page."""


def plan_sections(
    view: View, *, lint: bool = False, summary: bool = False, last: bool | None = None
) -> list[PageSection]:
    """Return the sections of a plan; `last` selects those above (False) or below (True) the objects."""
    rows = (
        row
        for row in SECTIONS
        if (row.in_lint or not lint) and (row.in_summary or not summary) and last in (None, row.is_last)
    )
    return [section for row in rows if (section := row.make(view)) is not None]
