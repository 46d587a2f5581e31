"""Messages for what the schema engine reports: what is wrong with which field, and what to do.

Secret values never appear in a message: those of a Secret, of a variable such as `DB_PASSWORD`, of a secret flag.
"""

import json
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher, get_close_matches
from typing import Any

from msgspec.structs import replace

from reconciler.kube import patterns
from reconciler.kube.objects import FieldPath, format_path
from reconciler.kube.problems import Severity, Violation
from reconciler.kube.schemas.schema import Schema, at, is_string_only, paths_of
from reconciler.kube.secrets import is_secret_path, mask_text
from reconciler.kube.yaml import Document

PORT_NAME_PATTERN = r"^([0-9]+-)*[0-9]*[a-z](-?[a-z0-9])*$"
CONFIG_KEY_PATTERN = r"^[-._a-zA-Z0-9]+$"
CONTAINER_RESOURCE_PATTERN = (
    r"^(cpu|memory|ephemeral-storage|hugepages-.+|[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[-A-Za-z0-9_.]+)$"
)
ABSOLUTE_PATTERN = r"^/"
_CRON_FIELD = r"[-*/,?0-9A-Za-z]+"
SCHEDULE_PATTERN = (
    rf"^\s*(@(yearly|annually|monthly|weekly|daily|midnight|hourly|every \S+)|{_CRON_FIELD}(\s+{_CRON_FIELD}){{4}})\s*$"
)

UNKNOWN_FIELD = "schema.unknown-field"
OBSERVE = "run `reconciler observe` to validate by the definitions of the cluster"

_MAX_READ = 4096  # characters of a value in which secrets are looked for
_MAX_DIGITS = 19  # of a 64-bit integer; a longer one is read as a string, also without quotes
_MAX_SHOWN = 60  # characters of a value or a list of choices in a message
_TYPE_NAMES = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}
_ENDS = "starting and ending with a letter or digit"
_PATTERN_HINTS = {
    patterns.LABEL_PATTERN: f"use lowercase letters, digits and '-', {_ENDS}",
    patterns.LETTER_LABEL_PATTERN: "use lowercase letters, digits and '-', starting with a letter",
    patterns.SUBDOMAIN_PATTERN: f"use lowercase letters, digits, '-' and '.', {_ENDS}",
    patterns.LABEL_VALUE_PATTERN: f"use letters, digits, '-', '_' and '.', {_ENDS}",
    patterns.LABEL_KEY_PATTERN: "write name or domain/name, with at most 63 characters in the name",
    PORT_NAME_PATTERN: "use at most 15 lowercase letters, digits and '-', with at least one letter",
    CONFIG_KEY_PATTERN: "use letters, digits, '-', '_' and '.'",
    ABSOLUTE_PATTERN: "start it with '/'",
    SCHEDULE_PATTERN: "write minute, hour, day of month, month and day of week, as in 0 3 * * *",
    CONTAINER_RESOURCE_PATTERN: "use cpu, memory, ephemeral-storage or domain/name, as in nvidia.com/gpu",
    r"\S": "do not leave it blank",
    r"^https?://[^\s/?#@]+(/[^\s?#]*)?$": (
        "write http(s)://host/path; the token belongs in the environment variable RECONCILER_SIZING_TOKEN"
    ),
}


def violations(errors: Any, root: Schema, data: dict[str, Any]) -> Iterator[Violation]:
    """Convert the errors of the engine's `iter_errors` on `data` into violations."""
    for error in errors:
        path: FieldPath = tuple(error.instance_path)
        convert = _CONVERTERS.get(error.kind.name, _other)
        yield from convert(error, path, root, "" if is_secret_path(data, path) else format_value(error.instance))


# --- words ------------------------------------------------------------------------------------------------------


def missing(path: FieldPath, hint: str = "add it") -> Violation:
    """Return the violation for a required field that is missing."""
    return Violation(rule="schema.missing-field", path=path, message="is required", hint=hint)


def bad_value(path: FieldPath, message: str, hint: str) -> Violation:
    """Return the violation for a value that is not allowed, of rule `schema.bad-value`."""
    return Violation(rule="schema.bad-value", path=path, message=message, hint=hint)


