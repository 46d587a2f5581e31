"""Quantities: the grammar, rounding and canonical form of apimachinery."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.quantities import canonical, parse_quantity, same_quantity
from tests import sizes
from tests.kube.kubectl_quantities import CASES, KUBECTL, KUBECTL_DIFFERS, RECORDED, ask

SUFFIXES = st.sampled_from(
    ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2"]
)
NUMBERS = st.from_regex(r"[+-]?([0-9]{1,12}(\.[0-9]{0,6})?|\.[0-9]{1,6})", fullmatch=True)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("1Gi", 2**30),
        ("1024Mi", 2**30),
        ("0.5Gi", 2**29),
        ("500m", Fraction(1, 2)),
        (".5", Fraction(1, 2)),
        ("2e3", 2000),
        ("2E3", 2000),
        ("2E", 2 * 10**18),
        ("12e-1", Fraction(6, 5)),
        ("-1", -1),
        ("+1.5k", 1500),
        ("1.", 1),
        ("1n", Fraction(1, 10**9)),
        ("0.1n", Fraction(1, 10**9)),
        ("-0.1n", Fraction(-1, 10**9)),
        ("1e-400", Fraction(1, 10**9)),
        ("9999999999Ei", 2**63 - 1),
        ("99999999999999999999", 99999999999999999999),
        (3, 3),
        (0.5, Fraction(1, 2)),
        (1e21, 10**21),
        (2.0, 2),
    ],
)
def test_value(text: str | float, value: Fraction | int) -> None:
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "1e400Gi",
        "0x10",
        "1 Gi",
        " 1Gi",
        "1Gi ",
        "1gi",
        "1GI",
        "1K",
        "1Zi",
        "1e",
        "1e+",
        "1e1.5",
        "1_000",
        "1,5",
        ".",
        "+",
        "-",
        "--1",
        "+-1",
        "1.2.3",
        "Gi",
        "m",
        "1mm",
        "1Gim",
        "1e3Mi",
        "NaN",
        "inf",
        "one",
        "١",
        "１",
        "1\n",
        "1\x00",
        "1e99999999999",
        "1e-99999999999",
        "9" * 300,
        "1e513",
        float("nan"),
        float("inf"),
        True,
        False,
    ],
)
def test_no_quantity(text: str | float) -> None:
    """Hostile text is no quantity, at once and without a number of a million digits."""
    assert parse_quantity(text) is None
    assert canonical(text) == str(text)
    assert not same_quantity(text, text)


@pytest.mark.parametrize("text", CASES)
def test_canonical_as_kubectl(text: str) -> None:
    """Kubectl parses and prints the same form."""
    expected = RECORDED[text]
    if text in KUBECTL_DIFFERS:
        assert canonical(text) != expected
    elif expected is None:
        assert parse_quantity(text) is None
    else:
        assert canonical(text) == expected


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")
def test_record_live() -> None:
    some = CASES if sizes.LARGE else CASES[::6]
    assert {text: ask(text) for text in some} == {text: RECORDED[text] for text in some}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1Gi", "1024Mi", True),
        ("0.5", "500m", True),
        (1, "1", True),
        (1, "1000m", True),
        ("1G", "1Gi", False),
        ("1k", 1000.0, True),
        ("x", "x", False),
        (None, None, False),
        (True, 1, False),
        ("1", [1], False),
    ],
)
def test_same(one: object, other: object, same: object) -> None:
    assert same_quantity(one, other) is same
    assert same_quantity(other, one) is same


@given(NUMBERS, SUFFIXES)
def test_canonical_form_is_stable_and_exact(number: str, suffix: str) -> None:
    text = number + suffix
    value = parse_quantity(text)
    assert value is not None
    form = canonical(text)
    assert parse_quantity(form) == value
    assert canonical(form) == form
    assert "." not in form
    assert same_quantity(text, form)


@given(st.integers(-(10**9), 10**9), st.integers(1, 5))
def test_the_same_value_in_other_units(number: int, steps: int) -> None:
    binary, decimal = ["", "Ki", "Mi", "Gi", "Ti", "Pi"], ["m", "", "k", "M", "G", "T"]
    assert same_quantity(f"{number}{decimal[steps]}", f"{number * 1000}{decimal[steps - 1]}")
    assert same_quantity(f"{number}{binary[steps]}", f"{number * 1024}{binary[steps - 1]}") or abs(number) > 2**10


@given(st.text(max_size=20) | st.text("0123456789.eEKMGinumk+-", max_size=12))
def test_any_text(text: str) -> None:
    value = parse_quantity(text)
    assert (value is None) == (parse_quantity(canonical(text)) is None)
