"""Flux's substitution: the examples of its package (github.com/fluxcd/pkg/envsubst), and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.repo.builds.variables import Substitution

VALUES = {
    "var01": "abcdEFGH28ij",
    "path_name": "/home/bozo/ideas/thoughts.for.today",
    "default_var": "foo",
    "empty": "",
}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("abcdEFGH28ij", "abcdEFGH28ij"),
        ("${var01}", "abcdEFGH28ij"),
        ("${#var01}", "12"),
        ("${var01^}", "AbcdEFGH28ij"),
        ("${var01^^}", "ABCDEFGH28IJ"),
        ("${var01,,}", "abcdefgh28ij"),
        ("${path_name:11}", "ideas/thoughts.for.today"),
        ("${path_name:11:5}", "ideas"),
        ("${var01=xyz}", "abcdEFGH28ij"),
        ("${other=xyz}", "xyz"),
        ("${empty:=xyz}", "xyz"),
        ("${other:-xyz}", "xyz"),
        ("something ${other=${default_var}}", "something foo"),
        ("${other:=prefix${default_var}-suffix}", "prefixfoo-suffix"),
        ("${var01/abcd/x}", "xEFGH28ij"),
        ("${var01//[abc/x}", "abcdEFGH28ij"),
        ("${var01/#abcd/x}", "xEFGH28ij"),
        ("${var01/%28ij/x}", "abcdEFGHx"),
        ("${path_name##*/}", "thoughts.for.today"),
        ("${path_name%.*}", "/home/bozo/ideas/thoughts.for"),
        ("$${var01} costs $5", "${var01} costs $5"),
        ("$(HOME) and $var01", "$(HOME) and $var01"),
    ],
)
def test_what_flux_makes_of_it(text: str, result: str) -> None:
    """F-151: as the tests of the package that Flux uses."""
    substitution = Substitution(VALUES)
    assert substitution.apply(text) == result
    assert (substitution.unknown, substitution.refused) == ({}, {})


def test_lines_of_a_value_are_joined() -> None:
    assert Substitution({"a": "one\ntwo"}).apply("${a}") == "onetwo"


def test_names_without_a_value_are_told_once() -> None:
    substitution = Substitution({})
    assert substitution.apply("${A}-${B}-${A}-${C:=c}") == "---c"
    assert [*substitution.unknown] == ["A", "B"]


@pytest.mark.parametrize("text", ["${}", "${a.b}", "${ a }", "${a", "${a+b}", "${a-b}", "${a!}"])
def test_what_flux_refuses(text: str) -> None:
    substitution = Substitution({"a": "1"})
    substitution.apply(text)
    assert len(substitution.refused) == 1


@given(st.text(alphabet="${}ab:=#%/^,-. \n", max_size=40))
def test_any_text_ends(text: str) -> None:
    """Hostile input: no expression makes it fail or grow without limit."""
    assert len(Substitution({"a": "b", "ab": ""}).apply(text)) <= 4 * len(text) + 4
