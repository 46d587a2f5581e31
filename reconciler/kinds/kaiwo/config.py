"""`KaiwoConfig`: the defaults of Kaiwo's workloads in a cluster."""

from functools import partial
from typing import Any

from msgspec import Struct

from reconciler.kinds import translated
from reconciler.kinds.fields import Fields
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Parsed, Problem
from reconciler.kube.reasons import Traced
from reconciler.kube.yaml import Document

FAMILY = "kaiwo"
"""The start of the rules of Kaiwo's problems and reasons."""


default = partial(translated.default, FAMILY)
"""Returns a value that nobody wrote, and why it is this one."""


NAME = "kaiwo"

_UNREAD: dict[FieldPath, str] = {
    ("nodes", "excludeMasterNodesFromNodePools"): "`reconciler propose` reads taints of nodes instead",
    ("resourceMonitoring",): "a PreemptionPolicy suspends idle workloads",
    ("gpuPreemption", "defaultTTL"): "Git keeps what was suspended, and why",
    ("defaultClusterQueueCohortName",): "set the cohort in a KaiwoQueueConfig",
    ("dynamicallyUpdateDefaultClusterQueue",): "`reconciler propose` writes quotas for the nodes there are",
    ("defaultTopologyName",): "write the Topology in a KaiwoQueueConfig",
}
"""Fields for the operator, which nothing here does, and what does the same."""


class KaiwoConfig(Struct, frozen=True, kw_only=True, eq=False):
    """The defaults, each as written or as Kaiwo documents it.

    scheduler: the scheduler of the pods; None without a KaiwoConfig: nothing says that there is another.
    taint: the taint that pods with GPUs tolerate; None: nodes have none.
    """

    ray_image: Traced = default("ghcr.io/silogen/rocm-ray:6.4", "Kaiwo's image of Ray")
    head_memory: Traced = default("16Gi", "memory of a head of Ray")
    storage_class: Traced | None = None
    data_path: Traced = default("/workload", "the data volume is mounted at /workload")
    hf_path: Traced = default("/hf_cache", "the cache of Hugging Face is mounted at /hf_cache")
    download_image: Traced = default("gpu-reconciler:0.1.0", "the image of this program")
    resource: Traced = default("amd.com/gpu", "GPUs of no known vendor are amd.com/gpu")
    taint: Traced | None = None
    scheduler: Traced | None = None
    queue: Traced = default("kaiwo", "workloads are queued in kaiwo by default")


DEFAULTS = KaiwoConfig()
"""The defaults of a cluster without a KaiwoConfig."""

_TAINT = default("kaiwo.silogen.ai/gpu", "Kaiwo's taint of nodes with GPUs")
_SCHEDULER = default("kaiwo-scheduler", "the scheduler of Kaiwo, which fills nodes one by one")


def config_intent(document: Document) -> Parsed[KaiwoConfig]:
    """Read a KaiwoConfig; what only the operator does is reported."""
    fields = Fields(document, FAMILY)
    has_taint = fields.plain("spec", "nodes", "addTaintsToGpuNodes") is True
    values: dict[str, Any] = {
        "ray_image": fields.get("spec", "ray", "defaultRayImage"),
        "head_memory": fields.get("spec", "ray", "headPodMemory"),
        "storage_class": fields.get("spec", "storage", "defaultStorageClass"),
        "data_path": fields.get("spec", "storage", "defaultDataMountPath"),
        "hf_path": fields.get("spec", "storage", "defaultHfMountPath"),
        "download_image": fields.get("spec", "storage", "downloadImage"),
        "resource": fields.get("spec", "nodes", "defaultGpuResourceKey"),
        "taint": (fields.get("spec", "nodes", "defaultGpuTaintKey") or _TAINT) if has_taint else None,
        "scheduler": fields.get("spec", "scheduling", "kubeSchedulerName") or _SCHEDULER,
        "queue": fields.get("spec", "defaultClusterQueueName"),
    }
    config = KaiwoConfig(**{name: value for name, value in values.items() if value is not None})
    return Parsed(intent=config, problems=tuple(_unread(fields)))


def _unread(fields: Fields) -> list[Problem]:
    return [
        fields.warning("unsupported", ("spec", *path), "has no effect: it is for the operator of Kaiwo", instead)
        for path, instead in _UNREAD.items()
        if fields.plain("spec", *path) is not None
    ]
