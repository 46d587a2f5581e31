"""End a workload: the change that removes its file and the folder that it carries, or suspends it. Its claims stay."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.index.build import CompiledRevision, read_files
from reconciler.index.sized.splice import edit_source
from reconciler.kinds.aspects import Holds
from reconciler.kinds.folders import carried_folder
from reconciler.kinds.manifests.ownership import is_kept, without_ownership
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import plural
from reconciler.kube.yaml import read, write
from reconciler.live.preemption.sources import suspended_data
from reconciler.plan.workspace import Workspace
from reconciler.repo.evidence.usage import RUNNING
from reconciler.repo.files import below
from reconciler.submit.proposal import Files

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
    for folder in filter(None, map(carried_folder, read(path, raw).documents)):
        files |= dict.fromkeys(below(index.revision.files.carried, folder))
    renderer = workspace.renderer(index)
    volumes = [one for one in rows if index.context.kinds.find(one.group, one.kind).holds is Holds.VOLUME]
    bodies = {one.name: renderer.object(one.path).manifest.body for one in volumes}
    left = [] if claims else [body for body in bodies.values() if not is_kept(body)]
    if left:
        files[f"{path.rpartition('.')[0]}-claims.yaml"] = b"---\n".join(write(without_ownership(body)) for body in left)
    staying = [name for name, body in bodies.items() if not claims or is_kept(body)]
    return WorkloadDeletion(key=row.key, files=files, claims=tuple(staying))


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


class Completion(Struct, frozen=True, kw_only=True):
    """The files of a change that completes a workload, and what evidence says of it, in a sentence."""

    key: ObjectKey
    files: Files
    use: str


def complete(workspace: Workspace, index: CompiledRevision, name: str, namespace: str, *, suspend: bool) -> Completion:
    """Return the change that completes a job. Raises `ConfigError` for a name that is not that of one job."""
    named = f"job/{name}"
    row = find_workload(index, named, namespace)
    if suspend:
        files: Files = _suspended(workspace, index, row)
    else:
        files = delete(workspace, index, named, namespace, claims=False).files
    return Completion(key=row.key, files=files, use=_use(index, row))


def _suspended(workspace: Workspace, index: CompiledRevision, row: ObjectSummary) -> dict[str, bytes | None]:
    ((_, raw),) = read_files(workspace.repository, index.revision.files.sources, [row.source])
    cluster = index.revision.config.cluster(row.cluster)
    for document in read(row.source, raw).documents:
        if (document.source.line, document.source.column) != (row.line, row.column) or cluster is None:
            continue
        data = suspended_data(index, cluster, document, row.key, dict(document.data))
        if data is not None:
            return {row.source: edit_source(raw, [(document, data)]).content}
    raise ConfigError(f"{row.key} cannot be suspended without being deleted", hint="leave out --suspend")


def _use(index: CompiledRevision, row: ObjectSummary) -> str:
    """Return what evidence says of a workload: it may be older than what runs."""
    usage = index.context.evidence.usage.get(row.cluster)
    if usage is None:
        return "Whether it runs is unknown: no evidence says what runs (reconciler status shows it)."
    found = next((one for one in usage.workloads if one.key == row.key), None)
    if found is None:
        return f"Nothing of it ran at {usage.observed_at}."
    nodes = sorted({name for pods in found.pod_sets for name, _ in pods.nodes})
    where = f" on {', '.join(nodes)}" if nodes else ""
    since = f" since {found.started_at}" if found.started_at else ""
    verb = "runs and is stopped" if found.state == RUNNING else f"is {found.state}"
    return f"It {verb}: {plural(found.gpus, 'GPU')}{where}{since}, as of {usage.observed_at}."
