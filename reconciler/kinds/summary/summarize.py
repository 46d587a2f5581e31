"""From the body of an object to its `ObjectSummary`."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from reconciler.kinds.facts import NO_KIND, Body, PodSet, QueueRole, Reference
from reconciler.kinds.kai import PREEMPTIBILITY_LABEL, PRIORITY_LABEL
from reconciler.kinds.kind import FaultyRowError, Kind, Kinds
from reconciler.kinds.kueue.labels import MAX_LENGTH
from reconciler.kinds.kueue.labels import PRIORITY_LABEL as WORKLOAD_PRIORITY_LABEL
from reconciler.kinds.kueue.pod_requests import pod_requests
from reconciler.kinds.kueue.refusals import is_managed, pod_set_count, refusals
from reconciler.kinds.manifests.finished import is_finished
from reconciler.kinds.pods import is_paused, is_stopped, is_suspended, replicas
from reconciler.kinds.quantities import total
from reconciler.kinds.summary.object_summary import (
    Bare,
    Demand,
    Need,
    NodeMatch,
    ObjectSummary,
    Uncounted,
    add_demands,
)
from reconciler.kinds.summary.pods import PodReading, read_pod, required_labels
from reconciler.kinds.summary.providers import unknown_resource
from reconciler.kinds.summary.uncounted import find_uncounted
from reconciler.kinds.workloads import JOB
from reconciler.kube.objects import FieldPath, SourceRef, format_path, split_api_version
from reconciler.kube.quantities import is_positive
from reconciler.kube.values import NOT_JSON, annotation, mapping, metadata_map, sequence, text, value_at
from reconciler.sizing.prices import is_spot

# The resources that pods request as Kueue sees them: any amount counts, of GPUs and of everything else.


class Requested(NamedTuple):
    """The requests of pods.

    requests: resources of which they request any amount.
    stated: resources of which all containers state a request, even of 0; None if there are no containers.
    """

    requests: tuple[str, ...] = ()
    stated: tuple[str, ...] | None = None


def requested_by(templates: Iterable[Mapping[str, Any]]) -> Requested:
    """Return the requests of the pods of these templates.

    As in Kueue (0.19, pkg/workload/resources.go), a limit counts where a container or the pod states no request, and
    the overhead of the pod is added. Pod-level requests are those of the pod (k8s.io/component-helpers/resource).
    """
    found: set[str] = set()
    stated: set[str] | None = None
    for template in templates:
        spec = mapping(template.get("spec"))
        found |= _positive(mapping(spec.get("overhead")))
        found |= _positive({**_amounts(spec, "limits"), **_amounts(spec, "requests")})
        for container in (*sequence(spec.get("containers")), *sequence(spec.get("initContainers"))):
            requests = _amounts(mapping(container), "requests")
            found |= _positive({**_amounts(mapping(container), "limits"), **requests})
            names = {name for name in requests if type(name) is str}
            stated = names if stated is None else stated & names
    return Requested(tuple(sorted(found)), None if stated is None else tuple(sorted(stated)))


def _amounts(part: Mapping[str, Any], field: str) -> dict[str, Any]:
    return mapping(mapping(part.get("resources")).get(field))


def _positive(amounts: Mapping[str, Any]) -> set[str]:
    return {name for name, amount in amounts.items() if type(name) is str and is_positive(amount)}


_SIZING = "gpureconciler.io/sizing"  # the annotation of `index.sized.fields`, which only sizing imports


class _SizingNote(msgspec.Struct):
    gpu_hours: float = 0.0


def summarize(
    kinds: Kinds, *, cluster: str, body: Body, path: str, digest: str, source: SourceRef | None = None
) -> ObjectSummary:
    """Summarize an object from its body alone, so that before and after are measured alike.

    A value that is missing or of the wrong type counts as absent, because schemas report it elsewhere: no body raises
    an error, only a row does whose `relations` do not fit its role.
    """
    metadata = mapping(body.get("metadata"))
    group, _ = split_api_version(text(body.get("apiVersion")))
    kind, namespace = text(body.get("kind")), text(metadata.get("namespace"))
    row = kinds.find(group, kind)
    identity: dict[str, Any] = {
        "cluster": cluster,
        "group": group,
        "kind": kind,
        "namespace": namespace,
        "name": text(metadata.get("name")),
        "path": path,
        "digest": digest,
        "source": source.path if source else "",
        "line": source.line if source else 0,
        "column": source.column if source else 0,
    }
    if row.relations is not None:
        return ObjectSummary(**identity, **_relations(row, body))
    if row.pods.provides is not None:
        return ObjectSummary(**identity, **_provided(row, body))
    pod_sets = kinds.pod_sets(body) if row.pods.read is None else list(row.pods.read(body, ""))
    uncounted = find_uncounted(body, pod_sets or ()) if not kinds.is_known(group, kind) else ()
    if pod_sets is None:
        return ObjectSummary(**identity, uncounted=uncounted)
    return ObjectSummary(**identity, **_workload(kinds, row, body, pod_sets, uncounted))


def _relations(row: Kind, body: Body) -> dict[str, Any]:
    if row.relations is None:
        return {}
    relations = row.relations(body)
    if row.queueing.role is QueueRole.TREE and [quota.product for quota in relations.quotas] != [""]:
        message = f"the relations of {row.kind} ({row.group}) need one quota, of product '': a queue in a tree has one"
        raise FaultyRowError(message, row.id)
    return {
        "parent": relations.parent,
        "parent_kind": relations.parent_kind if relations.parent else NO_KIND,
        "quotas": relations.quotas,
        "references": relations.references,
        "product": relations.product,
        "priority": relations.priority,
        "resources": relations.resources,
        "terms": relations.terms,
        "defaults": relations.defaults,
        "scale": relations.scale,
        "offered_again": relations.offered_again,
        "volume": relations.volume,
        "queue_role": row.queueing.role,
    }


def _provided(row: Kind, body: Body) -> dict[str, Any]:
    """Summarize an object that says what others request: it requests nothing itself."""
    pod_sets = [] if row.pods.provides is None else list(row.pods.provides(body, ""))
    pods = [read_pod(pod_set.template, pod_set.prefix, "") for pod_set in pod_sets]
    requests, stated = requested_by(pod_set.template for pod_set in pod_sets)
    return {
        "provides": True,
        "requests": requests,
        "stated": stated,
        "pods": sum(pod_set.replicas for pod_set in pod_sets),
        "demands": _demands(pod_sets, pods),
        "uncounted": _unknown(pod_sets, pods),
        "provided_as": row.pods.provided_as(body) if row.pods.provided_as is not None else "",
    }


def _demands(pod_sets: Sequence[PodSet], pods: Sequence[PodReading]) -> tuple[Demand, ...]:
    """Return the pods by what each of them requests."""
    return add_demands(
        Demand(
            resource,
            pod.product_of(resource),
            gpus,
            pod_set.replicas,
            pod_set.spare,
            pod_set.least,
            pod_set.most,
        )
        for pod_set, pod in zip(pod_sets, pods, strict=True)
        for resource, gpus in pod.devices.items()
    )


def _unknown(pod_sets: Sequence[PodSet], pods: Sequence[PodReading]) -> tuple[Uncounted, ...]:
    """Return what the pods request besides known devices, and what their object does not say."""
    found = [Uncounted(pod_set.prefix.rstrip("."), pod_set.unknown) for pod_set in pod_sets if pod_set.unknown]
    for pod_set, pod in zip(pod_sets, pods, strict=True):
        found += [Uncounted(f"{pod_set.prefix}spec", unknown_resource(name)) for name in pod.unknown]
        found += [Uncounted(f"{pod_set.prefix}metadata.annotations", f"what KAI refuses: {one}") for one in pod.refused]
    return tuple(dict.fromkeys(found))


def _needs(pod_sets: Sequence[PodSet], pods: Sequence[PodReading], namespace: str) -> Iterator[Need]:
    """Yield what other objects add to the pods, or say of them."""
    for pod_set, pod in zip(pod_sets, pods, strict=True):
        named = (*pod.providers, pod_set.provider) if pod_set.provider is not None else pod.providers
        for provider in named:
            yield Need(
                kinds=provider.kinds,
                namespace=namespace,
                name=provider.name,
                field=provider.field,
                pods=pod_set.replicas,
                adds=provider.adds,
                sets_pods=provider.sets_pods,
                is_optional=provider.is_optional,
                least=pod_set.least,
                most=pod_set.most,
                each=provider.each,
                own=tuple((resource, pod.product_of(resource), gpus) for resource, gpus in pod.devices.items()),
            )


def _bare(pod_sets: Sequence[PodSet], pods: Sequence[PodReading]) -> Iterator[Bare]:
    for pod_set, pod in zip(pod_sets, pods, strict=True):
        yield Bare(pod_set.replicas, pod.containers, pod.product, pod.stated, pod_set.least, pod_set.most)


def _workload(
    kinds: Kinds, row: Kind, body: Body, pod_sets: Sequence[PodSet], uncounted: tuple[Uncounted, ...]
) -> dict[str, Any]:
    namespace = text(mapping(body.get("metadata")).get("namespace"))
    pods = [read_pod(pod_set.template, pod_set.prefix, namespace) for pod_set in pod_sets]
    demands = _demands(pod_sets, pods)
    products = {demand.product for demand in demands}
    queue_kind, queue, queue_field = _queue(kinds, row, body, pod_sets, pods)
    references: dict[tuple[str, str, str], Reference] = {}
    if queue_kind is not None:
        scope = "" if queue_kind.is_cluster_scoped else namespace
        references[*queue_kind.id, queue] = Reference(*queue_kind.id, scope, queue, queue_field)
    for reference in (*_named(kinds, body, namespace), *(reference for pod in pods for reference in pod.references)):
        first = references.setdefault((reference.group, reference.kind, reference.name), reference)
        if reference.writes and reference is not first:
            writes = tuple(sorted({*first.writes, *reference.writes}))
            references[reference.group, reference.kind, reference.name] = replace(first, writes=writes)
    brought = _components(row, body) if row.pods.components is not None else frozenset()
    role = queue_kind.queueing.role if queue_kind is not None else QueueRole.NONE
    requests, stated = _requested(pod_sets) if role is QueueRole.ALIAS else Requested()
    has_ended = is_finished(body)
    return {
        "gpus": total(demand.gpus for demand in demands),
        "gpus_per_pod": max((total(pod.devices.values()) for pod in pods), default=0),
        "pods": sum(pod_set.replicas for pod_set in pod_sets),
        "product": products.pop() if len(products) == 1 else "",
        "vendor": max(demands, key=lambda one: (one.gpus, one.resource, one.product)).resource if demands else "",
        "queue": queue,
        "queue_kind": queue_kind.id if queue_kind is not None else NO_KIND,
        "queue_role": role,
        "suspended": has_ended or _is_suspended(row, body, role),
        "finished": has_ended,
        "references": tuple(reference for key, reference in references.items() if key not in brought),
        "demands": demands,
        **(_requests(row, body, pod_sets, pods, queue_field) if role is QueueRole.ALIAS else {}),
        "requests": requests,
        "stated": stated,
        "is_workload": True,
        "on_nodes": _nodes(pod_sets) if row.pods.on_each_node and demands else None,
        **(_preemption(row, body, pod_sets, pods) if queue_kind and queue_kind.queueing.follows_kai else {}),
        "needs": tuple(_needs(pod_sets, pods, namespace)),
        "uncounted": (*uncounted, *_unknown(pod_sets, pods)),
        "gpu_hours": _gpu_hours(body),
        "bare": tuple(_bare(pod_sets, pods)),
        "replicas": replicas(body),
        **(_charged(body, pod_sets) if demands else {}),
    }


ESTIMATE = "gpureconciler.io/estimated-duration"
"""An annotation of jobs: how long a run takes (`90m`, `4h`, `1h30m`)."""

_ESTIMATES = (ESTIMATE, "agentaflow.gpu/estimated-duration")  # the second one is that of a GPUWorkload

_DURATION = re.compile(r"(?:(\d{1,6}(?:\.\d{1,6})?)h)?(?:(\d{1,8}(?:\.\d{1,6})?)m)?(?:(\d{1,9}(?:\.\d{1,6})?)s)?")
_LIMITS: tuple[FieldPath, ...] = (
    ("spec", "activeDeadlineSeconds"),
    ("spec", "runPolicy", "activeDeadlineSeconds"),
    ("metadata", "labels", MAX_LENGTH),
)
_HOUR, _SECONDS = 3600, re.compile(r"[1-9]\d{0,9}")


def _charged(body: Body, pod_sets: Sequence[PodSet]) -> dict[str, Any]:
    """Return whom a workload is charged to, on which nodes, and for how long it runs as far as it says."""
    first = metadata_map(pod_sets[0].template, "labels")
    labels = {**first, **metadata_map(body, "labels")}
    hours, length = _length(body)
    return {
        "labels": tuple(sorted((key, value) for key, value in labels.items() if type(key) is type(value) is str)),
        "spot": all(is_spot(required_labels(mapping(one.template.get("spec")))) for one in pod_sets),
        "hours": hours,
        "length": length,
    }


def _length(body: Body) -> tuple[float, str]:
    """Return how many hours a job runs, and the field that says so: its estimate, else the first limit."""
    for name in _ESTIMATES:
        matched = _DURATION.fullmatch(annotation(body, name))
        parts = zip(matched.groups(), (1, 60, _HOUR), strict=True) if matched else ()
        if hours := sum(float(number or 0) / of_hour for number, of_hour in parts):
            return hours, name
    for path in _LIMITS:
        seconds = str(value_at(body, path))
        if _SECONDS.fullmatch(seconds):
            return int(seconds) / _HOUR, f"at most, by {path[-1]}"
    return 0.0, ""


def _is_suspended(row: Kind, body: Body, role: QueueRole) -> bool:
    """Return whether a workload starts nothing until a person resumes it.

    Kueue's workloads are committed as suspended: Kueue itself resumes them when there is room.
    """
    if is_stopped(body) or is_paused(body):
        return True
    if role is QueueRole.ALIAS:
        return is_suspended(body) and bool(row.pods.job_metadata)
    return is_suspended(body) or _has_suspended_jobs(row, body)


def _gpu_hours(body: Body) -> float:
    """Return the GPU hours that sizing predicted for the whole run, from its annotation; 0 if there are none."""
    note = metadata_map(body, "annotations").get(_SIZING)
    if not isinstance(note, str) or '"gpu_hours"' not in note:
        return 0.0
    try:
        return max(0.0, msgspec.json.decode(note, type=_SizingNote).gpu_hours)
    except NOT_JSON:
        return 0.0


def _nodes(pod_sets: Sequence[PodSet]) -> NodeMatch:
    """Return the nodes that the pods of a DaemonSet may run on."""
    spec = mapping(pod_sets[0].template.get("spec"))
    fields = ("key", "operator", "value", "effect")
    written = (tuple(text(mapping(one).get(field)) for field in fields) for one in sequence(spec.get("tolerations")))
    return NodeMatch(required_labels(spec), tuple((key, how, value, effect) for key, how, value, effect in written))


def _requests(
    row: Kind, body: Body, pod_sets: Sequence[PodSet], pods: Sequence[PodReading], queue_field: str
) -> dict[str, Any]:
    """Return the workloads that a queue by flavor admits, what each of them requests, and why webhooks refuse it."""
    workloads = max(1, replicas(body)) if row.pods.queued_one_by_one else 1
    found: dict[str, Any] = {
        "workloads": workloads,
        "pod_requests": pod_requests(pod_sets, [pod.devices for pod in pods], workloads),
    }
    jobs = _job_prefix(row)
    prefix = next((prefix for prefix in ("", jobs) if queue_field.startswith(f"{prefix}metadata.")), None)
    if prefix is None:
        return {**found, "pod_sets": 1}  # Kueue manages its pods, not itself
    kind, job = (JOB, value_at(body, row.pods.job_metadata[:-1])) if prefix else (_identity(body)[:2], body)
    if not is_managed(kind, job):
        return found
    count = max(1, pod_set_count(kind, job, pod_sets))
    labels = mapping(mapping(mapping(job).get("metadata")).get("labels"))
    named = (text(mapping(pod_set.template.get("spec")).get("priorityClassName")) for pod_set in pod_sets)
    found["queued_as"] = (text(labels.get(WORKLOAD_PRIORITY_LABEL)), next(filter(None, named), ""))
    return {**found, "pod_sets": count, "refused": refusals(kind, job, pod_sets, workloads, prefix)}


def _requested(pod_sets: Sequence[PodSet]) -> Requested:
    """Return what the pods request at first; how many there are another object may say."""
    starting = (
        pod_set.template
        for pod_set in pod_sets
        if pod_set.replicas > pod_set.spare or (pod_set.provider is not None and pod_set.provider.sets_pods)
    )
    return requested_by(starting)


def _preemption(row: Kind, body: Body, pod_sets: Sequence[PodSet], pods: Sequence[PodReading]) -> dict[str, str]:
    """Return the priority and the preemptibility that KAI reads: from the labels of a workload, or of its pods."""
    found = {"priority_class": "", "preemptibility": ""}
    for labels, _ in _labels(row, body, pod_sets, pods):
        for field, label in (("priority_class", PRIORITY_LABEL), ("preemptibility", PREEMPTIBILITY_LABEL)):
            found[field] = found[field] or text(labels.get(label))
    named = (text(mapping(pod_set.template.get("spec")).get("priorityClassName")) for pod_set in pod_sets)
    found["priority_class"] = found["priority_class"] or next(filter(None, named), "")
    return found


def _queue(
    kinds: Kinds, row: Kind, body: Body, pod_sets: Sequence[PodSet], pods: Sequence[PodReading]
) -> tuple[Kind | None, str, str]:
    """Return kind, name and field of the queue: that of a field of the kind, of a label, or of an annotation of pods.

    The object's own labels win over those of its pods.
    """
    if row.queueing.named is not None and (named := row.queueing.named(body)) is not None:
        return kinds.find(*named.kind), named.name, named.field
    jobs = _job_prefix(row)
    for labels, prefix in _labels(row, body, pod_sets, pods):
        for label, kind in kinds.queue_labels if labels else ():
            name = labels.get(label)
            if jobs and prefix in ("", jobs) and (kind.queueing.role is QueueRole.ALIAS) is not bool(prefix):
                continue  # Kueue reads the label of each job, KAI that of the object which creates them
            if name and type(name) is str:
                return kind, name, f'{prefix}metadata.labels["{label}"]'
    for pod_set in pod_sets:
        scheduler = mapping(pod_set.template.get("spec")).get("schedulerName")
        for reader, key, kind in kinds.queue_annotations if scheduler else ():
            name = annotation(pod_set.template, key) if scheduler == reader else ""
            if name and type(name) is str:
                return kind, name, f'{pod_set.prefix}metadata.annotations["{key}"]'
    return None, "", ""


def _job_prefix(row: Kind) -> str:
    """Return the prefix of the fields of the jobs that an object creates, if they have labels of their own."""
    return f"{format_path(row.pods.job_metadata[:-1])}." if len(row.pods.job_metadata) > 1 else ""


def _has_suspended_jobs(row: Kind, body: Body) -> bool:
    """Return whether the jobs that an object creates are suspended, so that none runs until somebody resumes it."""
    return len(row.pods.job_metadata) > 1 and is_suspended(mapping(value_at(body, row.pods.job_metadata[:-1])))


def _labels(
    row: Kind, body: Body, pod_sets: Sequence[PodSet], pods: Sequence[PodReading]
) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the labels of an object, its jobs, its components, and its pods, each with the prefix of its fields."""
    yield metadata_map(body, "labels"), ""
    if jobs := _job_prefix(row):
        yield mapping(mapping(value_at(body, row.pods.job_metadata)).get("labels")), jobs
    if row.pods.components is not None:
        for path, component in row.pods.components(body):
            yield metadata_map(component, "labels"), f"{format_path(path)}."
    for pod_set, pod in zip(pod_sets, pods, strict=True):
        yield pod.labels, pod_set.prefix


def _named(kinds: Kinds, body: Body, namespace: str) -> Iterator[Reference]:
    """Yield the objects besides queues that an object names by its labels."""
    labels = metadata_map(body, "labels")
    for label, kind in kinds.other_labels if labels else ():
        name = text(labels.get(label))
        if name:
            scope = "" if kind.is_cluster_scoped else namespace
            yield Reference(*kind.id, scope, name, f'metadata.labels["{label}"]')


def _components(row: Kind, body: Body) -> frozenset[tuple[str, str, str]]:
    """Return group, kind and name of the objects that an object wraps, and so creates itself."""
    components = row.pods.components(body) if row.pods.components is not None else ()
    return frozenset(_identity(component) for _, component in components)


def _identity(body: Body) -> tuple[str, str, str]:
    group, _ = split_api_version(text(body.get("apiVersion")))
    return group, text(body.get("kind")), text(mapping(body.get("metadata")).get("name"))
