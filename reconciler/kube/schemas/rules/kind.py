"""`KindRules`: the rules of a custom kind, evaluated on whole objects, and `DefinitionRule`: one of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from reconciler.kube.cel import Activation, CelError, CelType, Checked, Declarations, Program, build, check
from reconciler.kube.cel.program import CostExceededError
from reconciler.kube.cel.types import optional_of, type_of
from reconciler.kube.cel.values import MISSING, NONE, Optional, UnorderedList
from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import later
from reconciler.kube.problems import Severity, Violation
from reconciler.kube.schemas.rules.shape import ObjectValue, Shape, repr_of
from reconciler.kube.schemas.schema import RULES, Schema, children, read_shared

_SELF = "selfType"
_OLD = "oldSelf"
_MAX_MESSAGE_BYTES = 5 * 1024
"""An API server ignores a longer result of a messageExpression (k8s.io/apiserver/pkg/apis/cel)."""
_STEP = later(r"\.([^.\[\]]+)|\['((?:[^'\\]|\\.)*)'\]|\[\"((?:[^\"\\]|\\.)*)\"\]")
_REASONS = {
    "FieldValueRequired": "is required: ",
    "FieldValueForbidden": "is forbidden: ",
    "FieldValueDuplicate": "is a duplicate: ",
}
_MAX_COUNT = 10_000_000
"""The most steps of all rules of an object."""
_MAX_OF_A_REPOSITORY = 300_000_000
"""Steps: minutes of processor time at most."""
_MAX_LENGTH = 120  # characters of a rule that a hint shows


class RuleAllowance:
    """The steps that are left to the rules of a repository's definitions on all its objects together.

    A server judges one object at a time.
    """

    def __init__(self, most: int = _MAX_OF_A_REPOSITORY) -> None:
        self.left = most


class RuleBudget:
    """The steps that are left to all rules of one object."""

    def __init__(self, allowance: RuleAllowance | None = None) -> None:
        self._left, self._allowance = _MAX_COUNT, allowance

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
        """The hint for a value that breaks the rule."""
        shown = _one_line(self.text)
        return f"the definition requires {shown if len(shown) <= _MAX_LENGTH else f'{shown[: _MAX_LENGTH - 1]}…'}"

    @cached_property
    def compares(self) -> bool:
        """True if the rule looks at the value before the change."""
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
        """Return the reason that a value breaks the rule; empty if it does not. `old` is MISSING if there is none.

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
        except CelError:  # the message of the rule stands in for it
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


class _RulePlace(Struct, kw_only=True):
    """The part of a schema that leads to rules: the rest of an object is not looked at."""

    rules: tuple[DefinitionRule, ...] = ()
    fields: Mapping[str, "_RulePlace"] = field(default_factory=dict)
    items: "_RulePlace | None" = None


class _RuleEvaluation(Struct, frozen=True, kw_only=True):
    """One evaluation: which rules are meant, by the value before, and the steps that they may take."""

    is_meant: Callable[[DefinitionRule, Any], bool]
    budget: RuleBudget


