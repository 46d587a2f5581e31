"""What an API server refuses in the rules of a CustomResourceDefinition: `rule_violations`."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.core.cel import Checked
from reconciler.core.cel.checker import check_types
from reconciler.core.cel.estimates import capped
from reconciler.core.objects import FieldPath
from reconciler.core.problems import Violation
from reconciler.core.schemas.rules.costs import MOST_OF_A_RULE, MOST_OF_ALL, copies, most_copies, priced
from reconciler.core.schemas.rules.kind import KindRules
from reconciler.core.schemas.rules.rule import DefinitionRule, read_path
from reconciler.core.schemas.rules.shape import Shape
from reconciler.core.schemas.schema import RULES, Schema, children, resolve
from reconciler.core.schemas.strict import strict_custom

_COMBINATORS = ("allOf", "anyOf", "oneOf", "not")
_ANY_META: Schema = {"$defs": {"ObjectMeta": {"type": "object"}}}
_MOST_BYTES = 2048  # of a message


class _Surroundings(Struct, frozen=True, kw_only=True):
    """What the schemas above one say of it.

    correlates: its values have values before a change. copies: how many of them an object can have; None: no limit.
    costs: those of all rules of the definition so far.
    """

    correlates: bool = True
    copies: int | None = 1
    costs: list[int] = field(default_factory=list)


def rule_violations(source: Schema, path: FieldPath) -> Iterator[Violation]:
    """Yield what is wrong with the rules in the `openAPIV3Schema` of one version, which is at `path`."""
    try:
        strict = strict_custom(source, group="", version="", kind="", meta=_ANY_META)
    except (KeyError, TypeError, AttributeError, ValueError):
        return  # parts of it are null, so that nothing can be said of its objects either
    around = _Surroundings()
    yield from _walk(strict, strict, source, path, around)
    total = capped(sum(around.costs))
    if total > MOST_OF_ALL:
        yield _expensive(path, "the rules of the definition together", total, MOST_OF_ALL)


def _walk(root: Schema, strict: Schema, source: Schema, path: FieldPath, around: _Surroundings) -> Iterator[Violation]:
    """Check the rules of a schema and of those in it."""
    rules = source.get(RULES) or ()
    if rules:
        shape = Shape(root, strict, "selfType")
        for index, rule in enumerate(one or {} for one in rules):
            yield from _rule(DefinitionRule(rule, shape), rule, (*path, RULES, index), around)
    if source.get("default") is not None:
        for broken in KindRules(root, strict).violations(source["default"]):
            yield _wrong((*path, "default"), f"breaks a rule: {broken.message}", "change the default or the rule")
    for combinator in _COMBINATORS:
        yield from _misplaced(source.get(combinator), (*path, combinator))
    inner = {(key, name): below for key, name, below in children(resolve(root, strict))}
    for key, name, below in children(source):
        found = inner.get((key, name))
        if found is None or "/ObjectMeta" in str(found.get("$ref")):
            continue
        keeps = around.correlates and (key != "items" or source.get("x-kubernetes-list-type") == "map")
        inside = replace(around, correlates=keeps, copies=copies(source, around.copies))
        yield from _walk(root, found, below, (*path, key, *((name,) if name else ())), inside)


def _misplaced(source: Any, path: FieldPath) -> Iterator[Violation]:
    """Refuse rules within `allOf`, `anyOf`, `oneOf` and `not`."""
    branches = (
        [(path, source)] if isinstance(source, dict) else [((*path, n), one) for n, one in enumerate(source or ())]
    )
    for at, branch in branches:
        if isinstance(branch, dict) and branch.get(RULES):
            yield _wrong((*at, RULES), "is not allowed here", "move it out of the combination")


def _rule(rule: DefinitionRule, source: Schema, path: FieldPath, around: _Surroundings) -> Iterator[Violation]:
    if not rule.text.strip():
        yield Violation(rule="schema.missing-field", path=(*path, "rule"), message="is required", hint="add it")
        return
    times = around.copies if around.copies is not None else most_copies(rule.shape)
    yield from _compiled(rule.text, "bool", rule, (*path, "rule"), around.costs, times)
    yield from _texts(rule, source, path, around.costs)
    if rule.checked is None:
        return
    if rule.compares and not around.correlates:
        message = "oldSelf is not known here: items of lists without keys have no earlier value"
        yield _wrong((*path, "rule"), message, "move the rule to the list or map as a whole")
    if source.get("optionalOldSelf") is not None and not rule.compares:
        yield _wrong((*path, "optionalOldSelf"), "must not be set, because the rule has no oldSelf", "remove it")


def _texts(rule: DefinitionRule, source: Schema, path: FieldPath, costs: list[int]) -> Iterator[Violation]:
    """Check everything beside the rule itself."""
    message = source.get("message")
    if isinstance(message, str) and message and not message.strip():
        yield _wrong((*path, "message"), "must not be blank", "write it or remove it")
    elif "\n" in rule.message:
        yield _wrong((*path, "message"), "must not contain line breaks", "write it on one line")
    elif len(rule.message.encode()) > _MOST_BYTES:
        yield _wrong((*path, "message"), f"must not exceed {_MOST_BYTES} bytes", "shorten it")
    elif "\n" in rule.text.strip() and not rule.message:
        yield Violation(
            rule="schema.missing-field",
            path=(*path, "message"),
            message="is required, because the rule has several lines",
            hint="add it",
        )
    written = source.get("messageExpression")
    if isinstance(written, str) and written and not written.strip():
        yield _wrong((*path, "messageExpression"), "must not be blank", "write it or remove it")
    elif rule.message_text:
        yield from _compiled(rule.message_text, "string", rule, (*path, "messageExpression"), costs)
    if source.get("reason") == "":
        yield _wrong((*path, "reason"), "must not be empty", "remove it")
    field = source.get("fieldPath")
    if isinstance(field, str) and field and not rule.leads_to_field(read_path(field)):
        yield _wrong((*path, "fieldPath"), f"{field!r} is not a field below this one", "write it as .spec.name")


def _compiled(  # noqa: PLR0917 - an expression, where it is, and what it adds
    text: str, wanted: str, rule: DefinitionRule, path: FieldPath, costs: list[int], times: int = 1
) -> Iterator[Violation]:
    """Check that an expression compiles to a type, and that evaluating it so many times is not too expensive."""
    found, types = check_types(text, rule.declared)
    if not isinstance(found, Checked):
        for error in found:
            yield _wrong(path, f"{error.message} (line {error.line}, column {error.column} of the rule)", _HINT)
        return
    if found.kind.name != wanted:
        yield _wrong(path, f"must evaluate to {wanted}, not {found.kind}", _HINT)
        return
    cost = priced(found, types, rule.shape, times)
    costs.append(cost)
    if cost > MOST_OF_A_RULE:
        yield _expensive(path, "the rule", cost, MOST_OF_A_RULE)


def _expensive(path: FieldPath, what: str, cost: int, most: int) -> Violation:
    factor = "100" if cost > 100 * most else f"{max(cost / most, 1.1):.1f}"
    message = f"{what} may cost an API server {'over ' * (cost > 100 * most)}{factor} times what it allows"
    return _wrong(path, message, "limit what is looked at with maxItems, maxProperties and maxLength")


_HINT = "variables are self and oldSelf, functions those of Kubernetes 1.36"


def _wrong(path: FieldPath, message: str, hint: str) -> Violation:
    return Violation(rule="schema.bad-rule", path=path, message=message, hint=hint)
