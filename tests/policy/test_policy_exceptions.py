"""Exceptions are files: who, what, why, until when; expired ones stop a commit, unused ones are told."""

import pytest
from msgspec.structs import replace

from reconciler import resources
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Severity
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from reconciler.policy.exceptions import PLAN, Excepted, apply_exceptions, load_exceptions
from reconciler.policy.verdict import Result, Verdict

TEXT = """\
apiVersion: gpureconciler.io/v1alpha1
kind: PolicyException
metadata: {name: legacy-data}
spec:
  rule: no-host-path
  object: {kind: Job, namespace: team-a, name: train}
  reason: the data moves to a claim in March
  owner: team-a
  expires: "2026-03-31"
"""
RULES = ("no-host-path", "no-privileged", "pinned-images", "quota.product")
VERDICT = Verdict(
    rule="no-host-path",
    result=Result.DENY,
    cluster="west",
    key=ObjectKey(group="batch", kind="Job", namespace="team-a", name="train"),
    place=SourceRef(path="jobs/train.yaml", line=1, column=1),
    message="hostPath volume: data (/data)",
)


def apply(text: str, date: str, *verdicts: Verdict) -> Excepted:
    found, problems = load_exceptions(read("policies/exceptions.yaml", text.encode()).documents, RULES)
    assert problems == ()
    return apply_exceptions(verdicts or (VERDICT,), found, date)


@pytest.mark.parametrize("date", ["2026-01-01", "2026-03-31"])
def test_an_exception_allows_through_its_last_day(date: str) -> None:
    """The plan lists those in force, and the verdict stays visible."""
    verdicts, in_force, problems = apply(TEXT, date)
    assert [one.result for one in verdicts] == [Result.EXCEPTED]
    assert problems == ()
    (one,) = in_force
    assert (one.rule, one.target, one.owner, one.expires, one.used) == (
        "no-host-path",
        "Job/team-a/train",
        "team-a",
        "2026-03-31",
        True,
    )


def test_an_expired_exception_allows_nothing_and_is_an_error() -> None:
    verdicts, in_force, problems = apply(TEXT, "2026-04-01")
    assert [one.result for one in verdicts] == [Result.DENY]
    assert in_force == ()
    (problem,) = problems
    assert (problem.rule, problem.severity) == ("policy.exception-expired", Severity.ERROR)
    assert str(problem.place) == "policies/exceptions.yaml:9:12"
    assert "expired on 2026-03-31 (the plan's date is 2026-04-01)" in problem.message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: train", "name: other"),
        ("namespace: team-a, ", ""),
        ("kind: Job", "kind: Pod"),
        ("no-host-path", "no-privileged"),
        ("name: train", "name: train, cluster: east"),
    ],
)
def test_an_exception_for_something_else_is_unused(old: str, new: str) -> None:
    verdicts, in_force, problems = apply(TEXT.replace(old, new), "2026-01-01")
    assert [one.result for one in verdicts] == [Result.DENY]
    assert [one.used for one in in_force] == [False]
    assert [(one.rule, one.severity) for one in problems] == [("policy.exception-unused", Severity.WARNING)]


def test_a_cluster_may_be_named() -> None:
    verdicts, in_force, _ = apply(TEXT.replace("name: train", "name: train, cluster: west"), "2026-01-01")
    assert [one.result for one in verdicts] == [Result.EXCEPTED]
    assert in_force[0].target == "Job/team-a/train (west)"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('expires: "2026-03-31"', "expires: soon", "spec.expires: 'soon' is not a date; write YYYY-MM-DD"),
        ('expires: "2026-03-31"', 'expires: "2026-13-01"', "is not a date"),
        ('  expires: "2026-03-31"\n', "", "spec.expires: is required"),
        ("  owner: team-a\n", "", "spec.owner: is required"),
        ("reason: the data moves to a claim in March", "reason: ' '", "spec.reason: must be a non-empty string"),
        ("kind: Job, ", "", "spec.object.kind: is required"),
        ("rule: no-host-path", "rule: 7", "spec.rule: must be a non-empty string"),
        ("object: {kind: Job, namespace: team-a, name: train}", "object: all", "spec.object.name: is required"),
    ],
)
def test_an_incomplete_exception_allows_nothing(old: str, new: str, words: str) -> None:
    found, problems = load_exceptions(read("policies/e.yaml", TEXT.replace(old, new).encode()).documents, RULES)
    assert found == ()
    assert any(words in str(problem) and problem.rule == "policy.exception-invalid" for problem in problems)


