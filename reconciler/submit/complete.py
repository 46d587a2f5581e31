"""Complete a workload: the change that removes it, or suspends it, and what of it still runs."""

from msgspec import Struct

from reconciler.errors import ConfigError
from reconciler.index.build import CompiledRevision, read_files
from reconciler.index.sized.splice import edit_source
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import plural
from reconciler.kube.yaml import read
from reconciler.live.preemption.sources import suspended_data
from reconciler.plan.workspace import Workspace
from reconciler.repo.evidence.usage import RUNNING
from reconciler.submit.delete import delete, find_workload
from reconciler.submit.proposal import Files


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
