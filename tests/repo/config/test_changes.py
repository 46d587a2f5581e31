"""The stricter of two configurations, and what differs between them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler import resources
from reconciler.repo.config import Backend, Budgets, Cluster, Config, OnImmutableChange, Selector
from reconciler.repo.config.changes import SettingChange, config_changes, stricter
from reconciler.repo.config.pod_paths import DeclaredPods, PodPath

MAIN = Cluster(name="main")
CONFIG = Config(clusters=(MAIN,))
SCHEMA = "schemas/gpureconciler.io/v1alpha1/reconcilerconfig.json"

_values = {
    int | None: st.none() | st.integers(0, 100),
    float | None: st.none() | st.floats(0, 1),
    bool: st.booleans(),
}
BUDGETS = st.builds(Budgets, **{field.name: _values[field.type] for field in msgspec.structs.fields(Budgets)})


def changes(base: Config, head: Config) -> dict[str, SettingChange]:
    return {one.setting: one for one in config_changes(base, head, lambda _: 14)}


def allows(limit: Any) -> float:
    return float("inf") if limit is None else float(limit)


@given(BUDGETS, BUDGETS)
def test_the_stricter_budgets_allow_what_both_allow(base: Budgets, head: Budgets) -> None:
    both = stricter(replace(CONFIG, budgets=base), replace(CONFIG, budgets=head)).budgets
    for name in Budgets.__struct_fields__:
        expected = min(allows(getattr(base, name)), allows(getattr(head, name)))
        assert allows(getattr(both, name)) == expected


@given(BUDGETS, BUDGETS)
def test_a_budget_is_weaker_where_it_allows_more(base: Budgets, head: Budgets) -> None:
    found = changes(replace(CONFIG, budgets=base), replace(CONFIG, budgets=head))
    differing = [name for name in Budgets.__struct_fields__ if getattr(base, name) != getattr(head, name)]
    assert len(found) == len(differing)
    weaker = sum(allows(getattr(head, name)) > allows(getattr(base, name)) for name in differing)
    assert sum(one.weakens for one in found.values()) == weaker


def test_every_budget_has_its_name_of_the_file() -> None:
    """A budget without an entry in the table of names would be listed under the name of its field."""
    spec = json.loads(resources.read(SCHEMA))["properties"]["spec"]["properties"]
    base = Budgets(**dict.fromkeys(Budgets.__struct_fields__, False))
    head = Budgets(**dict.fromkeys(Budgets.__struct_fields__, True))
    for setting in changes(replace(CONFIG, budgets=base), replace(CONFIG, budgets=head)):
        node = {"properties": spec}
        for step in setting.split("."):
            assert step in node["properties"], setting
            node = node["properties"][step]


@pytest.mark.parametrize(
    ("base", "head", "setting", "before", "after", "weakens"),
    [
        ({"evidence_days": 10}, {"evidence_days": None}, "evidence.maxAge", "10d", "none", True),
        ({"evidence_days": 10}, {"evidence_days": 5}, "evidence.maxAge", "10d", "5d", False),
        ({}, {"evidence_days": 5}, "evidence.maxAge", "none", "5d", False),
        ({}, {"evidence": "other"}, "evidence", "evidence", "other", True),
        ({}, {"sources": ("queues",)}, "sources", "queues, jobs", "queues", True),
        ({}, {"sources": ("queues", "jobs", "more")}, "sources", "queues, jobs", "queues, jobs, more", False),
        ({}, {"defaults": {"cluster": "main"}}, "defaults.cluster", "none", "main", True),
        ({"defaults": {"cluster": "main"}}, {}, "defaults.cluster", "main", "none", False),
        ({}, {"defaults": {"width": "80"}}, "defaults.width", "none", "80", False),
        ({}, {"clusters": (MAIN, Cluster(name="b"))}, "clusters.b", "not defined", "defined", False),
        ({}, {"clusters": (replace(MAIN, backend=Backend.KUEUE),)}, "clusters.main.backend", "kai", "kueue", False),
        (
            {},
            {"clusters": (replace(MAIN, select=Selector(labels=(("team", "a"),))),)},
            "clusters.main.select.labels",
            "none",
            "team=a",
            True,
        ),
        (
            {"on_immutable_change": OnImmutableChange.KEEP},
            {"on_immutable_change": OnImmutableChange.REFUSE},
            "onImmutableChange",
            "keep",
            "refuse",
            False,
        ),
    ],
)
def test_settings_are_compared(  # noqa: PLR0917 - a table
    base: dict[str, Any], head: dict[str, Any], setting: str, before: str, after: str, weakens: bool
) -> None:
    (found,) = changes(replace(CONFIG, **base), replace(CONFIG, **head)).values()
    assert (found.setting, found.before, found.after, found.weakens) == (setting, before, after, weakens)


ROLES = PodPath(at="spec.roles[]")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (replace(ROLES, template="resources"), "spec.roles[].resources x spec.roles[].replicas"),
        (replace(ROLES, times=("spec.replicas",)), "spec.roles[].template x spec.roles[].replicas x spec.replicas"),
        (replace(ROLES, least="min"), "spec.roles[].template x spec.roles[].replicas, at least spec.roles[].min"),
        (replace(ROLES, most="max"), "spec.roles[].template x spec.roles[].replicas, at most spec.roles[].max"),
        (PodPath(), "template x replicas"),
    ],
)
def test_every_field_of_declared_pods_is_compared(path: PodPath, words: str) -> None:
    base, head = (
        replace(CONFIG, pod_paths=(DeclaredPods(group="example.com", kind="Fleet", paths=(one,)),))
        for one in (ROLES, path)
    )
    (found,) = changes(base, head).values()
    assert (found.setting, found.weakens) == ("podPaths", True)
    assert found.before == "Fleet.example.com: spec.roles[].template x spec.roles[].replicas"
    assert found.after == f"Fleet.example.com: {words}"


@pytest.mark.parametrize("old", [(), ("jobs/a",), ("jobs/a", "jobs/b"), ("jobs",)])
@pytest.mark.parametrize("new", [(), ("jobs/a",), ("jobs/a", "jobs/b"), ("jobs",)])
def test_a_selector_is_narrower_if_it_leaves_out_a_folder(old: tuple[str, ...], new: tuple[str, ...]) -> None:
    paths = ("jobs/a", "jobs/b", "jobs/c")

    def selected(folders: tuple[str, ...]) -> set[str]:
        return {path for path in paths if not folders or any(f"{path}/".startswith(f"{one}/") for one in folders)}

    before, after = (
        replace(CONFIG, clusters=(replace(MAIN, select=Selector(folders=folders)),)) for folders in (old, new)
    )
    found = changes(before, after)
    if selected(old) - selected(new):
        assert found["clusters.main.select.folders"].weakens
    elif old and old != new:
        assert not found["clusters.main.select.folders"].weakens


def test_a_removed_cluster_names_what_it_leaves() -> None:
    found = changes(replace(CONFIG, clusters=(MAIN, Cluster(name="prod"))), CONFIG)["clusters.prod"]
    assert found.weakens
    assert found.effect == "14 rendered objects deleted or left behind"
