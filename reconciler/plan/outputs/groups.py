"""Changed objects as groups: equal edits of several objects, and the few fields that summarize a new one."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.console.printable import clip_middle
from reconciler.kube.objects import format_key
from reconciler.kube.patterns import later
from reconciler.kube.reasons import Why
from reconciler.kube.values import plural
from reconciler.plan import Change, FieldChange, Operation, Plan
from reconciler.plan.outputs.differences import compact_json, reason_parts, scalar, short_digests
from reconciler.plan.outputs.findings import qualified_name

# The fields that say most about a new object, by the end of their path, the most important first.
_KEY_FIELDS = tuple(
    later(pattern)
    for pattern in (
        r"(^|\.)(parallelism|replicas|completions|suspend)$",
        r"^spec\.schedule$",
        r"^spec\.(parentQueue|parent|cohort|clusterQueue|queue)$",
        r"^spec\.resources\.gpu\.\w+$",
        r"(^|\.)(nominalQuota|borrowingLimit)$",
        r"requests\.storage$",
        r"(^|\.)(storageClassName|accessModes(\[0\])?)$",
        r"(^|\.)(priorityClassName|schedulerName)$",
        r"^spec\.(clusterIP|type)$",
        r"^spec\.(node|reason|effect|until)$",
    )
)
_IMAGE = later(r"(^|\.)image$")
_GPUS = later(r"limits(\.|\[\")(nvidia|amd)\.com/gpu(\"\])?$")
_QUEUE = later(r"(queue-name|kai\.scheduler/queue)(\"\])?$")
_COMMAND = later(r"(?:^|\.)containers\[[^\]]*\]\.(?:command|args)\[\d+\]$")
_SHELLS = frozenset({"sh", "bash", "/bin/sh", "/bin/bash"})
_CONTINUED = later(r"\\\n\s*")
_LAUNCHER = later(r"^exec torchrun .* --no-python ")  # what rendered scripts put before the job's command
_MAX_KEY_FIELDS = 7
_MAX_COMMAND = 100  # cells
_GENERIC = "rendered for the "  # reasons that only name the source, which is shown already


def key_fields(change: Change) -> tuple[tuple[str, str], ...]:
    """Return the few fields that summarize a new object: image, GPUs, queue and command first."""
    found = [(path, value) for path, value in leaves(change.fields) if value is not False and value is not None]
    first = [
        *(("image", short_digests(scalar(value))[0]) for path, value in found if _IMAGE.search(path)),
        *_gpus(change, found),
        *(("queue", scalar(value)) for path, value in found if _QUEUE.search(path)),
        *_command(found),
    ]
    ranked = [
        (rank, _last_step(path), scalar(value))
        for path, value in found
        for rank, pattern in enumerate(_KEY_FIELDS)
        if pattern.search(path)
    ]
    others = [(step, value) for _, step, value in sorted(ranked)]
    return tuple(dict.fromkeys((*first, *others)))[:_MAX_KEY_FIELDS]


def queue_edit(change: Change) -> str:
    """Return the queue that an object moves to; empty if its queue stays."""
    fields = (field for field in change.fields if field.has_before and field.has_after and _QUEUE.search(field.path))
    return next((str(field.after) for field in fields), "")


def importance(path: str) -> int:
    """Return the rank of a field among those that say most: GPUs, then replicas and their like, then others."""
    if _GPUS.search(path):
        return 0
    return 1 + next((rank for rank, one in enumerate(_KEY_FIELDS) if one.search(path)), len(_KEY_FIELDS))


def _gpus(change: Change, found: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the GPUs of all pods and, if all have the same number, how they are divided."""
    total = change.gpus_after or change.gpus_before
    per_pod = {str(value) for path, value in found if _GPUS.search(path)}
    if total:
        each = int(min(per_pod)) if len(per_pod) == 1 and min(per_pod).isdecimal() else 0
        pods = total // each if each and total % each == 0 else 0
        yield "GPUs", f"{total} ({pods} x {each})" if pods > 1 else str(total)


