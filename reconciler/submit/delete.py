"""Delete a workload: the change that removes its file and the folder that it carries. Its claims stay."""

import posixpath
from collections.abc import Iterable, Sequence

from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.index.build import CompiledRevision, read_files
from reconciler.kinds.aspects import Holds
from reconciler.kinds.folders import FOLDER, annotations_of
from reconciler.kinds.manifests.ownership import is_kept, without_ownership
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import plural, text
from reconciler.kube.yaml import Document, read, write
from reconciler.plan.workspace import Workspace
from reconciler.repo.files import below

_GENERAL = {"job": True, "service": False}
"""Types that name no kind: all workloads that end, or that never do."""


class WorkloadDeletion(Struct, frozen=True, kw_only=True):
    """The files of a change that deletes a workload. `claims` are those that stay."""

    key: ObjectKey
    files: dict[str, bytes | None]
    claims: tuple[str, ...]


def delete(
    workspace: Workspace, index: CompiledRevision, named: str, namespace: str, *, claims: bool
) -> WorkloadDeletion:
    """Return the change that deletes `TYPE/NAME`. claims: its claims are deleted with it, unless they are kept.

    Raises `ConfigError` for a type or name that no source renders, and for a file that defines other workloads, too.
    """
    row = find_workload(index, named, namespace)
    path = row.source
    ((_, raw),) = read_files(workspace.repository, index.revision.files.sources, [path])
    rows = [one for one in index.first_summaries() if one.source == path]
    _check_alone(row, rows)
    files: dict[str, bytes | None] = {path: None}
    for document in read(path, raw).documents:
        files |= dict.fromkeys(_carried(index, document))
    renderer = workspace.renderer(index)
    volumes = [one for one in rows if index.context.kinds.find(one.group, one.kind).holds is Holds.VOLUME]
    bodies = {one.name: renderer.object(one.path).manifest.body for one in volumes}
    left = [] if claims else [body for body in bodies.values() if not is_kept(body)]
    if left:
        files[f"{path.rpartition('.')[0]}-claims.yaml"] = b"---\n".join(write(without_ownership(body)) for body in left)
    staying = [name for name, body in bodies.items() if not claims or is_kept(body)]
    return WorkloadDeletion(key=row.key, files=files, claims=tuple(staying))


def _carried(index: CompiledRevision, document: Document) -> Iterable[str]:
    written = text(annotations_of(document).get(FOLDER))
    folder = posixpath.normpath(posixpath.join(posixpath.dirname(document.source.path), written))
    return below(index.revision.files.carried, folder) if written else ()


def find_workload(index: CompiledRevision, named: str, namespace: str) -> ObjectSummary:
    """Return the workload `TYPE/NAME`. Raises `ConfigError` if no source renders it, or several do."""
    kind, _, name = named.partition("/")
    rows = [one for one in index.first_summaries() if one.is_workload and "#" not in one.source]
    types = sorted({one.kind.lower() for one in rows} | set(_GENERAL))
    if not name or kind.lower() not in types:
        raise ConfigError(f"{named!r} is not TYPE/NAME", hint=f"types: {', '.join(types)}")
    found = [
        one
        for one in rows
        if one.name == name and namespace in ("", one.namespace) and _is_of_type(index, one, kind.lower())
    ]
    places = {(one.source, one.namespace) for one in found}
    if not found:
        known = sorted({f"{one.kind.lower()}/{one.name}" for one in rows if _is_of_type(index, one, kind.lower())})
        raise ConfigError(f"no source renders {named}", hint=f"there are {', '.join(known[:10])}" if known else "")
    if len(places) > 1:
        names = ", ".join(sorted({where for _, where in places}))
        raise ConfigError(f"{named} is in several namespaces or files", hint=f"choose one with -n: {names}")
    return found[0]


def _is_of_type(index: CompiledRevision, row: ObjectSummary, kind: str) -> bool:
    if row.kind.lower() == kind:
        return True
    ends = index.context.kinds.find(row.group, row.kind).life.progress is not None
    return _GENERAL.get(kind) is ends


def _check_alone(row: ObjectSummary, rows: Sequence[ObjectSummary]) -> None:
    others = sorted({one.name for one in rows if one.is_workload and (one.line, one.column) != (row.line, row.column)})
    if others:
        message = f"{row.source} defines {plural(len(others), 'other workload')}, too: {', '.join(others)}"
        raise ConfigError(message, hint=f"remove the document at {row.place} by hand")
