"""`reconciler.yaml` beyond its schema: folders that exclude one another, selectors, switches that turn something."""

import pytest

from reconciler import resources
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from reconciler.policy.rule_book import rule_setting_problems
from reconciler.repo.config import parse_config

HEAD = "apiVersion: gpureconciler.io/v1alpha1\nkind: ReconcilerConfig\nspec:\n"


def problems(spec: str) -> list[str]:
    (document,) = read("reconciler.yaml", (HEAD + spec).encode()).documents
    found = list(Catalogue(resources).validate(document))
    if not found:
        config, wrong = parse_config(document)
        found = list(wrong)
        if config is not None:
            found += rule_setting_problems(config.rules, ("pinned-images", "no-privileged"))
    return [str(problem) for problem in found]


@pytest.mark.parametrize(
    "spec",
    [
        "  clusters: [{name: a}]\n",
        "  clusters: [{name: a, select: {folders: [jobs/team-a, ./queues/]}}]\n",
        "  clusters: [{name: a}]\n  sources: [jobs, jobs/vision]\n",
        "  clusters: [{name: a}]\n  policies: []\n",
        "  clusters: [{name: a}]\n  sources: [fleet/src]\n  rendered: fleet/out\n  evidence: fleet/src-evidence\n",
        "  clusters: [{name: a, select: {folders: [fleet]}}]\n  sources: [fleet/jobs]\n",
        "  clusters: [{name: a}]\n  rules: {pinned-images: {enabled: false}, quota.product: {action: warn}}\n",
        "  clusters: [{name: a}]\n  rules: {quota.max-gpus-per-queue: {parameters: {max: 8, overrides: {q: 9}}}}\n",
    ],
)
def test_sound_settings(spec: str) -> None:
    assert problems(spec) == []


@pytest.mark.parametrize(
    ("spec", "place", "words"),
    [
        ("  sources: [jobs, rendered]\n", "5:19", "'rendered' overlaps with 'rendered' of spec.rendered"),
        ("  sources: [jobs]\n  rendered: jobs/out\n", "5:13", "'jobs' overlaps with 'jobs/out' of spec.rendered"),
        ("  sources: [all/jobs]\n  rendered: all\n", "5:13", "'all/jobs' overlaps with 'all' of spec.rendered"),
        ("  sources: [evidence/jobs]\n", "5:13", "of spec.evidence"),
        ("  sources: [./policies/]\n", "5:13", "of spec.policies"),
        ("  policies: [evidence]\n", "5:14", "of spec.evidence"),
        ("  policies: [rendered/p]\n", "5:14", "of spec.rendered"),
        ("  evidence: rendered\n", "5:13", "of spec.rendered"),
        ("  sources: []\n", "5:12", "1"),
        ("  sources: [../jobs]\n", "5:13", "is not a folder inside the repository"),
        ("  policies: [.]\n", "5:14", "is not a folder inside the repository"),
    ],
)
def test_folders_of_two_roles_do_not_overlap(spec: str, place: str, words: str) -> None:
    """What we render must never become a source, nor a policy be applied because it lies among the jobs."""
    found = problems(f"  clusters: [{{name: a}}]\n{spec}")
    assert found[0].startswith(f"reconciler.yaml:{place}: spec."), found
    assert words in found[0]


def test_a_selector_that_no_source_can_meet() -> None:
    """A misspelt folder would quietly plan the deletion of everything in the cluster."""
    (found,) = problems("  clusters: [{name: a, select: {folders: [jobs, jbos/team-a]}}]\n")
    assert found.startswith("reconciler.yaml:4:49: spec.clusters[0].select.folders[1]: 'jbos/team-a'")
    assert "queues, jobs" in found


def test_two_clusters_of_one_name() -> None:
    (found,) = problems("  clusters: [{name: a}, {name: a, backend: kueue}]\n")
    assert "name=a" in found


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("{pinned-image: {enabled: false}}", "unknown rule 'pinned-image'; did you mean pinned-images?"),
        ("{quota.prodct: {action: warn}}", "did you mean quota.product?"),
        ("{zzzzzzzzzzzz: {action: warn}}", "docs/reference/rules.md"),
        ("{quota.product: {parameters: {max: 3}}}", "has no parameter 'max'; remove it"),
        ("{quota.max-gpus-per-queue: {parameters: {maximum: 3}}}", "known parameters: max, overrides"),
        ("{identity.duplicate: {enabled: false}}", "cannot be disabled or changed"),
        ("{identity.path-collision: {action: warn}}", "cannot be disabled or changed"),
    ],
)
def test_a_setting_without_effect_is_an_error(rules: str, words: str) -> None:
    """F-124: no setting passes in silence."""
    (found,) = problems(f"  clusters: [{{name: a}}]\n  rules: {rules}\n")
    assert found.startswith("reconciler.yaml:5:11: spec.rules."), found
    assert words in found


@pytest.mark.parametrize(
    ("placement", "words"),
    [
        ("{strategy: best_fit, utilisationGoal: 70, priorities: {0-3: low, 4-6: normal, 7-10: high}}", ""),
        ("{strategy: spread}", "spec.placement.strategy"),
        ("{utilisationGoal: 0}", "spec.placement.utilisationGoal"),
        ("{priorities: {0-11: low}}", "spec.placement.priorities"),
        ("{priorities: {0-4: low, 4-6: normal}}", "overlaps with '0-4'"),
        ("{priorities: {6-4: low}}", "ends before it starts"),
    ],
)
def test_settings_of_placement(placement: str, words: str) -> None:
    """F-024, F-026: strategies are known ones, and no priority has two classes."""
    found = problems(f"  clusters: [{{name: a}}]\n  placement: {placement}\n")
    assert len(found) == bool(words), found
    assert words in "".join(found)


def test_priorities_have_classes() -> None:
    """F-029: a range has both of its ends; a priority of no range has no class."""
    text = "  clusters: [{name: a}]\n  placement: {preferredType: require, priorities: {7-10: high, '0': low}}\n"
    (document,) = read("reconciler.yaml", (HEAD + text).encode()).documents
    config, _ = parse_config(document)
    assert config is not None
    assert [config.placement.class_of(one) for one in (0, 1, 7, 10)] == ["low", "", "high", "high"]
    assert config.clusters[0].placement == config.placement
    assert config.placement.is_type_required
