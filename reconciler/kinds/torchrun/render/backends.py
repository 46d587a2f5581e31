"""The shares of a queue as objects of its backend: KAI's Queue, or the objects of Kueue."""

import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from math import ceil
from typing import Any

from reconciler.kinds.rendered import problem_at
from reconciler.kinds.torchrun.intent.queue import Share, TorchrunQueue
from reconciler.kinds.torchrun.networks import networks_of
from reconciler.kinds.torchrun.render.template import PRODUCT_LABELS, Template
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Reason, Traced

PARENT = Traced("default", Reason(rule="torchrun.default", text="the parent queue defaults to `default`"))
UNLIMITED = Traced(-1, Reason(rule="torchrun.default", text="unlimited by default"))
WEIGHT = Traced(1, Reason(rule="torchrun.default", text="overQuotaWeight defaults to 1"))


def kai_queue(queue: TorchrunQueue, labels: dict[str, Any]) -> dict[str, Any]:
    """Return the tree of the Queue, which is cluster-scoped."""
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": queue.queue_name, "labels": labels},
        "spec": {
            "parentQueue": queue.parent or PARENT,
            "resources": {resource: _share(share) for resource, share in queue.shares},
        },
    }


def _share(share: Share) -> dict[str, Traced]:
    return {
        "quota": share.quota or UNLIMITED,
        "limit": share.limit or UNLIMITED,
        "overQuotaWeight": share.weight or WEIGHT,
    }


_API = "kueue.x-k8s.io/v1beta2"

_UNITS = {"cpu": "m", "memory": "M", "gpu": ""}
"""Units of a TorchrunQueue, as in KAI: millicores, megabytes (10^6 bytes), devices."""

_UNLIMITED = {"cpu": "1000000", "memory": "1000000Gi", "gpu": "1000000"}
"""Kueue has no unlimited quota: more than any cluster has, and small enough that a cohort's sum fits 63 bits."""

