"""Projections of live objects: a body without some values."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.values import value_at, without_value
from reconciler.plan.live.projection import without

_NAMES = st.sampled_from(["a", "b", "c"])
_PATHS = st.lists(_NAMES, min_size=1, max_size=4).map(tuple)
_BODIES = st.dictionaries(
    _NAMES, st.recursive(st.integers(), lambda inner: st.dictionaries(_NAMES, inner, max_size=3), max_leaves=8)
)


def _leaves(node: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], int]:
    if not isinstance(node, dict):
        return {path: node}
    return {leaf: value for name, inner in node.items() for leaf, value in _leaves(inner, (*path, name)).items()}


@given(_BODIES, st.lists(_PATHS, max_size=3))
def test_exactly_the_values_below_the_paths_are_left_out(
    body: dict[str, Any], paths: list[tuple[str | int, ...]]
) -> None:
    """F-143: other values stay, and no mapping above a path is left empty: whoever applies it would seem to own it."""
    made = without(body, paths)
    kept = {leaf for leaf in _leaves(body) if not any(leaf[: len(path)] == path for path in paths)}
    assert _leaves(made) == {leaf: value for leaf, value in _leaves(body).items() if leaf in kept}
    for path in (path for path in paths if without_value(body, path) != body):
        assert all(value_at(made, path[:depth]) != {} for depth in range(1, len(path)))


def test_items_of_lists_stay() -> None:
    body = {"spec": {"containers": [{"image": "a"}, {"name": "b"}]}}
    assert without(body, [("spec", "containers", 0, "image")]) == {"spec": {"containers": [{}, {"name": "b"}]}}
