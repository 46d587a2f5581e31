"""`DefinitionRule`: one entry of `x-kubernetes-validations`, checked and built on first use."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from reconciler.core.cel import Activation, CelError, CelType, Checked, Declarations, Program, build, check
from reconciler.core.cel.program import CostExceededError
from reconciler.core.cel.types import optional_of, type_of
from reconciler.core.cel.values import MISSING, NONE, Optional
from reconciler.core.objects import FieldPath
from reconciler.core.patterns import later
from reconciler.core.schemas.rules.shape import Shape
from reconciler.core.schemas.schema import RuleAllowance

_OLD = "oldSelf"
_MAX_MESSAGE_BYTES = 5 * 1024
"""An API server ignores a longer result of a messageExpression (k8s.io/apiserver/pkg/apis/cel)."""
_STEP = later(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_REASONS = {
    "FieldValueRequired": "is required: ",
    "FieldValueForbidden": "is forbidden: ",
    "FieldValueDuplicate": "is a duplicate: ",
}
_MOST = 10_000_000
"""The most steps of all rules of an object."""
_LONGEST = 120  # characters of a rule that a hint shows


class RuleBudget:
    """The steps that are left to all rules of one object."""

    def __init__(self, allowance: RuleAllowance | None = None) -> None:
        self._left, self._allowance = _MOST, allowance

    def spend(self, steps: int) -> None:
        """Take steps away. Raises CostExceededError if nothing is left."""
        self._left -= steps
        if self._allowance is not None:
            self._allowance.left -= steps
        if self._left < 0:
            raise CostExceededError


class DefinitionRule:
    """A rule about the values of a shape."""

    def __init__(self, source: Mapping[str, Any], shape: Shape) -> None:
        self.text = str(source.get("rule") or "")
        self.message = str(source.get("message") or "").strip()
        self.message_text = str(source.get("messageExpression") or "").strip()
        self.field = read_path(str(source.get("fieldPath") or "")) or ()
        self.takes_absence = source.get("optionalOldSelf") is True
        self._reason = _REASONS.get(str(source.get("reason") or ""), "")
        self.shape = shape

    @property
    def hint(self) -> str:
        """What to do about a value that breaks the rule."""
        shown = _one_line(self.text)
        return f"the definition requires {shown if len(shown) <= _LONGEST else f'{shown[: _LONGEST - 1]}…'}"

    @cached_property
    def compares(self) -> bool:
        """Whether the rule looks at the value before the change."""
        return _OLD in self.text and self.program is not None and _OLD in self.program.reads

    @cached_property
    def declared(self) -> Declarations:
        """The variables of the rule and the types of objects."""
        kind = self.shape.type or type_of("dyn")
        variables: dict[str, CelType] = {"self": kind, _OLD: optional_of(kind) if self.takes_absence else kind}
        return Declarations(variables=variables, objects=self.shape.declared)

    @cached_property
    def checked(self) -> Checked | None:
        """The rule with its type; None if it does not compile."""
        found = check(self.text, self.declared)
        return found if isinstance(found, Checked) and found.kind.name == "bool" else None

    @cached_property
    def program(self) -> Program | None:
        """The program of the rule; None if it does not compile."""
        return None if self.checked is None else build(self.checked)

    def leads_to_field(self, path: FieldPath | None) -> bool:
        """Return whether there is a field at a path below the value."""
        shape: Shape | None = self.shape
        for name in path or ():
            if shape is not None:
                shape = shape.properties.get(str(name)) if shape.items is None else shape.items
        return bool(path) and shape is not None

    @cached_property
    def _message_program(self) -> Program | None:
        found = check(self.message_text, self.declared) if self.message_text else None
        return build(found) if isinstance(found, Checked) else None

    def failure(self, value: Any, old: Any, budget: "RuleBudget") -> str:
        """Return why a value breaks the rule; empty if it does not. `old` is MISSING if there is none.

        Raises CostExceededError.
        """
        if self.program is None:
            return ""
        before = (NONE if old is MISSING else Optional(old)) if self.takes_absence else old
        variables = {"self": value} if before is MISSING else {"self": value, _OLD: before}
        activation = Activation(variables, {})
        try:
            if self.program.evaluate(activation) is True:
                return ""
        except CelError as error:
            return f"{error} in the rule: {self.message or _one_line(self.text)}"
        finally:
            budget.spend(activation.spent)
        told = self._told(activation) or self.message or f"failed rule: {_one_line(self.text)}"
        return f"{self._reason}{told}"

    def _told(self, activation: Activation) -> str:
        """Return the result of the messageExpression; empty if an API server would ignore it."""
        try:
            told = self._message_program.evaluate(activation) if self._message_program is not None else ""
        except CelError:
            return ""
        text = told.strip() if isinstance(told, str) else ""
        return "" if "\n" in text or len(text.encode()) > _MAX_MESSAGE_BYTES else text


def read_path(text: str) -> FieldPath | None:
    """Read `.spec.names['a-b']`, the path of a field below a value; None if it is malformed."""
    path: list[str] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            return None
        path.append(next(group for group in match.groups() if group is not None).replace("\\'", "'"))
        position = match.end()
    return tuple(path)


def _one_line(text: str) -> str:
    return " ".join(text.split())
