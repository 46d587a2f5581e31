"""What one pod template asks for: devices, the product they must be, labels, and the objects it refers to."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.core.quantities import parse_quantity
from reconciler.core.summary.object_summary import Reference

KUEUE_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
KAI_QUEUE_LABELS = ("kai.scheduler/queue", "runai/queue")

PRODUCT_LABELS = (
    "nvidia.com/gpu.product",  # NVIDIA's gpu-feature-discovery
    "amd.com/gpu.product-name",  # AMD's node labeller, and its older beta name
    "beta.amd.com/gpu.product-name",
    "gpu.nvidia.com/class",  # CoreWeave
    "gpu.nvidia.com/model",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
"""Node labels whose value names a GPU product."""

WHOLE_GPUS = frozenset({"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"})
"""Extended resources of which one is one whole device."""

_SHARED_GPU = "nvidia.com/gpu.shared"
_MIG = "nvidia.com/mig-"
_FRACTIONS = ("gpu-fraction", "gpu-memory")
_FRACTION_DEVICES = "gpu-fraction-num-devices"
_MOST = 1_000_000  # a count above is absurd; the bound keeps every sum inside 64 bits


class PodReading(NamedTuple):
    """A pod template as far as the census reads it."""

    devices: dict[str, int]
    product: str
    labels: Mapping[str, Any]
    references: list[Reference]

    def product_of(self, resource: str) -> str:
        """Return the product its pods select, or the resource itself where one is only a slice of a GPU."""
        return self.product if resource in WHOLE_GPUS else resource


_NOTHING: dict[str, Any] = {}


def mapping(value: Any) -> dict[str, Any]:
    """`value` if it is a mapping, else an empty one."""
    return value if type(value) is dict else _NOTHING


def sequence(value: Any) -> Sequence[Any]:
    """`value` if it is a list, else an empty one."""
    return value if type(value) is list else ()


def text(value: Any) -> str:
    """`value` if it is a string, else an empty one."""
    return value if type(value) is str else ""


def count(value: Any, default: int) -> int:
    """`value` if it is a whole number, from 0 to a million, else `default`."""
    return min(max(value, 0), _MOST) if type(value) is int else default


def is_gpu(resource: Any) -> bool:
    """Tell whether an extended resource is a GPU or a slice of one."""
    return resource in WHOLE_GPUS or (type(resource) is str and (resource == _SHARED_GPU or resource.startswith(_MIG)))


def amount(value: Any) -> int:
    """Whole devices in a quantity: `8`, `"8"`; what is none, or negative, counts 0."""
    if type(value) is int:
        return count(value, 0)
    if type(value) is not str or len(value) > 32:  # noqa: PLR2004 - no real quantity is longer
        return 0
    if value.isdecimal() and value.isascii():
        return count(int(value), 0)
    exact = parse_quantity(value)
    return count(int(exact), 0) if exact is not None else 0


def read_pod(template: Mapping[str, Any], prefix: str, namespace: str) -> PodReading:
    """Read a pod template (`metadata` and `spec`) that stands at the field `prefix` of its object."""
    metadata, spec = mapping(template.get("metadata")), mapping(template.get("spec"))
    labels = mapping(metadata.get("labels"))
    devices = _devices(spec)
    annotations = mapping(metadata.get("annotations"))
    if annotations and not devices and any(key in annotations for key in _FRACTIONS):
        # KAI's GPU sharing: a fraction occupies a device that nobody outside the share can have, so it counts whole.
        devices = {"nvidia.com/gpu": max(1, amount(annotations.get(_FRACTION_DEVICES)))}
    product = _product(spec) if "nodeSelector" in spec or "affinity" in spec else ""
    at = f"{prefix}.spec" if prefix else "spec"
    return PodReading(devices, product, labels, list(_references(spec, at, namespace)))


def _devices(spec: Mapping[str, Any]) -> dict[str, int]:
    """Devices of one pod: the sum of its containers and sidecars, or the largest init container if that is more.

    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    total: dict[str, int] = {}
    for container in sequence(spec.get("containers")):
        for resource, devices in _container(container):
            total[resource] = total.get(resource, 0) + devices
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in sequence(spec.get("initContainers")):
        lasting = mapping(container).get("restartPolicy") == "Always"
        for resource, devices in _container(container):
            while_starting = sidecars.get(resource, 0) + devices
            peak[resource] = max(peak.get(resource, 0), while_starting)
            if lasting:
                sidecars[resource] = while_starting
    for resource, devices in peak.items():
        total[resource] = max(total.get(resource, 0) + sidecars.get(resource, 0), devices)
    return total


