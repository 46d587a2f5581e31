"""Fields of a change in, lines with `-`, `+` and blank signs out: one notion of a difference for text and Markdown."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.core.objects import SourceRef
from reconciler.core.patterns import later
from reconciler.core.plan import Change, FieldChange, Operation
from reconciler.core.reasons import Why
from reconciler.outputs.findings import where

_CONTEXT = 2  # unchanged lines around a changed one
_MOST_LINES = 400  # of one value: beyond it lines are compared no more, only shown
_BARE = later(r"(?!\.[0-9]|.*:(?: |$))[A-Za-z0-9/._][A-Za-z0-9/._:@+=-]*(?: [A-Za-z0-9/._:@+=-]+)*")
_QUANTITY = later(r"[0-9]+(\.[0-9]+)?([KMGTPE]i|[mkMGTP])")
# Starts with a digit, but holds a letter that no number, time or date has: a digest, a version.
_NO_NUMBER = later(r"(?!0[xXoObB])[0-9][^ ]*[acdf-nqrsuvwyACDF-NQRSUVWY]")
_WORDS_OF_YAML = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", "~", "nan", ".nan", ".inf"})


class Line(Struct, frozen=True, kw_only=True):
    """One line of a difference. `sign` is `-`, `+`, a blank for context, or `…` where context was left out."""

    sign: str
    text: str


class Group(Struct, frozen=True, kw_only=True):
    """Fields that changed for one and the same reason."""

    why: Why | None
    fields: tuple[FieldChange, ...]


def groups(fields: Iterable[FieldChange]) -> tuple[Group, ...]:
    """Gather fields with equal reasons, in the order in which the reasons first appear."""
    gathered: dict[Why | None, list[FieldChange]] = {}
    for field in fields:
        gathered.setdefault(field.why, []).append(field)
    return tuple(Group(why=why, fields=tuple(members)) for why, members in gathered.items())


def scalar(value: Any) -> str:
    """Write a value on one line: strings bare where nobody can mistake them for something else, else as JSON."""
    if isinstance(value, str) and _is_plain(value):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _is_plain(value: str) -> bool:
    if value.lower() in _WORDS_OF_YAML or not _BARE.fullmatch(value):
        return False
    return not value[0].isdigit() or bool(_QUANTITY.fullmatch(value) or _NO_NUMBER.match(value))


def is_single(value: Any) -> bool:
    """Tell whether a value reads best on one line."""
    if isinstance(value, str):
        return "\n" not in value.rstrip("\n")
    return not (isinstance(value, Mapping | list | tuple) and value)


def value_lines(value: Any) -> list[str]:
    """Write a value as a person would in YAML: nested by indentation, scripts line by line."""
    if isinstance(value, str) and not is_single(value):
        return value.rstrip("\n").split("\n")
    return list(_nested(value))


def _nested(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{scalar(str(key))}:", item)
    elif isinstance(value, list | tuple) and value:
        for item in value:
            lines = _nested(item)
            yield f"- {next(lines)}"
            yield from (f"  {line}" for line in lines)
    elif isinstance(value, str) and not is_single(value):
        yield "|"
        yield from (f"  {line}" for line in value.rstrip("\n").split("\n"))
    else:
        yield scalar(value)


def _entry(start: str, item: Any) -> Iterator[str]:
    if is_single(item):
        yield f"{start} {scalar(item)}"
    elif isinstance(item, str):
        yield f"{start} |"
        yield from (f"  {line}" for line in item.rstrip("\n").split("\n"))
    else:
        yield start
        yield from (f"  {line}" for line in _nested(item))


def compare(field: FieldChange) -> list[Line]:
    """Return the lines of one field: what goes with `-`, what comes with `+`, and a little context."""
    before = value_lines(field.before) if field.has_before else []
    after = value_lines(field.after) if field.has_after else []
    if before == after:  # only the type or the last line break differs
        before, after = _exact(field.before, field.has_before), _exact(field.after, field.has_after)
    if max(len(before), len(after)) > _MOST_LINES:
        return [*(_clipped("-", before)), *(_clipped("+", after))]
    return list(_unified(before, after))


def _exact(value: Any, is_there: bool) -> list[str]:  # noqa: FBT001 - a pair with the value
    return [json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)] if is_there else []


def _clipped(sign: str, lines: Sequence[str]) -> Iterator[Line]:
    yield from (Line(sign=sign, text=line) for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield Line(sign="…", text=f"{len(lines) - _MOST_LINES:,} more lines")


def _unified(before: Sequence[str], after: Sequence[str]) -> Iterator[Line]:
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    end = 0
    for hunk in matcher.get_grouped_opcodes(_CONTEXT):
        start = hunk[0][1]
        if start > end:
            yield Line(sign="…", text=f"{start - end} unchanged line{'' if start - end == 1 else 's'}")
        for operation, first, last, new_first, new_last in hunk:
            if operation == "equal":
                yield from (Line(sign=" ", text=line) for line in before[first:last])
                continue
            yield from (Line(sign="-", text=line) for line in before[first:last])
            yield from (Line(sign="+", text=line) for line in after[new_first:new_last])
        end = hunk[-1][2]
    if end < len(before) and end:
        rest = len(before) - end
        yield Line(sign="…", text=f"{rest} unchanged line{'' if rest == 1 else 's'}")


def because(why: Why, path: str = "") -> str:
    """Write a reason: `queues/h100.yaml:8:5 spec.nodeResources.gpus: 32 GPUs / 8 per node = 4 nodes [rule]`.

    A source field that is called like the changed one, `path`, need not be said again.
    """
    return ": ".join(because_parts(why, path))


def because_parts(why: Why, path: str = "") -> tuple[str, ...]:
    """Write the same reason in one or two parts: where it comes from, and by what rule or formula."""
    places = _listed(list(_places(why)), path)
    rule = "" if why.rule in ("", "source") else f"[{why.rule}]"
    text = " ".join(part for part in (why.text, rule) if part)
    return tuple(part for part in (places, text) if part) or ("no reason was recorded",)


def _places(why: Why) -> Iterator[tuple[SourceRef, str]]:
    fields = (*why.fields, *[""] * len(why.places))
    yield from zip(why.places, fields, strict=False)


def _listed(places: list[tuple[SourceRef, str]], path: str) -> str:
    """Write places as a list; a file is named once, places in the same one go on with `:line:column`."""
    shown, file = [], None
    for place, field in places:
        start = f":{place.line}:{place.column}" if place.path == file and place.line else str(place)
        named = field if field != path else ""
        shown.append(f"{start} {named}" if named else start if place.path == file else where(place))
        file = place.path
    *most, last = shown or [""]
    return f"{', '.join(most)} and {last}" if most else last


# What tells a reviewer most about a new object, by the end of its path, most telling first.
_TELLING = tuple(
    later(pattern)
    for pattern in (
        r"(^|\.)image$",
        r"(^|\.)(parallelism|replicas|completions|suspend)$",
        r"limits(\.|\[\")(nvidia|amd)\.com/gpu(\"\])?$",
        r"(queue-name|kai\.scheduler/queue)(\"\])?$",
        r"^spec\.(parentQueue|parent|cohort|clusterQueue|queue)$",
        r"^spec\.resources\.gpu\.\w+$",
        r"(^|\.)(nominalQuota|borrowingLimit)$",
        r"requests\.storage$",
        r"(^|\.)(storageClassName|accessModes(\[0\])?)$",
        r"(^|\.)(priorityClassName|schedulerName)$",
        r"^spec\.(clusterIP|type)$",
        r"(^|\.)command(\[\d+\])?$",
    )
)
_QUEUE_LABELS = frozenset({"kai.scheduler/queue", "kueue.x-k8s.io/queue-name"})
_SHOWN_TELLING = 6


def leaves(fields: Iterable[FieldChange]) -> Iterator[tuple[str, Any]]:
    """Walk to every scalar of the fields of a created or deleted object."""
    for field in fields:
        yield from _leaves(field.path, field.after if field.has_after else field.before)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            step = f'["{key}"]' if re.search(r"[.\[\]\"' ]", str(key)) else f".{key}" if path else str(key)
            yield from _leaves(f"{path}{step}", item)
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from _leaves(f"{path}[{index}]", item)
    else:
        yield path, value


def telling(change: Change) -> tuple[tuple[str, str], ...]:
    """Return a few fields that say what a created object is: (last step of the path, value on one line)."""
    found: list[tuple[int, str, str]] = []
    for path, value in leaves(change.fields):
        if value is False or value is None:
            continue
        rank = next((rank for rank, pattern in enumerate(_TELLING) if pattern.search(path)), None)
        if rank is not None:
            found.append((rank, _last_step(path), scalar(value)))
    unique = dict.fromkeys((step, value) for _, step, value in sorted(found))
    return tuple(unique)[:_SHOWN_TELLING]


def _last_step(path: str) -> str:
    quoted = re.search(r'\["([^"]*)"\]$', path)
    if quoted:
        return "queue" if quoted.group(1) in _QUEUE_LABELS else quoted.group(1)
    return re.sub(r"\[[^\]]*\]$", "", path).rsplit(".", 1)[-1]


class Family(Struct, frozen=True, kw_only=True):
    """Changes that are the same edit on several objects of one kind; `first` speaks for all."""

    first: Change
    others: tuple[Change, ...] = ()


def families(changes: Iterable[Change]) -> tuple[Family, ...]:
    """Gather updates that change the same fields in the same way for the same reasons.

    First come changes of GPUs, then of queues, then what is deleted or moved, last what changes in form alone.
    """
    gathered: dict[object, list[Change]] = {}
    for position, change in enumerate(sorted(changes, key=_weight)):
        key: object = position if change.operation is not Operation.UPDATE else _edit(change)
        gathered.setdefault(key, []).append(change)
    return tuple(Family(first=members[0], others=tuple(members[1:])) for members in gathered.values())


_QUEUES = frozenset({"Queue", "ClusterQueue", "LocalQueue", "Cohort"})


def _weight(change: Change) -> int:
    tests = (
        change.gpus_before != change.gpus_after,
        change.key.kind in _QUEUES,
        change.operation in (Operation.DELETE, Operation.MOVE),
        bool(change.fields),
    )
    return next((rank for rank, passed in enumerate(tests) if passed), len(tests))


def _edit(change: Change) -> tuple[object, ...]:
    fields = tuple(
        (
            field.path,
            field.has_before,
            field.has_after,
            _exact_text(field.before),
            _exact_text(field.after),
            _rule(field),
        )
        for field in change.fields
    )
    return (change.key.group, change.key.kind, change.gpus_before, change.gpus_after, fields)


def _exact_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _rule(field: FieldChange) -> tuple[str, str]:
    return (field.why.rule, field.why.text) if field.why else ("", "")
