"""`KindRules`: the rules of a custom kind, evaluated on whole objects."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from msgspec import Struct, field

from reconciler.core.cel import CelError
from reconciler.core.cel.program import CostExceededError
from reconciler.core.cel.values import MISSING, UnorderedList
from reconciler.core.objects import FieldPath
from reconciler.core.problems import Severity, Violation
from reconciler.core.schemas.rules.rule import DefinitionRule, RuleBudget
from reconciler.core.schemas.rules.shape import ObjectValue, Shape, repr_of
from reconciler.core.schemas.schema import RULES, RuleAllowance, Schema, children, read_shared

_SELF = "selfType"


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
        """Whether any rule looks at the value before, and also says something where there is none."""
        return any(rule.takes_absence and rule.compares for rule in self.all)

    def violations(self, data: Any) -> Iterator[Violation]:
        """Yield what breaks a rule that is about a value alone."""
        yield from self._evaluate(data, MISSING, lambda rule, _: not rule.compares)

    def transitions(self, data: Mapping[str, Any], before: Mapping[str, Any] | None) -> Iterator[Violation]:
        """Yield what breaks a rule about the change from `before`; None: the object is created."""
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
    """Return where the rules of a schema are; `known` are those of shared definitions."""

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
