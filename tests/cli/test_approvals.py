"""Approvals through the command line, in the branches and merges that a pull request goes through."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.fleet import Fleet

_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m%d, namespace: default, labels: {team: x}}\ndata: {k: v}\n"
_REASON = "the maps move to another repository"


@pytest.fixture
def main(fleet: Fleet, kept: Path) -> Fleet:
    """Return a fleet with 20 more objects on main, and the branch `change` checked out, which deletes 15 of them."""

    def make() -> None:
        for number in range(20):
            fleet.write(f"jobs/maps/m{number}.yaml", _MAP % number)
        fleet.commit("maps")
        assert fleet.run("commit").code == 0
        fleet.git("checkout", "--quiet", "-b", "change")
        for number in range(15):
            (fleet.root / f"jobs/maps/m{number}.yaml").unlink()
        fleet.commit("fewer maps")

    fleet.make_once(kept, make)
    return fleet


def words(text: str) -> str:
    """Return a text without its line breaks."""
    return " ".join(text.split())


def plan(fleet: Fleet, *arguments: str) -> int:
    return fleet.run("plan", "--revision", "HEAD", "--base", "main", *arguments).code


def approve(fleet: Fleet, *arguments: str) -> str:
    """Approve the plan, commit the file, and return its path."""
    ran = fleet.run("approve", "--base", "main", "--reason", _REASON, "--expires", "2026-12-01", *arguments)
    assert ran.code == 0, ran.err
    fleet.commit("approve")
    found = re.match(r"approvals/[0-9a-f]{12}\.yaml", ran.out)
    assert found
    return found[0]


def merge(fleet: Fleet) -> None:
    fleet.git("checkout", "--quiet", "main")
    fleet.git("merge", "--quiet", "--no-ff", "--message", "merge", "change")


def test_an_approval_works_from_the_pull_request_to_the_commit(main: Fleet) -> None:
    assert plan(main) == 5
    ran = main.run("approve", "--base", "main", "--reason", _REASON, "--expires", "2026-12-01")
    assert "deletes.count: the plan deletes 15 objects; the budget allows 10" in ran.out
    assert "15 deleted" in ran.out
    assert main.run("plan", "--base", "main").code == 0  # the working tree
    main.commit("approve")
    shown = main.run("plan", "--revision", "HEAD", "--base", "main")
    assert shown.code == 0
    assert _REASON in words(shown.out)
    merge(main)
    assert main.run("plan", "--revision", "HEAD", "--base", "main~1").code == 0  # what a pipeline of the merge plans
    committed = main.run("commit")
    assert committed.code == 0, committed.err
    assert "not included" not in committed.err, "the commit itself removes the approval"
    assert list((main.root / "approvals").glob("*")) == []
    assert re.search(
        r"^Reconciler-Approval: approvals/[0-9a-f]{12}\.yaml$", main.git("log", "-1", "--format=%B"), re.MULTILINE
    )
    assert main.run("verify").code == 0
    assert main.run("plan", "--exit-code").code == 0


def test_a_branch_that_renders_keeps_its_approval_until_the_merge(main: Fleet) -> None:
    """`commit` on the branch keeps the approval, which the plan of the pull request needs; the next one removes it."""
    assert main.run("commit", "--base", "main").code == 5
    path = approve(main)
    assert main.run("commit", "--base", "main").code == 0
    assert (main.root / path).is_file()
    assert plan(main) == 0
    assert main.run("verify").code == 0
    merge(main)
    merged = main.run("plan", "--revision", "HEAD", "--base", "main")
    assert (merged.code, "approv" in merged.out) == (0, False)
    main.git("checkout", "--quiet", "-b", "next")
    main.write("jobs/maps/m19.yaml", _MAP.replace("k: v", "k: w") % 19)
    main.commit("another change")
    for output in ("text", "markdown"):
        later = main.run("plan", "--revision", "HEAD", "--base", "main", "-o", output)
        assert later.code == 0
        assert "Approvals to remove" in later.out
        assert path in later.out
        assert "is not used" not in later.out
    assert main.run("commit").code == 0
    assert not (main.root / path).exists()


def test_two_merged_changes_need_one_approval_for_both(main: Fleet) -> None:
    """Each was approved; nothing was rendered between the merges, so their plan together has no approval."""
    first = approve(main)
    main.git("checkout", "--quiet", "-b", "other", "main")
    for number in range(15, 20):
        main.write(f"jobs/maps/m{number}.yaml", _MAP.replace("k: v", "k: w") % number)
    for number in range(4, 15):
        (main.root / f"jobs/maps/m{number}.yaml").unlink()
    main.commit("other change")
    second = approve(main)
    main.git("checkout", "--quiet", "main")
    main.git("merge", "--quiet", "--no-ff", "--message", "merge", "change")
    main.git("merge", "--quiet", "--no-ff", "--message", "merge", "other")
    ran = main.run("commit")
    assert ran.code == 5
    both = ", ".join(sorted([first, second]))
    words_ = f"{both} are for one change each; changes that were merged without a `reconciler commit` between them"
    assert words_ in words(ran.err)
    assert words_ in words(ran.out)
    assert main.run("approve", "--reason", "both", "--expires", "2026-12-01").code == 0
    main.commit("approve both")
    assert main.run("commit").code == 0
    assert main.run("verify").code == 0


def test_an_approval_of_the_branch_counts_for_each_commit_on_it(main: Fleet) -> None:
    """The second commit on a branch deletes 11 more objects; the approval is for all that the branch deletes."""
    approve(main)
    assert main.run("commit", "--base", "main").code == 0
    for number in range(15, 20):
        (main.root / f"jobs/maps/m{number}.yaml").unlink()
    for path in (main.root / "jobs").rglob("*.yaml"):
        path.unlink()
    main.write("jobs/README.md", "empty")
    main.edit("reconciler.yaml", "deletes: {count: 10, share: 0.25}", "deletes: {count: 4, share: 0.25}")
    main.commit("even fewer")
    assert plan(main) == 5
    assert main.run("commit", "--base", "main").code == 5
    approve(main)
    assert plan(main) == 0
    assert main.run("commit", "--base", "main").code == 0


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("jobs/maps/m16.yaml", "k: v", "k: other"),
        ("reconciler.yaml", "deletes: {count: 10", "deletes: {count: 11"),
        ("queues/h100.yaml", "quota: 32", "quota: 33"),
        ("policies/README.md", "", ""),
    ],
)
def test_an_edit_voids_an_approval(main: Fleet, path: str, old: str, new: str) -> None:
    approve(main)
    if old:
        main.edit(path, old, new)
    else:
        main.write(
            "policies/allow.yaml",
            "apiVersion: gpureconciler.io/v1alpha1\nkind: PolicyException\nmetadata: {name: a}\nspec:\n"
            "  rule: no-privileged\n  object: {kind: Pod, namespace: default, name: p}\n"
            "  reason: test\n  owner: ops@example.com\n  expires: '2026-12-01'\n",
        )
    main.commit("edit")
    shown = main.run("plan", "--revision", "HEAD", "--base", "main")
    assert shown.code == 5
    assert re.search(r"approves sha256:\w{12}, but the approval digest of this plan is sha256:\w{12}", words(shown.out))
    assert main.run("commit", "--base", "main").code == 5


def test_what_does_not_change_the_plan_keeps_the_approval(main: Fleet) -> None:
    """Commits, messages, comments, and unrelated changes that are merged from main."""
    approve(main)
    main.write("NEWS.md", "text")
    main.edit("jobs/maps/m16.yaml", "kind: ConfigMap", "kind: ConfigMap  # a comment")
    main.commit("comment")
    assert plan(main) == 0
    main.git("checkout", "--quiet", "main")
    main.write("jobs/other.yaml", _MAP % 99)
    main.commit("unrelated")
    assert main.run("commit").code == 0
    main.git("checkout", "--quiet", "change")
    main.git("merge", "--quiet", "--message", "merge main", "main")
    assert plan(main) == 0


def test_an_approval_expires(main: Fleet) -> None:
    approve(main)
    assert plan(main, "--date", "2026-12-01") == 0
    late = main.run("plan", "--revision", "HEAD", "--base", "main", "--date", "2026-12-02")
    assert late.code == 5
    assert "expired on 2026-12-01 (the plan's date is 2026-12-02)" in words(late.out)


def test_an_approval_can_be_for_some_budgets(main: Fleet) -> None:
    approve(main, "--budget", "deletes.count")
    shown = main.run("plan", "--revision", "HEAD", "--base", "main")
    assert shown.code == 5
    assert "(approved)" in shown.out
    assert "deletes 15 of" in shown.err
    assert "deletes 15 objects" not in shown.err
    approve(main, "--budget", "deletes")
    assert plan(main) == 0


def test_the_digest_of_a_plan_does_not_depend_on_approvals(main: Fleet) -> None:
    arguments = ("plan", "--revision", "HEAD", "--base", "main", "-o", "json")
    before = json.loads(main.run(*arguments).out)
    approve(main)
    after = json.loads(main.run(*arguments).out)
    for name in ("digest", "approvalDigest"):
        assert before[name] == after[name]
    assert [one["ignored"] for one in after["approvals"]] == [""]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--budget", "delets"), "did you mean deletes.share?"),
        (("--budget", "sources"), "the plan does not exceed sources, but deletes.count"),
        (("--expires", "tomorrow"), "'tomorrow' is not a date"),
        (("--expires", "2020-01-01"), "2020-01-01 is in the past"),
        (("--expires", "2030-01-01", "--days", "3"), "--expires and --days are mutually exclusive"),
        (("--reason", " "), "--reason is empty"),
    ],
)
def test_approve_refuses_wrong_flags(main: Fleet, arguments: tuple[str, ...], message: str) -> None:
    ran = main.run("approve", "--base", "main", "--reason", "x", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert not (main.root / "approvals").exists()


def test_approve_refuses_what_needs_no_approval(main: Fleet) -> None:
    approve(main)
    again = main.run("approve", "--base", "main", "--reason", "x")
    assert again.code == 2
    assert "nothing to approve; the plan is approved by approvals/" in again.err
    main.git("checkout", "--quiet", "main")
    within = main.run("approve", "--base", "main", "--reason", "x")
    assert within.code == 2
    assert "nothing to approve; the plan is within its budgets" in within.err


def test_approve_allows_no_errors(main: Fleet) -> None:
    main.write("jobs/bad.yaml", "kind: [\n")
    assert main.run("approve", "--base", "main", "--reason", "x").code == 3


def test_days_count_from_the_date(main: Fleet) -> None:
    main.run("approve", "--base", "main", "--reason", "it's: #1", "--days", "3", "--date", "2026-11-02")
    (file,) = (main.root / "approvals").iterdir()
    assert 'expires: "2026-11-05"' in file.read_text()
    assert main.run("plan", "--base", "main").code == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('expires: "2026-12-01"', "expires: soon", "soon"),
        ("reason: the maps move to another repository", 'reason: ""', "reason"),
        ("plan: sha256:", "plan: sha1:", "spec.plan"),
        ("kind: PlanApproval", "kind: PlanAproval", "PlanAproval"),
        ("spec:", "spec:\n  budgets: [delets]", "unknown budget 'delets' → did you mean deletes.share?"),
    ],
)
def test_an_invalid_approval_is_an_error(main: Fleet, old: str, new: str, message: str) -> None:
    path = main.root / approve(main)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    ran = main.run("plan", "--base", "main")
    assert ran.code == 3
    assert re.search(rf"{path.name}:\d+:\d+", ran.out)
    assert message in words(ran.out)


def test_the_folder_is_a_setting(main: Fleet) -> None:
    main.edit("reconciler.yaml", "  policies: [policies]\n", "  policies: [policies]\n  approvals: ops/approvals\n")
    refused = main.run("approve", "--base", "main", "--reason", "x")
    assert refused.code == 2  # a change does not choose the folder that its reviewers own
    assert "a change of spec.approvals cannot be approved" in refused.err
    main.commit("another folder, on the base")
    assert main.run("approve", "--reason", "x", "--expires", "2026-12-01").code == 0
    assert len(list((main.root / "ops/approvals").iterdir())) == 1
    assert main.run("plan").code == 0
    shown = main.run("plan", "--base", "main")
    assert shown.code == 5
    assert "approvals of the base are in approvals/" in words(shown.out)
    main.edit("reconciler.yaml", "approvals: ops/approvals", "approvals: policies/approvals")
    assert "'policies' overlaps with 'policies/approvals' of spec.approvals" in main.run("plan").err


def test_approvals_in_a_source_folder_are_refused(main: Fleet) -> None:
    path = approve(main)
    target = Path(main.root / "jobs/approval.yaml")
    target.write_text((main.root / path).read_text())
    ran = main.run("plan", "--base", "main")
    assert ran.code == 3
    assert "PlanApproval is not allowed in a source folder" in ran.out
