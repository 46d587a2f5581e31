"""GPUs and CPUs of a container: request and limit equal, as Kubernetes wants it of extended resources."""

from reconciler.core.config import SizingSettings, Vendor
from reconciler.core.objects import FieldPath
from reconciler.core.sized.draft import Draft
from reconciler.core.sized.grounds import Grounds
from reconciler.core.training.job import as_written
from reconciler.core.values import plural

_SECTIONS = ("requests", "limits")
CPUS_PER_GPU = 2
"""What the autoconf controller gives a process for loading data."""


def set_resources(draft: Draft, resources: FieldPath, grounds: Grounds, settings: SizingSettings) -> None:
    """Write the share of one node; GPUs of the other vendor go, and so do slices of cards (MIG)."""
    key, gpus = grounds.chosen.gpu.vendor.resource, grounds.per_worker
    reason = grounds.because("gpus", f"{grounds.spread}; {grounds.memory}")
    for section in _SECTIONS:
        amounts = draft.get((*resources, section))
        for other in [name for name in (amounts if isinstance(amounts, dict) else ()) if name != key and _is_gpu(name)]:
            text = f"the job was sized for whole cards: {grounds.chosen.gpu.product}"
            draft.remove((*resources, section, other), grounds.because("vendor", text))
        path = (*resources, section, key)
        draft.set(path, as_written(draft.get(path), gpus), reason)
    if settings.patch_cpu_request:
        cpus = CPUS_PER_GPU * max(1, gpus)
        reason = grounds.because("cpu", f"{CPUS_PER_GPU} CPUs a GPU x {plural(gpus, 'GPU')} = {cpus}")
        for section in _SECTIONS:
            path = (*resources, section, "cpu")
            draft.set(path, as_written(draft.get(path), cpus), reason)


def _is_gpu(name: str) -> bool:
    return name in {vendor.resource for vendor in Vendor} or name.startswith("nvidia.com/mig-")
