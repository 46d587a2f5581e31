"""GPUs and other accelerators as Kubernetes names them: extended resources, node labels, and vendors."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from reconciler.kube.patterns import later
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.values import count, mapping, sequence


class Vendor(StrEnum):
    """The GPU vendor, which determines the resource name."""

    NVIDIA = "nvidia"
    AMD = "amd"

    @property
    def resource(self) -> str:
        """The extended resource that the vendor's device plugin registers."""
        return {"nvidia": "nvidia.com/gpu", "amd": "amd.com/gpu"}[self.value]


PRODUCT_LABEL = {Vendor.NVIDIA: "nvidia.com/gpu.product", Vendor.AMD: "amd.com/gpu.product-name"}
"""Node labels with the GPU product: NVIDIA's GPU feature discovery, AMD's node labeller."""

PRODUCT_LABELS = (
    *PRODUCT_LABEL.values(),
    "beta.amd.com/gpu.product-name",  # AMD's node labeller before its labels were stable
    "gpu.nvidia.com/class",  # CoreWeave
    "gpu.nvidia.com/model",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
)
"""Node labels whose value is a GPU product."""

WHOLE_GPUS = frozenset({"nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "gpu.intel.com/xe", "habana.ai/gaudi"})
"""Extended resources that count whole GPUs."""

OTHER_DEVICES = (
    r"nvidia\.com/(?:gpu\.shared|mig-.+|pgpu|(?:NVIDIA|GRID|[A-Z]{2}\d{3})[\w.-]*)",  # the last two of KubeVirt
    r"nvidia\.com/(?:g?[bh]|rtx|[alptv])\d{1,4}[a-z0-9-]*(?:\.shared)?",  # `resources` of the device plugin's config
    r"amd\.com/[sdqtc]px_nps\d",
    r"npu\.intel\.com/accel",
    r"google\.com/tpu|cloud-tpus\.google\.com/(?:preemptible-)?v\d+",
    r"aws\.amazon\.com/neuron(?:core|device)?",
    r"huawei\.com/(?:npu|Ascend\w+(?:-\d\w*)*|ascend-\d+)",  # the last of Huawei Cloud's CCE
    r"cambricon\.com/(?:v?mlu|mlu\.(?:share|env|mim-.+)|mlu\d{3}(?:\.share|\.mim-.+)?)",
    r"hygon\.com/dcu(?:num)?",
    r"iluvatar\.(?:ai|com)/(?:v?gpu|[A-Z]+-V?\d+-vgpu)",
    r"mthreads\.com/[sv]?gpu",
    r"metax-tech\.com/[sv]?gpu",
    r"enflame\.com/(?:v?gcu|drs-gcu|shared-gcu)",
    r"(?:kunlunxin|baidu)\.com/v?xpu",
    r"volcano\.sh/v?gpu-number",
    r"aliyun\.com/(?:ppu|gpu-count)",
    r"furiosa\.ai/(?:rngd|warboy)[\w.-]*",
    r"rebellions\.ai/(?:ATOM|REBEL)[\w.-]*",
    r"tenstorrent\.com/[\w.-]+",
    r"qualcomm\.com/(?:qaic\w*|ai-accelerator)",
    r"graphcore\.ai/ipu",
    r"vastaitech\.com/va",  # HAMi
)
"""Extended resources of other accelerators, and of slices of a device, as their device plugins register them."""

_ACCELERATORS = later("|".join(OTHER_DEVICES), re.ASCII)

PARTS = {
    "nvidia.com/gpu": ("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),  # HAMi
    "volcano.sh/vgpu-number": ("volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"),
    "cambricon.com/vmlu": ("cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"),
    "hygon.com/dcunum": ("hygon.com/dcumem", "hygon.com/dcucores"),
    "mthreads.com/vgpu": ("mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"),
    "metax-tech.com/sgpu": ("metax-tech.com/vmemory", "metax-tech.com/vcore"),
    "iluvatar.ai/vgpu": ("iluvatar.ai/vcuda-core", "iluvatar.ai/vcuda-memory"),
    "aliyun.com/gpu-mem": ("aliyun.com/gpu-core.percentage",),
}
"""Resources that say how much of a device a container gets, by the resource that counts the devices.

A container that sets none of the latter gets one device (`ResourceDefaultNum` of HAMi).
"""

_PART_OF = {part: device for device, parts in PARTS.items() for part in parts}

PERCENT = frozenset(
    ("koordinator.sh/gpu", "koordinator.sh/gpu-core", "tencent.com/vcuda-core", "tke.cloud.tencent.com/qgpu-core")
)
"""Resources of which 100 are one device, and fewer are a share of one."""

SHARES = frozenset(("aliyun.com/gpu-mem",))
"""Resources of which any amount is a share of one device."""

_NO_DEVICES = later(r"mem|percent|core|cpu|monitoring|millicores|tiles|priority|bandwidth|rdma|nic\b")

_NAMES = r"gpu|npu|tpu|xpu|mlu|dcu|gcu|ppu|hpu|ipu|accelerator|neuron"

LIKE_A_DEVICE = rf"(?:^|[^a-z])v?(?:{_NAMES})s?(?:$|[^a-z])"
"""Names of resources that are accelerators in all likelihood."""

_LIKE_A_DEVICE = later(LIKE_A_DEVICE)


@lru_cache(maxsize=4096)
def _is_gpu(resource: str) -> bool:
    if resource in WHOLE_GPUS or resource in PERCENT or resource in SHARES:
        return True
    if resource.startswith(OF_CLASS):
        return bool(resource_of_class(resource.removeprefix(OF_CLASS)))
    return "/" in resource and _ACCELERATORS.fullmatch(resource) is not None and not resource.endswith("-memory")


def is_gpu(resource: Any) -> bool:
    """Return whether an extended resource is a GPU, another accelerator, or a slice of one."""
    return type(resource) is str and _is_gpu(resource)


_CLASSES = {"gpu.nvidia.com": "nvidia.com/gpu", "gpu.amd.com": "amd.com/gpu", "gpu.intel.com": "gpu.intel.com/xe"}
"""Device classes of the vendors' drivers, by the extended resource that counts the same devices."""

OF_CLASS = "deviceclass.resource.kubernetes.io/"  # the extended resource that Kubernetes gives to a device class

OTHER_CLASS = r"nic|net|rdma|ib|sriov|cpu|compute-domain|imex|storage|memory"
"""Names of device classes that are not accelerators, unless they are also `LIKE_A_DEVICE`."""

_OTHER_CLASS = later(OTHER_CLASS, re.ASCII)


def resource_of_class(name: str) -> str:
    """Return the extended resource that counts the devices of a device class; empty if they are no accelerators."""
    if name in _CLASSES:
        return _CLASSES[name]
    words = name.lower()
    is_other = _OTHER_CLASS.search(words) is not None and not _LIKE_A_DEVICE.search(words)
    return "" if is_other or not name else f"{OF_CLASS}{name}"


def may_be_gpu(resource: Any) -> bool:
    """Return whether a resource that is not known as an accelerator has the name of one: `example.com/gpu-a100`."""
    return type(resource) is str and _may_be_gpu(resource)


@lru_cache(maxsize=4096)
def _may_be_gpu(resource: str) -> bool:
    if "/" not in resource or resource in _PART_OF or _is_gpu(resource):
        return False
    domain, _, name = resource.rpartition("/")
    if domain.endswith("kubernetes.io") or _NO_DEVICES.search(name.lower()):
        return False
    return _LIKE_A_DEVICE.search(name.lower()) is not None


def devices_in(amounts: Mapping[Any, int]) -> dict[str, int]:
    """Return the devices in the resources of one container, by the resource that counts them.

    A share of a device occupies one, because no pod outside the share can have the whole of it.
    """
    devices: dict[str, int] = {}
    for resource, amount in amounts.items():
        if not amount:
            continue
        if is_gpu(resource):
            shared = resource in SHARES
            devices[resource] = 1 if shared else -(-amount // 100) if resource in PERCENT else amount
        elif resource in _PART_OF:
            devices.setdefault(_PART_OF[resource], 0)
    return {resource: devices[resource] or 1 for resource in devices}


_MAX_QUANTITY_LENGTH = 256  # characters; longer ones are not accepted as quantities


def amount_of(value: Any) -> int:
    """Return the whole devices in a quantity: `8`, `"8"`. A malformed or negative quantity counts 0."""
    if type(value) is int:
        return count(value, 0)
    if type(value) is not str or len(value) > _MAX_QUANTITY_LENGTH:
        return 0
    if value.isdecimal() and value.isascii():
        return count(int(value), 0)
    exact = parse_quantity(value)
    return count(int(exact), 0) if exact is not None else 0


def pod_devices(spec: Mapping[str, Any]) -> dict[str, int]:
    """Return the devices of one pod: the larger of all containers with sidecars, and of any init container.

    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    total: dict[str, int] = {}
    for container in sequence(spec.get("containers")):
        for resource, devices in container_devices(container).items():
            total[resource] = total.get(resource, 0) + devices
    peak: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    for container in sequence(spec.get("initContainers")):
        is_sidecar = mapping(container).get("restartPolicy") == "Always"
        for resource, devices in container_devices(container).items():
            while_starting = sidecars.get(resource, 0) + devices
            peak[resource] = max(peak.get(resource, 0), while_starting)
            if is_sidecar:
                sidecars[resource] = while_starting
    for resource, devices in peak.items():
        total[resource] = max(total.get(resource, 0) + sidecars.get(resource, 0), devices)
    if "overhead" in spec:
        for resource, devices in read_devices(mapping(spec["overhead"])).items():
            total[resource] = total.get(resource, 0) + devices
    return total


def container_devices(container: Any) -> dict[str, int]:
    """Return the devices that one container requests: its limits, and what only its requests name."""
    resources = mapping(mapping(container).get("resources"))
    limits, requests = resources.get("limits"), resources.get("requests")
    if type(requests) is not dict:
        return read_devices(mapping(limits))
    return read_devices({**requests, **mapping(limits)})


def read_devices(amounts: Mapping[str, Any]) -> dict[str, int]:
    """Return the devices in quantities by resource."""
    counts = {
        resource: amount_of(amounts[resource]) for resource in amounts if type(resource) is str and "/" in resource
    }
    return devices_in(counts) if counts else counts


def is_slice(product: str) -> bool:
    """Return whether a product is a slice of a GPU, which goes by its resource key (`nvidia.com/mig-1g.5gb`)."""
    return "/" in product


def product_label(labels: Mapping[str, Any]) -> str:
    """Return the GPU product in node labels or a node selector; empty if there is none."""
    for label in PRODUCT_LABELS:
        if label in labels:
            value = labels[label]
            return value if type(value) is str else ""
    return ""


_VENDOR_NAMES = (
    (Vendor.AMD, later(r"\b(amd|instinct|radeon|mi\d{2,3}[a-z]?)\b")),
    (
        Vendor.NVIDIA,
        later(r"\b(nvidia|tesla|geforce|rtx|g?[bh][12]00|gh200|h20|a\d{2,3}[a-z]?|v100|p100|l4|l40s?|t4)\b"),
    ),
)
"""Brands and product lines of data-center GPUs: AMD Instinct MI50 to MI355X; NVIDIA Pascal to Blackwell."""


def vendor_in(texts: Iterable[str]) -> Vendor | None:
    """Return the only vendor that the texts name; None if they name none or several."""
    joined = re.sub(r"[^a-z0-9]+", " ", " ".join(texts).lower())
    vendors = [vendor for vendor, names in _VENDOR_NAMES if names.search(joined)]
    return vendors[0] if len(vendors) == 1 else None


def product_words(product: str) -> frozenset[str]:
    """Return the words of a product name: `NVIDIA-H100-80GB-HBM3` and `h100-80gb` share `h100` and `80gb`."""
    return frozenset(re.findall(r"[a-z0-9]+", product.lower()))
