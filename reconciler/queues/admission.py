"""Workloads that Kueue never admits, whatever quota is free, and why: `KueueAdmission`.

In the order in which a workload meets them: webhooks, the Workload object, the queues, the namespace, LimitRanges, the
flavors of each resource group, and the domains of a topology. Quotas are for `Borrowing`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reconciler.kinds.kueue import ADMISSION_CHECK, MULTI_KUEUE, PROVISIONING
from reconciler.kinds.summary import ObjectSummary
from reconciler.kinds.terms import (
    CheckTerms,
    LabelRequirement,
    LimitTerms,
    NamespaceTerms,
    PodRequest,
    QueueTerms,
    satisfies,
)
from reconciler.kinds.workloads import NAMESPACE
from reconciler.kube.values import enumerated, plural
from reconciler.queues.domains import MissingEvidence, Room, room
from reconciler.queues.flavors import LABELS, LEVEL, NEWEST, TAINT, Exclusion, Flavors, Version
from reconciler.queues.limit_ranges import LimitBounds, Values, pod_total
from reconciler.queues.queues import QueueUsage
from reconciler.sizing.inventory import Inventory

_NAME = "kubernetes.io/metadata.name"
_PODS = "pods"
_POD_SETS = {8: 18, 10: 19}
"""The most templates of a workload, before the version in which there are more: `podSets` in workload_types.go."""
_MOST_POD_SETS = 18


class AdmissionAnswer(NamedTuple):
    """A reason for which a workload is never admitted; or, if it is not known, what is missing to tell.

    field: the field to change, of the workload, or of `cause`.
    """

    message: str
    hint: str
    field: str
    cause: ObjectSummary | None = None
    is_known: bool = True


class KueueAdmission:
    """Answers for the workloads of a cluster. Its nodes are those of the inventory."""

    def __init__(self, usage: QueueUsage, inventory: Inventory | None, version: Version = NEWEST) -> None:
        self._usage, self._inventory, self._version = usage, inventory, version
        self._flavors = Flavors(usage, version)
        ranges: dict[str, list[LimitTerms]] = {}
        for row in usage.deciding.values():
            if isinstance(row.terms, LimitTerms):
                ranges.setdefault(row.namespace, []).append(row.terms)
        self._bounds = {namespace: LimitBounds(found) for namespace, found in ranges.items()}

    def answers(self, row: ObjectSummary) -> Iterator[AdmissionAnswer]:
        """Yield why a workload is never admitted, and what is not known."""
        if not row.pod_sets:
            return
        yield from self._refused(row)
        queue = self._usage.queues.get(self._usage.queue_of(row))
        yield from self._stopped(row, queue)
        if queue is None or not isinstance(queue.terms, QueueTerms):
            return
        yield from self._namespace(row, queue, queue.terms)
        yield from self._limits(row)
        for pods in row.pod_requests:
            if pods.pods:
                yield from self._placed(row, pods, queue, queue.terms)

    def has_nodes_on_demand(self, row: ObjectSummary) -> bool:
        """Return whether a check of the queue of a workload adds nodes for it."""
        return PROVISIONING in self._controllers(self._usage.queues.get(self._usage.queue_of(row)))

    def _refused(self, row: ObjectSummary) -> Iterator[AdmissionAnswer]:
        minor = self._version[1]
        for one in row.refused:
            if one.since <= minor <= one.until:
                yield AdmissionAnswer(f"Kueue refuses it: {one.message}", one.hint, one.field)
        most = next((most for most, until in _POD_SETS.items() if minor < until), _MOST_POD_SETS)
        if row.pod_sets > most:
            message = (
                f"has {row.pod_sets} templates of pods, and a workload of Kueue {_text(self._version)} at most {most}"
            )
            yield AdmissionAnswer(message, "merge templates that are alike, or split it", "spec")

    def _stopped(self, row: ObjectSummary, queue: ObjectSummary | None) -> Iterator[AdmissionAnswer]:
        local = self._usage.deciding.get((row.queue_kind, row.namespace, row.queue))
        for one in (local, queue):
            if one is not None and isinstance(one.terms, QueueTerms) and one.terms.stop:
                message = f"{one.kind} {one.name} admits no workloads (stopPolicy: {one.terms.stop})"
                yield AdmissionAnswer(message, "remove stopPolicy, or use another queue", "spec.stopPolicy", one)
        found = self._controllers(queue)
        if queue is None or MULTI_KUEUE not in found:
            return
        problem = ""
        if PROVISIONING in found:
            problem = "a check of MultiKueue, and one that provisions nodes"
        elif len(found[MULTI_KUEUE]) > 1:
            problem = "two checks of MultiKueue"
        elif any(found[MULTI_KUEUE]):
            problem = "a check of MultiKueue for some of its flavors"
        if problem:
            message = f"ClusterQueue {queue.name} is inactive: it has {problem}"
            yield AdmissionAnswer(
                message, "keep one check of MultiKueue, for all flavors", "spec.admissionChecksStrategy", queue
            )

    def _controllers(self, queue: ObjectSummary | None) -> dict[str, list[tuple[str, ...]]]:
        """Return the controllers of the checks of a queue, with the flavors that each check is for."""
        found: dict[str, list[tuple[str, ...]]] = {}
        terms = queue.terms if queue is not None else None
        for name, flavors in terms.checks if isinstance(terms, QueueTerms) else ():
            check = self._usage.deciding.get((ADMISSION_CHECK, "", name))
            if check is not None and isinstance(check.terms, CheckTerms):
                found.setdefault(check.terms.controller, []).append(flavors)
        return found

    def _namespace(self, row: ObjectSummary, queue: ObjectSummary, terms: QueueTerms) -> Iterator[AdmissionAnswer]:
        """Yield that the queue does not take workloads of the namespace; its name is always one of its labels."""
        field = "spec.namespaceSelector"
        if terms.namespaces is None:
            message = f"ClusterQueue {queue.name} has no namespaceSelector, so it admits no workloads of any namespace"
            yield AdmissionAnswer(message, "write namespaceSelector: {} to admit those of all namespaces", field, queue)
            return
        known = self._usage.deciding.get((NAMESPACE, "", row.namespace))
        labels = {_NAME: row.namespace}
        if known is not None and isinstance(known.terms, NamespaceTerms):
            labels = {**dict(known.terms.labels), **labels}
        wrong = [one for one in terms.namespaces if not satisfies(one, labels)]
        sure = [one for one in wrong if known is not None or one.key == _NAME]
        if sure:
            message = f"namespaceSelector of ClusterQueue {queue.name} does not match namespace {row.namespace}"
            message += f": {_words(sure[0])}"
            hint = f"change the selector, or the labels of Namespace {row.namespace}"
            yield AdmissionAnswer(message, hint, field, queue)
        elif known is None and any(one.key != _NAME for one in terms.namespaces):
            key = next(one.key for one in terms.namespaces if one.key != _NAME)
            message = f"ClusterQueue {queue.name} admits workloads of namespaces by label {key}, and the labels of"
            message += f" namespace {row.namespace} are not in the repository"
            hint = f"add the Namespace {row.namespace}"
            yield AdmissionAnswer(message, hint, row.references[0].field if row.references else "", is_known=False)

    def _limits(self, row: ObjectSummary) -> Iterator[AdmissionAnswer]:
        bounds = self._bounds.get(row.namespace, _NO_BOUNDS)
        for pods in row.pod_requests:
            for breach in bounds.breaches(pods) if pods.pods else ():
                has_range = bounds is not _NO_BOUNDS
                source = f" (a LimitRange of namespace {row.namespace})" if has_range else ""
                place = f"{pods.field}spec.{breach.field}".removesuffix(".")
                yield AdmissionAnswer(f"{breach.message}{source}", "change the request, or the LimitRange", place)

    def _placed(
        self, row: ObjectSummary, pods: PodRequest, queue: ObjectSummary, terms: QueueTerms
    ) -> Iterator[AdmissionAnswer]:
        """Yield that no flavor of a resource group takes the pods, or that they fit nowhere in its topology."""
        each = self._each(row.namespace, pods)
        asked = [one for one in terms.groups if not {*each, _PODS, *dict(pods.devices)}.isdisjoint(one.resources)]
        candidates: list[list[str]] = []
        for group in asked:
            excluded = [self._flavors.exclusion(flavor, group, pods, terms.groups) for flavor in group.flavors]
            if excluded and all(excluded):
                reasons = [one for one in excluded if one is not None]
                counts_gpus = not {*dict(pods.devices)}.isdisjoint(group.resources)
                if not (counts_gpus and all(one.reason == LABELS for one in reasons)):  # that is `Shortage.mismatches`
                    yield _no_flavor(queue, pods, reasons)
                return
            candidates.append([name for name, reason in zip(group.flavors, excluded, strict=True) if reason is None])
        if not self._flavors.uses_topology(pods, terms.groups):
            return
        if self._flavors.has_several(candidates):
            message = f"its pods need flavors of several resource groups of ClusterQueue {queue.name}, and only one may"
            message += " have a topology"
            yield AdmissionAnswer(message, "put the resources into one resource group", "spec.resourceGroups", queue)
            return
        yield from self._fitted(queue, pods, [name for names in candidates for name in names], each)

    def _each(self, namespace: str, pods: PodRequest) -> Values:
        """Return what each of the pods requests, with the defaults of its namespace."""
        bounds = self._bounds.get(namespace, _NO_BOUNDS)
        return pod_total(pods.overhead, [(one, bounds.requests(one)[0]) for one in pods.containers])

    def _fitted(
        self, queue: ObjectSummary, pods: PodRequest, candidates: Sequence[str], each: Values
    ) -> Iterator[AdmissionAnswer]:
        """Yield that no topology has a domain that is large enough, unless nodes are elsewhere or come on demand."""
        if {MULTI_KUEUE, PROVISIONING} & {*self._controllers(queue)}:
            return
        known = [(self._flavors.terms(name), self._flavors.levels(name)) for name in candidates]
        if any(terms is None or (terms.topology and levels is None) for terms, levels in known):
            return  # the repository lacks it
        found = [(terms, levels) for terms, levels in known if terms is not None and levels]
        field = _topology_field(pods)
        if not found:
            message = f"no flavor of ClusterQueue {queue.name} that its pods use has a topology"
            yield AdmissionAnswer(message, "request a resource of a flavor with topologyName", field)
            return
        rooms = [room(self._inventory, *one, pods, each) for one in found]
        measured = [one for one in rooms if isinstance(one, Room)]
        name = found[0][0].topology
        if any(one.fits >= one.wanted for one in measured):
            return
        for missing in [one for one in rooms if isinstance(one, MissingEvidence)][:1]:
            message = f"whether its pods fit Topology {name} is not known: {missing.what}"
            yield AdmissionAnswer(message, "run `reconciler observe`", field, is_known=False)
            return
        if measured:
            yield _too_small(max(measured, key=lambda one: one.fits), name, field)


_NO_BOUNDS = LimitBounds(())


def _no_flavor(queue: ObjectSummary, pods: PodRequest, excluded: Sequence[Exclusion]) -> AdmissionAnswer:
    reasons = [f"{one.flavor} ({_REASONS[one.reason]}{one.details})" for one in excluded]
    first = excluded[0].reason
    field = {TAINT: f"{pods.field}spec.tolerations", LEVEL: _topology_field(pods)}.get(first, _labels_field(pods))
    message = f"no flavor of ClusterQueue {queue.name} takes its pods: {enumerated(reasons)}"
    return AdmissionAnswer(message, _HINTS[first], field)


def _too_small(best: Room, topology: str, field: str) -> AdmissionAnswer:
    wanted = (
        plural(best.wanted, "such pod") if best.size == 1 else f"{plural(best.wanted, 'slice')} of {best.size} pods"
    )
    where = f"the largest {best.level} of Topology {topology}" if best.level else f"Topology {topology} as a whole"
    message = f"needs room for {wanted}, but {where} has room for {best.fits}"
    return AdmissionAnswer(message, "request fewer or smaller pods, or a wider level", field)


_REASONS = {LABELS: "the pods require ", TAINT: "taint ", LEVEL: ""}
_HINTS = {
    LABELS: "change the node selector of the pods, or add a flavor with these labels to the queue",
    TAINT: "tolerate the taint, or use a queue with another flavor",
    LEVEL: "request a level that the Topology of the flavor has, or use another queue",
}


def _labels_field(pods: PodRequest) -> str:
    return f"{pods.field}spec.{'nodeSelector' if pods.selector else 'affinity'}"


def _topology_field(pods: PodRequest) -> str:
    mode = pods.topology.mode if pods.topology is not None else ""
    name = f"kueue.x-k8s.io/podset-{mode or 'slice-required'}-topology"
    return f'{pods.field}metadata.annotations["{name}"]' if pods.topology is not None else f"{pods.field}metadata"


def _words(one: LabelRequirement) -> str:
    return f"{one.key} {one.operator} {', '.join(one.values)}".rstrip()


def _text(version: Version) -> str:
    return ".".join(map(str, version))