_PREEMPTION = Traced(
    {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
    Reason(rule="torchrun.preemption", text="guaranteed quota is reclaimed from borrowers, as in KAI"),
)


def kueue_objects(template: Template, labels: dict[str, Any], problems: list[Problem]) -> list[dict[str, Any]]:
    """Return the trees of ResourceFlavor, ClusterQueue and LocalQueue."""
    queue, shares = template.queue, dict(template.queue.shares)
    for resource in ("cpu", "memory"):
        weight = shares[resource].weight
        if weight:
            message = f"Kueue has one weight per queue: the {resource} weight is ignored, and the GPU weight is used"
            problems.append(problem_at(weight, "torchrun.unsupported", message, "remove it", severity=Severity.WARNING))
    keys = {"cpu": "cpu", "memory": "memory", "gpu": template.gpu_key}
    quotas = [{"name": keys[name], **_quota(name, share, template, problems)} for name, share in queue.shares]
    quotas += [{"name": name, "nominalQuota": _endless(name)} for name in _other_resources(template)]
    metadata = {"name": queue.queue_name, "labels": labels}
    flavor = _flavor(template, problems)
    spec = {
        "cohortName": queue.parent or PARENT,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": template.namespace}},
        "preemption": _PREEMPTION,
        "fairSharing": {"weight": shares["gpu"].weight or WEIGHT},
        "resourceGroups": [
            {
                "coveredResources": [quota["name"] for quota in quotas],
                "flavors": [{"name": flavor["metadata"]["name"], "resources": quotas}],
            }
        ],
    }
    if queue.multikueue:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": queue.multikueue}]}
    local = {"name": template.job_queue, "namespace": template.namespace, "labels": labels}
    return [
        flavor,
        {"apiVersion": _API, "kind": "ClusterQueue", "metadata": metadata, "spec": spec},
        {"apiVersion": _API, "kind": "LocalQueue", "metadata": local, "spec": {"clusterQueue": queue.queue_name}},
    ]


def _flavor(template: Template, problems: list[Problem]) -> dict[str, Any]:
    topology, spec = template.queue.topology, dict[str, Any]()
    if template.node_selector:
        spec["nodeLabels"] = dict(template.node_selector)
    if topology:
        spec["topologyName"] = topology
    if topology and not template.node_selector:
        message = "Kueue requires node labels for a topology, and the queue selects none"
        hint = "set scheduling.nodeSelector to labels of the nodes in the topology"
        problems.append(problem_at(topology, "torchrun.topology", message, hint))
    metadata = {"name": _flavor_name(template)}
    return {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": metadata, "spec": spec}


def _flavor_name(template: Template) -> Traced:
    """Name a flavor after its nodes, so that all queues of these nodes share it."""
    selector = dict(template.node_selector)
    if template.gpu_type and not selector.keys() & set(PRODUCT_LABELS):
        selector[PRODUCT_LABELS[0]] = template.gpu_type  # nothing was measured: the wish is all that tells GPUs apart
    if template.queue.topology:
        selector["topology"] = template.queue.topology
    words = [
        value.value if key in PRODUCT_LABELS else f"{key.rpartition('/')[2]}-{value.value}"
        for key, value in sorted(selector.items())
    ]
    name = re.sub(r"[^a-z0-9]+", "-", "-".join(words).lower()).strip("-") or "default-flavor"
    if len(name) > _MAX_LENGTH:
        digest = sha256(repr([(key, value.value) for key, value in sorted(selector.items())]).encode()).hexdigest()
        name = f"{name[: _MAX_LENGTH - 9]}-{digest[:8]}"
    origins = tuple(origin for value in selector.values() for origin in value.reason.origins)
    text = "named after its nodes, so that queues with the same nodes share the flavor and can borrow"
    return Traced(name, Reason(rule="torchrun.flavor", text=text, origins=origins))


_MAX_LENGTH = 63  # characters, as of most names; the API takes more


def _other_resources(template: Template) -> list[str]:
    """Return the other resources of the pods: Kueue admits no pod that requests a resource its queue does not cover."""
    known = {"cpu", "memory", template.gpu_key}
    of_networks = {name for network in networks_of(template.queue) for name in network.resource_names}
    return sorted(({name for amounts in _amounts(template) for name in amounts} | of_networks) - known)


def _amounts(template: Template) -> Iterator[Mapping[str, Any]]:
    yield from (template.limits, template.requests)
    for container in (*template.containers, *template.init_containers):
        resources = container.value.get("resources")
        for part in ("limits", "requests"):
            amounts = resources.get(part) if isinstance(resources, dict) else None
            yield amounts if isinstance(amounts, dict) else {}


def _endless(resource: str) -> Traced:
    text = f"unlimited: pods of the queue request {resource}, and Kueue admits only resources that it covers"
    in_bytes = resource == "ephemeral-storage" or resource.startswith("hugepages-")
    return Traced(_UNLIMITED["memory" if in_bytes else "gpu"], Reason(rule="torchrun.quota", text=text))


def _quota(resource: str, share: Share, template: Template, problems: list[Problem]) -> dict[str, Traced]:
    """Return nominal quota and borrowing limit: their sum is what KAI calls the limit.

    A queue without a quota may use all GPUs that were measured, and no more: else Kueue would admit jobs that do not
    fit together, and none of them would be whole.
    """
    quota, limit = share.quota, share.limit
    for value in (quota, limit):
        if value and resource == "gpu" and value.value != int(value.value):
            message = f"Kueue grants whole GPUs, not {value.value}"
            problems.append(problem_at(value, "torchrun.kueue-fraction", message, "round it up or down"))
    bounded = limit is not None and limit.value >= 0
    if quota is None or quota.value < 0:
        if limit is not None and bounded:
            nominal = _amount(resource, limit.value, limit, "the limit, because the quota is unlimited")
            return {"nominalQuota": nominal, "borrowingLimit": _nothing(resource, limit)}
        if resource == "gpu" and template.measured is not None:
            nominal = Traced(str(template.measured.value), template.measured.reason)
            return {"nominalQuota": nominal, "borrowingLimit": _nothing(resource, template.measured)}
        text = "unlimited: larger than any cluster, because Kueue requires a number"
        origins = quota.reason.origins if quota else ()
        return {"nominalQuota": Traced(_UNLIMITED[resource], Reason(rule="torchrun.quota", text=text, origins=origins))}
    amounts = {"nominalQuota": _amount(resource, quota.value, quota, "the guaranteed quota")}
    if limit is not None and bounded:
        if limit.value < quota.value:
            message = f"limit {limit.value} is below the quota {quota.value}"
            problems.append(problem_at(limit, "torchrun.quota", message, "raise the limit or lower the quota"))
        text = f"limit {limit.value} - quota {quota.value} may be borrowed from the cohort"
        amounts["borrowingLimit"] = _amount(resource, max(0, limit.value - quota.value), limit, text)
    return amounts


def is_endless(template: Template) -> bool:
    """Return whether Kueue admits any number of GPUs: there is no quota and no limit, and no node was measured."""
    share = dict(template.queue.shares)["gpu"]
    given = (amount for amount in (share.quota, share.limit) if amount is not None and amount.value >= 0)
    return template.measured is None and not any(given)


def _nothing(resource: str, of: Traced) -> Traced:
    return _amount(resource, 0, of, "nothing may be borrowed beyond the nominal quota, which is all the queue can use")


def _amount(resource: str, value: float, of: Traced, text: str) -> Traced:
    reason = Reason(rule="torchrun.quota", text=text, origins=of.reason.origins)
    return Traced(f"{ceil(value)}{_UNITS[resource]}", reason)
