"""Volumes of a job and of its queue: claims sized by GPUs, shared memory, and where they are mounted."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from reconciler.kinds.manifests.ownership import KEEP
from reconciler.kinds.rendered import problem_at
from reconciler.kinds.torchrun.intent.sections import Claim
from reconciler.kinds.torchrun.networks import Network
from reconciler.kinds.torchrun.render.amounts import times
from reconciler.kinds.torchrun.render.shape import JobShape
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Origin, Reason, Traced
from reconciler.kube.values import plural

WORKSPACE_SIZE = Traced("1Gi", Reason(rule="torchrun.default", text="the size of a workspace defaults to 1Gi"))
WORKSPACE_PATH = Traced("/app", Reason(rule="torchrun.default", text="the workspace is mounted at /app by default"))
DATASETS_PATH = Traced("/datasets", Reason(rule="torchrun.default", text="datasets are mounted at /datasets"))
CHECKPOINTS_PATH = Traced("/checkpoints", Reason(rule="torchrun.default", text="checkpoints are at /checkpoints"))
_SHM = Reason(rule="torchrun.shm", text="shared memory is mounted where programs look for it")
_MANY = Reason(rule="torchrun.access-mode", text="pods on several nodes share the volume")
_ONCE = Reason(rule="torchrun.access-mode", text="only one pod at a time uses the volume")


class Mounted(Struct, frozen=True, kw_only=True):
    """A volume of a pod and where the trainer sees it."""

    volume: dict[str, Any]
    mount: dict[str, Any]  # empty: only other containers see it


def volume_claim(
    *,
    name: Traced | str,
    namespace: str,
    claim: Claim,
    labels: dict[str, Any],
    size: Traced,
    shared: bool,
    keep: Traced | None = None,
) -> dict[str, Any]:
    """Return the tree of a PersistentVolumeClaim."""
    modes = claim.access_modes or Traced(["ReadWriteMany" if shared else "ReadWriteOnce"], _MANY if shared else _ONCE)
    spec: dict[str, Any] = {"accessModes": modes, "resources": {"requests": {"storage": size}}}
    if claim.storage_class:
        spec["storageClassName"] = claim.storage_class
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": labels}
    if keep is not None:
        metadata["annotations"] = {KEEP: keep}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def size_of(claim: Claim, gpus: Traced, what: str, problems: list[Problem]) -> Traced | None:
    """Return the size of a claim: as given, or for each GPU of `gpus` (its value is how many; none counts as one)."""
    if claim.size_per_gpu is None:
        return claim.size
    return per_gpu(claim.size_per_gpu, gpus, what, problems)


def per_gpu(each: Traced, gpus: Traced, what: str, problems: list[Problem]) -> Traced | None:
    """Return a size multiplied by GPUs, with its arithmetic."""
    count = max(1, gpus.value)
    size = times(each.value, count)
    if size is None:
        problems.append(
            problem_at(each, "torchrun.quantity", f"{each.value!r} is not a valid size", "write it as 10Gi")
        )
        return None
    text = f"{what}: {each.value} per GPU x {plural(count, 'GPU')} = {size}"
    if not gpus.value:
        text = f"{what}: {each.value}, because a job without GPUs counts as one GPU"
    origins: tuple[Origin, ...] = (*each.reason.origins, *gpus.reason.origins)
    return Traced(size, Reason(rule="torchrun.size", text=text, origins=origins))


def total_gpus(shape: JobShape) -> Traced:
    """Return all GPUs of a job as a value with its reason."""
    origins = (*shape.nodes.reason.origins, *shape.gpus.reason.origins)
    return Traced(shape.total, Reason(rule="torchrun.gpus", origins=tuple(dict.fromkeys(origins))))


def claim_volume(
    name: str, claim_name: Traced | str, path: Traced, *, read_only: bool = False, sub_path: str = ""
) -> Mounted:
    """Return a pod's volume on a claim, or a folder of it, mounted at `path`."""
    source: dict[str, Any] = {"claimName": claim_name}
    mount: dict[str, Any] = {"name": name, "mountPath": path}
    if read_only:
        source["readOnly"] = mount["readOnly"] = True
    if sub_path:
        mount["subPath"] = sub_path
    return Mounted(volume={"name": name, "persistentVolumeClaim": source}, mount=mount)


def network_volumes(network: Network) -> Iterator[Mounted]:
    """Yield what the pods mount of their node for a network."""
    for name, path in network.preset.volumes.items():
        volume = {"name": name, "hostPath": network.traced({"path": path})}
        place = network.preset.mounts.get(name)
        yield Mounted(volume=volume, mount={"name": name, "mountPath": network.traced(place)} if place else {})


def shared_memory(
    each: Traced | None, gpus: Traced, network: Network | None, problems: list[Problem]
) -> Iterator[Mounted]:
    """Yield the memory volume at /dev/shm: sized by the GPUs of one pod, else as its network needs it."""
    size = per_gpu(each, gpus, "shared memory of a pod", problems) if each else None
    if each is None and network and network.preset.shm:
        size = network.traced(network.preset.shm)
    if size:
        yield Mounted(
            volume={"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}},
            mount={"name": "shm", "mountPath": Traced("/dev/shm", _SHM)},  # noqa: S108 - a mount point, no temporary file
        )
