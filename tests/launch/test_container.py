"""The kubelet's expansion of `$(NAME)` in `command`, `args` and `env`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.launch import parse_launch
from reconciler.launch.container import expand_env, expand_references

NO_FILES: dict[str, bytes] = {}


@given(st.text("$()ab ", max_size=20), st.dictionaries(st.sampled_from(("a", "b", "")), st.text("$(ab)", max_size=3)))
def test_places_survive_the_expansion_of_kubernetes(text: str, env: dict[str, str]) -> None:
    """Each character that no variable gave is found again where it is written."""
    expanded = expand_references(text, env)
    for at, char in enumerate(expanded.text):
        placed = expanded.source_range(at, at + 1)
        if placed is not None and not any(start <= at < end for start, end, _, _ in expanded.pieces):
            assert text[placed[0] : placed[1]] == char


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$(B)", "$(B)"),
        ("$(A", "$(A"),
        ("$A ${A}", "$A ${A}"),
        ("$()", "$()"),
    ],
)
def test_expansion_of_kubernetes_table(text: str, expected: str) -> None:
    """The table of the kubelet's own rules."""
    assert expand_references(text, {"A": "1"}).text == expected


def test_variables_refer_to_those_before_them() -> None:
    """A value is expanded like an argument; a later variable is not known yet, a reference stays a reference."""
    env = {"A": "1", "B": "$(A)/$(C)", "C": "$$(A)", "D": None, "E": "x$(D)"}
    assert expand_env(env) == {"A": "1", "B": "1/$(C)", "C": "$(A)", "D": None, "E": None}
    line = "accelerate launch t.py --model_name_or_path $(B) --max_length 9 --per_device_train_batch_size 1"
    launch = parse_launch(["sh", "-c", line], [], {"A": "org", "B": "$(A)/model"}, NO_FILES.get).launch
    assert launch is not None
    assert launch.facts["model"].value == "org/model"
