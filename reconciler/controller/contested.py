"""Contested fields: those that somebody keeps changing back, and objects that keep being deleted, until we stop."""

import datetime as dt
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.values import plural
from reconciler.plan.live.choices import ContestedField

LIMIT = 3
"""Number of times that a field is set back within the window until it counts as contested."""

_WINDOW_SECONDS = 600.0
_WINDOW_INTERVALS = 6.0  # a source that is looked at rarely needs a longer window
_MAX_COUNT = 100  # fields that a status remembers
_MAX_NAMED = 3


class RevertedField(Struct, frozen=True, kw_only=True):
    """A field of a live object that a pass set back, or left because it is contested, and who had changed it.

    An empty field is the whole object: somebody deleted it, and the pass created it again.
    """

    cluster: str
    object: str
    field: str
    manager: str = ""

    @property
    def key(self) -> ContestedField:
        """The identity of the field."""
        return ContestedField(cluster=self.cluster, object=self.object, field=self.field)


class FieldReverts(RevertedField, frozen=True, kw_only=True):
    """The times at which passes set a field back, the newest last."""

    times: tuple[str, ...] = ()

    @property
    def is_contested(self) -> bool:
        """True if we stop writing the field."""
        return len(self.times) >= LIMIT


def contested(known: Iterable[FieldReverts]) -> frozenset[ContestedField]:
    """Return the fields that a pass must not write."""
    return frozenset(one.key for one in known if one.is_contested)


def note_reverts(
    known: Sequence[FieldReverts],
    reverted: Iterable[RevertedField],
    still: Iterable[RevertedField] | None,
    now: str,
    interval: float,
) -> tuple[FieldReverts, ...]:
    """Return what is known after a pass.

    reverted: fields that it set back. still: contested fields that are not as Git says; None if that is not known. A
    contested field is forgotten once it is as Git says, or once the caller starts afresh with a new revision.
    """
    drifting = None if still is None else {one.key for one in still}
    entries: dict[ContestedField, FieldReverts] = {}
    for one in known:
        if one.is_contested:
            if drifting is None or one.key in drifting:
                entries[one.key] = one
        elif times := tuple(time for time in one.times if _age(time, now) <= _window(interval)):
            entries[one.key] = replace(one, times=times)
    for field in reverted:
        before = entries.pop(field.key, None)
        times = (*(before.times if before is not None else ()), now)[-LIMIT:]
        entries[field.key] = FieldReverts(
            cluster=field.cluster, object=field.object, field=field.field, manager=field.manager, times=times
        )
    return tuple(list(entries.values())[-_MAX_COUNT:])


def contested_message(fields: Sequence[RevertedField]) -> str:
    """Name contested fields and those who change them, for a condition."""
    named = [_rival(one) for one in fields[:_MAX_NAMED]]
    more = f" and {len(fields) - _MAX_NAMED} more" if len(fields) > _MAX_NAMED else ""
    objects = sum(not one.field for one in fields)
    stopped = [f"writing {plural(len(fields) - objects, 'field')}"] if len(fields) > objects else []
    stopped += [f"creating {plural(objects, 'object')}"] if objects else []
    return (
        f"stopped {' and '.join(stopped)}: {'; '.join(named)}{more}. "
        "Remove one of the two writers, or decide in spec.drift; a new revision or request tries again"
    )


def _rival(one: RevertedField) -> str:
    if not one.field:
        return f"{one.object} on {one.cluster}, which somebody keeps deleting"
    return f"{one.object} {one.field} on {one.cluster}, which {one.manager or 'somebody unknown'} changes back"


def _window(interval: float) -> float:
    return max(_WINDOW_SECONDS, _WINDOW_INTERVALS * interval)


def _age(time: str, now: str) -> float:
    """Return the seconds between two times; what lies in the future (a clock that was set back) is new."""
    return max((dt.datetime.fromisoformat(now) - dt.datetime.fromisoformat(time)).total_seconds(), 0.0)
