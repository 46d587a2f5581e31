"""plan, lint, render, commit, verify and explain, called as a controller calls them: values in, values out."""

import pytest

from reconciler.errors import ConfigError, InvalidInput, PolicyDenied, StalePlan, UnsafePlan
from reconciler.plan.approvals import write_approval
from reconciler.plan.outputs.commit import APPROVAL, PLAN_DIGEST, trailers_of
from reconciler.plan.outputs.markdown import render_markdown
from reconciler.plan.outputs.text import render_text
from reconciler.plan.use_cases import (
    approve_plan,
    commit,
    explain,
    lint,
    plan,
    plan_commit,
    render,
    require_verified,
    uncommitted_changes,
    verify,
)
from reconciler.policy.verdict import Result
from tests.fakes.cache import MemoryCache
from tests.fakes.repository import MemoryRepository
from tests.plan.use_cases.workspaces import edit, open_workspace, template_repository

JOB = "jobs/vision/vit.yaml"
BROKEN = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\nbogus: 1\n"
PRIVILEGED = b"""\
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {team: x}}
spec:
  containers: [{name: c, image: 'a:1', securityContext: {privileged: true}}]
"""


@pytest.fixture
def repository() -> MemoryRepository:
    return template_repository()


def test_the_template_is_up_to_date(repository: MemoryRepository, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(open_workspace(repository)).plan.is_empty
    assert lint(open_workspace(repository)).errors == ()
    require_verified(verify(open_workspace(repository, "HEAD")))
    rendered = {path: raw for path, raw in repository.work.items() if path.startswith("rendered/")}
    assert render(open_workspace(repository)) == rendered
    assert capsys.readouterr().out == ""


def test_a_plan_is_the_same_with_a_warm_store(repository: MemoryRepository) -> None:
    cache = MemoryCache()
    plan(open_workspace(repository, cache=cache))
    edit(repository, JOB, "numGPUs: 16", "numGPUs: 32")
    warm = plan(open_workspace(repository, cache=cache)).plan
    assert warm == plan(open_workspace(repository)).plan
    assert "vit" in {change.key.name for change in warm.changes}


def test_commit_then_verify(repository: MemoryRepository) -> None:
    edit(repository, JOB, "numGPUs: 16", "numGPUs: 32")
    source = repository.save({}, "vit: 32 GPUs")
    with pytest.raises(StalePlan):
        require_verified(verify(open_workspace(repository, "HEAD")))
    workspace = open_workspace(repository, "HEAD")
    planned = plan(workspace, against_head=True)
    made = commit(workspace, planned)
    assert made is not None
    assert repository.resolve("HEAD").oid == made.oid
    assert repository.resolve("HEAD").parents == (source,)
    assert trailers_of(repository.resolve("HEAD").message)[PLAN_DIGEST] == planned.plan.digest
    workspace = open_workspace(repository, "HEAD")
    require_verified(verify(workspace))
    assert commit(workspace, plan(workspace, against_head=True)) is None


def test_commit_to_another_branch_with_a_message(repository: MemoryRepository) -> None:
    edit(repository, JOB, "numGPUs: 16", "numGPUs: 32")
    source = repository.save({})
    workspace = open_workspace(repository, "HEAD")
    made = commit(workspace, plan(workspace, against_head=True), branch="rendered/vit", message="Bigger vit")
    assert made is not None
    assert made.branch == "rendered/vit"
    assert repository.resolve("rendered/vit").subject == "Bigger vit"
    assert repository.resolve("HEAD").oid == source


def test_a_plan_of_the_working_tree_is_not_committed(repository: MemoryRepository) -> None:
    workspace = open_workspace(repository)
    with pytest.raises(ConfigError, match="working tree"):
        commit(workspace, plan(workspace))


@pytest.mark.parametrize(
    ("path", "content", "error"), [("jobs/a.yaml", BROKEN, InvalidInput), ("jobs/a.yaml", PRIVILEGED, PolicyDenied)]
)
def test_commit_refuses_errors_and_denials(
    repository: MemoryRepository, path: str, content: bytes, error: type[Exception]
) -> None:
    head = repository.save({path: content})
    workspace = open_workspace(repository, "HEAD")
    with pytest.raises(error):
        commit(workspace, plan(workspace, against_head=True))
    with pytest.raises(error):
        require_verified(verify(workspace))
    assert repository.resolve("HEAD").oid == head


def test_commit_over_budget_needs_an_approval_of_the_plan(repository: MemoryRepository) -> None:
    for path in [path for path in repository.work if path.startswith("jobs/")]:
        del repository.work[path]
    repository.save({})
    workspace = open_workspace(repository, "HEAD")
    with pytest.raises(UnsafePlan, match="reconciler approve"):
        commit(workspace, plan(workspace, against_head=True))
    _, approval = approve_plan(workspace, reason="r", expires="2999-01-01")
    repository.save({approval.place.path: write_approval(approval)})
    workspace = open_workspace(repository, "HEAD")
    made = commit(workspace, plan_commit(workspace))
    assert made is not None
    assert trailers_of(repository.resolve("HEAD").message)[APPROVAL] == approval.place.path
    assert approval.place.path not in repository.tree(made.oid)


def test_uncommitted_changes(repository: MemoryRepository) -> None:
    assert uncommitted_changes(open_workspace(repository, "HEAD")) == ()
    edit(repository, JOB, "numGPUs: 16", "numGPUs: 32")
    repository.work["README.md"] = b"not read by a plan"
    repository.work["jobs-of-others.yaml"] = b"beside the folder of sources"
    expected = (f"{JOB} has changes that are not committed, so they are not included",)
    assert uncommitted_changes(open_workspace(repository, "HEAD")) == expected


def test_render_raises_all_problems(repository: MemoryRepository) -> None:
    repository.save({"jobs/a.yaml": BROKEN, "jobs/b.yaml": b"a: [1\n"})
    with pytest.raises(InvalidInput) as caught:
        render(open_workspace(repository))
    assert {problem.place.path for problem in caught.value.problems} == {"jobs/a.yaml", "jobs/b.yaml"}


def test_explain(repository: MemoryRepository) -> None:
    explanation = explain(
        open_workspace(repository), "PyTorchJob/default/vit", "spec.pytorchReplicaSpecs.Worker.replicas"
    )
    assert explanation.source is not None
    assert explanation.source.path == JOB
    with pytest.raises(ConfigError):
        explain(open_workspace(repository), "PyTorchJob/default/no-such-job")


def test_the_configuration_must_be_one_document(repository: MemoryRepository) -> None:
    """Every error of the input is a `Problem`, with a rule, a place and a hint."""
    config = repository.work["reconciler.yaml"]
    repository.save({"reconciler.yaml": config + b"---\n" + config})
    with pytest.raises(InvalidInput) as caught:
        open_workspace(repository)
    (problem,) = caught.value.problems
    assert (problem.rule, problem.place.path, problem.hint) == (
        "config.count",
        "reconciler.yaml",
        "keep exactly one document",
    )


def test_the_age_of_evidence_is_limited(repository: MemoryRepository) -> None:
    """The age is shown with the capacity, and the rule can be set to deny."""
    edit(repository, "reconciler.yaml", "spec:\n", "spec:\n  evidence: {maxAge: 10d}\n")
    edit(repository, JOB, "numGPUs: 16", "numGPUs: 32")
    repository.save({})
    made = plan(open_workspace(repository, "HEAD"), date="2026-11-15", against_head=True).plan
    assert {line.evidence_days for line in made.capacity} == {14}
    assert [(one.rule, one.result) for one in made.verdicts if one.rule == "evidence.age"] == [
        ("evidence.age", Result.WARN)
    ]
    assert "evidence 14 days old" in render_text(made)
    assert "evidence 14 days old" in render_markdown(made)
    recent = plan(open_workspace(repository, "HEAD"), date="2026-11-08", against_head=True).plan
    assert [one for one in recent.verdicts if one.rule == "evidence.age"] == []
    edit(repository, "reconciler.yaml", "spec:\n", "spec:\n  rules: {evidence.age: {action: deny}}\n")
    repository.save({})
    with pytest.raises(PolicyDenied):
        require_verified(verify(open_workspace(repository, "HEAD"), date="2026-11-15"))
