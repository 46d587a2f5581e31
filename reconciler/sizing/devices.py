"""GPUs and other accelerators as Kubernetes names them: extended resources, node labels, and vendors."""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

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
    r"nvidia\.com/(?:vgpu|gpu-\d+gb)",  # HAMi under the name of DaoCloud's platform; partitions of nos (MPS)
    r"k8s\.amazonaws\.com/vgpu",  # aws-virtual-gpu-device-plugin
    r"microsoft\.com/directx",  # device plugin of Windows nodes
    r"amd\.com/[sdqtc]px_nps\d",
    r"npu\.intel\.com/accel",
    r"habana\.ai/(?:goya|greco)",
    r"google\.com/tpu|cloud-tpus\.google\.com/(?:preemptible-)?v\d+",
    r"aws\.amazon\.com/neuron(?:core|device)?",
    r"huawei\.com/(?:npu|Ascend\w+(?:-\d\w*)*|ascend-\d+)",  # the last of Huawei Cloud's CCE
    r"cambricon\.com/(?:v?mlu|mlu\.(?:share|env|mim-.+)|mlu\d{3}(?:\.share|\.mim-.+)?)",
    r"hygon\.com/dcu(?:num)?",
    r"iluvatar\.(?:ai|com)/(?:v?gpu|[A-Z]+-V?\d+-vgpu)",
    r"mthreads\.com/[sv]?gpu",
    r"metax-tech\.com/[sv]?gpu",
    r"enflame\.com/(?:v?gcu|drs-gcu|shared-gcu)",
    r"(?:kunlunxin|baidu)\.com/v?xpu|baidu\.com/(?:\w+_)?cgpu",  # the last of Baidu's CCE: `a100_80g_cgpu`
    r"birentech\.com/(?:v?gpu|1-[24]-gpu)",
    r"volcano\.sh/v?gpu-number",
    r"aliyun\.com/(?:ppu|gpu-count)|alibabacloud\.com/gpu-count",
    r"elasticgpu\.io/pgpu",
    r"furiosa\.ai/(?:rngd|warboy)[\w.-]*",
    r"rebellions\.ai/(?:ATOM|REBEL)[\w.-]*",
    r"tenstorrent\.com/[\w.-]+",
    r"qualcomm\.com/(?:qaic\w*|ai-accelerator)",
    r"graphcore\.ai/ipu",
    r"vastaitech\.com/va",  # HAMi
)
"""Extended resources of other accelerators, and of slices of a device, as their device plugins register them."""

_ACCELERATORS = later("|".join(OTHER_DEVICES), re.ASCII)


class DeviceShare(NamedTuple):
    """A resource that says how much of a device a container gets.

    device: the resource that the devices count as. unit: how much of it is one device; 0: any amount is.
    """

    device: str
    unit: int = 0


def _parts(device: str, *names: str) -> dict[str, DeviceShare]:
    return {name: DeviceShare(device) for name in names}


def _own(*names: str, unit: int = 0) -> dict[str, DeviceShare]:
    return {name: DeviceShare(name, unit) for name in names}


