"""What is generated from the registry of kinds and the catalogue of metrics is up to date, and forgets nothing."""

from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from reconciler.kinds.aspects import Life
from reconciler.kinds.kind import Kind, Kinds
from reconciler.kinds.registry import BUILT_IN
from reconciler.version import __version__
from tools.chart.access import MODES, access, managed_kinds
from tools.chart.build import CHART, files


@pytest.mark.parametrize("name", files(BUILT_IN))
def test_files_of_the_chart_are_up_to_date(name: str) -> None:
    """F-132: run `make chart` if this fails."""
    assert (CHART / name).read_text(encoding="utf-8") == files(BUILT_IN)[name]


def test_the_chart_installs_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == __version__


def test_a_new_kind_is_granted_without_further_edits() -> None:
    """F-132: a kind of the registry may be applied, and one that ends may be observed."""
    kinds = BUILT_IN.extend(
        (
            Kind(group="acme.example.com", kind="Pool"),
            Kind(group="acme.example.com", kind="Gang", life=Life(progress=BUILT_IN["batch", "Job"].life.progress)),
        )
    )
    new = {mode: _resources(rules) - _resources(access(BUILT_IN)["objects"][mode]) for mode, rules in _by_mode(kinds)}
    gangs, pools = ("acme.example.com", "gangs"), ("acme.example.com", "pools")
    assert new == {"observe": {gangs}, "commit": {gangs}, "apply": {gangs, pools}}


def test_every_rendered_kind_is_managed_and_no_other() -> None:
    names = {(row.group, row.kind) for row in managed_kinds(BUILT_IN)}
    assert {("batch", "Job"), ("kueue.x-k8s.io", "ClusterQueue"), ("", "Namespace")} <= names
    assert not {group for group, _ in names} & {"gpureconciler.io", "torchrun.ai", "kustomize.config.k8s.io"}


@pytest.mark.parametrize("mode", MODES)
def test_no_rule_has_a_wildcard_and_only_apply_writes_objects(mode: str) -> None:
    """F-132: least privilege."""
    rules = access(BUILT_IN)
    objects = rules["objects"][mode]
    for rule in [*objects, *rules["sources"], *rules["replicas"], *rules["inventory"], *rules["observed"]]:
        assert not any("*" in entry for entries in rule.values() for entry in entries)
    assert {"create", "patch", "delete"} <= _verbs(objects) or mode != "apply"
    assert _verbs(objects) <= {"get", "list", "watch"} or mode == "apply"


def _by_mode(kinds: Kinds) -> Iterable[tuple[str, list[dict[str, Any]]]]:
    found: dict[str, list[dict[str, Any]]] = access(kinds)["objects"]
    return found.items()


def _resources(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(rule["apiGroups"][0], resource) for rule in rules for resource in rule["resources"]}


def _verbs(rules: list[dict[str, Any]]) -> set[str]:
    return {verb for rule in rules for verb in rule["verbs"]}
