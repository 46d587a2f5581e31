"""Use of a live cluster: what runs where, and what waits, as pods and Kueue's workloads by their root owners."""

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct, field

from reconciler.errors import one_line
from reconciler.kinds.kai import QUEUE_LABELS
from reconciler.kinds.progress import conditions, holds
from reconciler.kube.quantities import canonical, parse_quantity
from reconciler.kube.values import count, mapping, metadata_text, plural, sequence, text
from reconciler.live.observe.placed import controller_of, pod_amounts
from reconciler.live.observe.utilisation import Owners, root_owner
from reconciler.repo.evidence.usage import (
    ADMITTED,
    RUNNING,
    SUSPENDED,
    WAITING,
    QueueWaits,
    Usage,
    UsedPodSet,
    UsedWorkload,
    WaitReason,
)
from reconciler.sizing.devices import is_gpu

Body = Mapping[str, Any]
_Amounts = tuple[tuple[str, str], ...]

_POD_SET = "kueue.x-k8s.io/podset"
_MAIN = "main"
_DONE = ("Succeeded", "Failed")
_MAX_MESSAGE, _MAX_REASONS = 160, 2


class UsageSources(Struct, frozen=True, kw_only=True, eq=False):
    """The objects of a cluster that say how it is used. `pods` are read once, one by one.

    gpu_nodes: nodes with GPUs, on which every pod counts; elsewhere only those with GPUs or a workload of Kueue.
    team_label: the label that says whom a workload is charged to.
    """

    pods: Iterable[Body]
    workloads: Sequence[Body] = ()
    local_queues: Sequence[Body] = ()
    owners: Owners
    gpu_nodes: frozenset[str] = frozenset()
    team_label: str = ""
    waits: tuple[QueueWaits, ...] = ()
    coverage: tuple[str, ...] = ()


class _PodUse(Struct, frozen=True, kw_only=True, eq=False):
    """The part of a pod that counts."""

    name: str
    node: str
    phase: str
    pod_set: str
    queue: str
    priority: int
    priority_class: str
    created: str
    placed: str
    started: str
    requests: _Amounts
    waits_for: WaitReason | None


class _UsedItem(Struct, kw_only=True, eq=False):
    """A workload that is being put together: its owners up to the root, its pods, and Kueue's object of it."""

    chain: tuple[Body, ...]
    namespace: str
    team: str
    workload: Body | None = None
    pods: list[_PodUse] = field(default_factory=list)


def observe_usage(cluster: str, sources: UsageSources, observed_at: str) -> Usage:
    """Return the use of a cluster. A workload whose owners cannot be read is named by the last one that can."""
    book = _UseBook(sources)
    for pod in sources.pods:
        book.add(pod)
    return Usage(
        cluster=cluster,
        observed_at=observed_at,
        workloads=tuple(sorted(book.workloads(), key=lambda one: one.key)),
        waits=sources.waits,
        coverage=(*sources.coverage, *book.unread()),
    )


class _UseBook:
    """The workloads of a cluster, by the UID of Kueue's object or of the root owner."""

    def __init__(self, sources: UsageSources) -> None:
        self._sources = sources
        self._queues = {
            (metadata_text(one, "namespace"), metadata_text(one, "name")): text(_spec(one).get("clusterQueue"))
            for one in sources.local_queues
        }
        self._items: dict[str, _UsedItem] = {}
        self._by_owner: dict[str, str] = {}
        self._chains: dict[str, tuple[Body, ...]] = {}
        self._unread: Counter[str] = Counter()
        for body in sources.workloads:
            if holds(body, "Finished") is None:
                self._add_workload(body)

    def _add_workload(self, body: Body) -> None:
        references = [*map(mapping, sequence(_metadata(body).get("ownerReferences")))]
        first = controller_of(body) or min(references, key=lambda one: text(one.get("name")), default={})
        chain = self._chain(body, first)[1:] or (body,)
        self._items[_uid(body)] = self._item((body, *chain), chain, body)
        for reference in references:
            self._by_owner[text(reference.get("uid"))] = _uid(body)

    def add(self, pod: Body) -> None:
        """Add a pod to its workload, if it counts."""
        status, spec = mapping(pod.get("status")), _spec(pod)
        if status.get("phase") in _DONE:
            return
        amounts = pod_amounts(spec)
        chain = self._chain(pod, controller_of(pod))
        uid = next((self._by_owner[_uid(one)] for one in chain if _uid(one) in self._by_owner), "")
        node = text(spec.get("nodeName"))
        if not uid and node not in self._sources.gpu_nodes and not any(map(is_gpu, amounts)):
            return
        key = uid or _uid(chain[-1])
        if key not in self._items:
            self._items[key] = self._item(chain, chain, None)
        self._items[key].pods.append(_pod(pod, amounts, chain))

    def _chain(self, body: Body, reference: Mapping[str, Any]) -> tuple[Body, ...]:
        """Return an object and its owners; those of one owner are looked up once."""
        if not reference:
            return (body,)
        owner = text(reference.get("uid"))
        if owner not in self._chains:
            references = [{**reference, "controller": True}]
            owned = {**body, "metadata": {**_metadata(body), "ownerReferences": references}}
            found, why = root_owner(owned, self._sources.owners)
            if why:
                missing = controller_of(found[-1])
                self._unread[text(missing.get("kind"))] += 1
                found = (*found, _named(missing, metadata_text(body, "namespace")))
            self._chains[owner] = found[1:]
        return (body, *self._chains[owner])

    def _item(self, labelled: Iterable[Body], chain: tuple[Body, ...], workload: Body | None) -> _UsedItem:
        rows = [*labelled]
        namespace, label = metadata_text(rows[0], "namespace"), self._sources.team_label
        teams = (text(mapping(_metadata(one).get("labels")).get(label)) for one in rows) if label else ()
        return _UsedItem(chain=chain, namespace=namespace, team=next(filter(None, teams), namespace), workload=workload)

    def workloads(self) -> Iterator[UsedWorkload]:
        """Yield the workloads: of several with one root, each by the object that Kueue holds."""
        roots = Counter(_identity(item.chain[-1], item.namespace) for item in self._items.values())
        named = set()
        for item in self._items.values():
            root = item.chain[-1] if roots[_identity(item.chain[-1], item.namespace)] == 1 else item.chain[0]
            identity = _identity(root, item.namespace)
            if identity not in named:
                named.add(identity)
                yield _queued(item, identity, self._queues) if item.workload else _placed(item, identity)

    def unread(self) -> Iterator[str]:
        """Yield which owners could not be read."""
        for kind, number in sorted(self._unread.items()):
            yield f"owners of the kind {kind} cannot be read: of {plural(number, 'workload')} the root is not known"


