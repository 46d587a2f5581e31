"""`QueuedJob`: what a workload asks of nodes, read from its manifest, or from the evidence of use."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import Struct

from reconciler.kinds.agentaflow.wishes import PlacementWish, placement_wish
from reconciler.kinds.facts import QueueRole
from reconciler.kinds.kind import Kinds
from reconciler.kinds.kueue.labels import PRIORITY_LABEL
from reconciler.kinds.kueue.pod_requests import pod_requests
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.terms import LabelRequirement, PodRequest, Toleration, TopologyRequest, requirements
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.values import mapping, sequence, text
from reconciler.placement.space import WHOLE
from reconciler.queues.limit_ranges import pod_total, values
from reconciler.repo.evidence.usage import UsedPodSet, UsedWorkload
from reconciler.sizing.devices import WHOLE_GPUS, is_gpu, is_other_device

HOSTNAME = "kubernetes.io/hostname"
GPU_MEMORY = "nvidia.com/gpu.memory"
FORECAST, AFFINITY, TAS, KAI, DRA = "forecast only", "nodeAffinity", "Kueue TAS", "KAI", "DRA"
"""The guarantees of where pods run. The first is none: the scheduler of the cluster decides."""

_MILLI, _MIB = 1000, 1 << 20
_Terms = tuple[tuple[LabelRequirement, ...], ...]


class PodSite(NamedTuple):
    """The nodes that a pod may use. product: of their GPUs; empty: any."""

    resource: str = ""
    product: str = ""
    selector: tuple[tuple[str, str], ...] = ()
    terms: _Terms = ()
    tolerations: tuple[Toleration, ...] = ()

    @property
    def gpu_memory(self) -> int:
        """MiB that the node affinity asks of a GPU; 0: any."""
        found = [int(one.values[0]) + 1 for term in self.terms for one in term if _is_memory(one)]
        return min(found, default=0)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The nodes that it names; empty if it names none."""
        named = [value for key, value in self.selector if key == HOSTNAME]
        named += [value for term in self.terms for one in term if _names_hosts(one) for value in one.values]
        return tuple(sorted(set(named)))


def _is_memory(one: LabelRequirement) -> bool:
    return one.key == GPU_MEMORY and one.operator == "Gt" and len(one.values) == 1 and one.values[0].isdecimal()


def _names_hosts(one: LabelRequirement) -> bool:
    return one.key == HOSTNAME and one.operator == "In"


class PodAsk(Struct, frozen=True, kw_only=True):
    """Equal pods: how many, what each of them requests (thousandths of cores, MiB, GPUs or a share of one), and where.

    prefers: nodes that it would rather use.
    """

    pods: int
    cpu: int = 0
    memory: int = 0
    gpus: int = 0
    share: int = WHOLE
    site: PodSite = PodSite()
    prefers: _Terms = ()
    topology: TopologyRequest | None = None

    @property
    def amount(self) -> int:
        """Thousandths of GPUs of all its pods."""
        return self.pods * self.gpus * self.share


class QueuedJob(Struct, frozen=True, kw_only=True):
    """A workload that needs nodes. `unknown` says why that cannot be told; `held` why its queue does not start it.

    since: when it was submitted; empty: it is new. seconds: how long it runs; None: unknown.
    guaranteed_by: what makes the cluster follow a placement, as far as the manifest says so.
    """

    key: ObjectKey
    pods: tuple[PodAsk, ...]
    priority: int = 0
    since: str = ""
    seconds: float | None = None
    strategy: str = ""
    place: SourceRef | None = None
    unknown: str = ""
    held: str = ""
    guaranteed_by: str = FORECAST
    is_changed: bool = True  # by the plan

    @property
    def amount(self) -> int:
        """Thousandths of GPUs."""
        return sum(one.amount for one in self.pods)

    @property
    def slices(self) -> str:
        """The resource of the slices that its pods request; empty for whole GPUs, and for shares of them."""
        return next((one.site.resource for one in self.pods if is_other_device(one.site.resource)), "")


