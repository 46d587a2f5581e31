"""CEL as Kubernetes 1.37 speaks it: the same answers, the same refusals, and no way to hurt the process."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.kube.cel import (
    Activation,
    CelError,
    Checked,
    CompileError,
    Declarations,
    LiveMap,
    Program,
    build,
    check,
    type_of,
)
from tests.kube.cel.cel_cases import NESTED, OBJECT, REFUSED, TRUE

NAMES = ("kubernetes.io/metadata.name", "cel-cases")
REVIEW = {"group": "", "version": "v1"}
VALUES: dict[str, Any] = {
    "object": OBJECT,
    "oldObject": None,
    "request": LiveMap(
        {
            "operation": "CREATE",
            "name": "probe",
            "namespace": "cel-cases",
            "kind": {**REVIEW, "kind": "ConfigMap"},
            "resource": {**REVIEW, "resource": "configmaps"},
        },
        {name: f"request.{name}" for name in ("userInfo", "options")},
    ),
    "namespaceObject": {"metadata": {"name": "cel-cases", "labels": dict([NAMES])}},
}


NAMES_OF_VARIABLES = ("object", "oldObject", "request", "namespaceObject")
DECLARED = Declarations(
    variables={**{name: type_of("dyn") for name in NAMES_OF_VARIABLES}, "authorizer": type_of("authorizer")}
)


def checked(expression: str) -> tuple[str, tuple[CompileError, ...]]:
    """Return the type of an expression, and its errors."""
    found = check(expression, DECLARED)
    return (str(found.kind), ()) if isinstance(found, Checked) else ("", found)


def program_of(expression: str, variables: tuple[tuple[str, str], ...] = ()) -> Program:
    known: dict[str, Program] = {}
    kinds = {**DECLARED.variables, "params": type_of("dyn")}
    objects = {"variables": {name: type_of("dyn") for name, _ in variables}}
    kinds["variables"] = type_of("variables")
    for name, text in (*variables, ("", expression)):
        found = check(text, Declarations(variables=kinds, objects=objects))
        assert isinstance(found, Checked), found
        known = {**known, name: build(found, known)}
    return known[""]


def evaluate(expression: str, variables: tuple[tuple[str, str], ...] = (), **values: Any) -> Any:
    return program_of(expression, variables).evaluate(Activation({**VALUES, **values}))


@pytest.mark.parametrize("expression", TRUE)
def test_true(expression: str) -> None:
    assert checked(expression) == ("bool", ())
    assert evaluate(expression) is True


@pytest.mark.parametrize("expression", REFUSED)
def test_refused(expression: str) -> None:
    kind, faults = checked(expression)
    assert faults or kind != "bool"


def test_a_fault_has_its_line_and_column() -> None:
    (fault,) = checked("object.kind == 'x' &&\n  quantity('1').isLessThan(2)")[1]
    assert (fault.line, fault.column) == (2, 27)
    assert fault.message == "found no matching overload for 'isLessThan' applied to 'kubernetes.Quantity.(int)'"


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("object.nothing == 1", "no such key: nothing"),
        ("quantity(object.kind) == quantity('1')", "'ConfigMap' is not a quantity"),
        ("[1, 2][3] == 1", "index out of bounds"),
        ("has(dyn([1]).x)", "unsupported index type 'string' in list"),
        ("dyn([1]).?x.hasValue()", "unsupported index type 'string' in list"),
        ("dyn([1])[?'x'].hasValue()", "unsupported index type 'string' in list"),
        ("optional.of(dyn([1])).x.hasValue()", "unsupported index type 'string' in list"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("9223372036854775807 + 1 > 0", "integer overflow"),
        ("-object.lowest > 0", "integer overflow"),
        ("object.lowest / -1 > 0", "integer overflow"),
        ("[9223372036854775807, 1].sum() > 0", "integer overflow"),
        ("1u - 2u > 0u", "unsigned integer overflow"),
        ("int(object.data.spaces) == 42", "type conversion error from 'string' to 'int'"),
        ("duration(object.data.text) > duration('1s')", "type conversion error"),
        (
            "timestamp('9999-12-31T23:59:59Z') + duration('1h') > timestamp('2024-01-01T00:00:00Z')",
            "timestamp overflow",
        ),
        ("[].map(x, int(x)).max() == 1", "max called on empty list"),
        ("lists.range(1000000000).size() > 1", "actual cost limit exceeded"),
        ("[dyn(1), dyn('a')].sum() == 1", "no such overload"),
        ("dyn(1).orValue(2) == 1", "no such overload"),
        ("dyn(1).or(optional.of(2)).value() == 1", "no such overload"),
        ("'a'.matches('(' + object.kind)", "invalid regular expression"),
        ("'a'.find('(' + object.kind) == ''", "invalid regular expression"),
        ("'a'.matches(object.foreign)", "invalid escape sequence"),
        ("object.data.text && true", "no such overload"),
        ("object.data.text == 'x' ? true : object.kind.name == 'y'", "no such overload"),
    ],
)
def test_errors_are_errors(expression: str, words: str) -> None:
    data = {"text": "abcabc", "spaces": " 42 "}
    with pytest.raises(CelError) as raised:
        evaluate(expression, object={"kind": "ConfigMap", "data": data, "lowest": -(2**63), "foreign": "\\C"})
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
        ("[request].exists(r, has(r.userInfo))", "request.userInfo"),
        ("variables.who == 'admin'", "request.userInfo"),
    ],
)
def test_what_only_a_live_server_knows_is_no_answer(expression: str, what: str) -> None:
    with pytest.raises(CelError) as raised:
        evaluate(expression, (("who", "request.userInfo.username"),))
    assert raised.value.unanswerable == what


def test_an_answer_that_needs_no_live_server_is_given() -> None:
    assert evaluate("object.kind == 'ConfigMap' || request.userInfo.username == 'admin'") is True


def test_variables_are_bound_in_order_and_only_where_they_are_read() -> None:
    variables = (("a", "[1, 2]"), ("broken", "object.nothing"), ("b", "variables.a.map(x, x * 2)"))
    assert evaluate("variables.b.sum() == 6 // variables.broken", variables) is True
    assert evaluate("true || variables.broken == 1", variables) is True
    assert evaluate("'variables.broken' == 'variables.' + 'broken'", variables) is True
    with pytest.raises(CelError, match="nothing"):
        evaluate("variables.broken == 1", variables)


def test_a_variable_can_be_tested_and_can_be_optional() -> None:
    variables = (("a", "object.?data.?text"), ("b", "object.kind"))
    assert evaluate("has(variables.b) && variables.a.orValue('') == 'abcabc'", variables) is True
    assert evaluate("variables.?b.orValue('') == 'ConfigMap'", variables) is True


def test_null_has_no_fields_but_can_be_asked_for_them() -> None:
    assert evaluate("oldObject.?spec.?replicas.orValue(0) == 0 && !params.?data.hasValue()") is True
    assert evaluate("has(oldObject.spec) || has(object.kind.x)") is False
    with pytest.raises(CelError):
        evaluate("oldObject.spec == null")


def test_deep_and_long_expressions_are_evaluated_within_the_limits_of_a_server() -> None:
    assert evaluate("(" * 200 + "true" + ")" * 200) is True
    assert evaluate("lists.range(50000).all(x, x >= 0)") is True
    assert "recursion limit" in checked("(" * 5000 + "true" + ")" * 5000)[1][0].message


@pytest.mark.parametrize(("opener", "closer", "most"), NESTED)
def test_expressions_may_nest_as_deeply_as_on_a_server(opener: str, closer: str, most: int) -> None:
    """Operands on the right are deeper than others, by the rules of the parser of a server."""
    before = sys.getrecursionlimit()
    assert evaluate(f"dyn({opener * most}1{closer * most}) != 0") is True
    assert "recursion" in checked(f"dyn({opener * (most + 1)}1{closer * (most + 1)}) != 0")[1][0].message
    assert sys.getrecursionlimit() == before


@pytest.mark.parametrize(
    "expression",
    ["[?dyn(1)].size() == 1", "{?'a': object.kind}.size() == 1", "{b'a': 1}.size() == 1", "{dyn(b'a'): 1}.size() == 1"],
)
def test_what_a_server_panics_on_is_refused(expression: str) -> None:
    """It answers nothing, and closes the connection."""
    assert checked(expression)[1]


@pytest.mark.parametrize("item", ["b'a'", "semver('1.0.0')", "format.uuid()"])
def test_what_has_no_hash_is_in_no_literal(item: str) -> None:
    for items in ("['a', 'b']", "{'a': 1}"):
        with pytest.raises(CelError, match="unhashable"):
            evaluate(f"!(dyn({item}) in {items})")
    assert evaluate(f"!(dyn({item}) in dyn(['a']))") is True


def test_a_condition_keeps_an_optional_value_in_another() -> None:
    """Before Kubernetes 1.37, a condition took the inner one for its content."""
    assert evaluate("optional.of(1).optMap(x, dyn(optional.of(x))).value() == 1") is False
    assert evaluate("(true ? optional.of(dyn(optional.of(1))) : optional.none()).value() == 1") is False
    assert evaluate("optional.of(dyn(optional.of(1))).value() == 1") is False


def test_constants_in_odd_places_warn_nobody() -> None:
    """Python warns of code that compares a number by `is`, or asks one for an item."""
    program = """