def _queued(item: _UsedItem, identity: tuple[str, ...], queues: Mapping[tuple[str, str], str]) -> UsedWorkload:
    """Return a workload that Kueue holds."""
    body = item.workload or {}
    spec, admission = _spec(body), mapping(mapping(body.get("status")).get("admission"))
    reserved = holds(body, "QuotaReserved")
    runs = any(pod.phase == "Running" for pod in item.pods)
    state = RUNNING if runs else ADMITTED if reserved else SUSPENDED if spec.get("active") is False else WAITING
    local = text(spec.get("queueName"))
    return UsedWorkload(
        **_given(identity),
        queue=local,
        cluster_queue=text(admission.get("clusterQueue")) or queues.get((item.namespace, local), ""),
        priority=_priority(spec.get("priority")),
        priority_class=text(spec.get("priorityClassName")) or text(mapping(spec.get("priorityClassRef")).get("name")),
        owner=item.team,
        state=state,
        conditions=() if runs else tuple(_reasons(body, item.pods)),
        created_at=metadata_text(body, "creationTimestamp"),
        admitted_at=text(reserved.get("lastTransitionTime")) if reserved else "",
        started_at=_started(item.pods),
        pod_sets=tuple(_pod_sets(body, item.pods)),
    )


def _placed(item: _UsedItem, identity: tuple[str, ...]) -> UsedWorkload:
    """Return a workload of pods that no object of Kueue stands for."""
    runs, has_nodes = any(pod.phase == "Running" for pod in item.pods), any(pod.node for pod in item.pods)
    first = max(item.pods, key=lambda pod: pod.priority)
    return UsedWorkload(
        **_given(identity),
        queue=next((pod.queue for pod in item.pods if pod.queue), ""),
        priority=first.priority,
        priority_class=first.priority_class,
        owner=item.team,
        state=RUNNING if runs else ADMITTED if has_nodes else WAITING,
        conditions=() if runs else tuple(_reasons({}, item.pods)),
        created_at=metadata_text(item.chain[-1], "creationTimestamp") or min(pod.created for pod in item.pods),
        admitted_at=min((pod.placed for pod in item.pods if pod.placed), default=""),
        started_at=_started(item.pods),
        pod_sets=tuple(_sets_of(item.pods)),
    )


