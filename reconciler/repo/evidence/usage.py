"""`GpuUsage` (`evidence/<cluster>/usage.yaml`): what runs where and since when, and what waits, with what it requests.

The file is compact: what workloads have in common is said once (`groups`, `shapes`), and a workload is one line:

    NAME CREATED ADMITTED STARTED PODS...      train 2026-11-28T10:00:00Z +3 +21 main:2:5e1f@node-1,node-2

Times are RFC 3339, seconds after CREATED, or `-`. PODS is NAME:COUNT[/MINIMUM]:SHAPE[@NODE[*PODS],...];
without NAME and COUNT, it is one pod, `main`.
"""

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from reconciler.kube.objects import ObjectKey, split_api_version
from reconciler.kube.problems import Problem, Violation
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.violations import foreign_cluster
from reconciler.kube.yaml import Document, write
from reconciler.sizing.devices import WHOLE_GPUS, is_gpu

KIND = "GpuUsage"
_API_VERSION = "gpureconciler.io/v1alpha1"
_HEADER = b"# What runs where and since when, and what waits. `reconciler observe` writes this file.\n"
_MIN_DIGEST = 4
_MAIN = "main"  # the pods of Kueue's workloads of a single kind of pods
_FIELDS = 4  # of a line before the pods
_PODS = re.compile(r"((?P<name>[^:/@\s]+):(?P<count>\d{1,9})(/(?P<least>\d{1,9}))?:)?(?P<shape>\w+)(@(?P<nodes>\S+))?")
_NODE = re.compile(r"(?P<name>[^*,\s]+)(\*(?P<pods>\d{1,9}))?")
_RULE, _HINT = "evidence.usage", "run `reconciler observe` again"
_Count = Annotated[int, Meta(ge=0)]

RUNNING, ADMITTED, WAITING, SUSPENDED = "running", "admitted", "waiting", "suspended"
"""States of a workload: pods run; it has quota or nodes, and no pod runs yet; it wants to start; it was stopped."""