def job_of_row(
    row: ObjectSummary, body: Mapping[str, Any] | None, kinds: Kinds, priorities: Mapping[str, int]
) -> QueuedJob:
    """Return what an object of the repository asks for. body: its manifest, where it is at hand."""
    pods, unknown = _pods(row, body, kinds)
    wish = placement_wish(body or {})
    return QueuedJob(
        key=row.key,
        pods=pods,
        priority=_priority(row, body or {}, priorities, wish),
        seconds=_seconds(row, body or {}, wish),
        strategy=wish.strategy or "",
        place=row.place,
        unknown=unknown,
        guaranteed_by=_guarantee(row, pods, body or {}, kinds),
    )


def job_of_use(used: UsedWorkload, known: QueuedJob | None) -> QueuedJob:
    """Return what a workload in the evidence asks for; where its pods may run is `known` from the repository."""
    sites = {one.gpus: one for one in known.pods} if known is not None else {}
    pods = tuple(_used(one, sites) for one in used.pod_sets)
    return QueuedJob(
        key=used.key,
        pods=pods,
        priority=used.priority if known is None else max(used.priority, known.priority),
        since=used.created_at,
        seconds=None if known is None else known.seconds,
        strategy="" if known is None else known.strategy,
        place=None if known is None else known.place,
        unknown="" if known is None else known.unknown,
        guaranteed_by=FORECAST if known is None else known.guaranteed_by,
        is_changed=False,
    )


def _used(one: UsedPodSet, sites: Mapping[int, PodAsk]) -> PodAsk:
    cpu, memory, gpus, share, resource = _amounts_of(tuple(one.requests.items()))
    known = sites.get(gpus)
    return PodAsk(
        pods=one.count,
        cpu=cpu,
        memory=memory,
        gpus=gpus,
        share=share,
        site=PodSite(resource=resource) if known is None else known.site,
        prefers=() if known is None else known.prefers,
        topology=None if known is None else known.topology,
    )


@lru_cache(maxsize=1024)  # thousands of workloads request the same few amounts
def _amounts_of(requests: tuple[tuple[str, str], ...]) -> tuple[int, int, int, int, str]:
    return _amounts({name: parse_quantity(text) or Fraction(0) for name, text in requests})


def _amounts(requests: Mapping[str, Fraction]) -> tuple[int, int, int, int, str]:
    """Return thousandths of cores, MiB, GPUs, the share of each, and their resource."""
    cpu, memory = requests.get("cpu", Fraction(0)), requests.get("memory", Fraction(0))
    gpus = {name: amount for name, amount in requests.items() if is_gpu(name) and amount > 0}
    total, resource = sum(gpus.values()), next(iter(gpus), "")
    share = WHOLE if total >= 1 else round(total * WHOLE)
    return math.ceil(cpu * _MILLI), math.ceil(memory / _MIB), math.ceil(total), share or WHOLE, resource


def _pods(row: ObjectSummary, body: Mapping[str, Any] | None, kinds: Kinds) -> tuple[tuple[PodAsk, ...], str]:
    """Return the pods of a workload; and why they are unknown, if they are."""
    if row.uncounted:
        return (), f"{row.uncounted[0]} is not counted"
    devices = sorted({one.resource for one in row.demands})
    if len(devices) > 1 and not WHOLE_GPUS.issuperset(devices):
        return (), f"it requests {' and '.join(devices)}, which are placed apart only"
    if not all(one in WHOLE_GPUS or is_other_device(one) for one in devices):
        return (), f"it requests {devices[0]}, which is not placed"
    known = row.pod_requests
    templates: list[Mapping[str, Any]] = []
    if body is not None and (sets := kinds.pod_sets(body)):
        known = pod_requests(sets, [{} for _ in sets], 1)
        templates = [mapping(one.template.get("spec")) for one in sets]
    asks = [_ask(one, mapping(templates[index]) if templates else {}) for index, one in enumerate(known) if one.pods]
    product = row.product
    if asks and sum(one.amount for one in asks) == round(row.gpus * WHOLE):
        copies = 1 if templates else max(1, row.workloads)
        return tuple(_of_product(one, product, copies) for one in asks), ""
    return tuple(
        PodAsk(
            pods=one.pods - one.spare,
            gpus=math.ceil(one.gpus_per_pod),
            share=WHOLE if one.gpus_per_pod >= 1 else round(one.gpus_per_pod * WHOLE),
            site=PodSite(resource=one.resource, product=one.product, **_where(asks)),
        )
        for one in row.demands
    ), ""