@pytest.mark.parametrize(
    ("rule", "hint"),
    [("pined-images", "did you mean pinned-images?"), ("zzz", "see docs/reference/rules.md for the shipped rules")],
)
def test_an_exception_from_an_unknown_rule_is_an_error(rule: str, hint: str) -> None:
    text = TEXT.replace("rule: no-host-path", f"rule: {rule}")
    found, (problem,) = load_exceptions(read("policies/e.yaml", text.encode()).documents, RULES)
    assert found == ()
    assert (problem.rule, problem.severity) == ("policy.exception-invalid", Severity.ERROR)
    assert (str(problem.place), problem.field) == ("policies/e.yaml:5:9", "spec.rule")
    assert problem.message == f"unknown rule {rule!r}"
    assert problem.hint == hint


def test_other_documents_are_left_alone() -> None:
    text = "apiVersion: v1\nkind: PolicyException\nmetadata: {name: a}\n"
    assert load_exceptions(read("policies/e.yaml", text.encode()).documents, RULES) == ((), ())


LABELLED = replace(VERDICT, labels=(("team", "vision"), ("tier", "batch")))
OBJECT = "object: {kind: Job, namespace: team-a, name: train}"


@pytest.mark.parametrize(
    ("selector", "covered", "target"),
    [
        ("{kinds: [Job]}", True, "Job"),
        ("{kinds: [Pod, Job], namespaces: [team-b, team-a]}", True, "Pod, Job in team-b, team-a"),
        ("{labels: {team: vision}}", True, "all kinds with team=vision"),
        ("{namespaces: [team-a], labels: {tier: batch, team: vision}}", True, "all kinds in team-a with team=vision, tier=batch"),
        ("{kinds: [Job], cluster: west}", True, "Job"),
        ("{kinds: [Job], cluster: east}", False, "Job"),
        ("{kinds: [Pod]}", False, "Pod"),
        ("{namespaces: [team-b]}", False, "all kinds in team-b"),
        ("{labels: {team: language}}", False, "all kinds with team=language"),
        ("{labels: {team: vision, other: x}}", False, "all kinds with other=x, team=vision"),
    ],
)  # fmt: skip
def test_a_selector_covers_the_objects_that_match_all_of_it(selector: str, covered: bool, target: str) -> None:
    """The review says how many objects that are; nothing selects a plan."""
    text = TEXT.replace(OBJECT, f"selector: {selector}")
    other = replace(LABELLED, key=replace(VERDICT.key, name="other"))
    plan = replace(VERDICT, key=PLAN)
    verdicts, (one,), problems = apply(text, "2026-01-01", LABELLED, other, other, plan)
    assert [found.result is Result.EXCEPTED for found in verdicts] == [covered, covered, covered, False]
    assert {found.labels for found in verdicts} == {()}
    assert (one.used, one.target.partition(" (")[0]) == (covered, target)
    assert one.target.endswith("(2 objects)" if covered else "(0 objects)")
    assert bool(problems) != covered
    assert apply(text, "2026-04-01", LABELLED).verdicts[0].result is Result.DENY


def test_a_selector_is_valid_by_its_schema() -> None:
    def wrong(selector: str) -> bool:
        (document,) = read("policies/e.yaml", TEXT.replace(OBJECT, selector).encode()).documents
        return bool(Catalogue(resources).validate(document))

    assert not wrong("selector: {kinds: [Job]}")
    assert not wrong(OBJECT)
    assert wrong(f"{OBJECT}\n  selector: {{kinds: [Job]}}")
    assert wrong("selector: {}")
    assert wrong("selector: {cluster: west}")
    assert wrong("selector: {kinds: []}")
    assert wrong("other: 1")
