"""Kueue (`kueue.x-k8s.io`): quotas by flavor, cohorts that share them, and namespaced names for both."""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.aspects import Dependents, Life, Lookup, Naming, Offer, Queueing, Source
from reconciler.kinds.facts import QUEUE_DELETION, Body, QueueRole, Quota, Reference, Relations, Users
from reconciler.kinds.kind import Kind
from reconciler.kinds.kueue.labels import PRIORITY_LABEL, QUEUE_LABEL
from reconciler.kinds.kueue.losses import FLAVOR_DELETION, STOPS, flavor_losses, queue_losses
from reconciler.kinds.kueue.quotas import cell_quotas, covered_resources, gpu_quotas
from reconciler.kinds.quantities import gpu_quantity
from reconciler.kinds.terms import (
    CheckTerms,
    CohortTerms,
    FlavorTerms,
    PriorityTerms,
    QueuePolicies,
    QueueTerms,
    ResourceGroup,
    TopologyTerms,
    selector,
    texts,
    tolerations,
)
from reconciler.kube.reasons import Origin
from reconciler.kube.values import mapping, sequence, text
from reconciler.kube.yaml import Document
from reconciler.sizing.devices import product_label

GROUP = "kueue.x-k8s.io"
CLUSTER_QUEUE = (GROUP, "ClusterQueue")
LOCAL_QUEUE = (GROUP, "LocalQueue")
WORKLOAD = (GROUP, "Workload")
COHORT = (GROUP, "Cohort")
PRIORITY_CLASS = (GROUP, "WorkloadPriorityClass")
BY_USAGE = "UsageBasedAdmissionFairSharing"
RESOURCE_FLAVOR = (GROUP, "ResourceFlavor")
TOPOLOGY = (GROUP, "Topology")
ADMISSION_CHECK = (GROUP, "AdmissionCheck")
MULTI_KUEUE_CONFIG = (GROUP, "MultiKueueConfig")
MULTI_KUEUE_CLUSTER = (GROUP, "MultiKueueCluster")
PROVISIONING = "kueue.x-k8s.io/provisioning-request"
"""`controllerName` of the checks for which nodes come on demand."""
MULTI_KUEUE = "kueue.x-k8s.io/multikueue"
"""`controllerName` of the checks, and `managedBy` of the jobs, that Kueue runs on worker clusters."""
_PARAMETERS = frozenset(("MultiKueueConfig", "ProvisioningRequestConfig"))


def _cluster_queue(body: Body) -> Relations:
    spec = mapping(body.get("spec"))
    granting = _granting(spec, text(spec.get("cohortName")) or text(spec.get("cohort")))
    references = (*granting.references, *_checks(spec))
    return replace(granting, references=references, resources=covered_resources(spec), terms=_queue_terms(spec))


def _queue_terms(spec: Mapping[str, Any]) -> QueueTerms:
    groups = map(mapping, sequence(spec.get("resourceGroups")))
    named = tuple((text(name), ()) for name in sequence(spec.get("admissionChecks")))
    checks = map(mapping, sequence(mapping(spec.get("admissionChecksStrategy")).get("admissionChecks")))
    some = tuple((text(check.get("name")), tuple(map(text, sequence(check.get("onFlavors"))))) for check in checks)
    return QueueTerms(
        stop=_stop(spec),
        namespaces=selector(spec.get("namespaceSelector")),
        groups=tuple(
            ResourceGroup(
                tuple(map(text, sequence(group.get("coveredResources")))),
                tuple(text(mapping(flavor).get("name")) for flavor in sequence(group.get("flavors"))),
            )
            for group in groups
        ),
        checks=(*named, *some),
        quotas=tuple(cell_quotas(spec)),
        policies=_policies(spec),
        weight=_weight(spec),
    )


def _policies(spec: Mapping[str, Any]) -> QueuePolicies:
    preemption, fungibility = mapping(spec.get("preemption")), mapping(spec.get("flavorFungibility"))
    borrow = mapping(preemption.get("borrowWithinCohort"))
    threshold = borrow.get("maxPriorityThreshold")
    return QueuePolicies(
        strategy=text(spec.get("queueingStrategy")),
        within=text(preemption.get("withinClusterQueue")),
        reclaim=text(preemption.get("reclaimWithinCohort")),
        borrow=text(borrow.get("policy")),
        threshold=threshold if type(threshold) is int else None,
        can_borrow=text(fungibility.get("whenCanBorrow")),
        can_preempt=text(fungibility.get("whenCanPreempt")),
        preference=text(fungibility.get("preference")),
        by_usage=text(mapping(spec.get("admissionScope")).get("admissionMode")) == BY_USAGE,
    )


def _weight(spec: Mapping[str, Any]) -> str:
    weight = mapping(spec.get("fairSharing")).get("weight")
    return "" if weight is None else str(weight)


def _stop(spec: Mapping[str, Any]) -> str:
    policy = text(spec.get("stopPolicy"))
    return policy if policy in STOPS else ""


