"""Policies that somebody prepared: expressions that grow, loop or stop the engine."""

from collections.abc import Mapping
from typing import Any

JOBS = {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["jobs"]}
TIME, MEMORY, MESSAGES = "processor time", "256 MiB of memory", "32 KiB of messages"


def _chain(count: int, first: str, following: str) -> list[tuple[str, str]]:
    """Return variables, each of which uses the one before it."""
    return [("v0", first), *((f"v{n}", following.replace("X", f"variables.v{n - 1}")) for n in range(1, count + 1))]


def _nested(count: int, inner: str, outer: str) -> str:
    for _ in range(count):
        inner = outer.replace("X", inner)
    return inner


HostilePolicy = tuple[str, list[tuple[str, str]], Mapping[str, Any]]
"""The expression of a validation, variables, and further fields of the spec."""


def hostile(expression: str, variables: list[tuple[str, str]] | None = None, **spec: Any) -> HostilePolicy:
    return expression, variables or [], spec


_RANGE = "lists.range(99)"
_MANY_TIMES = f"{_RANGE}.all(i, {_RANGE}.all(j, X))"


def _many_times(expression: str) -> str:
    return _MANY_TIMES.replace("X", expression)


LOOP = hostile(_many_times("variables.v7.indexOf('ab') < 0"), _chain(7, "'a'", "X + X + X + X + X + X + X + X"))
EXPRESSIONS: dict[str, tuple[HostilePolicy, str]] = {
    "a string that doubles": (hostile("variables.v26.size() > 0", _chain(26, "'x' + object.kind", "X + X")), MEMORY),
    "a list that doubles": (hostile("variables.v26.size() > 0", _chain(26, "[object.kind]", "X + X")), MEMORY),
    "a tree that doubles": (
        hostile("variables.v26 == variables.v26", _chain(26, "dyn(object)", "dyn([X, X])")),
        TIME,
    ),
    "replacements that grow": (
        hostile("variables.v9.size() > 0", _chain(9, "string(object.kind)", "X.replace('', 'aaaaaaaaaaaaaaaa')")),
        "actual cost limit exceeded",
    ),
    "joins that grow": (
        hostile("variables.v6.size() > 0", _chain(6, "string(object.kind)", f"{_RANGE}.map(i, X).join('-')")),
        MEMORY,
    ),
    "lists of lists to flatten": (
        hostile("variables.v5.size() > 0", _chain(5, "[object.kind]", f"{_RANGE}.map(i, X).flatten()")),
        TIME,
    ),
    "a long list to sort": (
        hostile("variables.v24.sort().size() > 0", _chain(24, "['b', 'a']", "X + X")),
        MEMORY,
    ),
    "a long string to split": (
        hostile("variables.v24.split('').size() > 0", _chain(24, "string(object.kind)", "X + X")),
        MEMORY,
    ),
    "formats that grow": (
        hostile("variables.v16.size() > 0", _chain(16, "object.kind", "'%s %s %s %s'.format([X, X, X, X])")),
        MEMORY,
    ),
    "regular expressions on a long string": (
        hostile(_many_times("!variables.v19.matches('(a|b|ab)*c')"), _chain(19, "'ab'", "X + X")),
        TIME,
    ),
    "all matches in a long string": (
        hostile("variables.v22.findAll('.').size() > 0", _chain(22, "string(object.kind)", "X + X")),
        TIME,
    ),
    "searches in a long string": (LOOP, TIME),
    "membership in a long list": (hostile(_many_times("!(i in variables.v18)"), _chain(18, "[-1]", "X + X")), TIME),
    "comparisons of long lists": (
        hostile(_many_times("variables.v18 == variables.v18 + []"), _chain(18, "[1]", "X + X")),
        TIME,
    ),
    "sets of long lists": (
        hostile(
            "sets.equivalent(variables.w, [0] + variables.v18)",
            [*_chain(18, "[1]", "X + X"), ("w", "variables.v18.map(x, x + 1)")],
        ),
        "actual cost limit exceeded",
    ),
    "a message that grows": (
        hostile("false", _chain(26, "string(object.kind)", "X + X"), messageExpression="variables.v26"),
        MEMORY,
    ),
    "audit annotations that grow": (
        hostile(
            "true",
            _chain(13, "string(object.kind)", "X + X"),
            auditAnnotations=[{"key": f"k{n}", "valueExpression": "variables.v13"} for n in range(20)],
        ),
        MESSAGES,
    ),
    "a match condition that loops": (
        hostile(
            "true",
            matchConditions=[
                {"name": "c", "expression": _nested(6, "[0]", "lists.range(9).map(x, X)") + ".size() > 0"}
            ],
        ),
        "actual cost limit exceeded",
    ),
}
"""Policies by name, each with the limit that its evaluation exceeds."""


def policy(
    name: str, expression: str, variables: list[tuple[str, str]], spec: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return a policy about Jobs and its binding."""
    validation = {"expression": expression, "message": f"{name} denies"}
    more = dict(spec)
    if message := more.pop("messageExpression", None):
        validation["messageExpression"] = message
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    return [
        {
            **kind,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [JOBS]},
                "variables": [{"name": one, "expression": text} for one, text in variables],
                "validations": [validation],
                **more,
            },
        },
        {
            **kind,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]
