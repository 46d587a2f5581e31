"""A reviewer's page: twelve mixed changes in two clusters, as text of 100 columns and as a comment."""

import re

import pytest

from tests.cli.fleet import Fleet, run_verb
from tests.cli.review import write_base, write_changes
from tests.plan.outputs.goldens import agrees


@pytest.fixture
def review(fleet: Fleet) -> Fleet:
    write_base(fleet)
    write_changes(fleet)
    fleet.commit("twelve changes")
    return fleet


def _stable(page: str) -> str:
    """Replace what depends on the version of the engine and on commits: digests and the line of revisions."""
    page = re.sub(r"(plan `?sha256:)[0-9a-f]+", r"\1…", page)
    page = re.sub(r"engine `?[0-9][0-9A-Za-z.+]*`?", "engine …", page)
    return re.sub(r"(base|HEAD)(`?) (`?)[0-9a-f]{12}", r"\1\2 \3…", page)


def test_a_page_tells_gpus_and_risks_within_a_minute(review: Fleet) -> None:
    """The first lines say what happens to GPUs and what can be lost; the last line sums up (F-141)."""
    ran = review.run("plan", "--base", "base", "--width", "100")
    lines = ran.out.splitlines()
    assert ran.code == 5
    assert max(map(len, lines)) <= 100
    top = "\n".join(lines[:16])
    for fact in (
        "11 must be replaced",
        "+8 GPUs requested on edge",
        "+16 GPUs requested on main",
        "Data may be lost: PersistentVolumeClaim language/corpus-2025 on main",
        "1 data loss",
        "2 budgets exceeded",
    ):
        assert fact in top
    page = ran.out
    order = [page.index(title) for title in ("\nGPUs\n", "\nCapacity\n", "\nJobs (", "\nRisks (", "\nObjects (")]
    assert order == sorted(order)
    assert page.index("risk.pvc-data-loss") < page.index("risk.workload-delete") < page.index("risk.kept")
    assert "renamed" in page
    assert "vision/sam-eval → sam2-eval" in page
    assert "Plan: 5 to create, 8 to update, 11 to replace, 2 to move, 4 to delete." in page
    assert "+8 GPUs on edge, +16 GPUs on main." in " ".join(page.split())
    assert "language/sweep-01 and 10 more" in page
    assert agrees("review.txt", _stable(page))


def test_a_comment_tells_the_same(review: Fleet) -> None:
    ran = review.run("plan", "--base", "base", "-o", "markdown")
    assert ran.out.index("#### GPUs") < ran.out.index("#### Risks") < ran.out.index("#### Objects")
    assert agrees("review.md", _stable(ran.out))
    assert len(ran.out) < 65_536


def test_filters_and_summaries_change_only_what_is_listed(review: Fleet) -> None:
    """The exit code, the digest and the saved plan are those of the whole plan."""
    whole = review.run("plan", "--base", "base", "--out", str(review.root / "whole.json"))
    part = review.run("plan", "--base", "base", "--filter", "queue=h200", "--out", str(review.root / "part.json"))
    short = review.run("plan", "--base", "base", "--summary")
    assert whole.code == part.code == short.code == 5
    assert whole.out.splitlines()[-5:] == part.out.splitlines()[-5:] == short.out.splitlines()[-5:]
    assert (review.root / "whole.json").read_bytes() == (review.root / "part.json").read_bytes()
    assert "Filter queue=h200: 24 other changes and" in part.out
    assert "vit-large" not in part.out.split("GPUs\n", 1)[1]
    again = run_verb(review.capture, ["show", str(review.root / "whole.json"), "--filter", "queue=h200"])
    assert again.code == 5
    assert again.out == part.out


@pytest.mark.parametrize("flag", [("--summary",), ("--filter", "queue=h200")])
def test_programs_get_the_whole_plan(review: Fleet, flag: tuple[str, ...]) -> None:
    ran = review.run("plan", "-o", "json", *flag)
    assert ran.code == 2
    assert "does not apply to -o json" in ran.err
