"""Fields that follow from one edit: a job that gets more GPUs changes in dozens of fields, for one reason."""

import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from reconciler.console.printable import clip_middle
from reconciler.kube.objects import SourceRef
from reconciler.kube.patterns import later
from reconciler.kube.reasons import Why
from reconciler.kube.values import plural
from reconciler.plan import Change, FieldChange, Operation
from reconciler.plan.outputs.differences import is_single_line, scalar
from reconciler.plan.outputs.groups import ChangeGroup, importance
from reconciler.plan.outputs.summary.queues import gpus

_FEWEST = 3  # fields that are told as one; fewer are listed
_COUNTS = 1  # the importance of GPUs and replicas
_MAX_NAMES = 5
_MAX_VALUE = 24  # cells
_MAX_EDITS = 2
_MAX_WORDS = 60  # cells
_LISTED = (Operation.CREATE, Operation.DELETE)  # which list no fields
_WRITTEN = frozenset({"", "source"})  # rules of values that stand in the source as they are rendered
_NAMED = later(r"\[name=([^\]]*)\]\.value$")
_QUOTED = later(r'\["([^"]*)"\]$')
_INDEX = later(r"\[[^\]]*\]$")
_ANNOTATION = 'metadata.annotations["'


class Followers(Struct, frozen=True, kw_only=True):
    """Fields of one change that differ because of the same edited lines.

    because: the edit and its effect; fields: with a reason of their own each, the most important first.
    """

    because: str
    fields: tuple[FieldChange, ...]

    @property
    def count(self) -> str:
        """`12 fields follow: replicas 1 → 2, nvidia.com/gpu 2 → 8, …`."""
        names = tuple(dict.fromkeys(_names(self.fields)))
        more = ", …" if len(names) > _MAX_NAMES else ""
        return f"{plural(len(self.fields), 'field')} follow: {', '.join(names[:_MAX_NAMES])}{more}"


class FieldsTold(Struct, frozen=True, kw_only=True):
    """The fields of a change as a reader wants them: those that somebody wrote, and what follows from it."""

    listed: tuple[FieldChange, ...]
    followers: tuple[Followers, ...] = ()


def told(group: ChangeGroup, *, full: bool) -> FieldsTold:
    """Divide the fields of a change. With `full` all are listed."""
    change = group.first
    if full or change.operation in _LISTED:
        return FieldsTold(listed=change.fields)
    causes: dict[tuple[SourceRef, ...], list[FieldChange]] = {}
    for field in change.fields:
        if field.why is not None and field.why.rule not in _WRITTEN and (cause := _cause(field.why)):
            causes.setdefault(cause, []).append(field)
    folded = [tuple(sorted(members, key=_importance)) for members in causes.values() if len(members) >= _FEWEST]
    hidden = {field.path for members in folded for field in members}
    listed = tuple(field for field in change.fields if field.path not in hidden)
    return FieldsTold(
        listed=listed,
        followers=tuple(
            Followers(because=_sized(change, listed, members) or _reason(group, members), fields=members)
            for members in folded
        ),
    )


def is_generated_json(field: FieldChange) -> bool:
    """Return whether a field is an annotation that repeats a decision as JSON."""
    if field.why is None or field.why.rule in _WRITTEN or not field.path.startswith(_ANNOTATION):
        return False
    values = [
        value for value, is_there in ((field.before, field.has_before), (field.after, field.has_after)) if is_there
    ]
    return all(isinstance(value, str) and value[:1] in ("{", "[") for value in values)


def _cause(why: Why) -> tuple[SourceRef, ...]:
    return (*why.edited, *why.removed)


def _importance(field: FieldChange) -> tuple[bool, bool, int]:
    rank = importance(field.path)
    return is_generated_json(field), rank > _COUNTS and not (field.has_before and field.has_after), rank


def _reason(group: ChangeGroup, members: Sequence[FieldChange]) -> str:
    why = members[0].why
    return "" if why is None else f"because {': '.join(group.reason(why))}"


def _sized(change: Change, listed: Iterable[FieldChange], members: Sequence[FieldChange]) -> str:
    """Return `2 → 4 GPUs because --max_seq_length 8192 (jobs/a.yaml:31) needs 74.9 of 79.7 GiB each` of a sized job."""
    why = members[0].why
    chosen = next((one for one in change.sizing.candidates if one.chosen), None) if change.sizing else None
    if why is None or chosen is None or chosen.peak_gib is None or change.gpus_before == change.gpus_after:
        return ""
    place = next(iter(_cause(why)))
    where = f"{place.path}:{place.line}" if place.line else place.path
    edits = tuple(dict.fromkeys(edit for field in (*listed, *members) for edit in _edits(field)))
    words = " and ".join(clip_middle(edit, _MAX_WORDS) for edit in edits) if len(edits) <= _MAX_EDITS else ""
    what = f"{words} ({where})" if words else f"the edit of {where}"
    need = f"needs {chosen.peak_gib:.1f} of {chosen.memory_gib:.1f} GiB each"
    return f"{change.gpus_before} → {gpus(change.gpus_after)} because {what} {need}"


def _edits(field: FieldChange) -> Iterator[str]:
    """Yield the words of a command that are new, each with the flag before it. A word or two are a number or a name."""
    if not (isinstance(field.before, str) and isinstance(field.after, str)):
        return
    before, after = field.before.split(), field.after.split()
    if min(len(before), len(after)) < _FEWEST:
        return
    for tag, _, _, first, last in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag in ("replace", "insert"):
            start = (
                first - 1 if first and after[first - 1].startswith("-") and not after[first].startswith("-") else first
            )
            yield " ".join(after[start:last])


def _names(fields: Iterable[FieldChange]) -> Iterator[str]:
    """Yield the last step of each path, with values that are short."""
    seen: set[str] = set()
    for field in fields:
        name = _name(field.path)
        if name in seen:
            continue
        seen.add(name)
        values = [_value(field.before)] if field.has_before else []
        values += [_value(field.after)] if field.has_after else []
        yield f"{name} {' → '.join(map(str, values))}" if None not in values else name


def _name(path: str) -> str:
    for pattern in (_NAMED, _QUOTED):
        if found := pattern.search(path):
            return found.group(1).rpartition("gpureconciler.io/")[2]
    return _INDEX.sub("", path).rpartition(".")[2]


def _value(value: Any) -> str | None:
    if not is_single_line(value):
        return None
    shown = value if isinstance(value, str) and re.fullmatch(r"[0-9]+", value) else scalar(value)
    return shown if len(shown) <= _MAX_VALUE else None
