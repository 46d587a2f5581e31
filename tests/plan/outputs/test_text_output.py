"""The text of a plan: golden files, and properties that hold for any strings (F-141)."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.console.printable import cells
from reconciler.kube.problems import Problem
from reconciler.outputs import RenderOptions
from reconciler.plan import GpuLine, Plan
from reconciler.plan.outputs.text import render_text
from tests import sizes
from tests.plan.outputs import plans
from tests.plan.outputs.goldens import agrees
from tests.plan.outputs.strategies import PLANS

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [80, 120])
def test_a_busy_plan(width: int) -> None:
    """Headline, GPUs, problems, objects with reasons: all on one page (F-141)."""
    assert agrees(f"everything-{width}.txt", render_text(plans.everything(), RenderOptions(width=width)))


@pytest.mark.parametrize("name", ["gated", "quiet", "small", "hostile"])
def test_other_plans(name: str) -> None:
    assert agrees(f"{name}.txt", render_text(getattr(plans, name)(), RenderOptions(width=80)))


def test_a_summary_lists_settings_and_kept_objects() -> None:
    shown = render_text(plans.gated(), RenderOptions(width=100, summary=True))
    assert agrees("gated-summary.txt", shown)
    for title in ("Settings (2)", "Kept as they are (2)", "Budgets exceeded (1)", "Risks (2)"):
        assert f"\n{title}\n" in shown


def test_every_field_when_asked() -> None:
    assert agrees("everything-full.txt", render_text(plans.everything(), RenderOptions(width=100, full=True)))


def test_a_terminal_without_unicode() -> None:
    shown = render_text(plans.everything(), RenderOptions(width=80, unicode=False))
    assert shown.isascii()
    assert agrees("everything-ascii.txt", shown)


def test_lint_shows_findings_and_no_comparison() -> None:
    shown = render_text(plans.broken(), RenderOptions(width=80, lint=True))
    assert "Objects" not in shown
    assert "created" not in shown
    assert agrees("broken-lint.txt", shown)


def test_colour_changes_nothing_but_colour() -> None:
    plain = render_text(plans.everything(), RenderOptions(width=100))
    coloured = render_text(plans.everything(), RenderOptions(width=100, color=True))
    assert "\x1b" not in plain
    assert ANSI.sub("", coloured) == plain
    assert agrees("everything-colour.txt", coloured)


def test_the_headline_comes_first() -> None:
    first = render_text(plans.small(), RenderOptions(width=120)).splitlines()[0]
    assert first == "+24 GPUs requested on main (h100-training: 8 → 32, quota 64)"


def test_every_changed_field_has_its_reason() -> None:
    """A field is followed by its source line and formula; fields with one reason share it (F-141)."""
    shown = render_text(plans.small(), RenderOptions(width=200))
    reason = "because jobs/pretrain/gpt-35b.yaml:14:10 spec.gpus and queues/h100.yaml:8:5 spec.nodeResources.gpus: "
    assert shown.count(reason + "32 GPUs / 8 per node = 4 nodes [torchrun.nodes]") == 1
    after = shown.index(reason)
    for path in ("spec.completions", "spec.parallelism", "env[name=NNODES].value"):
        assert 0 < shown.index(path) < after


def test_the_approval_is_ready_to_type() -> None:
    assert "  reconciler approve --reason 'TEXT'\n" in render_text(plans.everything(), RenderOptions(width=80))
    approved = render_text(plans.approved(), RenderOptions(width=80))
    assert "--reason" not in approved
    assert "Approved until 2026-11-30: the partner leaves" in approved


def test_equal_edits_are_shown_once() -> None:
    shown = render_text(plans.everything(), RenderOptions(width=100))
    assert shown.count("Europe/Zurich") == 1
    assert "~ 4 CronJobs on main\n    eval/mmlu-nightly, eval/hellaswag-nightly, eval/gsm8k-nightly" in shown


@settings(max_examples=sizes.examples(60), deadline=None)
@given(PLANS, st.integers(60, 140), st.booleans(), st.booleans(), st.booleans())
def test_no_string_breaks_the_page(plan: Plan, width: int, unicode: bool, full: bool, lint: bool) -> None:
    shown = render_text(plan, RenderOptions(width=width, unicode=unicode, full=full, lint=lint))
    assert shown.endswith("\n")
    assert "\x1b" not in shown
    assert "##[" not in shown
    lines = shown.removesuffix("\n").split("\n")
    assert shown.splitlines() == lines  # no other sign breaks a line
    assert not any(line.lstrip().startswith("::") for line in lines)
    room = max(width, 40) + 3 * shown.count("\\x3a") + 3 * shown.count("\\x23")
    tables = 100  # a table with many numbers keeps them whole
    assert max(map(cells, lines)) <= room + tables
    coloured = render_text(plan, RenderOptions(width=width, unicode=unicode, full=full, lint=lint, color=True))
    assert ANSI.sub("", coloured) == shown


PRODUCT = "NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-MIG-1g.24gb.shared"
assert len(PRODUCT) == 63  # the longest label value


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120])
@pytest.mark.parametrize("product", ["NVIDIA-H200-141GB-HBM3e", PRODUCT])
def test_tables_never_cut_a_product_or_a_number(width: int, product: str) -> None:
    """A narrow page drops the vendor, writes notes below rows, and at last shows each row as a record."""
    plan = plans.everything()
    gpus = tuple(replace(line, product=product, before=123_456, after=234_567) for line in plan.gpus)
    queues = tuple(replace(line, product=product, before=345_678, after=456_789, limit=567_890) for line in plan.queues)
    capacity = tuple(replace(line, product=product, capacity=678_901) for line in plan.capacity)
    shown = render_text(replace(plan, gpus=gpus, queues=queues, capacity=capacity), RenderOptions(width=width))
    tables = shown[shown.index("\nGPUs") : shown.index("\nSizing")]
    assert max(map(cells, tables.splitlines())) <= width
    together = re.sub(r"\s+", " ", tables)
    for number in ("123456 → 234567", "345678 → 456789", "567890", "678901", "+111111"):
        assert number in together
    assert product.removeprefix("NVIDIA-") in re.sub(r"\s+", "", tables)
    assert width < 120 or product in together


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_line_is_wider_than_the_page(width: int) -> None:
    shown = render_text(plans.everything(), RenderOptions(width=width))
    assert max(map(cells, shown.splitlines())) <= width


def test_a_long_table_has_its_first_rows_and_a_count() -> None:
    """500 queues or errors are no page that somebody reads; --full has all of them, and the total is of all."""
    lines = tuple(
        GpuLine(cluster="main", queue=f"q{number:03}", product="A", before=0, after=1) for number in range(500)
    )
    place = plans.place("jobs/a.yaml", 1, 1)
    problems = tuple(Problem(rule="a.rule", message=f"error {number}", place=place) for number in range(500))
    plan = replace(plans.quiet(), gpus=lines, problems=problems, changes=(plans.MOVED,))
    shown = render_text(plan, RenderOptions(width=80))
    assert shown.count("  main     q") == 25
    assert "… 475 more (use --full to show all)" in shown
    assert shown.count("error ") == 50
    assert "… 450 more (use --full to show all)" in shown
    assert len(shown.splitlines()) < 180
    full = render_text(plan, RenderOptions(width=80, full=True))
    assert (full.count("  main     q"), full.count("error "), "use --full" in full) == (500, 500, False)