class _Value(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A value of the file."""


class UsedPodSet(_Value, frozen=True, kw_only=True):
    """Equal pods of a workload. `min_count`: the fewest that it starts with; 0: all.

    requests: what one pod requests, by resource, in canonical quantities, as Kueue counts it.
    flavors: the flavor of each resource, from the admission.
    nodes: the nodes of its pods, each with the number of pods.
    """

    name: str
    count: _Count
    min_count: _Count = 0
    requests: dict[str, str] = {}
    flavors: dict[str, str] = {}
    nodes: tuple[tuple[str, int], ...] = ()

    @property
    def pod_gpus(self) -> int:
        """The GPUs of one pod."""
        return sum(int(parse_quantity(amount) or 0) for name, amount in self.requests.items() if is_gpu(name))


class WaitReason(_Value, frozen=True, kw_only=True):
    """A condition of a workload that does not run: the reason, and a short message."""

    reason: str = ""
    message: str = ""


class _Group(_Value, frozen=True, kw_only=True):
    """The fields that several workloads have in common."""

    api_version: str
    kind: str
    namespace: str = ""
    queue: str = ""
    cluster_queue: str = ""
    priority: int = 0
    priority_class: str = ""
    owner: str = ""
    state: str
    conditions: tuple[WaitReason, ...] = ()


class UsedWorkload(_Group, frozen=True, kw_only=True):
    """A workload by the owner at the root of its pods: the object that somebody created.

    queue: its LocalQueue, or its queue of KAI. cluster_queue: its ClusterQueue; empty if unknown.
    owner: the team that it is charged to: the label of `spec.prices.owners`, else the namespace.
    admitted_at: empty if it waits. Times are RFC 3339 in UTC.
    """

    name: str
    created_at: str = ""
    admitted_at: str = ""
    started_at: str = ""
    pod_sets: tuple[UsedPodSet, ...] = ()

    @property
    def key(self) -> ObjectKey:
        """Its identity."""
        group, _ = split_api_version(self.api_version)
        return ObjectKey(group=group, kind=self.kind, namespace=self.namespace, name=self.name)

    @property
    def gpus(self) -> int:
        """The GPUs that it holds, or waits for."""
        return sum(pods.count * pods.pod_gpus for pods in self.pod_sets)


class QueueWaits(_Value, frozen=True, kw_only=True):
    """The waiting times of a queue's workloads in a window (`7d`), and what says so."""

    queue: str
    samples: _Count
    p50_seconds: float
    p90_seconds: float
    window: str
    source: str


class Usage(Struct, frozen=True, kw_only=True):
    """The workloads of one cluster that run and wait, sorted by identity. `document` is the evidence file.

    coverage: what could not be read, in sentences; the workloads are then not all.
    """

    cluster: str
    observed_at: str
    workloads: tuple[UsedWorkload, ...] = ()
    waits: tuple[QueueWaits, ...] = ()
    coverage: tuple[str, ...] = ()
    document: Document | None = None

    def held_gpus(self) -> dict[str, int]:
        """Return the whole GPUs that pods hold, by node."""
        found: dict[str, int] = {}
        for pods in (one for workload in self.workloads for one in workload.pod_sets):
            whole = (amount for name, amount in pods.requests.items() if name in WHOLE_GPUS)
            gpus = sum(int(parse_quantity(amount) or 0) for amount in whole)
            for node, number in pods.nodes:
                found[node] = found.get(node, 0) + number * gpus
        return found


class _PodShape(_Value, frozen=True, kw_only=True):
    requests: dict[str, str] = {}
    flavors: dict[str, str] = {}


class _Rows(_Group, frozen=True, kw_only=True):
    workloads: tuple[str, ...]


class _Spec(_Value, frozen=True, kw_only=True):
    cluster: str = ""
    observed_at: str
    coverage: tuple[str, ...] = ()
    waits: tuple[QueueWaits, ...] = ()
    shapes: dict[str, _PodShape] = {}
    groups: tuple[_Rows, ...] = ()


class _MalformedRowError(ValueError):
    """A line that is no workload."""


def parse_usage(document: Document, cluster: str) -> tuple[Usage | None, tuple[Problem, ...]]:
    """Read a document that its JSON Schema has accepted, for `cluster` (the folder it lies in)."""
    spec = msgspec.convert(document.data["spec"], _Spec)
    found: dict[ObjectKey, UsedWorkload] = {}
    problems = document.problems([*foreign_cluster(document.data["spec"], cluster), *_read(spec, found)])
    if problems:
        return None, problems
    usage = Usage(
        cluster=cluster,
        observed_at=spec.observed_at,
        workloads=tuple(found[key] for key in sorted(found)),
        waits=spec.waits,
        coverage=spec.coverage,
        document=document,
    )
    return usage, ()


def write_usage(usage: Usage) -> bytes:
    """Write the evidence file. Equal values give equal bytes."""
    shapes: dict[str, _PodShape] = {}
    groups: dict[bytes, tuple[dict[str, Any], list[str]]] = {}
    for workload in sorted(usage.workloads, key=lambda one: one.key):
        common = {name: getattr(workload, name) for name in _Group.__struct_fields__}
        _, rows = groups.setdefault(msgspec.json.encode(tuple(common.values())), (common, []))
        rows.append(_row(workload, shapes))
    spec = _Spec(
        cluster=usage.cluster,
        observed_at=usage.observed_at,
        coverage=usage.coverage,
        waits=tuple(sorted(usage.waits, key=lambda one: one.queue)),
        shapes=dict(sorted(shapes.items())),
        groups=tuple(_Rows(**groups[key][0], workloads=tuple(groups[key][1])) for key in sorted(groups)),
    )
    body = {"apiVersion": _API_VERSION, "kind": KIND, "metadata": {"name": usage.cluster}}
    return _HEADER + write({**body, "spec": msgspec.to_builtins(spec)})


def _read(spec: _Spec, found: dict[ObjectKey, UsedWorkload]) -> Iterator[Violation]:
    for number, group in enumerate(spec.groups):
        common = {name: getattr(group, name) for name in _Group.__struct_fields__}
        for line, row in enumerate(group.workloads):
            path = ("spec", "groups", number, "workloads", line)
            try:
                workload = _workload(common, row.split(), spec.shapes)
            except _MalformedRowError as error:
                yield Violation(rule=_RULE, path=path, message=str(error), hint=_HINT)
                continue
            if workload.key in found:
                yield Violation(rule=_RULE, path=path, message=f"{workload.key} is listed twice", hint="remove one")
            found[workload.key] = workload


def _workload(common: Mapping[str, Any], words: Sequence[str], shapes: Mapping[str, _PodShape]) -> UsedWorkload:
    if len(words) < _FIELDS:
        raise _MalformedRowError("a workload is NAME CREATED ADMITTED STARTED and its pods")
    name, created, admitted, started, *pods = words
    return UsedWorkload(
        **common,
        name=name,
        created_at=_time(created, ""),
        admitted_at=_time(admitted, created),
        started_at=_time(started, created),
        pod_sets=tuple(_pod_set(word, shapes) for word in pods),
    )


def _pod_set(word: str, shapes: Mapping[str, _PodShape]) -> UsedPodSet:
    matched = _PODS.fullmatch(word)
    nodes = [_NODE.fullmatch(node) for node in (matched["nodes"] or "").split(",") if node] if matched else []
    if matched is None or None in nodes:
        raise _MalformedRowError(f"{word!r} is not NAME:COUNT[/MINIMUM]:SHAPE[@NODE[*PODS],...]")
    shape = shapes.get(matched["shape"])
    if shape is None:
        raise _MalformedRowError(f"no shape {matched['shape']!r} in spec.shapes")
    return UsedPodSet(
        name=matched["name"] or _MAIN,
        count=int(matched["count"] or 1),
        min_count=int(matched["least"] or 0),
        requests=shape.requests,
        flavors=shape.flavors,
        nodes=tuple((node["name"], int(node["pods"] or 1)) for node in nodes if node is not None),
    )


def _row(workload: UsedWorkload, shapes: dict[str, _PodShape]) -> str:
    times = (_after(time, workload.created_at) for time in (workload.admitted_at, workload.started_at))
    pods = (_pods(one, shapes) for one in workload.pod_sets)
    return " ".join((workload.name, workload.created_at or "-", *times, *pods))


def _pods(pods: UsedPodSet, shapes: dict[str, _PodShape]) -> str:
    shape = _PodShape(requests=dict(sorted(pods.requests.items())), flavors=dict(sorted(pods.flavors.items())))
    digest = sha256(msgspec.json.encode(shape)).hexdigest()
    size = next(size for size in range(_MIN_DIGEST, len(digest)) if shapes.get(digest[:size], shape) == shape)
    shapes[digest[:size]] = shape
    least = f"/{pods.min_count}" if pods.min_count else ""
    nodes = ",".join(name if count == 1 else f"{name}*{count}" for name, count in sorted(pods.nodes))
    head = "" if (pods.name, pods.count, least) == (_MAIN, 1, "") else f"{pods.name}:{pods.count}{least}:"
    return f"{head}{digest[:size]}{'@' if nodes else ''}{nodes}"


def _time(word: str, created: str) -> str:
    if word == "-":
        return ""
    try:
        if not word.startswith("+"):
            dt.datetime.fromisoformat(word)
            return word
        return _text(dt.datetime.fromisoformat(created) + dt.timedelta(seconds=int(word)))
    except (ValueError, OverflowError):
        raise _MalformedRowError(f"{word!r} is not a time, `+SECONDS` or `-`") from None


def _after(time: str, created: str) -> str:
    """Return a time as seconds after another where it can be read back, else as it is."""
    if not time or not created:
        return time or "-"
    try:
        seconds = int((dt.datetime.fromisoformat(time) - dt.datetime.fromisoformat(created)).total_seconds())
        word = f"+{seconds}"
        return word if seconds >= 0 and _time(word, created) == time else time
    except (ValueError, TypeError):
        return time


def _text(time: dt.datetime) -> str:
    return time.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
