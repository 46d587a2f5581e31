"""The registry of outputs: every row renders, and a new output is one module and one row."""

import pytest

from reconciler.outputs import OUTPUTS, RenderOptions, output_names, render
from reconciler.settings import CHOICES
from tests.plan.outputs import plans


@pytest.mark.parametrize("name", output_names())
def test_every_output_renders(name: str) -> None:
    *_, last = render(plans.small(), name, RenderOptions(width=100))
    assert last.endswith("\n")
    assert list(render(plans.broken(), name, RenderOptions(lint=True)))


def test_settings_and_verbs_offer_the_rows_of_the_registry() -> None:
    assert CHOICES["output"] == tuple(output.name for output in OUTPUTS)
    assert output_names("lint") == ("text", "json", "sarif", "junit", "github", "policyreport")
    assert output_names("commit") == ("text", "json", "name")


def test_lint_annotations_have_the_headline_of_lint() -> None:
    last = "".join(render(plans.broken(), "github", RenderOptions(lint=True))).splitlines()[-1]
    assert last == "reconciler: 3 errors and 1 warning in 3 files"
