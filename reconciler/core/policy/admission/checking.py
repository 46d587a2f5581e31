"""Every expression of a policy compiled as an API server would, each fault at its line of the policy file."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.objects import FieldPath, SourceRef, format_path
from reconciler.core.policy.admission.policy import Policy
from reconciler.core.policy.cel import Fault, check
from reconciler.core.policy.cel.checker import named_type
from reconciler.core.policy.cel.names import fields, tokens
from reconciler.core.problems import Problem

_HINT = "the functions and variables are those of Kubernetes 1.36"
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
    """Return what does not compile, or compiles to the wrong type."""
    return _Check(policy).run()


class _Check:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.problems: list[Problem] = []
        dyn = named_type("dyn")
        self.types: dict[str, Any] = dict.fromkeys(("object", "oldObject", "request", "namespaceObject"), dyn)
        if policy.params:
            self.types["params"] = dyn
        self.user = {"authorizer": named_type("authorizer"), "authorizer.requestResource": named_type("resource-check")}

    def run(self) -> list[Problem]:
        """Check in the order in which names become known: conditions know no variables."""
        for index, one in enumerate(self.policy.conditions):
            self._check(one.text, ("matchConditions", index, "expression"), "bool", {**self.types, **self.user})
        for index, one in enumerate(self.policy.variables):
            path = ("variables", index, "expression")
            kind = self._check(one.text, path, "", {**self.types, **self.user})
            self.types[f"variables.{one.name}"] = kind or named_type("dyn")
        for index, validation in enumerate(self.policy.validations):
            path = ("validations", index, "expression")
            self._check(validation.expression, path, "bool", {**self.types, **self.user})
            if validation.message_expression:
                path = ("validations", index, "messageExpression")
                self._check(validation.message_expression, path, "string", self.types)
        for index, one in enumerate(self.policy.annotations):
            self._check(one.text, ("auditAnnotations", index, "valueExpression"), "string null", self.types)
        return self.problems

    def _check(self, expression: str, rest: FieldPath, wanted: str, types: Mapping[str, Any]) -> Any:
        path = ("spec", *rest)
        # Only the variables it refers to: most expressions then share one of the checker's environments.
        used = {f"variables.{name}" for name in fields(tokens(expression), "variables")}
        known = {name: kind for name, kind in types.items() if not name.startswith("variables.") or name in used}
        kind, faults = check(expression, known)
        faults = faults or tuple(_unknown_fields(expression))
        for fault in faults:
            self._note(path, expression, fault)
        if not faults and wanted and kind.name().lower() not in wanted.split():
            message = f"must evaluate to {wanted.replace(' ', ' or ')}, and gives {kind.name().lower()}"
            self._note(path, expression, Fault(line=1, column=1, message=message))
        for name in _UNSUPPORTED:
            if not faults and f".{name}(" in expression:
                message = f"{name} compiles on an API server, and this engine cannot run it"
                self._note(path, expression, Fault(line=1, column=1, message=message))
        return None if faults else kind

    def _note(self, path: FieldPath, expression: str, fault: Fault) -> None:
        place = locate(self.policy.document.at(path), self.policy.document.text, expression, fault)
        self.problems.append(
            Problem(rule="policy.cel", place=place, field=format_path(path), message=fault.message, hint=_HINT)
        )


def _unknown_fields(expression: str) -> Iterator[Fault]:
    """Find fields that the checker, which takes these variables for anything, lets through."""
    for root, known in _FIELDS.items():
        for name in sorted(fields(tokens(expression), root) - known - {""}):
            before = expression[: max(expression.find(f"{root}.{name}"), 0)]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            yield Fault(line=line, column=column, message=f"{root} has no field {name!r}")


def locate(start: SourceRef, text: bytes, expression: str, fault: Fault) -> SourceRef:
    """Map a line and column of an expression to the file: the nth sign that is not blank is the same in both.

    That holds for plain, quoted, literal and folded scalars alike, since they differ in blanks, quotes and escapes
    only (an escaped sign may shift the column, not the line).
    """
    lines = expression.split("\n")
    before = "".join(lines[: fault.line - 1]) + lines[min(fault.line, len(lines)) - 1][: fault.column - 1]
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
        for offset, sign in enumerate(source[number - 1][column - 1 :]):
            if not sign.isspace():
                if skip == 0:
                    return SourceRef(path=start.path, line=number, column=column + offset)
                skip -= 1
        column = 1
    return start
