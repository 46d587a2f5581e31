"""Check the expressions of a policy as an API server does, with errors at their place in the policy file."""

from collections.abc import Iterator, Sequence

from reconciler.kube.cel import Checked, CompileError
from reconciler.kube.objects import SourceRef, format_path
from reconciler.kube.problems import Problem
from reconciler.policy.admission.expressions import PolicyExpression, expressions
from reconciler.policy.admission.policies import Policy

_HINT = "functions and variables are those of Kubernetes 1.37"


def check_policy(policy: Policy) -> list[Problem]:
    """Return problems for expressions that do not compile or have the wrong type."""
    return [problem for one in expressions(policy) for problem in _problems(policy, one)]


def check_policies(policies: Sequence[Policy]) -> list[list[Problem]]:
    """Check several policies."""
    return [check_policy(policy) for policy in policies]


def _problems(policy: Policy, one: PolicyExpression) -> Iterator[Problem]:
    errors: tuple[CompileError, ...]
    if not isinstance(one.result, Checked):
        errors = one.result
    elif one.allowed and one.result.kind.name not in one.allowed:
        wanted = " or ".join(name.removesuffix("_type") for name in one.allowed)
        errors = (CompileError(line=1, column=1, message=f"must evaluate to {wanted}, not {one.result.kind}"),)
    else:
        return
    path = ("spec", *one.path)
    start = policy.document.at(path)
    for error in errors:
        place = locate(start, policy.document.text, one.text, error)
        yield Problem(rule="policy.cel", place=place, field=format_path(path), message=error.message, hint=_HINT)


def locate(start: SourceRef, text: bytes, expression: str, error: CompileError) -> SourceRef:
    """Map a line and column of an expression to the file: the nth non-space character is the same in both.

    This works for plain, quoted, literal and folded scalars, which differ only in whitespace, quotes and escapes (an
    escaped character can shift the column, not the line).
    """
    lines = expression.split("\n")
    before = "".join(lines[: error.line - 1]) + lines[min(error.line, len(lines)) - 1][: error.column - 1]
    skip = len("".join(before.split()))
    source = text.decode("utf-8", "replace").splitlines()
    if not start.line or start.line > len(source):
        return start
    line, column = start.line, start.column
    first = source[line - 1][column - 1 :]
    if first[:1] in ("|", ">"):
        line, column = line + 1, 1
    elif first[:1] in ('"', "'"):
        column += 1
    for number in range(line, len(source) + 1):
        for offset, character in enumerate(source[number - 1][column - 1 :]):
            if not character.isspace():
                if skip == 0:
                    return SourceRef(path=start.path, line=number, column=column + offset)
                skip -= 1
        column = 1
    return start
