"""What people wrote of objects of Kubernetes' own kinds: without what servers make up for each of them."""

from collections.abc import Mapping
from functools import reduce
from typing import Any

from reconciler.core.kinds.kind import Body
from reconciler.core.objects import FieldPath
from reconciler.core.values import mapping, pruned, sequence, text, value_at

_POD_FIELDS = ("nodeName", "serviceAccount", "priority", "preemptionPolicy")
_JOB_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
_POD_LABELS: FieldPath = ("spec", "template", "metadata", "labels")
_TOKEN = "kube-api-access-"  # noqa: S105 - the name of a volume
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


def pod(body: Body) -> Body:
    """Return a Pod without its node, the mounted token, and what admission adds to every Pod."""
    spec = mapping(body.get("spec"))
    found = {name: value for name, value in spec.items() if name not in _POD_FIELDS}
    if found.get("serviceAccountName") == "default":
        del found["serviceAccountName"]
    for name in ("containers", "initContainers"):
        found |= {name: [_unmounted(mapping(one)) for one in sequence(spec.get(name))]} if name in spec else {}
    found["volumes"] = _named(spec.get("volumes"))
    found["tolerations"] = [item for item in sequence(spec.get("tolerations")) if not _is_of_every_pod(mapping(item))]
    return {**body, "spec": found}


def _unmounted(container: Mapping[str, Any]) -> dict[str, Any]:
    return {**container, "volumeMounts": _named(container.get("volumeMounts"))}


def _named(items: Any) -> list[Any]:
    """Return volumes or mounts without that of the token."""
    return [item for item in sequence(items) if not text(mapping(item).get("name")).startswith(_TOKEN)]


def _is_of_every_pod(toleration: Mapping[str, Any]) -> bool:
    return toleration.get("key") in _NODE_TAINTS and toleration.get("tolerationSeconds") == 300  # noqa: PLR2004


def _without(body: Body, *paths: FieldPath) -> Body:
    return reduce(pruned, paths, body)
