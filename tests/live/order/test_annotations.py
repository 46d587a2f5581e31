"""Annotations of Argo CD, Flux and kubectl that our own apply honours."""

import json

import pytest

from reconciler.kube.yaml.reader import read
from reconciler.plan.live.annotations import may_set_wave, wave, why_not_applied, why_not_deleted


def named(name: str, value: str) -> dict[str, object]:
    return {"metadata": {"annotations": {name: value}}}


@pytest.mark.parametrize(
    ("name", "value", "creates", "updates"),
    [
        ("kustomize.toolkit.fluxcd.io/reconcile", "disabled", False, False),
        ("kustomize.toolkit.fluxcd.io/ssa", "Ignore", False, False),
        ("kustomize.toolkit.fluxcd.io/ssa", "IfNotPresent", True, False),
        ("kustomize.toolkit.fluxcd.io/ssa", "Merge", True, True),
        ("client.lifecycle.config.k8s.io/mutation", "ignore", True, False),
        ("argocd.argoproj.io/hook", "Skip", False, False),
        ("argocd.argoproj.io/hook", "PostDelete", False, False),
        ("argocd.argoproj.io/hook", "PreSync", True, True),
        ("argocd.argoproj.io/sync-options", "Prune=false", True, True),
    ],
)
def test_what_is_applied(name: str, value: str, creates: bool, updates: bool) -> None:
    desired = named(name, value)
    assert (why_not_applied(desired, None) == "") is creates
    assert (why_not_applied(desired, {}) == "") is updates


@pytest.mark.parametrize("name", ["kustomize.toolkit.fluxcd.io/reconcile", "client.lifecycle.config.k8s.io/mutation"])
def test_annotations_of_the_live_object_count_too(name: str) -> None:
    """A person who excludes an object in the cluster is heard."""
    value = "disabled" if "flux" in name else "ignore"
    assert why_not_applied({}, named(name, value)) == f"{name}: {value}"


@pytest.mark.parametrize(
    ("name", "value", "deleted"),
    [
        ("gpureconciler.io/keep", "true", False),
        ("kustomize.toolkit.fluxcd.io/prune", "disabled", False),
        ("kustomize.toolkit.fluxcd.io/reconcile", "disabled", False),
        ("argocd.argoproj.io/sync-options", "Prune=false", False),
        ("argocd.argoproj.io/sync-options", "ServerSideApply=true, Delete=false", False),
        ("argocd.argoproj.io/sync-options", "Prune=confirm", False),
        ("argocd.argoproj.io/sync-options", "PruneLast=true", True),
        ("config.k8s.io/owning-inventory", "another", False),
        ("argocd.argoproj.io/sync-wave", "3", True),
    ],
)
def test_what_is_deleted(name: str, value: str, deleted: bool) -> None:
    assert (why_not_deleted(named(name, value)) == "") is deleted


def test_confirmed_deletions_happen() -> None:
    options, approved = "argocd.argoproj.io/sync-options", "argocd.argoproj.io/deletion-approved"
    assert (
        why_not_deleted({"metadata": {"annotations": {options: "Prune=confirm", approved: "2026-01-01T00:00:00Z"}}})
        == ""
    )


def test_a_set_of_another_tool_is_not_ours() -> None:
    live = {"metadata": {"labels": {"applyset.kubernetes.io/part-of": "applyset-x-v1"}}}
    assert why_not_deleted(live) == "applyset.kubernetes.io/part-of: applyset-x-v1"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, (0, 0)),
        ({"argocd.argoproj.io/sync-wave": "-5"}, (0, -5)),
        ({"argocd.argoproj.io/sync-wave": "soon"}, (0, 0)),
        ({"argocd.argoproj.io/sync-wave": "9" * 40}, (0, 0)),
        ({"argocd.argoproj.io/hook": "PreSync", "argocd.argoproj.io/sync-wave": "1"}, (-1, 1)),
        ({"argocd.argoproj.io/hook": "PostSync"}, (1, 0)),
    ],
)
def test_waves(annotations: dict[str, str], expected: tuple[int, int]) -> None:
    body = {"metadata": {"annotations": annotations}}
    assert wave(body) == expected
    assert may_set_wave(json.dumps(body).encode()) == bool(annotations)


def test_a_hidden_name_may_set_a_wave() -> None:
    content = rb'metadata: {annotations: {"argocd\x2eargoproj.io/sync-wave": "3"}}'
    assert wave(read("job.yaml", content).documents[0].data) == (0, 3)
    assert may_set_wave(content)
    assert not may_set_wave(b"metadata: {annotations: {example.com/team: vision}}")