class KindRules:
    """All rules of a kind, or of a `part` of its schema. `allowance`: what they share with other kinds, if limited."""

    def __init__(self, root: Schema, part: Schema | None = None, allowance: RuleAllowance | None = None) -> None:
        self._allowance = allowance
        self._shape = Shape(root, part or root, _SELF)
        self._place = _places(root, part or root, {})

    @cached_property
    def all(self) -> tuple[DefinitionRule, ...]:
        """Every rule."""
        return tuple(_rules(self._place)) if self._place is not None else ()

    @cached_property
    def about_creations(self) -> bool:
        """True if any rule looks at the value before, and also says something where there is none."""
        return any(rule.takes_absence and rule.compares for rule in self.all)

    def violations(self, data: Any) -> Iterator[Violation]:
        """Yield the violations of rules about a value alone."""
        yield from self._evaluate(data, MISSING, lambda rule, _: not rule.compares)

    def transitions(self, data: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[Violation]:
        """Yield the violations of rules about the change from `before`; None: the object is created."""
        old = MISSING if before is None else self._shape.value(before)
        yield from self._evaluate(
            data, old, lambda rule, value: rule.compares and (value is not MISSING or rule.takes_absence)
        )

    def _evaluate(self, data: Any, old: Any, is_meant: Callable[[DefinitionRule, Any], bool]) -> Iterator[Violation]:
        if self._place is None:
            return
        if self._allowance is not None and self._allowance.left < 0:
            message = "the rules of definitions have taken too many steps before this object, so it is not evaluated"
            yield Violation(rule="schema.rule", path=(), message=message, hint="make the rules or the objects simpler")
            return
        run = _RuleEvaluation(is_meant=is_meant, budget=RuleBudget(self._allowance))
        try:
            yield from _walk(self._place, self._shape.value(data), old, (), run)
        except CostExceededError:
            message = "the rules of the definition take too many steps, so not all are evaluated"
            yield Violation(rule="schema.rule", path=(), message=message, hint="make the rules or the object simpler")


def _places(root: Schema, schema: Schema, known: dict[str, _RulePlace | None]) -> _RulePlace | None:
    """Return the places of the rules of a schema; `known` are those of shared definitions."""

    def read(schema: Schema) -> _RulePlace | None:
        fields: dict[str, _RulePlace] = {}
        items = None
        for _, name, below in children(schema):
            found = _places(root, below, known)
            if name is None:
                items = found
            elif found is not None:
                fields[name] = found
        sources = schema.get(RULES) or ()
        if not (fields or items or sources):
            return None
        shape = Shape(root, schema, _SELF)
        return _RulePlace(rules=tuple(DefinitionRule(source, shape) for source in sources), fields=fields, items=items)

    return read_shared(root, schema, known, read)


def _rules(place: _RulePlace) -> Iterator[DefinitionRule]:
    yield from place.rules
    for below in (*place.fields.values(), *((place.items,) if place.items else ())):
        yield from _rules(below)


def _walk(place: _RulePlace, value: Any, old: Any, path: FieldPath, run: _RuleEvaluation) -> Iterator[Violation]:
    """Evaluate the rules of a value and of all values in it, beside those that they replace."""
    if value is None:
        return
    for rule in place.rules:
        if run.is_meant(rule, old):
            yield from _broken(rule, value, old, path, run.budget)
    if isinstance(value, ObjectValue):
        for name, below in place.fields.items():
            found = _property(value, name)
            if found is not MISSING:
                before = _property(old, name)
                yield from _walk(below, found, before, (*path, name), run)
    elif place.items is not None:
        for key, item, before in _items(value, old):
            yield from _walk(place.items, item, before, (*path, key), run)


def _property(value: Any, name: str) -> Any:
    """Return a property of an object; MISSING if there is none, or if it is not of its type."""
    try:
        return value.property(name) if isinstance(value, ObjectValue) else MISSING
    except CelError:
        return MISSING


def _items(value: Any, old: Any) -> Iterable[tuple[str | int, Any, Any]]:
    """Return the items of a list or map with those that they replace, which are known by their keys."""
    if isinstance(value, Mapping):
        before = old if isinstance(old, Mapping) else {}
        return [(key, item, before.get(key, MISSING)) for key, item in value.items()]
    if isinstance(value, UnorderedList) and isinstance(old, list) and value.key_of is not repr_of:
        known = {value.key_of(item): item for item in old}
        return [(index, item, known.get(value.key_of(item), MISSING)) for index, item in enumerate(value)]
    return [(index, item, MISSING) for index, item in enumerate(value if isinstance(value, list) else ())]


def _broken(rule: DefinitionRule, value: Any, old: Any, path: FieldPath, budget: RuleBudget) -> Iterator[Violation]:
    if rule.program is None:
        yield Violation(
            rule="schema.unusable",
            path=path,
            message="a rule of the definition does not compile, so it is not evaluated",
            hint=f"correct its CustomResourceDefinition: {rule.text[:80]}",
            severity=Severity.WARNING,
        )
        return
    message = rule.failure(value, old, budget)
    if message:
        yield Violation(rule="schema.rule", path=(*path, *rule.field), message=message, hint=rule.hint)
