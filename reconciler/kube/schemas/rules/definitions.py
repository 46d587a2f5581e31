"""`definition_violations`: what an API server refuses in a CustomResourceDefinition that its schema has accepted.

That is a name that is not its own, fields of the wrong type in schemas, and rules in CEL. Whether its schemas are
structural (KEP-1693) is left to a server.
Sources: pkg/apis/apiextensions/validation of k8s.io/apiextensions-apiserver 0.36.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kube.cel import Checked, check
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Violation
from reconciler.kube.schemas.messages import bad_value, format_choices
from reconciler.kube.schemas.rules.kind import DefinitionRule, KindRules, read_path
from reconciler.kube.schemas.rules.shape import Shape
from reconciler.kube.schemas.schema import RULES, Schema, children, has_rules, resolve
from reconciler.kube.schemas.strict import strict_custom

_JUNCTORS = ("allOf", "anyOf", "oneOf")
_FORMS: Mapping[str, tuple[type, ...]] = {
    "a map": (dict,), "a list": (list,), "a string": (str,), "true or false": (bool,), "an integer": (int,),
    "a number": (int, float),
}  # fmt: skip
_OF_SCHEMA = {
    "a map": ("properties",),
    "a list": (*_JUNCTORS, "required", "enum", "x-kubernetes-list-map-keys", RULES),
    "a string": (
        *("type", "format", "title", "description", "pattern"),
        *("x-kubernetes-list-type", "x-kubernetes-map-type"),
    ),
    "true or false": (
        *("nullable", "exclusiveMaximum", "exclusiveMinimum", "uniqueItems", "x-kubernetes-int-or-string"),
        *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"),
    ),
    "an integer": ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    "a number": ("minimum", "maximum", "multipleOf"),
}
"""The types of the fields of a schema (k8s.io/apiextensions-apiserver, JSONSchemaProps)."""
_OF_ITEMS = {"required": "a string", "x-kubernetes-list-map-keys": "a string", RULES: "a map"}
_OF_RULE = {
    "a string": ("rule", "message", "messageExpression", "reason", "fieldPath"),
    "true or false": ("optionalOldSelf",),
}
_CHOICES = {
    "type": ["array", "boolean", "integer", "number", "object", "string"],
    "reason": ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"],
}
_ANY_META: Schema = {"$defs": {"ObjectMeta": {"type": "object"}}}
_MAX_BYTES = 2048  # of a message


def definition_violations(data: dict[str, Any]) -> Iterator[Violation]:
    """Validate a CustomResourceDefinition that its schema has accepted."""
    spec = data["spec"]
    expected = f"{spec['names']['plural']}.{spec['group']}"
    if ((data.get("metadata") or {}).get("name") or "") not in ("", expected):
        message = "must be <plural>.<group>"
        yield Violation(rule="schema.bad-name", path=("metadata", "name"), message=message, hint=f"use {expected}")
    stored = sum(bool(version.get("storage")) for version in spec["versions"])
    if stored != 1:
        message = f"exactly one version must have storage: true, not {stored}"
        yield bad_value(("spec", "versions"), message, "set storage: true on one version")
    for index, version in enumerate(spec["versions"]):
        source = version["schema"]["openAPIV3Schema"]
        path: FieldPath = ("spec", "versions", index, "schema", "openAPIV3Schema")
        found = [*_malformed(source, path)]
        yield from found
        if not found and has_rules(source):
            yield from _rules(source, path)


def _malformed(schema: Any, path: FieldPath) -> Iterator[Violation]:
    """Check the types of all fields: the schema of definitions leaves open what is below `items`."""
    if schema is None:
        return
    if not isinstance(schema, dict):
        yield bad_value(path, "is not a schema", "write a map")
        return
    yield from _mistyped(schema, _OF_SCHEMA, path)
    for field, form in _OF_ITEMS.items():
        for index, item in enumerate(_list(schema.get(field))):
            yield from _is(form, item, (*path, field, index))
            if isinstance(item, dict):
                yield from _mistyped(item, _OF_RULE, (*path, field, index))
    for field in ("properties", *_JUNCTORS):
        children = schema.get(field)
        for key, child in children.items() if isinstance(children, dict) else enumerate(_list(children)):
            yield from _malformed(child, (*path, field, key))
    yield from _malformed(schema.get("not"), (*path, "not"))
    for field in ("items", "additionalProperties"):  # other types are ignored
        if isinstance(schema.get(field), dict):
            yield from _malformed(schema[field], (*path, field))


def _mistyped(value: Mapping[str, Any], fields: Mapping[str, tuple[str, ...]], path: FieldPath) -> Iterator[Violation]:
    """Check the types of the fields of a schema or a rule, and the choice of those that have few values."""
    for form, names in fields.items():
        for name in names:
            yield from _is(form, value.get(name), (*path, name))
            choices = _CHOICES.get(name)
            if choices and value.get(name) and value[name] not in choices:
                yield bad_value(
                    (*path, name), f"{str(value[name])[:80]!r} is not allowed", f"use {format_choices(choices)}"
                )


def _is(form: str, value: Any, path: FieldPath) -> Iterator[Violation]:
    if value is not None and type(value) not in _FORMS[form]:
        yield bad_value(path, f"is not {form}", f"write {form}")


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _rules(source: Schema, path: FieldPath) -> Iterator[Violation]:
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
    for combinator in (*_JUNCTORS, "not"):
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
    elif len(rule.message.encode()) > _MAX_BYTES:
        yield _wrong((*path, "message"), f"must not exceed {_MAX_BYTES} bytes", "shorten it")
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


_HINT = "variables are self and oldSelf, functions those of Kubernetes 1.37"


def _wrong(path: FieldPath, message: str, hint: str) -> Violation:
    return Violation(rule="schema.bad-rule", path=path, message=message, hint=hint)
