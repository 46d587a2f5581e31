"""The requests of one pod template: devices, the GPU product they must be, labels, and referenced objects."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from reconciler.kinds.dra import DEVICE_CLASS, RESOURCE_CLAIM_TEMPLATE
from reconciler.kinds.facts import KindId, PodProvider, Reference
from reconciler.kinds.quantities import Gpus, exact
from reconciler.kinds.workloads import (
    CONFIG_MAP,
    PERSISTENT_VOLUME_CLAIM,
    PRIORITY_CLASS,
    RUNTIME_CLASS,
    SECRET,
    SERVICE_ACCOUNT,
    STORAGE_CLASS,
)
from reconciler.kube.patterns import later
from reconciler.kube.values import mapping, sequence, text
from reconciler.sizing.devices import (
    PRODUCT_LABELS,
    WHOLE_GPUS,
    amount_of,
    container_devices,
    is_extended,
    is_gpu,
    may_be_gpu,
    may_be_share,
    pod_devices,
    product_label,
)

_FRACTION, _MEMORY, _FRACTION_DEVICES = "gpu-fraction", "gpu-memory", "gpu-fraction-num-devices"
_SHARING = (_FRACTION, _MEMORY, _FRACTION_DEVICES)
_NUMBER = later(r"[0-9]+(?:\.[0-9]*)?|\.[0-9]+", re.ASCII)
_POSITIVE = later(r"0*[1-9][0-9]{0,8}", re.ASCII)


class PodReading(NamedTuple):
    """The parts of a pod template that a summary needs."""

    devices: Mapping[str, Gpus]
    product: str
    labels: Mapping[str, Any]
    references: list[Reference]
    providers: tuple[PodProvider, ...] = ()  # other objects that add to what it requests
    unknown: tuple[str, ...] = ()  # resources that have the name of a device, and are not known
    refused: tuple[str, ...] = ()  # annotations about shares of GPUs that KAI refuses
    containers: int = 0  # that run at the same time
    stated: tuple[tuple[str, int], ...] = ()  # devices that these name, and how many of them

    def product_of(self, resource: str) -> str:
        """Return the product its pods select, or the resource itself where one is only a slice of a GPU."""
        return self.product if resource in WHOLE_GPUS else resource


def read_pod(template: Mapping[str, Any], prefix: str, namespace: str) -> PodReading:
    """Read a pod template (`metadata` and `spec`); `prefix` is that of its fields in the object."""
    metadata, spec = mapping(template.get("metadata")), mapping(template.get("spec"))
    labels = mapping(metadata.get("labels"))
    devices: Mapping[str, Gpus] = pod_devices(spec)
    annotations = mapping(metadata.get("annotations"))
    refused: tuple[str, ...] = ()
    if annotations and any(key in annotations for key in _SHARING):
        refused = tuple(_refusals(annotations, has_gpus="nvidia.com/gpu" in devices))
        if _FRACTION in annotations or _MEMORY in annotations:
            devices = devices or {"nvidia.com/gpu": _shared(annotations)}
    product = _product(spec) if "nodeSelector" in spec or "affinity" in spec else ""
    references = list(_references(spec, f"{prefix}spec", namespace))
    extended = tuple(_extended(spec, f"{prefix}spec"))
    providers = tuple(_providers(spec, f"{prefix}spec")) if _names_providers(spec) else ()
    running = [*sequence(spec.get("containers")), *filter(_is_sidecar, sequence(spec.get("initContainers")))]
    stated = Counter(name for container in running for name in _resources(container) if is_gpu(name))
    return PodReading(
        devices,
        product,
        labels,
        references,
        (*providers, *extended),
        tuple(sorted(set(_unknown(spec)))) if extended else (),
        refused,
        len(running),
        tuple(sorted(stated.items())),
    )


def _shared(annotations: Mapping[str, Any]) -> Gpus:
    """Return the GPUs that KAI counts for a pod that shares some (pod_info.go and gpu_resource_requirment.go, 0.12).

    How much of a device `gpu-memory` is, only its node tells: one device counts until then.
    """
    devices = max(1, amount_of(annotations.get(_FRACTION_DEVICES)))
    fraction = text(annotations.get(_FRACTION))
    share = float(fraction) if _NUMBER.fullmatch(fraction) else 1.0
    return exact(exact(share) * devices) if 0 < share < 1 else devices


def _refusals(annotations: Mapping[str, Any], *, has_gpus: bool) -> Iterator[str]:
    """Yield what KAI's webhook refuses (gpu_request_validator.go, 0.12)."""
    fraction, memory = _FRACTION in annotations, _MEMORY in annotations
    if (fraction or memory) and has_gpus:
        yield f"{_FRACTION if fraction else _MEMORY} beside nvidia.com/gpu"
    if fraction and memory:
        yield f"{_FRACTION} beside {_MEMORY}"
    if not (fraction or memory):
        yield f"{_FRACTION_DEVICES} without {_FRACTION} or {_MEMORY}"
    value = text(annotations.get(_FRACTION))
    if fraction and not (_NUMBER.fullmatch(value) and 0 < float(value) < 1):
        yield f"{_FRACTION}: {value}, which is not between 0 and 1"
    for name in (_MEMORY, _FRACTION_DEVICES):
        if name in annotations and not _POSITIVE.fullmatch(text(annotations[name])):
            yield f"{name}: {text(annotations[name])}, which is no positive integer"


