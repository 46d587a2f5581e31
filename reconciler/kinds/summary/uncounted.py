"""Pods and devices in objects of a kind that nobody knows: no figure includes them, and that has to be said."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from reconciler.kinds.facts import PodSet
from reconciler.kinds.summary.object_summary import Uncounted
from reconciler.kube.objects import split_api_version
from reconciler.kube.patterns import later
from reconciler.kube.quantities import is_positive
from reconciler.kube.values import mapping, sequence, text
from reconciler.sizing.devices import is_gpu, may_be_gpu

_MAX_FOUND = 3  # of one object: the first ones tell enough

PODS = "pods"
"""What is not counted where containers are found, whatever they request."""

_NO_REQUESTS = frozenset(
    (
        "apiextensions.k8s.io",  # schemas, with the fields of other objects
        "cert-manager.io",
        "constraints.gatekeeper.sh",  # policies, with limits for other objects
        "karpenter.sh",  # the most that nodes may have
        "karpenter.k8s.aws",
        "kyverno.io",
        "monitoring.coreos.com",
        "policies.kyverno.io",
        "templates.gatekeeper.sh",
    )
)
"""API groups whose objects request no GPUs, although some name them."""

_NOT_SPEC = frozenset(("apiVersion", "kind", "metadata", "status"))

_ABOUT_OTHERS = frozenset(("annotations", "labels", "matchLabels", "nodeSelector", "selector", "tolerations"))
"""Fields that choose nodes or objects: the numbers in them are no requests."""

_CONTAINERS = frozenset(("containers", "initContainers"))

_WORDS = later(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

_DEVICES = frozenset(("accelerator", "gpu", "hpu", "npu", "tpu", "vgpu"))

_AMOUNTS = frozenset(
    (
        *("amount", "count", "device", "devices", "number", "num", "n", "of", "quantity", "size", "total", "value"),
        *("desired", "fraction", "limit", "limits", "max", "maximum", "min", "minimum", "request", "requested"),
        *("requests", "required", "each", "nvidia", "v"),
        *("per", "node", "nodes", "pod", "process", "rank", "replica", "replicas", "server", "task", "worker"),
    )
)
"""Words beside that of a device in the name of a number of them: `numGpus`, `gpusPerNode`, `gpu_count`."""

_WITH_AMOUNT = later(r"[\w.-]+:[1-9]\d*")
"""SkyPilot's `accelerators: A100:8`."""


def find_uncounted(body: Mapping[str, Any], counted: Sequence[PodSet]) -> tuple[Uncounted, ...]:
    """Return what an object requests outside the templates that were counted; at most the first ones."""
    if split_api_version(text(body.get("apiVersion")))[0] in _NO_REQUESTS:
        return ()
    known = {id(pods.template) for pods in counted}
    found: dict[Uncounted, None] = {}
    for one in _walk({key: value for key, value in body.items() if key not in _NOT_SPEC}, "", known):
        found.setdefault(one)
        if len(found) == _MAX_FOUND:
            break
    return tuple(found)


def _walk(node: Any, path: str, known: set[int]) -> Iterator[Uncounted]:
    if id(node) in known:
        return
    if type(node) is list:
        for index, item in enumerate(node):
            if type(item) is dict or type(item) is list:
                yield from _walk(item, f"{path}[{index}]", known)
        return
    yield from _named(mapping(node), path)
    for key, child in mapping(node).items():
        if type(key) is not str or key in _ABOUT_OTHERS:
            continue
        place = f"{path}.{key}".lstrip(".")
        if type(child) is dict or type(child) is list:
            yield from _amounts_of(key, child, place)
            yield from _walk(child, place, known)
            if key in _CONTAINERS and any("image" in mapping(item) for item in sequence(child)):
                yield Uncounted(place, PODS)
        elif _is_device(key) and (is_positive(child) or _has_amount(child)):
            yield Uncounted(path if "/" in key else place, f"{key}: {child}")


def _named(node: Mapping[str, Any], path: str) -> Iterator[Uncounted]:
    """Yield a resource that is a value, beside its amount: `{name: nvidia.com/gpu, quantity: 8}`."""
    names = [value for value in node.values() if type(value) is str and (is_gpu(value) or may_be_gpu(value))]
    amounts = [value for key, value in node.items() if _is_amount(key) and is_positive(value)]
    if names and amounts:
        yield Uncounted(path, f"{names[0]}: {amounts[0]}")


def _amounts_of(key: str, child: Any, place: str) -> Iterator[Uncounted]:
    """Yield the numbers of devices below a field that is named for these: `gpus: {type: H100, count: 8}`."""
    if _is_device(key):
        for item in child if type(child) is list else (child,):
            for name, value in mapping(item).items():
                if _is_amount(name) and is_positive(value):
                    yield Uncounted(place, f"{name}: {value}")


def _has_amount(value: Any) -> bool:
    return type(value) is str and _WITH_AMOUNT.fullmatch(value) is not None


def _is_device(name: Any) -> bool:
    """Return whether the value of a field is a number of devices, by its name."""
    return is_gpu(name) or may_be_gpu(name) or (type(name) is str and _is_number_of_devices(name))


@lru_cache(maxsize=4096)
def _is_number_of_devices(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name.replace("GPUs", "Gpus").replace("TPUs", "Tpus"))]
    devices = [word for word in words if word.removesuffix("s") in _DEVICES]
    return bool(devices) and all(word in _AMOUNTS for word in words if word not in devices)


def _is_amount(name: Any) -> bool:
    words = _WORDS.findall(name) if type(name) is str else ()
    return bool(words) and all(word.lower() in _AMOUNTS for word in words)
