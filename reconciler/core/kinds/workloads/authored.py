"""What people wrote of objects of Kubernetes' own kinds: without what servers make up for each of them."""

from collections.abc import Iterable, Mapping
from typing import Any

from reconciler.core.kinds.kind import Body
from reconciler.core.values import mapping, sequence, text, without_value

_POD_FIELDS = ("nodeName", "serviceAccount", "priority", "preemptionPolicy")
_JOB_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")
_TOKEN = "kube-api-access-"  # noqa: S105 - the name of a volume
_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def namespace(body: Body) -> Body:
    """Return a Namespace without its finalizer."""
    return _without(body, "spec", ("finalizers",))


def claim(body: Body) -> Body:
    """Return a claim without the volume that was bound to it."""
    return _without(body, "spec", ("volumeName",))


def volume(body: Body) -> Body:
    """Return a volume without the identity of the claim that was bound to it."""
    spec = _without(mapping(body.get("spec")), "claimRef", ("apiVersion", "kind", "resourceVersion", "uid"))
    return {**body, "spec": spec}


def service(body: Body) -> Body:
    """Return a Service without the addresses and ports that a server allocates. Ports of nodes may be chosen ones."""
    spec = mapping(body.get("spec"))
    made = ["clusterIPs", "healthCheckNodePort"]
    made += ["clusterIP"] if spec.get("clusterIP") != "None" else []
    made += ["ipFamilies", "ipFamilyPolicy"] if spec.get("ipFamilyPolicy") == "SingleStack" else []
    found = _without(body, "spec", made)
    if spec.get("type") != "LoadBalancer":
        return found
    ports = [without_value(port, ("nodePort",)) for port in sequence(spec.get("ports"))]
    return {**found, "spec": {**found["spec"], "ports": ports}}


def job(body: Body) -> Body:
    """Return a Job without the selector and the labels that tell its pods from others."""
    spec = mapping(body.get("spec"))
    if spec.get("manualSelector") is True:
        return body
    template = mapping(spec.get("template"))
    metadata = mapping(template.get("metadata"))
    own = _without(metadata, "labels", _JOB_LABELS)
    labels = mapping(body.get("metadata")).get("labels")
    found = {**body, "spec": {**without_value(spec, ("selector",)), "template": {**template, "metadata": own}}}
    if labels is not None and labels == mapping(own.get("labels")):  # a Job without labels gets those of its pods
        return {**found, "metadata": without_value(body["metadata"], ("labels",))}
    return found


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


def _without(body: Body, field: str, names: Iterable[str]) -> dict[str, Any]:
    """Return an object without some fields of one of its fields, and without that one if nothing else is in it."""
    dropped = set(names)
    left = {name: value for name, value in mapping(body.get(field)).items() if name not in dropped}
    return {name: left if name == field else value for name, value in body.items() if name != field or left}