def _container(container: Any) -> Iterator[tuple[str, int]]:
    resources = mapping(mapping(container).get("resources"))
    limits = mapping(resources.get("limits"))
    for resource in limits:
        if is_gpu(resource) and (devices := amount(limits[resource])):
            yield resource, devices
    requests = mapping(resources.get("requests"))
    for resource in requests:
        if resource not in limits and is_gpu(resource) and (devices := amount(requests[resource])):
            yield resource, devices


def product_label(labels: Mapping[str, Any]) -> str:
    """Return the GPU product that node labels name, else nothing."""
    for label in PRODUCT_LABELS:
        if label in labels:
            return text(labels[label])
    return ""


def _product(spec: Mapping[str, Any]) -> str:
    """Return the one product that the node selector, or every required affinity term, asks for."""
    chosen = product_label(mapping(spec.get("nodeSelector")))
    if chosen:
        return chosen
    node = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    required = mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution"))
    terms = {_term_product(mapping(term)) for term in sequence(required.get("nodeSelectorTerms"))}
    return terms.pop() if len(terms) == 1 else ""


def _term_product(term: Mapping[str, Any]) -> str:
    for expression in map(mapping, sequence(term.get("matchExpressions"))):
        values = sequence(expression.get("values"))
        if expression.get("operator") == "In" and len(values) == 1 and text(expression.get("key")) in PRODUCT_LABELS:
            return text(values[0])
    return ""


def _references(spec: Mapping[str, Any], at: str, namespace: str) -> Iterator[Reference]:
    name = spec.get("serviceAccountName")
    if name and type(name) is str:
        yield Reference("ServiceAccount", namespace, name, f"{at}.serviceAccountName")
    name = spec.get("priorityClassName")
    if name and type(name) is str:
        yield Reference("PriorityClass", "", name, f"{at}.priorityClassName")
    for index, secret in enumerate(sequence(spec.get("imagePullSecrets"))):
        name = mapping(secret).get("name")
        if name and type(name) is str:
            yield Reference("Secret", namespace, name, f"{at}.imagePullSecrets[{index}].name")
    for index, volume in enumerate(sequence(spec.get("volumes"))):
        if type(volume) is dict:
            yield from _volume(volume, f"{at}.volumes[{index}]", namespace)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(field))):
            if type(container) is dict and ("env" in container or "envFrom" in container):
                yield from _environment(container, f"{at}.{field}[{index}]", namespace)


_VOLUMES = (
    ("persistentVolumeClaim", "claimName", "PersistentVolumeClaim"),
    ("configMap", "name", "ConfigMap"),
    ("secret", "secretName", "Secret"),
)


def _volume(volume: Mapping[str, Any], at: str, namespace: str) -> Iterator[Reference]:
    for field, name_field, kind in _VOLUMES:
        if field in volume:
            yield from _named(volume[field], name_field, kind, f"{at}.{field}", namespace)
    if "projected" in volume:
        for index, entry in enumerate(sequence(mapping(volume["projected"]).get("sources"))):
            for field, kind in (("configMap", "ConfigMap"), ("secret", "Secret")):
                yield from _named(
                    mapping(entry).get(field), "name", kind, f"{at}.projected.sources[{index}].{field}", namespace
                )
    if "ephemeral" in volume:
        claim = mapping(mapping(volume["ephemeral"]).get("volumeClaimTemplate"))
        name = text(mapping(claim.get("spec")).get("storageClassName"))
        if name:
            yield Reference("StorageClass", "", name, f"{at}.ephemeral.volumeClaimTemplate.spec.storageClassName")


def _environment(container: Mapping[str, Any], at: str, namespace: str) -> Iterator[Reference]:
    for index, entry in enumerate(sequence(container.get("env"))):
        if type(entry) is dict and "valueFrom" in entry:
            for field, kind in (("configMapKeyRef", "ConfigMap"), ("secretKeyRef", "Secret")):
                reference = mapping(entry["valueFrom"]).get(field)
                yield from _named(reference, "name", kind, f"{at}.env[{index}].valueFrom.{field}", namespace)
    for index, entry in enumerate(sequence(container.get("envFrom"))):
        for field, kind in (("configMapRef", "ConfigMap"), ("secretRef", "Secret")):
            yield from _named(mapping(entry).get(field), "name", kind, f"{at}.envFrom[{index}].{field}", namespace)


def _named(reference: Any, field: str, kind: str, at: str, namespace: str) -> Iterator[Reference]:
    """Yield what a reference names; one marked `optional` may be absent from the cluster."""
    if type(reference) is dict and reference.get("optional") is not True:
        name = reference.get(field)
        if name and type(name) is str:
            yield Reference(kind, namespace, name, f"{at}.{field}")
