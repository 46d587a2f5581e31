"""What an API server refuses in the rules of a CustomResourceDefinition: `rule_violations`."""

from collections.abc import Iterator
from typing import Any

from reconciler.core.cel import Checked, check
from reconciler.core.objects import FieldPath
from reconciler.core.problems import Violation
from reconciler.core.schemas.rules.kind import KindRules
from reconciler.core.schemas.rules.rule import DefinitionRule, read_path
from reconciler.core.schemas.rules.shape import Shape
from reconciler.core.schemas.schema import RULES, Schema, children, resolve
from reconciler.core.schemas.strict import strict_custom

_COMBINATORS = ("allOf", "anyOf", "oneOf", "not")
_ANY_META: Schema = {"$defs": {"ObjectMeta": {"type": "object"}}}
_MOST_BYTES = 2048  # of a message


def rule_violations(source: Schema, path: FieldPath) -> Iterator[Violation]:
    """Yield what is wrong with the rules in the `openAPIV3Schema` of one version, which is at `path`."""
    try:
        strict = strict_custom(source, group="", version="", kind="", meta=_ANY_META)
    except (KeyError, TypeError, AttributeError, ValueError):
        return  # parts of it are null, so that nothing can be said of its objects either
    yield from _walk(strict, strict, source, path, correlates=True)


def _walk(root: Schema, strict: Schema, source: Schema, path: FieldPath, *, correlates: bool) -> Iterator[Violation]:
    """Check the rules of a schema and of those in it; `correlates`: its values have values before a change."""
    rules = source.get(RULES) or ()
    if rules:
        shape = Shape(root, strict, "selfType")
        for index, rule in enumerate(one or {} for one in rules):
            yield from _rule(DefinitionRule(rule, shape), rule, (*path, RULES, index), correlates=correlates)
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
        keeps = correlates and (key != "items" or source.get("x-kubernetes-list-type") == "map")
        yield from _walk(root, found, below, (*path, key, *((name,) if name else ())), correlates=keeps)


def _misplaced(source: Any, path: FieldPath) -> Iterator[Violation]:
    """Refuse rules within `allOf`, `anyOf`, `oneOf` and `not`."""
    branches = (
        [(path, source)] if isinstance(source, dict) else [((*path, n), one) for n, one in enumerate(source or ())]
    )
    for at, branch in branches:
        if isinstance(branch, dict) and branch.get(RULES):
            yield _wrong((*at, RULES), "is not allowed here", "move it out of the combination")


def _rule(rule: DefinitionRule, source: Schema, path: FieldPath, *, correlates: bool) -> Iterator[Violation]:
    if not rule.text.strip():
        yield Violation(rule="schema.missing-field", path=(*path, "rule"), message="is required", hint="add it")
        return
    yield from _compiled(rule.text, "bool", rule, (*path, "rule"))
    yield from _texts(rule, source, path)
    if rule.checked is None:
        return
    if rule.compares and not correlates:
        message = "oldSelf is not known here: items of lists without keys have no earlier value"
        yield _wrong((*path, "rule"), message, "move the rule to the list or map as a whole")
    if source.get("optionalOldSelf") is not None and not rule.compares:
        yield _wrong((*path, "optionalOldSelf"), "must not be set, because the rule has no oldSelf", "remove it")


def _texts(rule: DefinitionRule, source: Schema, path: FieldPath) -> Iterator[Violation]:
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
        yield from _compiled(rule.message_text, "string", rule, (*path, "messageExpression"))
    if source.get("reason") == "":
        yield _wrong((*path, "reason"), "must not be empty", "remove it")
    field = source.get("fieldPath")
    if isinstance(field, str) and field and not rule.leads_to_field(read_path(field)):
        yield _wrong((*path, "fieldPath"), f"{field!r} is not a field below this one", "write it as .spec.name")


def _compiled(text: str, wanted: str, rule: DefinitionRule, path: FieldPath) -> Iterator[Violation]:
    """Check that an expression compiles to a type."""
    found = check(text, rule.declared)
    if not isinstance(found, Checked):
        for error in found:
            yield _wrong(path, f"{error.message} (line {error.line}, column {error.column} of the rule)", _HINT)
        return
    if found.kind.name != wanted:
        yield _wrong(path, f"must evaluate to {wanted}, not {found.kind}", _HINT)


_HINT = "variables are self and oldSelf, functions those of Kubernetes 1.36"


def _wrong(path: FieldPath, message: str, hint: str) -> Violation:
    return Violation(rule="schema.bad-rule", path=path, message=message, hint=hint)
