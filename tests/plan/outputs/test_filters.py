"""Filters select what a page lists. The plan, its totals and its digest stay."""

import pytest
from msgspec.structs import replace

from reconciler.outputs import RenderOptions
from reconciler.plan import Plan
from reconciler.plan.outputs.filters import apply_filters, parse_filters
from reconciler.plan.outputs.markdown import render_markdown
from reconciler.plan.outputs.text import render_text
from tests.plan.outputs import plans


def owned() -> Plan:
    """Return the busy plan with queues and teams on its changes."""
    queues = {job.key: job.queue for job in plans.everything().jobs}
    teams = {"gpt-35b-pretrain": "language", "vit-sweep": "vision"}
    changes = tuple(
        replace(change, queue=queues.get(change.key, ""), team=teams.get(change.key.name, ""))
        for change in plans.everything().changes
    )
    return replace(plans.everything(), changes=changes)


def names(*words: str) -> set[str]:
    return {change.key.name for change in apply_filters(owned(), parse_filters(words)).plan.changes}


def test_a_queue_has_its_jobs_and_what_is_rendered_for_them() -> None:
    assert names("queue=h200-research") == {"llama-70b-sft", "llama-70b-sft-checkpoints"}


def test_a_team_is_a_label_or_a_namespace() -> None:
    assert names("team=language") == {"gpt-35b-pretrain"}
    assert "gpt-35b-pretrain" in names("team=research")
    assert names("team=vision") == {"vit-sweep"}


def test_equal_keys_are_alternatives_and_different_keys_restrict() -> None:
    assert names("team=vision", "team=language") == {"vit-sweep", "gpt-35b-pretrain"}
    assert names("team=vision", "cluster=edge") == set()
    assert names("cluster=edge") == {"sam-eval"}


def test_a_job_that_leaves_a_cluster_is_a_change_of_that_cluster() -> None:
    moved = replace(plans.MOVED, cluster="west", path=plans.MOVED.path.replace("/edge/", "/west/"))
    found = apply_filters(replace(owned(), changes=(moved,)), {"cluster": ("edge",)})
    assert found.plan.changes == (moved,)


def test_a_severity_leaves_out_findings_and_no_changes() -> None:
    found = apply_filters(owned(), parse_filters(["severity=error"]))
    assert found.plan.risks == ()
    assert found.plan.changes == owned().changes
    assert {verdict.rule for verdict in found.plan.verdicts} == {"max-gpus-per-job"}
    assert found.note == "Filter severity=error: 5 findings are hidden"


@pytest.mark.parametrize("word", ["queue", "queue=", "=x", "name=x", "severity=high", "severity=warn"])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(ValueError, match=r"is not (KEY=VALUE|a severity)"):
        parse_filters([word])


@pytest.mark.parametrize("render", [render_text, render_markdown])
def test_what_is_hidden_is_said_and_totals_stay(render) -> None:  # type: ignore[no-untyped-def]
    plan = owned()
    shown = render(plan, RenderOptions(width=120, filters={"queue": ("vision",)}))
    assert "11 other changes and" in shown
    assert "+24 GPUs requested on main" in shown
    assert "3 to create, 7 to update, 1 to move, 1 to delete" in shown
    assert plan.digest in shown
    assert "vit-sweep" in shown
    assert "llama-70b-sft" not in shown.replace("h100-training", "")


@pytest.mark.parametrize("render", [render_text, render_markdown])
def test_a_summary_that_leaves_nothing_out_says_nothing(render) -> None:  # type: ignore[no-untyped-def]
    plan = replace(plans.quiet(), changes=())
    assert "Not listed" not in render(plan, RenderOptions(width=120, summary=True))
    hidden = replace(plans.everything(), changes=())
    assert "Not listed: 2 warnings\n" in render(hidden, RenderOptions(width=120, summary=True))


@pytest.mark.parametrize("render", [render_text, render_markdown])
def test_a_summary_has_gpus_risks_and_counts(render) -> None:  # type: ignore[no-untyped-def]
    shown = render(plans.everything(), RenderOptions(width=120, summary=True))
    assert "risk.pvc-data-loss" in shown
    assert "Not listed: 2 warnings, 12 objects" in shown
    assert "Errors" in shown, "what makes the plan fail is never left out"
    assert "spec.completions" not in shown.split("Not listed")[1]
    assert "Capacity" not in shown
    assert "budget.gpu-quota.count" in shown
