"""Namespaces that a plan deletes, and what a server deletes with them."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain

from msgspec import Struct

from reconciler.kinds.aspects import Holds
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import ObjectKey
from reconciler.plan.changed_paths import ChangedPaths
from reconciler.plan.edits import Edit
from reconciler.plan.inputs import Inputs
from reconciler.plan.plan import Change, Operation


class DeletedSpace(Struct, frozen=True, kw_only=True):
    """A namespace that goes, and what else is in it by then. `is_known`: a live cluster has told everything."""

    change: Change
    key: ObjectKey
    contents: tuple[str, ...] = ()
    is_known: bool = False


def deleted_spaces(inputs: Inputs, paths: ChangedPaths, edits: Iterable[Edit]) -> tuple[DeletedSpace, ...]:
    """Return the namespaces that a plan deletes, with what Git still wants in them and what live clusters have."""
    gone = [(edit.change, row) for edit in edits if (row := edit.row_before) is not None and _goes(inputs, edit, row)]
    if not gone:
        return ()
    wanted: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in chain(paths.after.values(), inputs.common.rows()):
        wanted[row.cluster, row.namespace].add(str(row.key))
    found = []
    for change, row in gone:
        live = inputs.live.contents.get(row.path)
        contents = sorted(wanted[row.cluster, row.name] | set(live or ()), key=_first)
        is_known = live is not None
        found.append(DeletedSpace(change=change, key=row.key, contents=tuple(contents), is_known=is_known))
    return tuple(found)


def _goes(inputs: Inputs, edit: Edit, row: ObjectSummary) -> bool:
    is_space = inputs.kinds.find(row.group, row.kind).holds is Holds.OBJECTS
    return is_space and edit.change.operation in (Operation.DELETE, Operation.MOVE)


def _first(name: str) -> tuple[bool, str]:
    """Return what sorts claims first: their data is lost."""
    return not name.startswith("PersistentVolumeClaim/"), name