def _pod(pod: Body, amounts: Mapping[str, Fraction], chain: Iterable[Body]) -> _PodUse:
    spec, status = _spec(pod), mapping(pod.get("status"))
    scheduled = conditions(pod).get("PodScheduled", {})
    labels = [mapping(_metadata(one).get("labels")) for one in chain]
    stuck = scheduled.get("status") == "False"
    return _PodUse(
        name=metadata_text(pod, "name"),
        node=text(spec.get("nodeName")),
        phase=text(status.get("phase")),
        pod_set=text(labels[0].get(_POD_SET)),
        queue=next((text(each[name]) for each in labels for name in QUEUE_LABELS if each.get(name)), ""),
        priority=_priority(spec.get("priority")),
        priority_class=text(spec.get("priorityClassName")),
        created=metadata_text(pod, "creationTimestamp"),
        placed=text(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else "",
        started=text(status.get("startTime")) if status.get("phase") == "Running" else "",
        requests=tuple((name, _quantity(name, amounts[name])) for name in sorted(amounts)),
        waits_for=_reason(scheduled) if stuck else None,
    )


def _pod_sets(body: Body, pods: Iterable[_PodUse]) -> Iterator[UsedPodSet]:
    """Yield the pod sets of Kueue's workload: what it counts once it has considered it, else what templates say."""
    status = mapping(body.get("status"))
    assigned = _by_name(mapping(status.get("admission")).get("podSetAssignments"))
    considered, reclaimable = _by_name(status.get("resourceRequests")), _by_name(status.get("reclaimablePods"))
    sets = [*map(mapping, sequence(_spec(body).get("podSets")))]
    for one in sets:
        name = text(one.get("name")) or _MAIN
        found = assigned.get(name, {})
        asked, least = count(one.get("count"), 1), count(one.get("minCount"), 0)
        number = count(found.get("count"), asked)
        totals = mapping(found.get("resourceUsage")) or mapping(considered.get(name, {}).get("resources"))
        requests = {key: _each(key, totals[key], number if found else asked) for key in totals}
        if not requests:
            amounts = pod_amounts(mapping(mapping(one.get("template")).get("spec")))
            requests = {key: _quantity(key, amount) for key, amount in amounts.items()}
        yield UsedPodSet(
            name=name,
            count=max(0, number - count(reclaimable.get(name, {}).get("count"), 0)),
            min_count=least,
            requests=dict(sorted(requests.items())),
            flavors={key: text(value) for key, value in sorted(mapping(found.get("flavors")).items())},
            nodes=_nodes(pod for pod in pods if len(sets) == 1 or pod.pod_set == name),
        )


def _sets_of(pods: Iterable[_PodUse]) -> Iterator[UsedPodSet]:
    """Yield pods without a workload of Kueue by what they request."""
    groups: dict[_Amounts, list[_PodUse]] = {}
    for pod in pods:
        groups.setdefault(pod.requests, []).append(pod)
    for index, (requests, group) in enumerate(sorted(groups.items())):
        name = f"{_MAIN}-{index}" if index else _MAIN
        yield UsedPodSet(name=name, count=len(group), requests=dict(requests), nodes=_nodes(group))


def _nodes(pods: Iterable[_PodUse]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(Counter(pod.node for pod in pods if pod.node).items()))


def _reasons(body: Body, pods: Iterable[_PodUse]) -> Iterator[WaitReason]:
    """Yield why a workload does not run: its quota, its eviction, its pods; each once."""
    reserved, evicted = conditions(body).get("QuotaReserved", {}), holds(body, "Evicted")
    found = [_reason(reserved)] if reserved.get("status") == "False" else []
    found += [_reason(evicted)] if evicted else []
    found += sorted({pod.waits_for for pod in pods if pod.waits_for}, key=lambda one: (one.reason, one.message))
    yield from [one for one in dict.fromkeys(found) if one.reason or one.message][:_MAX_REASONS]


def _reason(condition: Mapping[str, Any]) -> WaitReason:
    return WaitReason(
        reason=text(condition.get("reason")), message=one_line(text(condition.get("message")), _MAX_MESSAGE)
    )


def _each(name: str, total: Any, number: int) -> str:
    amount = parse_quantity(total) if isinstance(total, str | int | float) else None
    return str(total) if amount is None or number < 1 else _quantity(name, amount / number)


def _quantity(name: str, amount: Fraction) -> str:
    """Return an amount in canonical form: memory in binary units."""
    is_bytes = name in ("memory", "ephemeral-storage") or name.startswith("hugepages-")
    if amount.denominator == 1:
        kibi, rest = divmod(amount.numerator, 1024)
        return canonical(f"{kibi}Ki" if is_bytes and not rest else amount.numerator)
    return canonical(f"{-(-amount.numerator * 10**9 // amount.denominator)}n")


def _by_name(rows: Any) -> dict[str, Mapping[str, Any]]:
    return {text(one.get("name")) or _MAIN: one for one in map(mapping, sequence(rows))}


def _started(pods: Iterable[_PodUse]) -> str:
    return min((pod.started for pod in pods if pod.started), default="")


def _identity(body: Body, namespace: str) -> tuple[str, str, str, str]:
    kind, version = text(body.get("kind")) or "Pod", text(body.get("apiVersion")) or "v1"
    return version, kind, namespace, metadata_text(body, "name")


def _given(identity: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(("api_version", "kind", "namespace", "name"), identity, strict=True))


def _named(reference: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Return what a reference to an owner says of it."""
    metadata = {"name": reference.get("name"), "uid": reference.get("uid"), "namespace": namespace}
    return {"apiVersion": reference.get("apiVersion"), "kind": reference.get("kind"), "metadata": metadata}


def _priority(value: Any) -> int:
    return value if type(value) is int else 0


def _metadata(body: Body) -> Mapping[str, Any]:
    return mapping(body.get("metadata"))


def _spec(body: Body) -> Mapping[str, Any]:
    return mapping(body.get("spec"))


def _uid(body: Body) -> str:
    return text(_metadata(body).get("uid"))


def usage_age(usage: Usage, now: dt.datetime) -> float:
    """Return the age of a usage in seconds; infinite if its time cannot be read."""
    try:
        return (now - dt.datetime.fromisoformat(usage.observed_at)).total_seconds()
    except (ValueError, TypeError):
        return float("inf")