def _names_providers(spec: Mapping[str, Any]) -> bool:
    return "resourceClaims" in spec or "runtimeClassName" in spec


def _providers(spec: Mapping[str, Any], at: str) -> Iterator[PodProvider]:
    """Yield the objects that say more of what the pod requests: templates of its claims, and its runtime class."""
    for index, claim in enumerate(map(mapping, sequence(spec.get("resourceClaims")))):
        name = text(claim.get("resourceClaimTemplateName"))
        if name:
            field = f"{at}.resourceClaims[{index}].resourceClaimTemplateName"
            yield PodProvider((RESOURCE_CLAIM_TEMPLATE,), name, field, adds=True)
    name = text(spec.get("runtimeClassName"))
    if name and "overhead" not in spec:
        yield PodProvider((RUNTIME_CLASS,), name, f"{at}.runtimeClassName", adds=True, is_optional=True)


def _is_sidecar(container: Any) -> bool:
    return mapping(container).get("restartPolicy") == "Always"


def _resources(container: Any) -> dict[Any, Any]:
    """Return the resources that a container names, with their amounts."""
    resources = mapping(mapping(container).get("resources"))
    return {**mapping(resources.get("requests")), **mapping(resources.get("limits"))}


def _extended(spec: Mapping[str, Any], at: str) -> Iterator[PodProvider]:
    """Yield the device classes that extended resources may stand for (KEP-5004), with how many devices of each."""
    amounts: Counter[str] = Counter()
    for container in (*sequence(spec.get("containers")), *sequence(spec.get("initContainers"))):
        for resource, amount in _resources(container).items():
            if is_extended(resource):
                amounts[resource] += amount_of(amount)
    for name, amount in sorted(amounts.items()):
        if amount:
            yield PodProvider((DEVICE_CLASS,), name, at, adds=True, is_optional=True, each=amount)