def _cohort(body: Body) -> Relations:
    spec = mapping(body.get("spec"))
    granting = _granting(spec, text(spec.get("parentName")) or text(spec.get("parent")))
    return replace(granting, terms=CohortTerms(tuple(cell_quotas(spec)), _weight(spec)))


def _priority(body: Body) -> Relations:
    value = body.get("value")
    return Relations(terms=PriorityTerms(value) if type(value) is int else None)


def _checks(spec: Mapping[str, Any]) -> Iterator[Reference]:
    for index, name in enumerate(sequence(spec.get("admissionChecks"))):
        if text(name):
            yield Reference(*ADMISSION_CHECK, "", text(name), f"spec.admissionChecks[{index}]")
    checks = sequence(mapping(spec.get("admissionChecksStrategy")).get("admissionChecks"))
    for index, check in enumerate(map(mapping, checks)):
        if text(check.get("name")):
            field = f"spec.admissionChecksStrategy.admissionChecks[{index}].name"
            yield Reference(*ADMISSION_CHECK, "", text(check.get("name")), field)


def _admission_check(body: Body) -> Relations:
    """Read a check. That of MultiKueue names the clusters that workloads are sent to."""
    spec = mapping(body.get("spec"))
    parameters = mapping(spec.get("parameters"))
    kind, name = text(parameters.get("kind")), text(parameters.get("name"))
    is_known = kind in _PARAMETERS and bool(name)
    return Relations(
        parent_kind=MULTI_KUEUE_CONFIG,
        parent=name if spec.get("controllerName") == MULTI_KUEUE else "",
        references=(Reference(GROUP, kind, "", name, "spec.parameters.name"),) if is_known else (),
        terms=CheckTerms(text(spec.get("controllerName"))),
    )


def _worker_clusters(body: Body) -> Relations:
    clusters = sequence(mapping(body.get("spec")).get("clusters"))
    return Relations(
        references=tuple(
            Reference(*MULTI_KUEUE_CLUSTER, "", text(name), f"spec.clusters[{index}]")
            for index, name in enumerate(clusters)
            if text(name)
        )
    )


def _granting(spec: Mapping[str, Any], parent: str) -> Relations:
    return Relations(
        parent_kind=COHORT,
        parent=parent,
        quotas=tuple(_quotas(spec, borrows=bool(parent))),
        references=tuple(_flavor_references(spec)),
    )


def _quotas(spec: Mapping[str, Any], *, borrows: bool) -> Iterator[Quota]:
    """Yield a quota for each flavor and resource: the nominal quota is guaranteed, members of a cohort may borrow more.

    Kueue counts whole devices, and rounds fractions up.
    """
    for group, flavor, resource, fields in gpu_quotas(spec):
        nominal = _whole(fields.get("nominalQuota")) or 0.0
        extra = _whole(fields.get("borrowingLimit")) if borrows else 0.0
        limit = None if extra is None else nominal + extra  # None: all that the cohort lends
        lending = _whole(fields.get("lendingLimit")) if borrows else None
        yield Quota(flavor, nominal, limit, resource, lending, group)


def _whole(value: Any) -> float | None:
    amount = gpu_quantity(value)
    return None if amount is None else float(ceil(amount))


def _flavor_references(spec: Mapping[str, Any]) -> Iterator[Reference]:
    for outer, group in enumerate(sequence(spec.get("resourceGroups"))):
        for index, flavor in enumerate(sequence(mapping(group).get("flavors"))):
            name = text(mapping(flavor).get("name"))
            if name:
                field = f"spec.resourceGroups[{outer}].flavors[{index}].name"
                yield Reference(*RESOURCE_FLAVOR, "", name, field)


def _local_queue(body: Body) -> Relations:
    parent = text(mapping(body.get("spec")).get("clusterQueue"))
    references = (Reference(*CLUSTER_QUEUE, "", parent, "spec.clusterQueue"),) if parent else ()
    terms = QueueTerms(stop=_stop(mapping(body.get("spec"))))
    return Relations(parent_kind=CLUSTER_QUEUE, parent=parent, references=references, terms=terms)


def _resource_flavor(body: Body) -> Relations:
    spec = mapping(body.get("spec"))
    topology = text(spec.get("topologyName"))
    labels = mapping(spec.get("nodeLabels"))
    return Relations(
        product=product_label(labels),
        references=(Reference(*TOPOLOGY, "", topology, "spec.topologyName"),) if topology else (),
        terms=FlavorTerms(
            texts(labels), tuple(_taints(spec.get("nodeTaints"))), tolerations(spec.get("tolerations")), topology
        ),
    )


