"""One identity, one file: no two objects may share a path, not even where letter case does not count."""

from collections.abc import Sequence

from reconciler.core.manifests.ownership import SHARED
from reconciler.core.policy.references.rules import Bench
from reconciler.core.summary import ObjectSummary

# Names that Windows keeps for devices, with any extension: learn.microsoft.com/windows/win32/fileio/naming-a-file.
_RESERVED = frozenset(
    ("con", "prn", "aux", "nul", *(f"com{digit}" for digit in range(1, 10)), *(f"lpt{digit}" for digit in range(1, 10)))
)
_LONGEST = 255  # bytes of one name, on every common file system


def judge_identity(bench: Bench, rows: Sequence[ObjectSummary]) -> None:
    """Judge the paths that rows are written to; the usual case, all lower case and different, costs two sets."""
    paths = [row.path for row in rows]
    if len(set(paths)) != len(paths):
        _duplicates(bench, rows)
    together = "\n".join(paths)
    if together.lower() != together:
        _collisions(bench, rows)
    folders = {row.namespace for row in rows}
    if (
        not _RESERVED.isdisjoint(folder.lower() for folder in folders)
        or len(max(paths, key=len, default="")) > _LONGEST
    ):
        _reserved(bench, rows)


def _duplicates(bench: Bench, rows: Sequence[ObjectSummary]) -> None:
    first: dict[str, ObjectSummary] = {}
    for row in sorted(rows, key=lambda row: row.place):
        other = first.setdefault(row.path, row)
        if other is row or (row.kind in SHARED and other.digest == row.digest):
            continue
        if other.key == row.key:
            hint = "keep one of the two documents, or rename the object in one"
            bench.rule("identity.duplicate", row, "is defined twice in this cluster", hint=hint, at=str(other.place))
        else:
            message = f"would be written to the same file as {other.key} of {other.group or 'the core group'}"
            hint = "rename one of the two objects"
            bench.rule("identity.path-collision", row, message, hint=hint, at=str(other.place))


def _collisions(bench: Bench, rows: Sequence[ObjectSummary]) -> None:
    first: dict[str, ObjectSummary] = {}
    for row in sorted(rows, key=lambda row: row.place):
        other = first.setdefault(row.path.lower(), row)
        if other.path != row.path:
            message = f"is written to a file whose name differs from that of {other.key} only in case"
            bench.rule(
                "identity.path-collision", row, message, hint="rename one of the two objects", at=str(other.place)
            )


def _reserved(bench: Bench, rows: Sequence[ObjectSummary]) -> None:
    for row in rows:
        if row.namespace.lower() in _RESERVED:
            hint = "use another namespace: Windows cannot check this folder out"
            bench.rule("identity.path-reserved", row, f"namespace {row.namespace!r} is a reserved name", hint=hint)
        elif len(row.path) > _LONGEST:
            name = row.path.rpartition("/")[2]
            if len(name.encode()) > _LONGEST:
                message = f"its file name would have {len(name.encode())} bytes, {_LONGEST} are possible"
                bench.rule("identity.path-reserved", row, message, hint="shorten the object's name")
