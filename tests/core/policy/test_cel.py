"""CEL as Kubernetes 1.36 speaks it: the same answers, the same refusals, and no way to hurt the process."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.policy.cel import Clause, EvaluationError, activation, check, compose, named_type
from reconciler.core.policy.cel.library.strings import whole_match
from reconciler.core.policy.cel.tokens import fields, tokens, write
from tests.core.policy.cel_cases import OBJECT, REFUSED, TRUE

NAMES = ("kubernetes.io/metadata.name", "cel-cases")
REVIEW = {"group": "", "version": "v1"}
VALUES: dict[str, Any] = {
    "object": OBJECT,
    "oldObject": None,
    "request": {
        "operation": "CREATE",
        "name": "probe",
        "namespace": "cel-cases",
        "kind": {**REVIEW, "kind": "ConfigMap"},
        "resource": {**REVIEW, "resource": "configmaps"},
    },
    "namespaceObject": {"metadata": {"name": "cel-cases", "labels": dict([NAMES])}},
}


def types() -> dict[str, Any]:
    dyn = named_type("dyn")
    return {
        "object": dyn,
        "oldObject": dyn,
        "request": dyn,
        "namespaceObject": dyn,
        "authorizer": named_type("authorizer"),
    }


def evaluate(expression: str, variables: tuple[tuple[str, str], ...] = (), **values: Any) -> Any:
    program = compose([Clause(expression=expression, variables=variables)])
    return program.evaluate(activation({**VALUES, **values}))


@pytest.mark.parametrize("expression", TRUE)
def test_true(expression: str) -> None:
    kind, faults = check(expression, types())
    assert faults == ()
    assert kind.name() == "BOOL"
    assert evaluate(expression) is True


@pytest.mark.parametrize("expression", REFUSED)
def test_refused(expression: str) -> None:
    kind, faults = check(expression, types())
    assert faults or kind.name() != "BOOL"


def test_a_fault_has_its_line_and_column() -> None:
    (fault,) = check("object.kind == 'x' &&\n  quantity('1').isLessThan(2)", types())[1]
    assert (fault.line, fault.column) == (2, 27)
    assert fault.message == "found no matching overload for 'isLessThan' applied to '(quantity, int)'"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("object.nothing == 1", 'Key not found in map : "nothing"'),
        ("quantity('x') == quantity('1')", "'x' is not a quantity"),
        ("[1, 2][3] == 1", "index"),
        ("1 / 0 == 1", "divide by zero"),
        ("9223372036854775807 + 1 > 0", "overflow"),
        ("[].map(x, int(x)).max() == 1", "optional.none() dereference"),
        ("lists.range(1000000000).size() > 1", "is not between 0 and 10000"),
        ("[1].map(x, {'a': x}).sum() == 1", "sum() requires a list of numbers"),
        ("'a'.matches('(')", "invalid regular expression"),
        ("'a'.find('(') == ''", "invalid regular expression"),
        ("object.data.text", None),
        ("object", "the result is map<dyn, dyn>, not bool or string"),
        ("optional.of(1)", "the result is neither bool nor string"),
    ],
)
def test_errors_are_errors(expression: str, words: str | None) -> None:
    if words is None:
        assert evaluate(expression) == "abcabc"
        return
    with pytest.raises(EvaluationError) as raised:
        evaluate(expression)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("expression", "what"),
    [
        ("authorizer.group('').resource('pods').check('get').allowed()", "authorizer"),
        ("request.userInfo.username == 'admin'", "request.userInfo"),
        ("has(request.userInfo.username)", "request.userInfo"),
        ("has(request.userInfo)", "request.userInfo"),
        ("request.?userInfo.hasValue()", "request.userInfo"),
        ("request.options.dryRun == true", "request.options"),
        ("[request].exists(r, has(r.userInfo))", "request"),
        ("variables.who == 'admin'", "request.userInfo"),
    ],
)
def test_what_only_a_live_server_knows_is_no_answer(expression: str, what: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        evaluate(expression, (("who", "request.userInfo.username"),))
    assert raised.value.unanswerable == what


def test_an_answer_that_needs_no_live_server_is_given() -> None:
    assert evaluate("object.kind == 'ConfigMap' || request.userInfo.username == 'admin'") is True


def test_variables_are_bound_in_order_and_only_where_they_are_read() -> None:
    variables = (("a", "[1, 2]"), ("broken", "object.nothing"), ("b", "variables.a.map(x, x * 2)"))
    assert evaluate("variables.b.sum() == 6 // variables.broken", variables) is True
    assert evaluate("true || variables.broken == 1", variables) is True
    assert evaluate("'variables.broken' == 'variables.' + 'broken'", variables) is True
    with pytest.raises(EvaluationError, match="nothing"):
        evaluate("variables.broken == 1", variables)


@pytest.mark.parametrize(
    "text",
    [
        r"""r'\d' == 'variables.a' || variables.a""",
        r'''"""a "variables.b" \""" """ == "x" || variables.a''',
        r"""r"\d" + "variables.b" == "x" || variables.a""",
        "b'variables.b' == b'x' || variables.a // variables.b",
        "variables . a || object.variables.b",
    ],
)
def test_names_inside_strings_and_fields_are_left_alone(text: str) -> None:
    """Strings, raw strings, comments and fields of other objects are no references."""
    assert fields(tokens(text), "variables") == {"a"}
    values = {"object": {"variables": {"b": False}}}
    assert evaluate(text, (("a", "true"), ("b", "object.nothing")), **values) is True


def test_joined_programs_share_variables_and_hide_no_error() -> None:
    """What several policies bind alike is one binding; `error && true` stays an error."""
    good = Clause(expression="variables.x == 1", variables=(("x", "1"),))
    other = Clause(expression="variables.x == 2", variables=(("x", "2"),))
    broken = Clause(expression="object.nothing == 1")
    assert compose([good, other, good]).evaluate(activation(VALUES)) is True
    with pytest.raises(EvaluationError):
        compose([good, broken, other]).evaluate(activation(VALUES))


def test_renamed_parameters_stay_apart() -> None:
    parts = [Clause(expression=f"params.n == {n}", renamed=(("params", f"params_{n}"),)) for n in (1, 2)]
    values = {**VALUES, "params_1": {"n": 1}, "params_2": {"n": 2}}
    program = compose(parts)
    assert program.evaluate(activation(values)) is True
    assert {"params_1", "params_2"} <= program.reads


HOSTILE = {
    "nested loops": "lists.range(10000).all(a, lists.range(10000).all(b, a + b >= 0))",
    "regex bomb": "('a' + [1,2,3,4,5].map(x, 'aaaaaaaaaaaaaaaaaaaaaaaa').join('') + '!').matches('^(a+)+$')",
    "regex bomb to find": "('a' + [1,2,3,4,5].map(x, 'aaaaaaaaaaaaaaaaaaaaaaaa').join('') + '!').find('^(a+)+$') != ''",
    "large repetition": "'a'.matches('((a{1000}){1000}){1000}')",
    "deep parentheses": "(" * 5000 + "true" + ")" * 5000,
    "deep lists": "[" * 5000 + "]" * 5000 + " == []",
    "many signs": "!" * 50000 + "true",
    "long chain": "&&".join(["true"] * 15000) + "&& false",
    "too long": "'" + "x" * 200_000 + "' == ''",
    "optional in a function": "dyn(optional.of(1)).isLessThan(quantity('1'))",
    "optional in a list": "[optional.of(1)].sum() == 1",
    "optionals to sort": "[optional.of(1), optional.none()].max() == 1",
    "optional in a map": "ip(dyn({'a': optional.of(1)})).family() == 4",
    "optional in a nested list": "[[optional.of(1)]].indexOf(1) == 0",
    "wide format": "'%.1000000000f'.format([1.0]) == ''",
    "NUL": "'\\u0000' == object.kind",
    "no strings": "'\ud7ff' == 1",
    "time": "timestamp('9999-12-31T23:59:59Z') + duration('87600h') > timestamp('2024-01-01T00:00:00Z')",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_expressions_end_quickly_and_kill_nobody(name: str) -> None:
    """F-054's spirit for policies: in a process of its own, an answer or an error within seconds, and no crash."""
    program = (
        "import resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from reconciler.core.policy.cel import Clause, EvaluationError, activation, compose\n"
        "expression = sys.stdin.read()\n"
        "try:\n"
        "    value = compose([Clause(expression=expression)]).evaluate(activation({'object': {'kind': 'x'}}))\n"
        "    sys.exit(3 if value is True else 0)\n"
        "except (EvaluationError, RuntimeError):\n"
        "    sys.exit(0)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], input=HOSTILE[name].encode(), timeout=60, check=False, capture_output=True
    )
    assert result.returncode == 0, result.stderr.decode()[-2000:]


def test_an_object_cannot_pose_as_a_quantity() -> None:
    """Opaque values are bytes, which JSON does not have."""
    for pose in ("quantity:1/1", {"quantity": "1/1"}, ["quantity:1/1"], 1):
        with pytest.raises(EvaluationError):
            evaluate("object.pose.isLessThan(quantity('2'))", object={"pose": pose})


@pytest.mark.parametrize(
    ("pattern", "whole"),
    [
        ("a(b)c", "(a(?:b)c)"),
        (r"\((b)", r"(\((?:b))"),
        ("[(](?:b)", "([(](?:b))"),
        ("[]()](b)", "([]()](?:b))"),
        ("[^]()](b)", "([^]()](?:b))"),
        ("(?P<name>b)(?<other>c)", "((?:b)(?:c))"),
        (r"\Q(a)\E(b)", r"(\Q(a)\E(?:b))"),
        ("(?i)a", "((?i)a)"),
    ],
)
def test_a_pattern_becomes_one_group(pattern: str, whole: str) -> None:
    assert whole_match(pattern) == whole


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab.?()[]{}'\"\\ variables,:&|!=0123\n/`", max_size=40))
def test_any_text_gives_faults_or_a_type(text: str) -> None:
    """The checker and the tokens take any text; nothing but a Fault comes of it."""
    kind, faults = check(text, types())
    assert (kind is None) == bool(faults)
    assert all(fault.line >= 1 and fault.column >= 0 and fault.message for fault in faults)
    if not faults:
        assert tokens(write(tokens(text))) == tokens(text)