def _taints(values: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the taints that keep pods away: Kueue ignores those that are only a preference."""
    for one in map(mapping, sequence(values)):
        if one.get("effect") in ("NoSchedule", "NoExecute"):
            yield text(one.get("key")), text(one.get("value")), text(one.get("effect"))


def _topology(body: Body) -> Relations:
    levels = sequence(mapping(body.get("spec")).get("levels"))
    return Relations(terms=TopologyTerms(tuple(text(mapping(level).get("nodeLabel")) for level in levels)))


def _offered_products(local: Document, lookup: Lookup) -> Iterator[Offer]:
    """Yield each product once, in the order of the flavors of the ClusterQueue."""
    cluster_queue = lookup.defined(CLUSTER_QUEUE, "", text(_spec(local).get("clusterQueue")))
    seen: set[str] = set()
    for name in _flavor_names(_spec(cluster_queue)):
        flavor = lookup.defined(RESOURCE_FLAVOR, "", name)
        labels = mapping(_spec(flavor).get("nodeLabels"))
        product = product_label(labels)
        if flavor and product and product not in seen:
            seen.add(product)
            label = next(key for key in labels if labels[key] == product)
            yield Offer(product=product, origin=Origin(document=flavor, field=("spec", "nodeLabels", label)))


def _spec(document: Document | None) -> Mapping[str, Any]:
    return mapping(document.data.get("spec")) if document else {}


def _flavor_names(spec: Mapping[str, Any]) -> Iterator[str]:
    for group in sequence(spec.get("resourceGroups")):
        for flavor in sequence(mapping(group).get("flavors")):
            yield text(mapping(flavor).get("name"))


def _admitted_to(cluster_queue: Body) -> Users:
    name = text(mapping(cluster_queue.get("metadata")).get("name"))

    def runs(workload: Body) -> bool:
        return _admission(workload).get("clusterQueue") == name

    return Users(kind=WORKLOAD, runs=runs)


def _admitted_through(local_queue: Body) -> Users:
    metadata = mapping(local_queue.get("metadata"))
    name = text(metadata.get("name"))

    def runs(workload: Body) -> bool:
        return bool(_admission(workload)) and mapping(workload.get("spec")).get("queueName") == name

    return Users(kind=WORKLOAD, namespace=text(metadata.get("namespace")), runs=runs)


def _admission(workload: Body) -> Mapping[str, Any]:
    """Return where a workload is admitted; empty if it is not, or has ended."""
    status = mapping(workload.get("status"))
    ended = any(
        mapping(condition).get("type") == "Finished" and mapping(condition).get("status") == "True"
        for condition in sequence(status.get("conditions"))
    )
    return {} if ended else mapping(status.get("admission"))


KINDS = (
    Kind(
        group=GROUP,
        kind="LocalQueue",
        relations=_local_queue,
        source=Source(dependents=Dependents.NAMED),
        life=Life(deletion=replace(QUEUE_DELETION, users=_admitted_through), losses=queue_losses, is_stateful=True),
        queueing=Queueing(role=QueueRole.ALIAS, offers=_offered_products),
        naming=Naming(rule="reference.queue", labels=(QUEUE_LABEL,)),
    ),
    Kind(
        group=GROUP,
        kind="ClusterQueue",
        is_cluster_scoped=True,
        relations=_cluster_queue,
        source=Source(dependents=Dependents.NAMED),
        life=Life(deletion=replace(QUEUE_DELETION, users=_admitted_to), losses=queue_losses, is_stateful=True),
        queueing=Queueing(role=QueueRole.FLAVORED),
        naming=Naming(rule="reference.cluster-queue"),
    ),
    Kind(
        group=GROUP,
        kind="Cohort",
        is_cluster_scoped=True,
        relations=_cohort,
        life=Life(deletion=QUEUE_DELETION, losses=queue_losses, is_stateful=True),
        queueing=Queueing(role=QueueRole.COHORT),
    ),
    Kind(
        group=GROUP,
        kind="ResourceFlavor",
        is_cluster_scoped=True,
        relations=_resource_flavor,
        source=Source(dependents=Dependents.NAMED),
        life=Life(deletion=FLAVOR_DELETION, losses=flavor_losses),
        queueing=Queueing(role=QueueRole.FLAVOR),
        naming=Naming(rule="reference.resource-flavor"),
    ),
    Kind(
        group=GROUP,
        kind="Topology",
        is_cluster_scoped=True,
        relations=_topology,
        naming=Naming(rule="reference.topology", has_group_in_path=True),
    ),
    Kind(
        group=GROUP,
        kind=PRIORITY_CLASS[1],
        is_cluster_scoped=True,
        relations=_priority,
        naming=Naming(rule="reference.priority-class", labels=(PRIORITY_LABEL,)),
    ),
    Kind(
        group=GROUP,
        kind="AdmissionCheck",
        is_cluster_scoped=True,
        relations=_admission_check,
        queueing=Queueing(role=QueueRole.CHECK),
        naming=Naming(rule="reference.admission-check"),
    ),
    Kind(
        group=GROUP,
        kind=MULTI_KUEUE_CONFIG[1],
        is_cluster_scoped=True,
        relations=_worker_clusters,
        naming=Naming(rule="reference.admission-check"),
    ),
    Kind(
        group=GROUP,
        kind="ProvisioningRequestConfig",
        is_cluster_scoped=True,
        naming=Naming(rule="reference.admission-check"),
    ),
    Kind(
        group=GROUP,
        kind=MULTI_KUEUE_CLUSTER[1],
        is_cluster_scoped=True,
        naming=Naming(rule="reference.admission-check"),
    ),
    Kind(group=GROUP, kind=WORKLOAD[1], naming=Naming(has_group_in_path=True)),
)
