"""Workflow commands: one a line, escaped so that the runner reads back what was meant."""

import re

import pytest
from hypothesis import given, settings

from reconciler.outputs import RenderOptions
from reconciler.plan import Plan
from reconciler.plan.outputs.findings import Category, findings
from reconciler.plan.outputs.github import render_github
from tests import sizes
from tests.plan.outputs import plans
from tests.plan.outputs.goldens import agrees
from tests.plan.outputs.strategies import PLANS

COMMAND = re.compile(r"::(error|warning|notice) ([^:]*)::(.*)")


def unescaped(text: str) -> str:
    """Read back as the runner does."""
    for code, sign in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, sign)
    return text


@pytest.mark.parametrize("name", ["everything", "gated", "quiet", "hostile"])
def test_annotations(name: str) -> None:
    assert agrees(f"{name}.github.txt", render_github(getattr(plans, name)()))


def test_lint_annotations() -> None:
    assert agrees("broken.github.txt", render_github(plans.broken(), RenderOptions(lint=True)))


@settings(max_examples=sizes.examples(60), deadline=None)
@given(PLANS)
def test_any_strings_give_one_command_a_finding(plan: Plan) -> None:
    *commands, last = render_github(plan).removesuffix("\n").split("\n")
    expected = [finding for finding in findings(plan) if finding.category is not Category.EXCEPTED]
    assert len(commands) == len(expected)
    for command, finding in zip(commands, expected, strict=True):
        match = COMMAND.fullmatch(command)
        assert match is not None, command
        properties = dict(part.split("=", 1) for part in match.group(2).split(","))
        assert set(properties) <= {"file", "line", "col", "title"}
        if finding.place is not None:
            assert unescaped(properties["file"]) == finding.place.path
    assert last.startswith("reconciler: ")
    assert "##[" not in last
