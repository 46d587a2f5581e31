"""What the schema engine found, in words a person can act on.

jsonschema-rs decides; this module only tells: which field, what is there, what belongs there, what to do.
Values of a Secret are never shown.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from reconciler.core.objects import FieldPath, format_path
from reconciler.core.schemas import forms
from reconciler.core.schemas.finding import Finding
from reconciler.core.schemas.shape import Schema, at, places_of

_LONGEST = 60  # characters of a value or a list of choices that a message shows
_IN_URL = re.compile(r"(?<=://)[^\s\"]+(?=@)|(?<=\?)[^\s\"]+")
_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
}
_ENDS = "starting and ending with a letter or digit"
_PATTERNS = {
    forms.LABEL_PATTERN: f"use lower-case letters, digits and '-', {_ENDS}",
    forms.LETTER_LABEL_PATTERN: "use lower-case letters, digits and '-', starting with a letter",
    forms.SUBDOMAIN_PATTERN: f"use lower-case letters, digits, '-' and '.', {_ENDS}",
    forms.LABEL_VALUE_PATTERN: f"use letters, digits, '-', '_' and '.', {_ENDS}",
    forms.LABEL_KEY_PATTERN: "write name or domain/name, with at most 63 characters in the name",
    forms.PORT_NAME_PATTERN: "use at most 15 lower-case letters, digits and '-', with a letter among them",
    forms.CONFIG_KEY_PATTERN: "use letters, digits, '-', '_' and '.'",
    forms.ABSOLUTE_PATTERN: "start it with /",
    forms.SCHEDULE_PATTERN: "write minute, hour, day of month, month, day of week, as in 0 3 * * *",
    forms.CONTAINER_RESOURCE_PATTERN: "use cpu, memory, ephemeral-storage or domain/name, as in nvidia.com/gpu",
    r"\S": "write some text",
    r"^https?://[^\s/?#@]+(/[^\s?#]*)?$": (
        "write http(s)://host/path; its token goes into the variable RECONCILER_SIZING_TOKEN"
    ),
}


def findings(errors: Any, root: Schema, data: dict[str, Any]) -> Iterator[Finding]:
    """Turn the engine's errors on `data` into findings; `errors` is what `iter_errors` returns."""
    secret = data.get("kind") == "Secret"
    for error in errors:
        path: FieldPath = tuple(error.instance_path)
        teller = _TELLERS.get(error.kind.name, _other)
        yield from teller(error, path, root, "" if secret else shown(error.instance))