def _unknown(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the resources that are not known as devices, and have the name of one."""
    for container in (*sequence(spec.get("containers")), *sequence(spec.get("initContainers"))):
        for resource, amount in _resources(container).items():
            is_unknown = may_be_gpu(resource) or (may_be_share(resource) and not container_devices(container))
            if is_unknown and amount_of(amount):
                yield resource


def _product(spec: Mapping[str, Any]) -> str:
    """Return the one product that the node selector, or every required affinity term, selects."""
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


def required_labels(spec: Mapping[str, Any]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the node labels that a pod requires, each with the values that it allows.

    Of node affinity only a single term and its operator In: what else it requires is for the scheduler to judge.
    """
    found: list[tuple[str, tuple[str, ...]]] = []
    for key, value in mapping(spec.get("nodeSelector")).items():
        if type(key) is str and type(value) is str:
            found.append((key, (value,)))
    node = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    terms = sequence(mapping(node.get("requiredDuringSchedulingIgnoredDuringExecution")).get("nodeSelectorTerms"))
    for expression in map(mapping, sequence(mapping(terms[0]).get("matchExpressions")) if len(terms) == 1 else ()):
        values = tuple(text(value) for value in sequence(expression.get("values")))
        if expression.get("operator") == "In" and values:
            found.append((text(expression.get("key")), values))
    return tuple(sorted(found))


def _references(spec: Mapping[str, Any], at: str, namespace: str) -> Iterator[Reference]:
    name = spec.get("serviceAccountName")
    if name and type(name) is str:
        yield Reference(*SERVICE_ACCOUNT, namespace, name, f"{at}.serviceAccountName")
    name = spec.get("priorityClassName")
    if name and type(name) is str:
        yield Reference(*PRIORITY_CLASS, "", name, f"{at}.priorityClassName")
    for index, secret in enumerate(sequence(spec.get("imagePullSecrets"))):
        name = mapping(secret).get("name")
        if name and type(name) is str:
            yield Reference(*SECRET, namespace, name, f"{at}.imagePullSecrets[{index}].name")
    for index, volume in enumerate(sequence(spec.get("volumes"))):
        if type(volume) is dict:
            yield from _volume(volume, f"{at}.volumes[{index}]", namespace)
            yield from _claim(spec, volume, f"{at}.volumes[{index}].persistentVolumeClaim", namespace)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(sequence(spec.get(field))):
            if type(container) is dict and ("env" in container or "envFrom" in container):
                yield from _environment(container, f"{at}.{field}[{index}]", namespace)


def _claim(spec: Mapping[str, Any], volume: Mapping[str, Any], at: str, namespace: str) -> Iterator[Reference]:
    """Yield the claim of a volume, with the folders that containers may write to."""
    claim = mapping(volume.get("persistentVolumeClaim"))
    for reference in _named(claim, "claimName", PERSISTENT_VOLUME_CLAIM, at, namespace):
        written = {
            text(mount.get("subPath"))
            for field in ("containers", "initContainers")
            for container in map(mapping, sequence(spec.get(field)))
            for mount in map(mapping, sequence(container.get("volumeMounts")))
            if mount.get("name") == volume.get("name")
            and mount.get("readOnly") is not True
            and "subPathExpr" not in mount  # a folder for each pod
        }
        yield reference if claim.get("readOnly") is True else replace(reference, writes=tuple(sorted(written)))


_VOLUMES = (
    ("configMap", "name", CONFIG_MAP),
    ("secret", "secretName", SECRET),
)


def _volume(volume: Mapping[str, Any], at: str, namespace: str) -> Iterator[Reference]:
    for field, name_field, kind in _VOLUMES:
        if field in volume:
            yield from _named(volume[field], name_field, kind, f"{at}.{field}", namespace)
    if "projected" in volume:
        for index, entry in enumerate(sequence(mapping(volume["projected"]).get("sources"))):
            for field, kind in (("configMap", CONFIG_MAP), ("secret", SECRET)):
                yield from _named(
                    mapping(entry).get(field), "name", kind, f"{at}.projected.sources[{index}].{field}", namespace
                )
    if "ephemeral" in volume:
        claim = mapping(mapping(volume["ephemeral"]).get("volumeClaimTemplate"))
        name = text(mapping(claim.get("spec")).get("storageClassName"))
        if name:
            yield Reference(*STORAGE_CLASS, "", name, f"{at}.ephemeral.volumeClaimTemplate.spec.storageClassName")


def _environment(container: Mapping[str, Any], at: str, namespace: str) -> Iterator[Reference]:
    for index, entry in enumerate(sequence(container.get("env"))):
        if type(entry) is dict and "valueFrom" in entry:
            for field, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
                reference = mapping(entry["valueFrom"]).get(field)
                yield from _named(reference, "name", kind, f"{at}.env[{index}].valueFrom.{field}", namespace)
    for index, entry in enumerate(sequence(container.get("envFrom"))):
        for field, kind in (("configMapRef", CONFIG_MAP), ("secretRef", SECRET)):
            yield from _named(mapping(entry).get(field), "name", kind, f"{at}.envFrom[{index}].{field}", namespace)


def _named(reference: Any, field: str, kind: KindId, at: str, namespace: str) -> Iterator[Reference]:
    """Yield the object that a reference names; the cluster may lack one that is marked `optional`."""
    if type(reference) is dict and reference.get("optional") is not True:
        name = reference.get(field)
        if name and type(name) is str:
            yield Reference(*kind, namespace, name, f"{at}.{field}")