def _where(asks: Sequence[PodAsk]) -> dict[str, Any]:
    """Return where pods may run, if all of them may run on the same nodes."""
    sites = {one.site[2:] for one in asks}
    return dict(zip(PodSite._fields[2:], sites.pop(), strict=True)) if len(sites) == 1 else {}


def _of_product(ask: PodAsk, product: str, copies: int) -> PodAsk:
    site = ask.site if not ask.gpus else ask.site._replace(product=product)
    return PodAsk(
        pods=ask.pods * copies,
        cpu=ask.cpu,
        memory=ask.memory,
        gpus=ask.gpus,
        share=ask.share,
        site=site,
        prefers=ask.prefers,
        topology=ask.topology,
    )


def _ask(pods: PodRequest, spec: Mapping[str, Any]) -> PodAsk:
    each = pod_total(pods.overhead, [(one, {**values(one.limits), **values(one.requests)}) for one in pods.containers])
    cpu, memory, gpus, share, resource = _amounts(each)
    return PodAsk(
        pods=pods.pods,
        cpu=cpu,
        memory=memory,
        gpus=gpus,
        share=share,
        site=PodSite(resource=resource, selector=pods.selector, terms=pods.terms, tolerations=pods.tolerations),
        prefers=_preferred(spec),
        topology=pods.topology,
    )


def _preferred(spec: Mapping[str, Any]) -> _Terms:
    """Return the preferred terms of the node affinity, the strongest first."""
    node = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    terms = [mapping(one) for one in sequence(node.get("preferredDuringSchedulingIgnoredDuringExecution"))]
    ranked = sorted(terms, key=lambda one: -one["weight"] if type(one.get("weight")) is int else 0)
    return tuple(tuple(requirements(mapping(one.get("preference")).get("matchExpressions"))) for one in ranked)


def _priority(row: ObjectSummary, body: Mapping[str, Any], priorities: Mapping[str, int], wish: PlacementWish) -> int:
    """Return the priority of a workload: of its class, else what its annotation says."""
    labels = mapping(mapping(body.get("metadata")).get("labels"))
    name = text(labels.get(PRIORITY_LABEL)) or row.priority_class
    return priorities.get(name, wish.priority or 0)


def _guarantee(row: ObjectSummary, pods: Sequence[PodAsk], body: Mapping[str, Any], kinds: Kinds) -> str:
    """Return what keeps pods on such nodes: a topology, claims, a queue of KAI that binds gangs and shares, labels."""
    if any(one.topology is not None and one.topology.level for one in pods):
        return TAS
    sets = kinds.pod_sets(body) or () if body else ()
    if any(mapping(one.template.get("spec")).get("resourceClaims") for one in sets):
        return DRA
    if row.queue_role is QueueRole.TREE and (len(pods) > 1 or any(one.pods > 1 or one.share < WHOLE for one in pods)):
        return KAI
    return AFFINITY if any(one.site.selector or one.site.terms for one in pods) else FORECAST


def _seconds(row: ObjectSummary, body: Mapping[str, Any], wish: PlacementWish) -> float | None:
    """Return how long a workload runs: as it says, else as sized, else at most as long as its deadline."""
    if wish.duration_seconds is not None:
        return float(wish.duration_seconds)
    if row.gpu_hours and row.gpus:
        return 3600 * row.gpu_hours / row.gpus
    spec = mapping(body.get("spec"))
    found = [spec.get("activeDeadlineSeconds"), mapping(spec.get("runPolicy")).get("activeDeadlineSeconds")]
    return next((float(one) for one in found if type(one) is int), None)