SHARES: dict[str, DeviceShare] = {
    # HAMi: docs/config.md, and the devices of other vendors in its documentation. A container that sets no number of
    # devices gets one (`ResourceDefaultNum`).
    **_parts("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
    **_parts("cambricon.com/vmlu", "cambricon.com/mlu.smlu.vmemory", "cambricon.com/mlu.smlu.vcore"),
    **_parts("hygon.com/dcunum", "hygon.com/dcumem", "hygon.com/dcucores"),
    **_parts("mthreads.com/vgpu", "mthreads.com/sgpu-memory", "mthreads.com/sgpu-core"),
    **_parts("metax-tech.com/sgpu", "metax-tech.com/vmemory", "metax-tech.com/vcore"),
    **_parts("iluvatar.ai/vgpu", "iluvatar.ai/vcuda-core", "iluvatar.ai/vcuda-memory"),
    **_parts("kunlunxin.com/vxpu", "kunlunxin.com/vxpu-memory"),
    **_parts("enflame.com/vgcu", "enflame.com/vgcu-percentage"),
    # Project-HAMi/volcano-vgpu-device-plugin.
    **_parts(
        *("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage"),
        "volcano.sh/vgpu-cores",
    ),
    # koordinator.sh/docs/user-manuals/device-scheduling-gpu-share: `gpu.shared` is a number of devices.
    "koordinator.sh/gpu.shared": DeviceShare("koordinator.sh/gpu-core", 1),
    **_own("koordinator.sh/gpu", "koordinator.sh/gpu-core", unit=100),
    "koordinator.sh/gpu-memory-ratio": DeviceShare("koordinator.sh/gpu-core", 100),
    "koordinator.sh/gpu-memory": DeviceShare("koordinator.sh/gpu-core"),
    # tkestack/gpu-manager, and qGPU of Tencent's TKE.
    **_own("tencent.com/vcuda-core", "tke.cloud.tencent.com/qgpu-core", unit=100),
    **_parts("tencent.com/vcuda-core", "tencent.com/vcuda-memory"),
    **_parts("tke.cloud.tencent.com/qgpu-core", "tke.cloud.tencent.com/qgpu-memory"),
    # elastic-ai/elastic-gpu, apis/elasticgpu/v1alpha1.
    **_own("elasticgpu.io/gpu-core", "elasticgpu.io/gpu-percent", "elasticgpu.io/qgpu-core", unit=100),
    **_parts("elasticgpu.io/gpu-core", "elasticgpu.io/gpu-memory"),
    **_parts("elasticgpu.io/qgpu-core", "elasticgpu.io/qgpu-memory"),
    # mGPU of Volcano Engine's VKE (`GPUCoreEachCard`).
    **_own("vke.volcengine.com/mgpu-core", unit=100),
    **_parts("vke.volcengine.com/mgpu-core", "vke.volcengine.com/mgpu-memory"),
    # AliyunContainerService/gpushare-scheduler-extender, alibaba/open-gpu-share.
    **_own("aliyun.com/gpu-mem", "alibabacloud.com/gpu-mem"),
    "aliyun.com/gpu-core.percentage": DeviceShare("aliyun.com/gpu-mem", 100),
    # Dynamic vNPUs of Volcano and mind-cluster: cores of one chip.
    **_own("huawei.com/npu-core"),
}
"""Resources that say how much of a device a container gets. They count only where it names no number of devices."""

_NO_DEVICES = later(r"cpu|monitoring|priority|bandwidth|rdma|nics?\b|fpga|sriov|hostdev|display|efa\b|hca|\bib\b")

_PARTS = later(r"mem|percent|ratio|core|tiles")
"""Names of amounts of a device, which say nothing of their own beside a number of devices."""

_NAMES = r"gpu|npu|tpu|xpu|mlu|dcu|gcu|ppu|hpu|ipu|lpu|rdu|accelerator|neuron"

LIKE_A_DEVICE = rf"(?:^|[^a-z])[cmpqsv]?(?:{_NAMES})s?(?:num|counts?)?(?:$|[^a-z])"
"""Names of resources that are accelerators in all likelihood."""

_LIKE_A_DEVICE = later(LIKE_A_DEVICE)

_LIKE_A_SHARE = later(r"gpu|vcuda|vcore|vmem")

_MODELS = later(
    r"(?:^|[^a-z0-9])(?:g?[bh]\d{2,3}|a\d{2,4}|v100|p100|p40|t4|l4|l40|rtx[a-z]*\d*|tesla|quadro|geforce|nvidia\d|mi\d{2,3}"
    r"|gaudi\d?|ascend\d*|trainium\d?|inferentia\d?|mtia|maia|wse\d?)[a-z]{0,3}(?:$|[^a-z0-9])"
)
"""Product lines of accelerators as names of resources: `example.com/h100-80gb`, `amd.com/mi300x`."""

_OF_DEVICES = later(r"(?:^|\.)\w*(?:gpu|npu)s?\.")
"""Domains of accelerators: `gpu.example.com`, `elasticgpu.io`."""


@lru_cache(maxsize=4096)
def _is_gpu(resource: str) -> bool:
    if resource in WHOLE_GPUS:
        return True
    if resource in SHARES:
        return SHARES[resource].device == resource
    if resource.startswith(OF_CLASS):
        return bool(resource_of_class(resource.removeprefix(OF_CLASS)))
    return "/" in resource and _ACCELERATORS.fullmatch(resource) is not None and not resource.endswith("-memory")


def is_gpu(resource: Any) -> bool:
    """Return whether an extended resource is a GPU, another accelerator, or a slice of one."""
    return type(resource) is str and _is_gpu(resource)


def is_other_device(resource: str) -> bool:
    """Return whether a resource counts slices of GPUs or other accelerators one by one (`nvidia.com/mig-1g.10gb`)."""
    return resource not in WHOLE_GPUS and resource not in SHARES and is_gpu(resource)


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
    return type(resource) is str and _likeness(resource) == "device"


def may_be_share(resource: Any) -> bool:
    """Return whether a resource that is not known has the name of a part of a device: `example.com/gpu-memory`."""
    return type(resource) is str and _likeness(resource) == "share"


def is_extended(resource: Any) -> bool:
    """Return whether a resource is an extended one that nobody knows: a device class may stand for it."""
    return type(resource) is str and _is_extended(resource)


@lru_cache(maxsize=4096)
def _is_extended(resource: str) -> bool:
    domain, slash, name = resource.lower().rpartition("/")
    if not slash or resource in SHARES or _is_gpu(resource):
        return False
    return not (domain.endswith("kubernetes.io") or domain == "rdma" or _NO_DEVICES.search(name))


@lru_cache(maxsize=4096)
def _likeness(resource: str) -> str:
    """Return what a resource that is not known seems to be: a `device`, a `share` of one, or empty for neither."""
    if not _is_extended(resource):
        return ""
    domain, _, name = resource.lower().rpartition("/")
    is_like = _LIKE_A_DEVICE.search(name) or _MODELS.search(name) or _OF_DEVICES.search(domain)
    if _PARTS.search(name):
        return "share" if is_like or _LIKE_A_SHARE.search(name) else ""
    return "device" if is_like else ""


def devices_in(amounts: Mapping[Any, int]) -> dict[str, int]:
    """Return the devices in the resources of one container, by the resource that counts them.

    A share of a device occupies one, because no pod outside the share can have the whole of it. It counts only where
    the container names no number of devices, of which it is a share then.
    """
    devices: dict[str, int] = {}
    shared: dict[str, int] = {}
    for resource, amount in amounts.items():
        if not amount:
            continue
        if resource in SHARES:
            device, unit = SHARES[resource]
            shared[device] = max(shared.get(device, 0), -(-amount // unit) if unit else 1)
        elif is_gpu(resource):
            devices[resource] = amount
    return devices or shared


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
