"""The queue of a GPUWorkload: the one that it names by a label, else the only one there is."""

from collections.abc import Iterator
from typing import Any

from reconciler.kinds.aspects import Lookup
from reconciler.kinds.fields import Fields, Tree
from reconciler.kinds.kai import QUEUE_LABELS
from reconciler.kinds.kaiwo.queues import local_queue
from reconciler.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE
from reconciler.kinds.kueue.labels import QUEUE_LABEL
from reconciler.kinds.torchrun import QUEUE
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Traced
from reconciler.repo.config import Backend

_NAME: FieldPath = ("metadata", "name")
_DEFAULT = "default"
"""The LocalQueue of workloads that name none: Kueue 0.19, pkg/controller/jobframework/defaults.go."""


def workload_queue(fields: Fields, lookup: Lookup, namespace: str, problems: list[Problem]) -> tuple[Tree, list[Tree]]:
    """Return the label that names the queue, and the LocalQueue that the workload brings."""
    backend = lookup.cluster.backend
    labels = {Backend.KUEUE: (QUEUE_LABEL,), Backend.KAI: QUEUE_LABELS}.get(backend, ())
    written = next((label for label in labels if fields.plain("metadata", "labels", label) is not None), "")
    if written or not labels:
        found = fields.get("metadata", "labels", written) if written else None
        return ({written: found} if found is not None else {}), []
    known = [*lookup.defined_names(QUEUE, namespace)]
    if backend is Backend.KUEUE:
        known += [*lookup.defined_names(LOCAL_QUEUE, namespace), *_external(lookup, namespace)]
    known = sorted(set(known))
    if backend is Backend.KUEUE and not known:
        clusters = lookup.defined_names(CLUSTER_QUEUE, "")
        if len(clusters) == 1:
            only = fields.made(clusters[0], "queue", "the only ClusterQueue there is", _NAME)
            return {QUEUE_LABEL: only}, [local_queue(only, namespace)]
    if len(known) == 1 or (_DEFAULT in known and backend is Backend.KUEUE):
        name = known[0] if len(known) == 1 else _DEFAULT
        return {labels[0]: _queue_name(fields, lookup, namespace, name)}, []
    message = f"names none of the queues of namespace {namespace}: {', '.join(known)}" if known else "names no queue"
    hint = f"set the label {labels[0]}"
    problems.append(fields.warning("queue", ("metadata",), message, hint))
    return {}, []


def _queue_name(fields: Fields, lookup: Lookup, namespace: str, name: str) -> Traced:
    found: Any = lookup.defined(QUEUE, namespace, name)
    if lookup.cluster.backend is Backend.KAI and found is not None:
        return fields.made(found.queue_name.value, "queue", f"the queue of TorchrunQueue {name}", _NAME)
    return fields.made(name, "queue", f"the queue of namespace {namespace}", _NAME)


def _external(lookup: Lookup, namespace: str) -> Iterator[str]:
    """Yield the LocalQueues of a namespace that exist outside of the repository."""
    for entry in lookup.cluster.external:
        kind, _, rest = entry.partition("/")
        if kind == LOCAL_QUEUE[1] and rest.startswith(f"{namespace}/"):
            yield rest.partition("/")[2]
