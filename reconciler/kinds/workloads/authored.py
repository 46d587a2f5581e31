"""The part that people wrote of objects of Kubernetes' own kinds: without what servers make up for each of them."""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from reconciler.kinds.facts import Body
from reconciler.kube.objects import FieldPath
from reconciler.kube.values import mapping, pruned, sequence, text, value_at

# The scheduler and the API server set them.
_POD_FIELDS = ("nodeName", "serviceAccount", "priority", "preemptionPolicy")
_JOB_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
_POD_LABELS: FieldPath = ("spec", "template", "metadata", "labels")
_TOKEN = "kube-api-access-"  # noqa: S105 - the name of a volume
# An API server lets every pod tolerate them for a while.
_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def namespace(body: Body) -> Body:
    """Return a Namespace without its finalizer."""
    return _without(body, ("spec", "finalizers"))


def claim(body: Body) -> Body:
    """Return a claim without the volume that was bound to it."""
    return _without(body, ("spec", "volumeName"))


def volume(body: Body) -> Body:
    """Return a volume without the identity of the claim that was bound to it."""
    return _without(body, *(("spec", "claimRef", name) for name in ("apiVersion", "kind", "resourceVersion", "uid")))


def service(body: Body) -> Body:
    """Return a Service without the addresses and ports that a server allocates. Ports of nodes may be chosen ones."""
    spec = mapping(body.get("spec"))
    made: list[FieldPath] = [("spec", "clusterIPs"), ("spec", "healthCheckNodePort")]
    made += [("spec", "clusterIP")] if spec.get("clusterIP") != "None" else []
    made += [("spec", "ipFamilies"), ("spec", "ipFamilyPolicy")] if spec.get("ipFamilyPolicy") == "SingleStack" else []
    ports = range(len(sequence(spec.get("ports")))) if spec.get("type") == "LoadBalancer" else ()
    return _without(body, *made, *(("spec", "ports", at, "nodePort") for at in ports))


def job(body: Body) -> Body:
    """Return a Job without the selector and the labels that tell its pods from others."""
    if value_at(body, ("spec", "manualSelector")) is True:
        return body
    found = _without(body, ("spec", "selector"), *((*_POD_LABELS, name) for name in _JOB_LABELS))
    labels: FieldPath = ("metadata", "labels")
    # A Job without labels gets those of its pods.
    return _without(found, labels) if value_at(found, labels) == value_at(found, _POD_LABELS) else found


def stateful_set(body: Body) -> Body:
    """Return a StatefulSet without the status of its claims, which they never get there."""
    claims = range(len(sequence(value_at(body, ("spec", "volumeClaimTemplates")))))
    return _without(body, *(("spec", "volumeClaimTemplates", at, "status") for at in claims))


def pod(body: Body) -> Body:
    """Return a Pod without its node, the mounted token, and what admission adds to every Pod."""
    spec = {name: value for name, value in mapping(body.get("spec")).items() if name not in _POD_FIELDS}
    if spec.get("serviceAccountName") == "default":
        del spec["serviceAccountName"]
    for name, is_added in (("volumes", _is_token), ("tolerations", _is_of_every_pod)):
        spec = _without_items(spec, name, is_added)
    for name in spec.keys() & {"containers", "initContainers"}:
        spec[name] = [_without_items(mapping(one), "volumeMounts", _is_token) for one in sequence(spec[name])]
    return {**body, "spec": spec}


def _without_items(
    body: Mapping[str, Any], field: str, is_added: Callable[[Mapping[str, Any]], bool]
) -> dict[str, Any]:
    """Return a body without some items of one of its lists, and without the list if it has no others."""
    left = [item for item in sequence(body.get(field)) if not is_added(mapping(item))]
    return {name: left if name == field else value for name, value in body.items() if name != field or left}


def _is_token(volume: Mapping[str, Any]) -> bool:
    return text(volume.get("name")).startswith(_TOKEN)


def _is_of_every_pod(toleration: Mapping[str, Any]) -> bool:
    return toleration.get("key") in _NODE_TAINTS and toleration.get("tolerationSeconds") == 300  # noqa: PLR2004


def _without(body: Body, *paths: FieldPath) -> Body:
    return reduce(pruned, paths, body)
