"""Type-check the expressions of a policy as an API server does, with errors at their place in the policy file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reconciler.core.objects import FieldPath, SourceRef, format_path
from reconciler.core.policy.admission.policies import Policy
from reconciler.core.policy.cel import CompileError, check, named_type
from reconciler.core.policy.cel.tokens import fields, tokens
from reconciler.core.problems import Problem

_HINT = "functions and variables are those of Kubernetes 1.36"
_FIELDS = {
    "request": frozenset(
        ("kind", "resource", "subResource", "requestKind", "requestResource", "requestSubResource", "name",
         "namespace", "operation", "userInfo", "dryRun", "options")
    ),
    "namespaceObject": frozenset(("metadata", "spec", "status")),
}  # fmt: skip
"""Fields that an API server's checker knows (k8s.io/apiserver/pkg/admission/plugin/cel/compile.go)."""
_UNSUPPORTED = ("transformMap", "transformMapEntry")


def check_policy(policy: Policy) -> list[Problem]:
    """Return problems for expressions that do not compile or have the wrong type."""
    return _PolicyCheck(policy).run()


def check_policies(policies: Sequence[Policy]) -> list[list[Problem]]:
    """Check several policies."""
    return [check_policy(policy) for policy in policies]


class _PolicyCheck:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.problems: list[Problem] = []
        dyn = named_type("dyn")
        self.types: dict[str, Any] = dict.fromkeys(("object", "oldObject", "request", "namespaceObject"), dyn)
        if policy.params:
            self.types["params"] = dyn
        self.user = {"authorizer": named_type("authorizer"), "authorizer.requestResource": named_type("resource-check")}

    def run(self) -> list[Problem]:
        """Check in the order in which names are declared: match conditions cannot use variables."""
        for index, item in enumerate(self.policy.conditions):
            self._check(item.text, ("matchConditions", index, "expression"), "bool", {**self.types, **self.user})
        for index, item in enumerate(self.policy.variables):
            path = ("variables", index, "expression")
            kind = self._check(item.text, path, "", {**self.types, **self.user})
            self.types[f"variables.{item.name}"] = kind or named_type("dyn")
        for index, validation in enumerate(self.policy.validations):
            path = ("validations", index, "expression")
            self._check(validation.expression, path, "bool", {**self.types, **self.user})
            if validation.message_expression:
                path = ("validations", index, "messageExpression")
                self._check(validation.message_expression, path, "string", self.types)
        for index, item in enumerate(self.policy.annotations):
            self._check(item.text, ("auditAnnotations", index, "valueExpression"), "string null", self.types)
        return self.problems

    def _check(self, expression: str, rest: FieldPath, types_allowed: str, types: Mapping[str, Any]) -> Any:
        path = ("spec", *rest)
        # Only declare the variables it uses: most expressions then share a type checking environment.
        used = {f"variables.{name}" for name in fields(tokens(expression), "variables")}
        known = {name: kind for name, kind in types.items() if not name.startswith("variables.") or name in used}
        kind, errors = check(expression, known)
        errors = errors or tuple(_unknown_fields(expression))
        for error in errors:
            self._add(path, expression, error)
        if not errors and types_allowed and kind.name().lower() not in types_allowed.split():
            message = f"must evaluate to {types_allowed.replace(' ', ' or ')}, not {kind.name().lower()}"
            self._add(path, expression, CompileError(line=1, column=1, message=message))
        for name in _UNSUPPORTED:
            if not errors and f".{name}(" in expression:
                message = f"{name} is valid on an API server, but not supported here"
                self._add(path, expression, CompileError(line=1, column=1, message=message))
        return None if errors else kind

    def _add(self, path: FieldPath, expression: str, error: CompileError) -> None:
        place = locate(self.policy.document.at(path), self.policy.document.text, expression, error)
        self.problems.append(
            Problem(rule="policy.cel", place=place, field=format_path(path), message=error.message, hint=_HINT)
        )


def _unknown_fields(expression: str) -> Iterator[CompileError]:
    """Yield unknown fields of variables whose type is dynamic for the checker."""
    for root, known in _FIELDS.items():
        for name in sorted(fields(tokens(expression), root) - known - {""}):
            before = expression[: max(expression.find(f"{root}.{name}"), 0)]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            yield CompileError(line=line, column=column, message=f"{root} has no field {name!r}")


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
