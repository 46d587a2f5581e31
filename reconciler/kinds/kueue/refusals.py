"""What the webhooks of Kueue refuse of a new workload (0.19, pkg/controller/jobframework and pkg/controller/jobs).

A check is a function of a job, and of a row of one of the tables below, each with its source.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from reconciler.kinds.facts import Body, KindId, PodSet
from reconciler.kinds.kueue.labels import ELASTIC, MAX_LENGTH, MIN_PARALLELISM, POD_GROUP, PREBUILT, QUEUE_LABEL, SYNCED
from reconciler.kinds.kueue.pod_requests import (
    FALSE,
    PREFERRED,
    REQUIRED,
    SET_GROUP,
    SLICE_LEVEL,
    SLICE_SIZE,
    SLICES,
    TRUE,
    UNCONSTRAINED,
    annotations_of,
    constraints,
    topology_request,
)
from reconciler.kinds.terms import Refused, texts
from reconciler.kube.patterns import is_dns_name, is_qualified_name
from reconciler.kube.values import count, mapping, sequence, text, value_at

_POD_COUNT = "kueue.x-k8s.io/pod-group-total-count"
_MANAGED = "kueue.x-k8s.io/managed"
_GATES = "kueue.x-k8s.io/admission-gated-by"
_MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
_HEAD = "head"
_MAX_GATE, _MAX_LAYERS, _MAX_REPLICAS = 63, 3, 1_000_000
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_INT32 = 1 << 31


class _Job(NamedTuple):
    """An object in a queue: its kind, labels, annotations, `spec`, pods, and the prefix of its fields."""

    kind: KindId
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    spec: Mapping[str, Any]
    pods: Sequence[PodSet]
    workloads: int
    prefix: str

    @property
    def is_elastic(self) -> bool:
        return self.annotations.get(ELASTIC) == "true"

    def label(self, name: str) -> str:
        """Return the field of a label."""
        return f'{self.prefix}metadata.labels["{name}"]'

    def annotation(self, name: str) -> str:
        """Return the field of an annotation."""
        return f'{self.prefix}metadata.annotations["{name}"]'

    def field(self, path: str) -> str:
        """Return a field of `spec`."""
        return f"{self.prefix}spec.{path}"


_Check = Callable[[_Job], Iterable[Refused]]


def refusals(kind: KindId, body: Body, pods: Sequence[PodSet], workloads: int, prefix: str) -> tuple[Refused, ...]:
    """Return why the webhooks refuse an object that names a queue, in the order of the checks.

    `prefix` is that of its fields, for a job that another object creates. Its pods are those of so many workloads.
    """
    metadata = mapping(body.get("metadata"))
    labels, annotations = (dict(texts(metadata.get(name))) for name in ("labels", "annotations"))
    job = _Job(kind, labels, annotations, mapping(body.get("spec")), pods, workloads, prefix)
    checks = (_names, *(_FRAMEWORK if kind not in _WITHOUT_FRAMEWORK else ()), *_BY_KIND.get(kind, ()), _topologies)
    if kind in _GROUPED:
        checks = (*checks, _groups)
    return tuple(found for check in checks for found in check(job))


def is_managed(kind: KindId, body: Body) -> bool:
    """Return whether Kueue manages an object in a queue: it leaves a RayJob alone that runs in another cluster."""
    spec = mapping(body.get("spec"))
    return kind != _RAY_JOB or not spec.get("clusterSelector") or spec.get("rayClusterSpec") is not None


def pod_set_count(kind: KindId, body: Body, pods: Sequence[PodSet]) -> int:
    """Return the number of pod sets of a workload: KubeRay adds one for the pod that submits a job."""
    spec = mapping(body.get("spec"))
    has_submitter = text(spec.get("submissionMode")) in ("", "K8sJobMode") and not mapping(
        spec.get("submitterPodTemplate")
    )
    return len(pods) + (kind == _RAY_JOB and has_submitter)


# pkg/controller/jobframework/validation.go


def _names(job: _Job) -> Iterator[Refused]:
    name = job.labels.get(QUEUE_LABEL, "")
    if name and not is_dns_name(name):
        yield Refused(job.label(QUEUE_LABEL), f"{name} is no name of a queue", "use the name of a LocalQueue")
    if job.is_elastic and job.kind not in _ELASTIC_KINDS:
        message = f"Kueue cannot resize a {job.kind[1]}"
        yield Refused(job.annotation(ELASTIC), message, "remove the annotation", since=18)
    gates = job.annotations.get(_GATES, "")
    names = gates.split(",") if gates else []
    wrong = [name for name in names if not _is_gate(name)] or ([gates] if len({*names}) < len(names) else [])
    if wrong:
        message = f"{wrong[0] or 'an empty name'} is no gate of its own"
        yield Refused(job.annotation(_GATES), message, "list gates such as example.com/gate, each once", since=19)


def _is_gate(name: str) -> bool:
    domain, slash, path = name.partition("/")
    return bool(slash and path) and is_dns_name(domain) and len(name) <= _MAX_GATE


def _prebuilt(job: _Job) -> Iterator[Refused]:
    named = [(places, field) for places, field in ((job.annotations, job.annotation), (job.labels, job.label))]
    for places, field in named:
        name = places.get(PREBUILT, "")
        if not name:
            continue
        if not is_dns_name(name):
            yield Refused(field(PREBUILT), f"{name} is no name of a Workload", "use the name of a Workload")
        elif job.kind not in _PREBUILT_KINDS:
            message = f"a {job.kind[1]} cannot use a Workload that exists"
            yield Refused(field(PREBUILT), message, "remove the name")
        return


def _length(job: _Job) -> Iterator[Refused]:
    value = job.labels.get(MAX_LENGTH)
    if value is not None and _integer(value, least=1) is None:
        message = f"{value or 'an empty text'} is no positive number of seconds"
        yield Refused(job.label(MAX_LENGTH), message, "write a whole number of seconds")


_FRAMEWORK: tuple[_Check, ...] = (_prebuilt, _length)


# pkg/controller/jobs/job/job_webhook.go


def _job(job: _Job) -> Iterator[Refused]:
    yield from _partial(job)
    yield from _synced(job)
    for mode in (REQUIRED, PREFERRED):
        if job.is_elastic and any(mode in annotations_of(pods.template) for pods in job.pods):
            field = f'{job.field("template.")}metadata.annotations["{mode}"]'
            yield Refused(field, "an elastic job cannot request it", f"use {UNCONSTRAINED}", since=18)


def _partial(job: _Job) -> Iterator[Refused]:
    value = job.annotations.get(MIN_PARALLELISM)
    if value is None:
        return
    field, most = job.annotation(MIN_PARALLELISM), sum(pods.replicas for pods in job.pods)
    least = _integer(value, least=1)
    if least is None or least >= most:
        message = f"{value or 'an empty text'} is not between 0 and the number of pods, {most}"
        yield Refused(field, message, "write a smaller number, or remove the annotation")
    if job.is_elastic:
        yield Refused(field, "an elastic job cannot start with fewer pods", "remove one of the annotations", since=18)


def _synced(job: _Job) -> Iterator[Refused]:
    value = job.annotations.get(SYNCED)
    if value is None or value in FALSE:
        return
    if value not in TRUE:
        yield Refused(job.annotation(SYNCED), f"{value or 'an empty text'} is neither true nor false", "write true")
        return
    if job.spec.get("completionMode") != "Indexed":
        yield Refused(job.annotation(SYNCED), "only for indexed jobs", "set completionMode: Indexed")
    if count(job.spec.get("parallelism"), 1) != count(job.spec.get("completions"), 1):
        message = f"not equal to parallelism, as {SYNCED} requires"
        yield Refused(job.field("completions"), message, "set both to the same number")


# pkg/controller/jobs/pod/pod_webhook.go


def _pod(job: _Job) -> Iterator[Refused]:
    if job.labels.get(_MANAGED, "true") != "true":
        yield Refused(job.label(_MANAGED), "only true is allowed", "remove the label")
    group = job.annotations.get(POD_GROUP) or job.labels.get(POD_GROUP, "")
    field = job.annotation if job.annotations.get(POD_GROUP) else job.label
    total = job.annotations.get(_POD_COUNT)
    if group and not is_dns_name(group):
        yield Refused(field(POD_GROUP), f"{group} is no name of a group", "use lowercase letters, digits and '-'")
    if total is not None and not group:
        yield Refused(job.annotation(_POD_COUNT), "the pod is in no group", f"add the label {POD_GROUP}")
    elif group and total is None:
        yield Refused(field(POD_GROUP), f"the group has no {_POD_COUNT}", "annotate each pod with the number of pods")
    elif total is not None and _integer(total, least=1) is None:
        yield Refused(job.annotation(_POD_COUNT), f"{total or 'an empty text'} is no number of pods", "write a number")
    prebuilt = job.annotations.get(PREBUILT) or job.labels.get(PREBUILT, "")
    if group and prebuilt and prebuilt != group:
        place = job.annotation if job.annotations.get(PREBUILT) else job.label
        yield Refused(place(PREBUILT), f"not the name of the group, {group}", "use one name for both")


# pkg/controller/jobs/{raycluster,rayjob,rayservice}/*_webhook.go


def _ray_job(job: _Job) -> Iterator[Refused]:
    has_cluster = job.spec.get("rayClusterSpec") is not None
    if job.spec.get("clusterSelector"):
        yield Refused(job.field("clusterSelector"), "Kueue starts no job in a cluster that exists", "remove it")
    elif not has_cluster:
        yield Refused(job.field("rayClusterSpec"), "missing", "add the cluster of the job, or remove the queue")
    else:
        if job.spec.get("shutdownAfterJobFinishes") is not True:
            message = "the cluster would keep its GPUs after the job has ended"
            yield Refused(job.field("shutdownAfterJobFinishes"), message, "set it to true")
        yield from _ray(job, "rayClusterSpec.")


def _ray_service(job: _Job) -> Iterator[Refused]:
    yield from _ray(job, "rayClusterConfig.")


def _ray_cluster(job: _Job) -> Iterator[Refused]:
    yield from _ray(job, "")
    is_scaled = job.is_elastic and job.spec.get("enableInTreeAutoscaling") is True
    if is_scaled and job.spec.get("managedBy") == _MULTI_KUEUE:
        message = "MultiKueue runs no cluster with autoscaling"
        yield Refused(job.field("enableInTreeAutoscaling"), message, "set it to false", since=19)


def _ray(job: _Job, place: str) -> Iterator[Refused]:
    cluster = mapping(value_at(job.spec, tuple(filter(None, place.split(".")))))
    if cluster.get("enableInTreeAutoscaling") is True:
        message, hint = "only elastic clusters have autoscaling", f'annotate it with {ELASTIC}: "true"'
        until = 17 if job.is_elastic else 99
        yield Refused(job.field(f"{place}enableInTreeAutoscaling"), message, hint, until=until)
    for index, group in enumerate(map(mapping, sequence(cluster.get("workerGroupSpecs")))):
        if text(group.get("groupName")).lower() == _HEAD:
            field = job.field(f"{place}workerGroupSpecs[{index}].groupName")
            yield Refused(field, f"{_HEAD} is the name of the head's group", "use another name")


# pkg/controller/jobs/sparkapplication/sparkapplication_webhook.go


def _spark(job: _Job) -> Iterator[Refused]:
    mode = text(job.spec.get("mode"))
    if mode not in ("", "cluster"):  # the operator sets `cluster` where there is none
        yield Refused(job.field("mode"), f"Kueue starts no application in mode {mode}", "use mode: cluster", since=17)
    if mapping(job.spec.get("dynamicAllocation")).get("enabled") is True:
        message = "Kueue starts no application that changes its number of executors"
        yield Refused(job.field("dynamicAllocation.enabled"), message, "set it to false", since=17)


# pkg/controller/jobs/leaderworkerset/leaderworkerset_webhook.go


def _leader_worker_set(job: _Job) -> Iterator[Refused]:
    groups = job.spec.get("replicas")
    if type(groups) is int and not 0 <= groups <= _MAX_REPLICAS:
        yield Refused(job.field("replicas"), f"not between 0 and {_MAX_REPLICAS:,}", "write a smaller number", since=18)


# pkg/controller/jobframework/tas_validation.go


def _topologies(job: _Job) -> Iterator[Refused]:
    for pods in job.pods:
        annotations = annotations_of(pods.template)
        if any(name.startswith("kueue.x-k8s.io/podset-") for name in annotations):
            place = f"{pods.prefix}metadata.annotations"
            yield from _topology(annotations, place)
            yield from _slices(annotations, place, pods.replicas // job.workloads)


def _topology(annotations: Mapping[str, str], place: str) -> Iterator[Refused]:
    modes = [mode for mode in (REQUIRED, PREFERRED, UNCONSTRAINED) if mode in annotations]
    if len(modes) > 1:
        yield Refused(f'{place}["{modes[1]}"]', f"beside {modes[0]}", "keep one of them")
    for name in (REQUIRED, PREFERRED, SLICE_LEVEL):
        if name in annotations and not is_qualified_name(annotations[name]):
            message = f"{annotations[name] or 'an empty text'} is no label of nodes"
            yield Refused(f'{place}["{name}"]', message, "name a level of the Topology")
    if annotations.get(UNCONSTRAINED, "true") not in (*TRUE, *FALSE):
        yield Refused(f'{place}["{UNCONSTRAINED}"]', "neither true nor false", 'write "true"')
    group = annotations.get(SET_GROUP)
    if group is None:
        return
    field = f'{place}["{SET_GROUP}"]'
    if group.isascii() and group.isdecimal():
        yield Refused(field, "a number", "use a name")
    for name in (SLICE_SIZE, SLICE_LEVEL, SLICES):
        if name in annotations:
            yield Refused(field, f"beside {name}", "keep one of them", since=19 if name == SLICES else 0)
    if REQUIRED not in annotations and PREFERRED not in annotations:
        yield Refused(field, f"without {REQUIRED} or {PREFERRED}", "add one of them")


def _slices(annotations: Mapping[str, str], place: str, pods: int) -> Iterator[Refused]:
    size = annotations.get(SLICE_SIZE)
    if size is not None:
        number = _integer(size, least=1)
        if number is None or number > pods:
            message = f"{size or 'an empty text'} is not between 1 and the number of pods, {pods}"
            yield Refused(f'{place}["{SLICE_SIZE}"]', message, "write the number of pods of a slice")
    if (size is None) != (SLICE_LEVEL not in annotations):
        name, other = (SLICE_LEVEL, SLICE_SIZE) if size is None else (SLICE_SIZE, SLICE_LEVEL)
        yield Refused(f'{place}["{name}"]', f"without {other}", "add it")
    if SLICES not in annotations:
        return
    field = f'{place}["{SLICES}"]'
    yield Refused(field, "a feature gate is off by default", f"use {SLICE_LEVEL}", since=17, until=18)
    if size is not None or SLICE_LEVEL in annotations:
        yield Refused(field, f"beside {SLICE_LEVEL if size is None else SLICE_SIZE}", "keep one of them", since=19)
    if problem := _layers(constraints(annotations), pods):
        yield Refused(field, problem, "list one to three layers, from the outermost, as JSON", since=19)


def _layers(layers: Sequence[Mapping[str, Any]] | None, pods: int) -> str:
    """Return what is wrong with slices of several levels; empty if nothing."""
    if layers is None:
        return "no JSON of layers"
    if not 1 <= len(layers) <= _MAX_LAYERS:
        return f"{len(layers)} layers"
    sizes = [one["size"] for one in layers]
    if any(not is_qualified_name(one["topology"]) for one in layers) or min(sizes) < 1:
        return "a layer needs a label of nodes, and a size of at least 1"
    if len({one["topology"] for one in layers}) < len(layers):
        return "two layers of one level"
    if any(outer % inner for outer, inner in pairwise(sizes)):
        return "the size of a layer has to divide that of the one before"
    return f"a slice of {sizes[0]} pods, but there are {pods}" if sizes[0] > pods else ""


def _groups(job: _Job) -> Iterator[Refused]:
    """Check groups of pod sets: two of them, one of which is a single pod, with the same topology."""
    named: dict[str, list[tuple[PodSet, Mapping[str, str]]]] = {}
    for pods in job.pods:
        annotations = annotations_of(pods.template)
        if SET_GROUP in annotations and (REQUIRED in annotations or PREFERRED in annotations):
            named.setdefault(annotations[SET_GROUP], []).append((pods, annotations))
    for name, members in named.items():
        field = f'{members[0][0].prefix}metadata.annotations["{SET_GROUP}"]'
        if len(members) != 2:  # noqa: PLR2004 - a leader and its workers
            yield Refused(field, f"{len(members)} templates in group {name}", "groups have exactly two")
            continue
        counts = [pods.replicas // job.workloads for pods, _ in members]
        if 1 not in counts:
            message = f"{counts[0]} and {counts[1]} pods in group {name}"
            yield Refused(field, message, "one of the two templates has to be of a single pod")
        modes = [request and (request.mode, request.level) for request in (topology_request(one) for _, one in members)]
        if modes[0] != modes[1]:
            yield Refused(field, f"different topologies in group {name}", "request the same for both")


def _integer(value: str, *, least: int) -> int | None:
    """Return a number as Go reads it, if it is of 32 bits and not below `least`; else None."""
    number = int(value) if _INTEGER.fullmatch(value) else None
    return number if number is not None and least <= number < _INT32 else None


_RAY_JOB = ("ray.io", "RayJob")
_KUBEFLOW = tuple(("kubeflow.org", f"{name}Job") for name in ("TF", "Paddle", "PyTorch", "XGBoost", "MPI"))
_RAY = (("ray.io", "RayCluster"), _RAY_JOB, ("ray.io", "RayService"))
_ELASTIC_KINDS = frozenset((("batch", "Job"), *_RAY))
_PREBUILT_KINDS = frozenset(
    (
        ("", "Pod"),
        ("batch", "Job"),
        ("jobset.x-k8s.io", "JobSet"),
        ("trainer.kubeflow.org", "TrainJob"),
        ("workload.codeflare.dev", "AppWrapper"),
        *_KUBEFLOW,
        *_RAY,
    )
)
_WITHOUT_FRAMEWORK = frozenset(
    (("apps", "Deployment"), ("apps", "StatefulSet"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"))
)
_GROUPED = frozenset(
    (
        ("jobset.x-k8s.io", "JobSet"),
        ("kubeflow.org", "MPIJob"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        *_RAY,
    )
)
_BY_KIND: Mapping[KindId, tuple[_Check, ...]] = {
    ("", "Pod"): (_pod,),
    ("batch", "Job"): (_job,),
    ("ray.io", "RayCluster"): (_ray_cluster,),
    _RAY_JOB: (_ray_job,),
    ("ray.io", "RayService"): (_ray_service,),
    ("sparkoperator.k8s.io", "SparkApplication"): (_spark,),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (_leader_worker_set,),
}
