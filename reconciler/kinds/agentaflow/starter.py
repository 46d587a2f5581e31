"""The starting file of a GPUWorkload: a document to edit."""

from collections.abc import Mapping
from typing import Any

from reconciler.kinds.torchrun.starter import DAY_SECONDS, IMAGE

_MEMORY_MIB = 8192


def workload_document(
    name: str, *, namespace: str, labels: Mapping[str, str], gpus: int, strategy: str
) -> dict[str, Any]:
    """Return a GPUWorkload with the fields that most workloads set. Its pods end after a day."""
    container = {"name": "training", "image": IMAGE, "command": ["python", "train.py"]}
    return {
        "apiVersion": "agentaflow.io/v1",
        "kind": "GPUWorkload",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {}), "labels": dict(labels)},
        "spec": {
            "gpuMemoryRequired": _MEMORY_MIB,
            "estimatedDuration": "2h",
            "schedulingStrategy": strategy,
            "gpuRequirements": {"gpuCount": gpus, "minGPUMemory": _MEMORY_MIB, "exclusiveAccess": True},
            "podTemplate": {"spec": {"activeDeadlineSeconds": DAY_SECONDS, "containers": [container]}},
        },
    }


WORKLOAD_EXAMPLES: Mapping[str, Any] = {"priority": 5}
"""Further fields of a workload, which its file shows as comments."""
