"""Changed fields as lines, with their reasons, as text and Markdown show them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import SourceRef
from reconciler.kube.patterns import later
from reconciler.kube.reasons import Why
from reconciler.kube.values import plural
from reconciler.plan import FieldChange
from reconciler.plan.outputs.findings import where

_CONTEXT = 2  # unchanged lines shown around a changed one
_MAX_LINES = 400  # of one value; a longer value is shown in part and not compared line by line
_BARE = later(r"(?!\.[0-9]|.*:(?: |$))[A-Za-z0-9/._][A-Za-z0-9/._:@+=-]*(?: [A-Za-z0-9/._:@+=-]+)*")
_QUANTITY = later(r"[0-9]+(\.[0-9]+)?([KMGTPE]i|[mkMGTP])")
# Starts with a digit but contains a letter that no number, time or date has: a digest or a version.
_NOT_A_NUMBER = later(r"(?!0[xXoObB])[0-9][^ ]*[acdf-nqrsuvwyACDF-NQRSUVWY]")
_YAML_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", "~", "nan", ".nan", ".inf"})


class DiffLine(Struct, frozen=True, kw_only=True):
    """One line of a diff. `sign` is `-`, `+`, a space for context, or `…` where lines were left out."""

    sign: str
    text: str


_DIGEST = later(r"(?<=sha256:)([0-9a-f]{12})[0-9a-f]{52}(?![0-9a-f])")


def short_digests(*texts: str) -> tuple[str, ...]:
    """Cut the digests of images to 12 digits, unless the texts would then be equal."""
    short = tuple(_DIGEST.sub(r"\1…", text) for text in texts)
    return short if len(set(short)) == len(set(texts)) else texts


class FieldGroup(Struct, frozen=True, kw_only=True):
    """Fields that changed for the same reason."""

    why: Why | None
    fields: tuple[FieldChange, ...]


def group_fields(fields: Iterable[FieldChange]) -> tuple[FieldGroup, ...]:
    """Group fields by reason, in the order in which the reasons first appear."""
    groups: dict[Why | None, list[FieldChange]] = {}
    for field in fields:
        groups.setdefault(field.why, []).append(field)
    return tuple(FieldGroup(why=why, fields=tuple(members)) for why, members in groups.items())


def scalar(value: Any) -> str:
    """Format a value on one line: a string as it is if YAML reads it as the same string, anything else as JSON."""
    if isinstance(value, str) and _is_bare(value):
        return value
    return compact_json(value)


def compact_json(value: Any) -> str:
    """Return a value as JSON in one line, with sorted keys."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _is_bare(value: str) -> bool:
    if value.lower() in _YAML_WORDS or not _BARE.fullmatch(value):
        return False
    return not value[0].isdigit() or bool(_QUANTITY.fullmatch(value) or _NOT_A_NUMBER.match(value))


def is_single_line(value: Any) -> bool:
    """Return whether a value is shown on one line."""
    if isinstance(value, str):
        return "\n" not in value.rstrip("\n")
    return not (isinstance(value, Mapping | list | tuple) and value)


def value_lines(value: Any) -> list[str]:
    """Format a value as YAML that a person would write, with scripts line by line."""
    if isinstance(value, str) and not is_single_line(value):
        return value.rstrip("\n").split("\n")
    return list(_nested(value))


def _nested(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            start = f"{scalar(str(key))}:"
            if is_single_line(item):
                yield f"{start} {scalar(item)}"
                continue
            lines = _nested(item)
            yield f"{start} {next(lines)}" if isinstance(item, str) else start
            yield from (line if isinstance(item, str) else f"  {line}" for line in lines)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            lines = _nested(item)
            yield f"- {next(lines)}"
            yield from (f"  {line}" for line in lines)
    elif isinstance(value, str) and not is_single_line(value):
        yield "|"
        yield from (f"  {line}" for line in value.rstrip("\n").split("\n"))
    else:
        yield scalar(value)


def diff_lines(field: FieldChange) -> list[DiffLine]:
    """Return the diff of one field: removed lines, added lines and a little context."""
    before = value_lines(field.before) if field.has_before else []
    after = value_lines(field.after) if field.has_after else []
    if before == after:  # only the type or the last line break differs
        before = [compact_json(field.before)] if field.has_before else []
        after = [compact_json(field.after)] if field.has_after else []
    if max(len(before), len(after)) > _MAX_LINES:
        return [*_truncated("-", before), *_truncated("+", after)]
    return list(_unified(before, after))


def _truncated(sign: str, lines: Sequence[str]) -> Iterator[DiffLine]:
    yield from (DiffLine(sign=sign, text=line) for line in lines[:_MAX_LINES])
    if len(lines) > _MAX_LINES:
        yield DiffLine(sign="…", text=plural(len(lines) - _MAX_LINES, "more line"))


def _unified(before: Sequence[str], after: Sequence[str]) -> Iterator[DiffLine]:
    matcher = SequenceMatcher(a=before, b=after, autojunk=False)
    end = 0
    for hunk in matcher.get_grouped_opcodes(_CONTEXT):
        start = hunk[0][1]
        if start > end:
            yield DiffLine(sign="…", text=plural(start - end, "unchanged line"))
        for operation, first, last, new_first, new_last in hunk:
            if operation == "equal":
                yield from (DiffLine(sign=" ", text=line) for line in before[first:last])
                continue
            yield from (DiffLine(sign="-", text=line) for line in before[first:last])
            yield from (DiffLine(sign="+", text=line) for line in after[new_first:new_last])
        end = hunk[-1][2]
    if 0 < end < len(before):
        yield DiffLine(sign="…", text=plural(len(before) - end, "unchanged line"))


def reason_parts(why: Why, path: str = "") -> tuple[str, ...]:
    """Return the one or two parts of a formatted reason: its places, and its text with the rule."""
    places = _format_places(why, path)
    rule = "" if why.rule in ("", "source") else f"[{why.rule}]"
    text = " ".join(part for part in (why.text, rule) if part)
    return tuple(part for part in (places, text) if part) or ("no reason recorded",)


def _format_places(why: Why, path: str) -> str:
    """List the places of a reason. Places in the same file as the one before are written `:line:column`."""
    shown: list[str] = []
    file = None
    for place, field in _ordered_places(why):
        start = f":{place.line}:{place.column}" if place.path == file and place.line else str(place)
        name = field if field != path else ""
        shown.append(f"{start} {name}" if name else start if place.path == file else where(place))
        file = place.path
    *most, last = shown or [""]
    return f"{', '.join(most)} and {last}" if most else last


def _ordered_places(why: Why) -> Iterator[tuple[SourceRef, str]]:
    """Yield the edited lines first, then removed ones, then the other origins; with those no document as a whole."""
    places = [*zip(why.places, (*why.fields, *[""] * len(why.places)), strict=False)]
    lines = {(place.path, place.line) for place in why.edited}
    own = [(place, field) for place, field in places if (place.path, place.line) in lines]
    covered = {(place.path, place.line) for place, _ in own}
    yield from own
    yield from ((place, "") for place in why.edited if (place.path, place.line) not in covered)
    yield from ((place, "(removed)") for place in why.removed)
    for place, field in places:
        if (place.path, place.line) not in lines and (field or not (why.edited or why.removed)):
            yield place, field
