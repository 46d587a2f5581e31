"""What follows from one edit is one line, and the first screen of a plan answers the questions of a reviewer."""

from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from msgspec.structs import replace

from reconciler.kube.reasons import Why
from reconciler.outputs import RenderOptions
from reconciler.plan.outputs.markdown import render_markdown
from reconciler.plan.outputs.summary.answers import answers
from reconciler.plan.outputs.text import render_text
from tests.cli.fleet import Fleet
from tests.plan.outputs import plans

SCREEN = 40


@pytest.fixture
def sized(fleet: Fleet, kept: Path) -> Fleet:
    """Return a repository with a sized job, whose line is edited so that it needs more GPUs."""
    fleet.make_once(kept, lambda: None)
    fleet.edit("jobs/language/llama-lora.yaml", "--max_seq_length 4096", "--max_seq_length 8192")
    return fleet


def test_more_gpus_are_one_line(sized: Fleet) -> None:
    """The edited flag, its need of memory and the number of fields; the annotations in JSON are among them."""
    shown = sized.run("plan").out
    joined = " ".join(shown.split())
    assert (
        "2 → 4 GPUs because --max_seq_length 8192 (jobs/language/llama-lora.yaml:31) needs 74.9 of 79.7 GiB each"
        in joined
    )
    assert "fields follow: nvidia.com/gpu 2 → 4, " in joined
    assert shown.count("sizing.gpus") == 0
    assert "recommendation" not in shown
    assert len(shown.splitlines()) < 60
    full = sized.run("plan", "--full").out
    assert "metadata.annotations" in full
    assert full.count("[sizing.gpus]") >= 1


def test_the_first_screen_answers(sized: Fleet) -> None:
    """Forty lines of eighty cells say what changes, whether it fits, what is dangerous, and what to do."""
    first = sized.run("plan").out.splitlines()[:SCREEN]
    text = "\n".join(first)
    for words in (
        "+2 GPUs requested on main",
        "Fits     yes: ",
        "Danger   1 risk; llama-lora",
        "To do    before merging: suspend",
        "Changes  llama-lora 2 → 4 GPUs",
    ):
        assert words in text, words
    assert "needs 74.9 of 79.7 GiB" in " ".join(text.split()) or "peak 74.9 of 79.7 GiB" in " ".join(text.split())


def test_a_comment_folds_what_follows(sized: Fleet) -> None:
    """It has the line, and the fields with their reasons a click deeper."""
    comment = sized.run("plan", "-o", "markdown").out
    assert "# 2 → 4 GPUs because --max_seq_length 8192 (jobs/language/llama-lora.yaml:31)" in comment
    assert "<details><summary>The " in comment
    assert "[sizing.gpus]" in comment
    html = MarkdownIt("gfm-like", {"linkify": False}).render(comment)
    assert "&amp;#" not in html  # a reference that the reader would see as text


def test_few_fields_are_listed() -> None:
    """Two fields of one edit are no list; each is shown with its values."""
    edited = (plans.place("jobs/a.yaml", 3, 1),)
    fields = tuple(
        plans.changed(f"spec.{name}", 1, 2, Why(rule="a.rule", text=name, edited=edited)) for name in ("a", "b", "c")
    )
    three = render_text(plans.with_fields(fields), RenderOptions(width=120))
    assert "3 fields follow: a 1 → 2, b 1 → 2, c 1 → 2" in three
    assert "because jobs/a.yaml:3:1: a [a.rule]" in three
    two = render_text(plans.with_fields(fields[:2]), RenderOptions(width=120))
    assert "~ spec.a: 1 → 2" in two
    assert "follow" not in two


def test_what_somebody_wrote_is_listed() -> None:
    """Values that stand in the source as they are rendered are edits themselves, however many they are."""
    edited = (plans.place("jobs/a.yaml", 3, 1),)
    fields = tuple(plans.changed(f"spec.{name}", 1, 2, Why(rule="source", edited=edited)) for name in "abcd")
    shown = render_text(plans.with_fields(fields), RenderOptions(width=120))
    assert [f"~ spec.{name}: 1 → 2" in shown for name in "abcd"] == [True] * 4


def test_a_decision_as_json_is_one_line() -> None:
    """An annotation that repeats a decision is named; its text is for programs."""
    why = Why(rule="sizing.annotation", text="4 GPUs")
    field = plans.changed('metadata.annotations["gpureconciler.io/sizing"]', '{"gpus":2}', '{"gpus":4}', why)
    for shown in (
        render_text(plans.with_fields((field,)), RenderOptions(width=120)),
        render_markdown(plans.with_fields((field,))),
    ):
        assert 'metadata.annotations["gpureconciler.io/sizing"]: a decision as JSON' in shown
        assert "gpus" not in shown.partition("as JSON")[0].rpartition("metadata")[2].replace("gpureconciler", "")


def test_answers_of_a_plan_that_does_not_fit() -> None:
    found = {one.question: one.text for one in answers(plans.everything())}
    assert found["Fits"] == "no: main has 40 NVIDIA-H200 for 56 requested"
    assert found["Changes"].startswith("gpt-35b-pretrain 8 → 32 GPUs, adds llama-70b-sft with 16 GPUs")
    assert found["Danger"].startswith("2 risks: 1 data loss, 1 disruption; old-run-workspace: deleting the claim")
    assert found["To do"].startswith("fix 1 policy denial (max-gpus-per-job); `reconciler approve --reason 'TEXT'`")
    assert answers(plans.quiet()) == ()


def test_a_danger_is_told_of_the_objects_that_share_it() -> None:
    """Two risks of one rule with different sentences stay two sentences."""
    one = plans.everything().risks[0]
    names = (("a", "its field x is kept"), ("b", "its field y is kept"), ("c", "its field x is kept"))
    risks = tuple(replace(one, key=plans.key("Job", "team", name), message=text) for name, text in names)
    found = {each.question: each.text for each in answers(replace(plans.everything(), risks=risks))}
    assert found["Danger"].endswith("; a, c: its field x is kept; b: its field y is kept")


def test_a_job_at_the_edge_of_its_memory_is_told(sized: Fleet) -> None:
    """The range of the prediction exceeds the GPU: a reviewer hears of it on the first screen."""
    shown = " ".join(sized.run("plan").out.split())
    assert "Memory llama-lora may run out of memory: it needs 69.6 to 80.8 GiB on each GPU, which has 79.7" in shown


def test_a_node_that_leaves_use_is_the_headline(fleet: Fleet) -> None:
    """Not that no requests change; what to do follows from the risk."""
    assert (
        fleet.run("new", "quarantine", "h100-02", "--reason", "GPU 3 fell off the bus", "--effect", "NoExecute").code
        == 0
    )
    first, *rest = fleet.run("plan").out.splitlines()
    assert first == "Node h100-02 on main leaves use: 8 GPUs"
    assert "To do    before merging: set `effect: NoSchedule`" in "\n".join(rest)