def shown(value: Any) -> str:
    """Return a scalar as it may be shown in a message, shortened; empty for anything else.

    What a URL says in front of its host or in its query is never shown: it may be a password.
    """
    if isinstance(value, dict | list):
        return ""
    text = json.dumps(value, ensure_ascii=False)
    if "://" in text:
        text = _IN_URL.sub("***", text)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def called(value: Any) -> str:
    """Say what a person calls the type of `value`."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    return "a string" if isinstance(value, str) else "a mapping" if isinstance(value, dict) else "a list"


def choices(names: list[str]) -> str:
    """List the first of `names`, as many as fit a line."""
    text = ""
    for position, name in enumerate(names):
        if text and len(text) + len(name) > 2 * _LONGEST:
            return f"{text}, … ({len(names) - position} more)"
        text += f", {name}" if text else name
    return text


def did_you_mean(name: str, known: list[str]) -> str:
    """Return the known name that `name` was probably meant to be, or an empty string."""
    lowered = {candidate.lower(): candidate for candidate in reversed(known)}
    from difflib import get_close_matches  # noqa: PLC0415 - only on the way to a finding

    close = get_close_matches(name.lower(), list(lowered), n=1, cutoff=0.65)
    return lowered[close[0]] if close else ""


def _unknown_fields(error: Any, path: FieldPath, root: Schema, _: str) -> Iterator[Finding]:
    schema = at(root, path) or {}
    known = sorted(set(schema.get("properties", {})) - {"status"})
    for name in error.kind.unexpected:
        yield Finding(
            rule="schema.unknown-field",
            path=(*path, name),
            message="unknown field",
            hint=_where_it_belongs(root, name, known),
            at_key=True,
        )


def _where_it_belongs(root: Schema, name: str, known: list[str]) -> str:
    close = did_you_mean(name, known)
    if close:
        return f"did you mean {close}?"
    elsewhere = next((place for place in places_of(root, name) if place[0] != "status"), None)
    if elsewhere is not None and len(name) > 2:  # noqa: PLR2004  short names stand in too many places to tell
        return f"it belongs to {format_path(elsewhere[:-1]).replace('[0]', '[]') or 'the top of the object'}"
    if known:
        return f"remove it; known here: {choices(known)}"
    return "remove it"


def _missing(error: Any, path: FieldPath, root: Schema, _: str) -> Iterator[Finding]:
    name = error.kind.property
    child = at(root, (*path, name)) or {}
    values = [value for value in child.get("enum", ()) if value]
    one_of = f", one of {choices([str(value) for value in values])}" if values else ""
    yield Finding(
        rule="schema.missing-field", path=(*path, name), message="required, but missing", hint=f"add it{one_of}"
    )


def _wrong_type(error: Any, path: FieldPath, root: Schema, value: str) -> Iterator[Finding]:
    schema = at(root, path) or {}
    wanted = schema.get("type", error.kind.types)
    wanted = [wanted] if isinstance(wanted, str) else [kind for kind in wanted if kind != "null"]
    names = " or ".join(_NAMES.get(kind, kind) for kind in wanted)
    if schema.get("format") == "quantity":
        names = 'a quantity such as 8, 500m or "16Gi"'
    got = called(error.instance) + (f" ({value})" if value and error.instance is not None else "")
    yield Finding(
        rule="schema.wrong-type",
        path=path,
        message=f"{names} is wanted here, this is {got}",
        hint=_retype(error.instance, wanted, value),
    )


def _retype(value: Any, wanted: list[str], text: str) -> str:
    if value is None:
        return "give it a value or remove the line"
    if isinstance(value, bool | int | float) and "string" in wanted:
        return f'quote it: "{text}"'
    if isinstance(value, str) and text and {"integer", "number", "boolean"} & set(wanted):
        plain = value.strip()
        fits = plain.lstrip("+-").isdigit() if "integer" in wanted else plain in ("true", "false")
        return f"remove the quotes: {plain}" if fits else f"write {_NAMES[wanted[0]]}"
    if "array" in wanted:
        return "write it as a list, each item after '- '"
    if isinstance(value, list) and "object" in wanted:
        return "write it as a mapping, without '- '"
    return f"write {_NAMES.get(wanted[0], wanted[0])}" if wanted else ""


def _not_allowed(error: Any, path: FieldPath, _: Schema, value: str) -> Iterator[Finding]:
    options = [str(option) for option in error.kind.options if option not in ("", None)]
    close = did_you_mean(str(error.instance), options)
    yield Finding(
        rule="schema.not-allowed",
        path=path,
        message=f"{value or 'this value'} is not allowed",
        hint=f"did you mean {close}?" if close else f"use one of {choices(options)}",
    )


def _not_constant(error: Any, path: FieldPath, _: Schema, value: str) -> Iterator[Finding]:
    expected = error.kind.expected_value
    yield Finding(
        rule="schema.not-allowed", path=path, message=f"{value or 'this value'} is not allowed", hint=f"use {expected}"
    )


def _pattern(error: Any, path: FieldPath, root: Schema, value: str) -> Iterator[Finding]:
    schema = at(root, path) or {}
    if schema.get("format") == "quantity":
        yield Finding(
            rule="schema.bad-quantity",
            path=path,
            message=f"{value or 'this value'} is not a quantity",
            hint=quantity_hint(error.instance),
        )
    elif schema.get("format") == "byte":
        hint = "encode it as base64, or move it to stringData" if path[:1] == ("data",) else "encode it as base64"
        yield Finding(rule="schema.bad-value", path=path, message="not base64", hint=hint)
    else:
        pattern = error.kind.pattern
        yield Finding(
            rule="schema.bad-value",
            path=path,
            message=f"{value or 'this value'} does not have the form that is asked for",
            hint=_PATTERNS.get(pattern.removeprefix("^$|"), f"it must match {pattern}"),
        )


def quantity_hint(text: str) -> str:
    """Say what to write instead of something that is almost a quantity."""
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


def _format(error: Any, path: FieldPath, _: Schema, value: str) -> Iterator[Finding]:
    hints = {"date-time": "write it as 2026-01-31T12:00:00Z", "date": "write it as 2026-01-31"}
    name = error.kind.format
    yield Finding(
        rule="schema.bad-value",
        path=path,
        message=f"{value or 'this value'} is no {name}",
        hint=hints.get(name, f"write a valid {name}"),
    )


def _bound(text: str) -> Callable[[Any, FieldPath, Schema, str], Iterator[Finding]]:
    def tell(error: Any, path: FieldPath, _: Schema, value: str) -> Iterator[Finding]:
        yield Finding(
            rule="schema.out-of-range",
            path=path,
            message=f"{value} is out of range" if value else "out of range",
            hint=text.format(error.kind.limit),
        )

    return tell


def _repeated(error: Any, path: FieldPath, _: Schema, __: str) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, item in enumerate(error.instance):
        text = json.dumps(item, sort_keys=True)
        if text in seen:
            yield Finding(
                rule="schema.duplicate-item",
                path=(*path, index),
                message="the list already holds this item",
                hint="remove it",
            )
        seen.add(text)


def _branches(error: Any, path: FieldPath, root: Schema, value: str) -> Iterator[Finding]:
    """Tell what the nearest branch of an `anyOf` or `oneOf` misses; none of them fits."""
    context: list[list[Any]] = [branch for branch in error.kind.context if branch]
    missing = sorted({item.kind.property for branch in context for item in branch if item.kind.name == "required"})
    if context and not missing:
        nearest = min(context, key=lambda branch: (-max(len(item.instance_path) for item in branch), len(branch)))
        for item in nearest:
            yield from _TELLERS.get(item.kind.name, _other)(item, tuple(item.instance_path), root, value)
        return
    hint = f"give one of {choices(missing)}" if missing else "see the description of the field"
    yield Finding(rule="schema.bad-value", path=path, message="none of the allowed forms fits", hint=hint)


def _bad_key(error: Any, path: FieldPath, _: Schema, __: str) -> Iterator[Finding]:
    inner = error.kind.error
    pattern = getattr(inner.kind, "pattern", "")
    yield Finding(
        rule="schema.bad-key",
        path=(*path, str(inner.instance)),
        message="this key is not allowed here",
        hint=_PATTERNS.get(pattern, f"it must match {pattern}") if pattern else "see the description of the field",
        at_key=True,
    )


def _other(error: Any, path: FieldPath, _: Schema, __: str) -> Iterator[Finding]:
    name = error.kind.name
    message = "these fields exclude each other" if name in ("oneOf", "not") else f"refused by the schema ({name})"
    yield Finding(rule="schema.bad-value", path=path, message=message, hint="see the description of the field")


_TELLERS: dict[str, Callable[[Any, FieldPath, Schema, str], Iterator[Finding]]] = {
    "additionalProperties": _unknown_fields,
    "unevaluatedProperties": _unknown_fields,
    "required": _missing,
    "type": _wrong_type,
    "enum": _not_allowed,
    "const": _not_constant,
    "pattern": _pattern,
    "format": _format,
    "minimum": _bound("use {} or more"),
    "maximum": _bound("use {} or less"),
    "exclusiveMinimum": _bound("use more than {}"),
    "exclusiveMaximum": _bound("use less than {}"),
    "minItems": _bound("give {} items or more"),
    "maxItems": _bound("give {} items or fewer"),
    "minLength": _bound("use {} characters or more"),
    "maxLength": _bound("use {} characters or fewer"),
    "minProperties": _bound("give {} entries or more"),
    "maxProperties": _bound("give {} entries or fewer"),
    "uniqueItems": _repeated,
    "propertyNames": _bad_key,
    "anyOf": _branches,
    "oneOf": _branches,
}