def _command(found: Sequence[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield the command of the first container; of a shell script, its last line."""
    words: list[str] = []
    container = ""
    for path, value in found:
        if _COMMAND.search(path):
            start = path.rpartition("]")[0].rpartition("].")[0]
            container = container or start
            words += [str(value)] if start == container else []
    if len(words) > 2 and words[0] in _SHELLS and words[1].startswith("-"):  # noqa: PLR2004 - shell, -c, script
        lines = [line.strip() for line in _CONTINUED.sub(" ", words[2]).splitlines()]
        words = [line for line in lines if line and not line.startswith("#")][-1:]
    if words:
        line = _LAUNCHER.sub("", re.sub(r"\s+", " ", " ".join(words)))
        yield "command", clip_middle(line, _MAX_COMMAND)


def leaves(fields: Iterable[FieldChange]) -> Iterator[tuple[str, Any]]:
    """Yield the path and value of every scalar of a created or deleted object."""
    for field in fields:
        yield from _leaves(field.path, field.after if field.has_after else field.before)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            step = format_key(str(key))
            yield from _leaves(f"{path}.{step}" if path and step[0] != "[" else f"{path}{step}", item)
    elif isinstance(value, list | tuple) and value:
        for index, item in enumerate(value):
            yield from _leaves(f"{path}[{index}]", item)
    else:
        yield path, value


def _last_step(path: str) -> str:
    quoted = re.search(r'\["([^"]*)"\]$', path)
    return quoted.group(1) if quoted else re.sub(r"\[[^\]]*\]$", "", path).rsplit(".", 1)[-1]


def main_reason(change: Change) -> Why | None:
    """Return the main reason of an object, unless it says no more than that the object's source defines it."""
    for why in change.because[:1]:
        own = change.source is not None and {place.path for place in why.places} <= {change.source.path}
        if not own or (why.text and not why.text.startswith(_GENERIC)):
            return why
    return None


class ChangeGroup(Struct, frozen=True, kw_only=True):
    """The same edit of several objects of one kind. Only the fields of the `first` change are shown."""

    first: Change
    others: tuple[Change, ...] = ()

    @property
    def title(self) -> str:
        """`Job research/gpt on main`, or `18 Jobs on main`."""
        first = self.first
        if not self.others:
            return f"{first.key.kind} {qualified_name(first.key)} on {first.cluster}"
        where = f" on {first.cluster}" if self._is_in_one_cluster else ""
        return f"{plural(1 + len(self.others), first.key.kind)}{where}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all objects, with their clusters if they are in several."""
        members = (self.first, *self.others)
        if self._is_in_one_cluster:
            return tuple(qualified_name(change.key) for change in members)
        return tuple(f"{qualified_name(change.key)} on {change.cluster}" for change in members)

    def reason(self, why: Why, path: str = "") -> tuple[str, ...]:
        """Return the parts of a formatted reason, with the number of other files that give it to other objects."""
        key = _reason_key(why)
        files = {
            file
            for change in self.others
            for other in (*change.because, *(field.why for field in change.fields))
            if other is not None and _reason_key(other) == key
            for file in _files(other)
        }
        parts = reason_parts(why, path)
        more = len(files - _files(why))
        return (f"{parts[0]} (and in {plural(more, 'other file')})", *parts[1:]) if more else parts

    @property
    def _is_in_one_cluster(self) -> bool:
        return all(change.cluster == self.first.cluster for change in self.others)


def _in_sources(change: Change) -> Change:
    """Return a change with the paths that people know where no folder is rendered."""
    path, moved_from = (path.partition("/")[2] for path in (change.path, change.moved_from))
    if change.source is not None and not moved_from:
        path = change.source.path
    return replace(change, path=path, moved_from=moved_from)


def group_changes(plan: Plan) -> tuple[ChangeGroup, ...]:
    """Group updates that change the same fields in the same way for the same reasons, and deletions with one reason.

    Changes of GPUs come first, then changes of queues, then deletions and moves, then the others with changed fields.
    """
    queues = {(line.cluster, line.queue) for line in plan.queues}
    groups: dict[object, list[Change]] = {}
    changes = map(_in_sources, plan.changes) if plan.review else plan.changes
    for position, change in enumerate(sorted(changes, key=lambda change: _rank(change, queues))):
        groups.setdefault(_group_key(change) or position, []).append(change)
    return tuple(ChangeGroup(first=members[0], others=tuple(members[1:])) for members in groups.values())


def _rank(change: Change, queues: Container[tuple[str, str]]) -> int:
    tests = (
        change.gpus_before != change.gpus_after,
        not change.key.namespace and (change.cluster, change.key.name) in queues,
        change.operation in (Operation.REPLACE, Operation.DELETE, Operation.MOVE),
        bool(change.fields),
    )
    return next((rank for rank, passed in enumerate(tests) if passed), len(tests))


def _group_key(change: Change) -> tuple[object, ...]:
    """Return the common part of equal changes; empty for changes that are shown one by one."""
    what = (change.operation, change.key.group, change.key.kind, change.gpus_before, change.gpus_after)
    if change.operation is Operation.DELETE:
        return (*what, tuple(_reason_key(why) for why in change.because))
    if change.operation not in (Operation.UPDATE, Operation.REPLACE):
        return ()
    fields = tuple(
        (
            field.path,
            field.has_before,
            field.has_after,
            compact_json(field.before),
            compact_json(field.after),
            _reason_key(field.why),
        )
        for field in change.fields
        if not (change.moved_from and field.path == "metadata.name")  # that of each new generation differs
    )
    return (*what, bool(change.moved_from), change.recreated, fields)


def _files(why: Why) -> set[str]:
    return {place.path for place in (*why.places, *why.edited, *why.removed)}


def _reason_key(why: Why | None) -> tuple[str, str]:
    return (why.rule, why.text) if why else ("", "")