from reconciler.kube.cel import Activation, Declarations, build, check
for expression in ("dyn(1) || true", "dyn(null).x == 1 || true", "dyn(1)[0] == 1 || true"):
    print(build(check(expression, Declarations(variables={}))).evaluate(Activation({})))
"""
    ran = subprocess.run([sys.executable, "-W", "default", "-c", program], capture_output=True, text=True, check=False)
    assert (ran.stdout.split(), ran.stderr) == (["True"] * 3, "")


def test_chains_add_up() -> None:
    """A server counts selections and operators that are in each other, of whatever kind."""
    assert not checked(f"dyn(object{'.a' * 124}{' + 1' * 124}) != 0")[1]
    assert "recursion" in checked(f"dyn(object{'.a' * 126}{' + 1' * 126}) != 0")[1][0].message


@pytest.mark.parametrize("pieces", [(" + 1", "1"), (".a", "object"), (".map(x, x)", "[1]")])
def test_chains_within_chains_are_refused(pieces: tuple[str, str]) -> None:
    """Each is short for the parser; together they are deeper than a process has frames."""
    link, text = pieces
    for _ in range(40):
        text = f"({text}){link * 200}"
    assert "max recursion depth" in checked(f"dyn({text}) != 0")[1][0].message


@pytest.mark.parametrize(
    "expression",
    [
        "int(' 42 ') == 42",
        "bool(string(1.5))",
        "timestamp(string(1e308)) == timestamp(0)",
        "duration(1) == duration('1s')",
    ],
)
def test_constants_that_cannot_be_converted_are_refused(expression: str) -> None:
    assert checked(expression)[1]


def test_what_costs_too_much_ends_the_expression_wherever_it_is() -> None:
    """Other errors are no answer that `||` and macros can do without; this one ends all."""
    with pytest.raises(CelError, match="cost limit exceeded"):
        evaluate("lists.range(2000).all(a, lists.range(2000).all(b, a + b >= 0)) || true")


def test_equal_parameters_are_evaluated_once_and_others_apart() -> None:
    program = program_of("variables.n == 1", (("n", "params.n"),))
    values = Activation(VALUES)
    values.bind(1, {"n": 1})
    assert program.evaluate(values) is True
    values.bind(2, {"n": 2})
    assert program.evaluate(values) is False
    assert "params" in program.reads


HOSTILE = {
    "nested loops": "lists.range(10000).all(a, lists.range(10000).all(b, a + b >= 0))",
    "regex bomb": "('a' + [1,2,3,4,5].map(x, 'aaaaaaaaaaaaaaaaaaaaaaaa').join('') + '!').matches('^(a+)+$')",
    "regex bomb to find": "('a' + [1,2,3,4,5].map(x, 'aaaaaaaaaaaaaaaaaaaaaaaa').join('') + '!').find('^(a+)+$') != ''",
    "large repetition": "'a'.matches('((a{1000}){1000}){1000}')",
    "deep parentheses": "(" * 5000 + "true" + ")" * 5000,
    "deep lists": "[" * 5000 + "]" * 5000 + " == []",
    "chains in chains": "(" * 40 + "object" + (".a" * 200 + ")") * 40 + " == 1",
    "many signs": "!" * 49999 + "true",
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
        "from reconciler.kube.cel import Activation, CelError, Checked, Declarations, build, check, type_of\n"
        "found = check(sys.stdin.read(), Declarations(variables={'object': type_of('dyn')}))\n"
        "if not isinstance(found, Checked):\n"
        "    sys.exit(0)\n"
        "try:\n"
        "    value = build(found).evaluate(Activation({'object': {'kind': 'x'}}))\n"
        "    sys.exit(3 if value is True else 0)\n"
        "except CelError:\n"
        "    sys.exit(0)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], input=HOSTILE[name].encode(), timeout=60, check=False, capture_output=True
    )
    assert result.returncode == 0, result.stderr.decode()[-2000:]


def test_an_object_cannot_pose_as_a_quantity() -> None:
    """Opaque values are bytes, which JSON does not have."""
    for pose in ("quantity:1/1", {"quantity": "1/1"}, ["quantity:1/1"], 1):
        with pytest.raises(CelError):
            evaluate("object.pose.isLessThan(quantity('2'))", object={"pose": pose})


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("'abc'.findAll('x*')", ["", "", "", ""]),
        ("'a(b)c'.findAll('[a-c]', 2)", ["a", "b"]),
        ("'1(2)'.find('[(](?P<n>[0-9])[)]')", "(2)"),
        ("'abcabc'.lastIndexOf('')", 6),
        ("'%.1f %e'.format([1234.5, 1052.032911275])", "1,234.5 1.052033 × 10⁰³"),
        ("'%s'.format([{'b': 1, 'a': 'x'}])", '{"a":"x", "b":1}'),
        ("string(1e21) + ' ' + string(0.00001)", "1e+21 1e-05"),
        ("[1, 2].transformMap(i, v, v * 2)", {0: 2, 1: 4}),
        ("string(duration('1h30m'))", "5400s"),
        ("string(timestamp('2024-02-30T00:00:00Z' == '' ? '' : '2024-02-28T24:00:00+01:00'))", None),
        ("r'\\d' + b'x' == b'' ? '' : ''", None),
    ],
)
def test_values(expression: str, found: object) -> None:
    if found is None:
        with pytest.raises((CelError, AssertionError)):
            evaluate(expression)
    else:
        assert evaluate(expression) == found


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="ab.?()[]{}'\"\\ variables,:&|!=0123\n/`", max_size=40))
def test_any_text_gives_faults_or_a_type(text: str) -> None:
    """The checker takes any text; nothing but a CompileError comes of it."""
    kind, faults = checked(text)
    assert bool(kind) != bool(faults)
    assert all(fault.line >= 1 and fault.column >= 1 and fault.message for fault in faults)


def test_regular_expressions_read_past_a_null_character() -> None:
    """A text does not end there: what follows could be a secret."""
    assert evaluate("object.matches('b') && object.findAll('[a-c]') == ['a', 'b']", object="a\x00b")
