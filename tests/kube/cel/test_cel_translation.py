"""Expressions as generated functions of Python: what could go wrong only there."""

from typing import Any

import pytest

from reconciler.kube.cel import Activation, CelError, Checked, Declarations, build, check, type_of
from reconciler.kube.cel.library import OVERLOADS, Signature
from reconciler.kube.cel.values import kind_of

DECLARED = Declarations(variables={"object": type_of("dyn")})
SAMPLES: tuple[Any, ...] = ("", "a", "abc", 0, 3, -1, True, False, [], ["a"], [1, "a"], {}, {"a": None}, {"abc": 1})
INLINE = [one for signatures in OVERLOADS.values() for one in signatures if one.inline]


def evaluate(expression: str, value: Any = None) -> Any:
    checked = check(expression, DECLARED)
    assert isinstance(checked, Checked), checked
    return build(checked).evaluate(Activation({"object": value}))


@pytest.mark.parametrize("macro", ["exists", "all", "filter", "map"])
def test_macros_within_each_other(macro: str) -> None:
    """More loops than Python allows within each other, each with a variable of its own."""
    names = [f"n{level}" for level in range(40)]
    found = " + ".join(names)
    body = {"map": found, "filter": f"{found} == 40"}.get(macro, f"({found}) == 40")
    for name in reversed(names):
        body = f"object.{macro}({name}, {body})" if macro in ("exists", "all") else f"[1].{macro}({name}, {body})"
        body = f"{body}.size() == 1" if macro == "filter" else f"{body}[0]" if macro == "map" else body
    assert evaluate(body, [1]) in (True, 40)


def test_branches_keep_the_variables_of_macros_apart() -> None:
    """A large branch is a function of its own, which has variables of its own and takes those that it reads."""
    large = " + ".join(f"a * {number} - b * {number}" for number in range(1, 12))
    expression = f"[1, 2].map(a, [3, 4].map(b, object ? [a, b].map(c, {large} + c)[1] : 0))"
    wanted = [[sum(a * n - b * n for n in range(1, 12)) + b for b in (3, 4)] for a in (1, 2)]
    assert evaluate(expression, value=True) == wanted


@pytest.mark.parametrize("text", ["'", '"', "\\", "\n", "{0}", "{x!r}", "''' + exec('1')", "\x00", "\ud800", "é\u2028"])
def test_texts_and_names_are_never_code(text: str) -> None:
    """Whatever a text contains, it is a constant."""
    quoted = "'" + "".join(f"\\u{ord(one):04x}" if one != "\ud800" else "x" for one in text) + "'"
    text = text.replace("\ud800", "x")
    assert evaluate(f"{quoted} + 'a'") == text + "a"
    assert evaluate(f"object[{quoted}]", {text: 1}) == 1
    assert evaluate(f"{{{quoted}: 1}}") == {text: 1}
    assert evaluate(f"object.contains({quoted})", f"<{text}>") is True


@pytest.mark.parametrize("one", INLINE, ids=lambda one: f"{one.name}-{one.parameters[-1].name}")
def test_inline_expressions_say_what_the_functions_say(one: Signature) -> None:
    compared = 0
    for first in SAMPLES:
        for second in SAMPLES if len(one.parameters) > 1 else ("",):
            values = (first, second)[: len(one.parameters)]
            wanted = ["string" if parameter.is_variable else parameter.name for parameter in one.parameters]
            if [kind_of(value) for value in values] == wanted:
                assert one.run is not None
                assert eval(one.inline.format(*map(repr, values))) == one.run(*values)  # noqa: S307 - of our own
                compared += 1
    assert compared > 1


@pytest.mark.parametrize("name", sorted({one.name for one in INLINE}))
def test_no_earlier_overload_takes_what_an_inline_expression_takes(name: str) -> None:
    kinds = [(one.is_member, *(parameter.name for parameter in one.parameters)) for one in OVERLOADS[name]]
    assert len(set(kinds)) == len(kinds)


def test_a_call_of_constants_fails_when_it_is_evaluated() -> None:
    assert evaluate("object || 'abc'.substring(5) == 'a'", value=True) is True
    with pytest.raises(CelError, match="index out of range"):
        evaluate("object || 'abc'.substring(5) == 'a'", value=False)


@pytest.mark.parametrize("value", [None, 1, "a", [], {"b": 1}])
def test_let_bindings_are_lists_of_one_item(value: Any) -> None:
    """`[value].map(name, …)` and its relatives need no loop, but mean one."""
    assert evaluate("[object].map(x, x) == [object] && [object].filter(x, x == object).size() == 1", value)
    assert evaluate("[object].exists(x, x == object) && ![object].all(x, x != object)", value)
    assert evaluate("[object].map(x, x != object, x) == []", value)
    with pytest.raises(CelError):
        evaluate("[object].all(x, x)", value)


@pytest.mark.parametrize("text", ["", "a", "say bc", "bc a", "<\ud800> d.e", "\ud800", "dxe", "é key "])
@pytest.mark.parametrize("words", [("a", "bc"), ("d.e", "key "), ("(", "a|b", ""), ("bc", "bc")])
def test_words_of_a_text_are_looked_for_together(words: tuple[str, ...], text: str) -> None:
    """Result and steps are those of a loop over the words: `dyn` is a step more for each word, and one for the text."""
    expression = f"[string(object)].exists(t, {list(words)}.exists(w, {{}}.contains(w)))"
    costs = []
    for target in ("t", "dyn(t)"):
        checked = check(expression.format(target), DECLARED)
        assert isinstance(checked, Checked), checked
        activation = Activation({"object": text})
        assert build(checked).evaluate(activation) is any(word in text for word in words)
        costs.append(activation.spent)
    visited = next((number for number, word in enumerate(words, 1) if word in text), len(words))
    assert costs[1] - costs[0] == visited + 1
