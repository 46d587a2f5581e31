"""Printed paths: each path that `differences` prints leads back to the value it stands for."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.kube.objects import format_path
from reconciler.kube.printed_paths import ORDER, find_path
from reconciler.plan.differences import differences


def no_keys(_: object) -> None:
    return None


KEYS = st.sampled_from(
    ["name", "key", "protocol", "port", "containerPort", "value", "a.b/c", "", 'q"]', "x\ny", "b\\", "0"]
)
SCALARS = st.one_of(
    st.integers(0, 3), st.booleans(), st.sampled_from(["", "TCP", "a b", "a]", 'q"', "0", "[x]", "é\t", "k=v"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)
LISTS = st.sampled_from(["ports", "env", "args", "accessModes", "tolerations", "steps", "volumeMounts"])
ITEMS = st.lists(st.one_of(st.dictionaries(KEYS, SCALARS, max_size=3), SCALARS), max_size=4)
BODIES = st.fixed_dictionaries(
    {"kind": st.just("Widget"), "spec": st.dictionaries(st.one_of(KEYS, LISTS), st.one_of(VALUES, ITEMS), max_size=4)}
)


def value_at(body: Any, text: str) -> Any:
    path, rest = find_path(body, text, no_keys)
    assert not rest, (text, rest)
    for step in path:
        body = body[step]
    return body


@settings(max_examples=400)
@given(BODIES, BODIES)
def test_every_printed_path_leads_to_the_value_that_the_plan_shows(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Of changed, added and created fields; the last part of a masked value is not compared."""
    for changes in (differences(before, after), differences(None, after)):
        for change in changes:
            if change.has_after and not change.path.endswith(ORDER):
                found = value_at(after, change.path)
                assert change.after in ("***", found), change
            elif change.path.endswith(ORDER):
                assert isinstance(value_at(after, change.path), list)


@given(st.lists(st.text(min_size=1, max_size=5), min_size=1, max_size=3))
def test_every_key_is_read_as_it_is_printed(keys: list[str]) -> None:
    body: Any = "here"
    for key in reversed(keys):
        body = {key: body}
    assert value_at(body, format_path(tuple(keys))) == "here"


@pytest.mark.parametrize(
    ("items", "label"),
    [
        ([{"protocol": "TCP", "number": 1}, {"protocol": "UDP", "number": 2}], "0"),
        ([{"containerPort": 53}, {"containerPort": 53, "protocol": "UDP"}], "containerPort=53,protocol=TCP"),
        ([{"port": 80, "targetPort": 8080}], "port=80,protocol=TCP"),
        ([{"name": "http", "port": 80}], "name=http"),
    ],
)
def test_ports_are_named_by_a_key_that_they_have(items: list[dict[str, Any]], label: str) -> None:
    """A list whose items have only a default in common is addressed by position."""
    (path, *_) = [change.path for change in differences(None, {"kind": "Widget", "spec": {"ports": items}})][1:]
    assert path.startswith(f"spec.ports[{label}]"), path


def test_people_may_name_an_item_by_any_field() -> None:
    body = {"spec": {"steps": [{"run": "build", "with": 1}, {"run": "test", "with": 2}]}}
    assert value_at(body, "spec.steps[run=test].with") == 2
    assert find_path(body, "spec.steps[run=ship].with", no_keys) == (("spec", "steps"), "[run=ship].with")