def format_value(value: Any) -> str:
    """Return a scalar as a message may show it, shortened and masked; empty for a list or mapping."""
    if isinstance(value, dict | list):
        return ""
    text = json.dumps(mask_text(value[:_MAX_READ]) if isinstance(value, str) else value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def describe_type(value: Any) -> str:
    """Return the type of `value` in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return "a string" if isinstance(value, str) else "a mapping" if isinstance(value, dict) else "a list"


def format_choices(names: list[str]) -> str:
    """Join as many of `names` as fit on a line."""
    text = ""
    for position, name in enumerate(names):
        if text and len(text) + len(name) > 2 * _MAX_SHOWN:
            return f"{text}, … ({len(names) - position} more)"
        text += f", {name}" if text else name
    return text


def closest(name: str, known: list[str]) -> str:
    """Return the known name that is most similar to `name`, or an empty string."""
    by_lower = {candidate.lower(): candidate for candidate in reversed(known)}
    matches = get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.65)
    return by_lower[matches[0]] if matches else ""


def is_misspelt(name: str, match: str) -> bool:
    """Return whether a name differs from a known one in so little that nobody else has it: `PytorchJobs`."""
    return bool(match) and SequenceMatcher(None, name.lower(), match.lower()).ratio() >= _MISSPELT


_MISSPELT = 0.85


def _choices_hint(names: list[str]) -> str:
    return f"use {names[0]}" if len(names) == 1 else f"allowed values: {format_choices(names)}"


# --- one converter per keyword ----------------------------------------------------------------------------------


def _unknown_fields(error: Any, path: FieldPath, root: Schema, _: str) -> Iterator[Violation]:
    known = sorted(set((at(root, path) or {}).get("properties", {})) - {"status"})
    for name in error.kind.unexpected:
        yield Violation(
            rule=UNKNOWN_FIELD,
            path=(*path, name),
            message="unknown field",
            hint=_unknown_field_hint(root, name, known),
            at_key=True,
        )


def of_other_version(found: Violation, owner: str) -> Violation:
    """Return an unknown field as a warning: the cluster may run another version of its definition than `owner`."""
    if found.rule != UNKNOWN_FIELD:
        return found
    message = f"unknown field: {owner}, which this release knows, has none, and a server without it drops it silently"
    advice = found.hint.removeprefix("remove it").removeprefix("; ")
    return replace(
        found, message=message, hint=f"{advice}; {OBSERVE}" if advice else OBSERVE, severity=Severity.WARNING
    )


def _unknown_field_hint(root: Schema, name: str, known: list[str]) -> str:
    match = closest(name, known)
    if match:
        return f"did you mean {match}?"
    elsewhere = next((place for place in paths_of(root, name) if place[0] != "status"), None)
    if elsewhere is not None and len(name) > 2:  # noqa: PLR2004 - short names exist in too many places to suggest one
        return f"move it to {format_path(elsewhere[:-1]).replace('[0]', '[]') or 'the top level'}"
    return f"remove it; known fields: {format_choices(known)}" if known else "remove it"


def _missing_field(error: Any, path: FieldPath, root: Schema, _: str) -> Iterator[Violation]:
    name = error.kind.property
    values = [str(value) for value in (at(root, (*path, name)) or {}).get("enum", ()) if value]
    yield missing((*path, name), f"add it; {_choices_hint(values)}" if values else "add it")


def _wrong_type(error: Any, path: FieldPath, root: Schema, value: str) -> Iterator[Violation]:
    schema = at(root, path) or {}
    types = schema.get("type", error.kind.types)
    types = [types] if isinstance(types, str) else [name for name in types if name != "null"]
    expected = " or ".join(_TYPE_NAMES.get(name, name) for name in types)
    if schema.get("format") == "quantity":
        expected = 'a quantity such as 8, 500m or "16Gi"'
    actual = describe_type(error.instance) + (f" ({value})" if value and error.instance is not None else "")
    yield Violation(
        rule="schema.wrong-type",
        path=path,
        message=f"must be {expected}, not {actual}",
        hint=_type_hint(error.instance, types, value),
    )


def _type_hint(value: Any, types: list[str], text: str) -> str:
    if value is None:
        return "set a value or remove the line"
    if isinstance(value, bool | int | float) and "string" in types:
        return f'quote it: "{text}"' if text else "quote it"
    if isinstance(value, str) and text and {"integer", "number", "boolean"} & set(types):
        plain = value.strip()
        is_integer = len(plain) <= _MAX_DIGITS and plain.isascii() and plain.lstrip("+-").isdigit()
        fits = is_integer if "integer" in types else plain in ("true", "false")
        return f"remove the quotes: {plain}" if fits else f"write {_TYPE_NAMES[types[0]]}"
    if "array" in types:
        return "write it as a list, with '- ' before each item"
    if isinstance(value, list) and "object" in types:
        return "write it as a mapping, without '- '"
    return f"write {_TYPE_NAMES.get(types[0], types[0])}" if types else ""


def _not_allowed(error: Any, path: FieldPath, _: Schema, value: str) -> Iterator[Violation]:
    if error.kind.name == "const":
        options = [str(error.kind.expected_value)]
    else:
        options = [str(option) for option in error.kind.options if option not in ("", None)]
    match = closest(str(error.instance), options) if error.kind.name == "enum" else ""
    yield Violation(
        rule="schema.not-allowed",
        path=path,
        message=f"{value or 'this value'} is not allowed",
        hint=f"did you mean {match}?" if match else _choices_hint(options),
    )


def _pattern(error: Any, path: FieldPath, root: Schema, value: str) -> Iterator[Violation]:
    schema = at(root, path) or {}
    shown = value or "this value"
    if schema.get("format") == "quantity":
        hint = quantity_hint(error.instance)
        yield Violation(rule="schema.bad-quantity", path=path, message=f"{shown} is not a quantity", hint=hint)
    elif schema.get("format") == "byte":
        hint = "encode it as base64, or move it to stringData" if path[:1] == ("data",) else "encode it as base64"
        yield bad_value(path, "is not base64", hint)
    else:
        pattern = error.kind.pattern
        hint = _PATTERN_HINTS.get(pattern.removeprefix("^$|"), f"it must match {pattern}")
        yield bad_value(path, f"{shown} is not valid", hint)


def quantity_hint(text: str) -> str:
    """Return a hint for a text that is almost a quantity."""
    if text.strip().startswith("-"):
        return "use 0 or more"
    compact = text.replace(" ", "").replace("_", "").replace(",", ".")
    number = compact.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
    unit = compact[len(number) :].lower()
    units = {"kb": "k", "mb": "M", "gb": "G", "tb": "T", "pb": "P", "k": "k", "g": "G", "t": "T", "p": "P"}
    units |= {"kib": "Ki", "mib": "Mi", "gib": "Gi", "tib": "Ti", "pib": "Pi", "ki": "Ki", "mi": "Mi", "gi": "Gi"}
    units |= {"ti": "Ti", "pi": "Pi", "m": "m", "": ""}
    if number.lstrip("+-").replace(".", "", 1).isdigit() and unit in units:
        return f"write {number}{units[unit]}"
    return "write a number with at most one unit: m, k, M, G, T, P, E, or Ki, Mi, Gi, Ti, Pi, Ei"


def _format(error: Any, path: FieldPath, _: Schema, value: str) -> Iterator[Violation]:
    hints = {"date-time": "write it as 2026-01-31T12:00:00Z", "date": "write it as 2026-01-31"}
    name = error.kind.format
    yield bad_value(path, f"{value or 'this value'} is not a valid {name}", hints.get(name, f"write a valid {name}"))


def _bound(hint: str) -> Callable[[Any, FieldPath, Schema, str], Iterator[Violation]]:
    def convert(error: Any, path: FieldPath, _: Schema, value: str) -> Iterator[Violation]:
        limit = error.kind.limit
        yield Violation(
            rule="schema.out-of-range",
            path=path,
            message=f"{value} is out of range" if value else "is out of range",
            hint=hint.format(limit, "" if limit == 1 else "s", "y" if limit == 1 else "ies"),
        )

    return convert


def _repeated(error: Any, path: FieldPath, _: Schema, __: str) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, item in enumerate(error.instance):
        text = json.dumps(item, sort_keys=True)
        if text in seen:
            message = "this item is already in the list"
            yield Violation(rule="schema.duplicate-item", path=(*path, index), message=message, hint="remove it")
        seen.add(text)


def _branches(error: Any, path: FieldPath, root: Schema, value: str) -> Iterator[Violation]:
    """Report the errors of the closest branch of an `anyOf` or `oneOf` of which none matches."""
    branches: list[list[Any]] = [branch for branch in error.kind.context if branch]
    absent = sorted({item.kind.property for branch in branches for item in branch if item.kind.name == "required"})
    if branches and not absent:
        nearest = min(branches, key=lambda branch: (-max(len(item.instance_path) for item in branch), len(branch)))
        for item in nearest:
            yield from _CONVERTERS.get(item.kind.name, _other)(item, tuple(item.instance_path), root, value)
        return
    hint = f"set one of {format_choices(absent)}" if absent else "see the description of the field"
    yield bad_value(path, "does not match any of the allowed forms", hint)


def _bad_key(error: Any, path: FieldPath, _: Schema, __: str) -> Iterator[Violation]:
    inner = error.kind.error
    pattern = getattr(inner.kind, "pattern", "")
    yield Violation(
        rule="schema.bad-key",
        path=(*path, str(inner.instance)),
        message="this key is not allowed",
        hint=_PATTERN_HINTS.get(pattern, f"it must match {pattern}") if pattern else "see the description of the field",
        at_key=True,
    )


def _other(error: Any, path: FieldPath, _: Schema, __: str) -> Iterator[Violation]:
    name = error.kind.name
    message = "these fields are mutually exclusive" if name in ("oneOf", "not") else f"does not satisfy {name!r}"
    yield bad_value(path, message, "see the description of the field")


_CONVERTERS: dict[str, Callable[[Any, FieldPath, Schema, str], Iterator[Violation]]] = {
    "additionalProperties": _unknown_fields,
    "unevaluatedProperties": _unknown_fields,
    "required": _missing_field,
    "type": _wrong_type,
    "enum": _not_allowed,
    "const": _not_allowed,
    "pattern": _pattern,
    "format": _format,
    "minimum": _bound("use {0} or more"),
    "maximum": _bound("use {0} or less"),
    "exclusiveMinimum": _bound("use more than {0}"),
    "exclusiveMaximum": _bound("use less than {0}"),
    "minItems": _bound("use at least {0} item{1}"),
    "maxItems": _bound("use at most {0} item{1}"),
    "minLength": _bound("use at least {0} character{1}"),
    "maxLength": _bound("use at most {0} character{1}"),
    "minProperties": _bound("use at least {0} entr{2}"),
    "maxProperties": _bound("use at most {0} entr{2}"),
    "uniqueItems": _repeated,
    "propertyNames": _bad_key,
    "anyOf": _branches,
    "oneOf": _branches,
}


# --- ambiguous scalars ------------------------------------------------------------------------------------------

_ABOUT_THE_VALUE = frozenset({"schema.wrong-type", "schema.bad-value", "schema.not-allowed"})
"""Rules about the value itself, for which an ambiguous scalar is the better explanation."""


def explain_scalars(
    document: Document, schema: Schema, found: list[Violation], base: FieldPath = ()
) -> list[Violation]:
    """Report plain scalars such as `no`, `012` or `1e3` where the schema of the object at `base` requires a string.

    Other YAML parsers read them differently than Kubernetes, so they are errors and replace other violations of the
    same value. Hints that quote any other scalar quote it as it is written (`0x1F`, not 31).
    """
    ambiguous: dict[FieldPath, str] = {}
    for path, text in document.ambiguous:
        expected = at(schema, path[len(base) :]) if path[: len(base)] == base else None
        if expected is not None and is_string_only(expected):
            ambiguous[path] = text
    kept = [
        _quote_as_written(document, violation)
        for violation in found
        if violation.path not in ambiguous or violation.rule not in _ABOUT_THE_VALUE
    ]
    for path, text in ambiguous.items():
        secret = is_secret_path(document.data, path)
        message = "must be a string, but YAML parsers disagree about " + (
            "it" if secret else f"the plain scalar {text}"
        )
        hint = "quote it" if secret else f'quote it: "{text}"'
        kept.append(Violation(rule="yaml.ambiguous-scalar", path=path, message=message, hint=hint))
    return kept


def _quote_as_written(document: Document, violation: Violation) -> Violation:
    if violation.rule != "schema.wrong-type" or not violation.hint.startswith("quote it: "):
        return violation
    text = document.written(violation.path)
    return violation if text is None else replace(violation, hint=f'quote it: "{text}"')
