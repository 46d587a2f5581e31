"""One identity, one file: no two objects may share a path, not even on case-insensitive file systems."""

from collections.abc import Sequence

from reconciler.kinds.facts import QueueRole
from reconciler.kinds.summary import ObjectSummary
from reconciler.policy.references.rules import Evaluation

# Device names that Windows reserves, with any extension: learn.microsoft.com/windows/win32/fileio/naming-a-file.
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(1, 10)), *(f"lpt{digit}" for digit in range(1, 10)))
)
_MAX_LENGTH = 255  # bytes of one name, on every common file system


def check_identity(evaluation: Evaluation, rows: Sequence[ObjectSummary]) -> None:
    """Check the paths of rendered files; distinct lower-case paths, the usual case, cost two sets."""
    paths = [row.path for row in rows]
    if len(set(paths)) != len(paths):
        _duplicates(evaluation, rows)
    joined = "\n".join(paths)
    if joined.lower() != joined:
        _collisions(evaluation, rows)
    folders = {row.namespace for row in rows}
    if (
        not _RESERVED.isdisjoint(folder.lower() for folder in folders)
        or len(max(paths, key=len, default="")) > _MAX_LENGTH
    ):
        _reserved(evaluation, rows)


def _duplicates(evaluation: Evaluation, rows: Sequence[ObjectSummary]) -> None:
    first: dict[str, ObjectSummary] = {}
    for row in sorted(rows, key=lambda row: row.place):
        other = first.setdefault(row.path, row)
        if other is row or (_is_shared(evaluation, row) and other.digest == row.digest):
            continue
        if other.key == row.key:
            hint = "remove one of the two documents, or rename one of the objects"
            evaluation.report(
                "identity.duplicate", row, "is defined twice for this cluster", hint=hint, other=str(other.place)
            )
        else:
            message = f"would be written to the same file as {other.key} of {other.group or 'the core group'}"
            hint = "rename one of the two objects"
            evaluation.report("identity.path-collision", row, message, hint=hint, other=str(other.place))


def _collisions(evaluation: Evaluation, rows: Sequence[ObjectSummary]) -> None:
    first: dict[str, ObjectSummary] = {}
    for row in sorted(rows, key=lambda row: row.place):
        other = first.setdefault(row.path.lower(), row)
        if other.path != row.path:
            message = f"would be written to a file whose name differs from that of {other.key} only in case"
            evaluation.report(
                "identity.path-collision", row, message, hint="rename one of the two objects", other=str(other.place)
            )


def _reserved(evaluation: Evaluation, rows: Sequence[ObjectSummary]) -> None:
    for row in rows:
        if row.namespace.lower() in _RESERVED:
            hint = "use another namespace: Windows cannot check out this folder"
            evaluation.report(
                "identity.path-reserved", row, f"namespace {row.namespace!r} is a reserved name", hint=hint
            )
        elif len(row.path) > _MAX_LENGTH:
            name = row.path.rpartition("/")[2]
            if len(name.encode()) > _MAX_LENGTH:
                message = f"its file name would have {len(name.encode())} bytes; the limit is {_MAX_LENGTH}"
                evaluation.report("identity.path-reserved", row, message, hint="shorten the object's name")


def _is_shared(evaluation: Evaluation, row: ObjectSummary) -> bool:
    """Return whether several documents may render an object: a flavor, or the name of a queue in a namespace."""
    queueing = evaluation.kinds.find(row.group, row.kind).queueing
    return queueing.is_shared or queueing.role is QueueRole.ALIAS
