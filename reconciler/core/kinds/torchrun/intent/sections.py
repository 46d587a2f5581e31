"""Parts that queues and jobs share: distributed, scheduling, storage. A job's part is laid over its queue's."""

from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.kinds.torchrun.intent.fields import Fields
from reconciler.core.reasons import Traced, copied

Entries = tuple[tuple[str, Traced], ...]


class Distributed(Struct, frozen=True, kw_only=True):
    """How the processes of a job find and talk to each other; node counts are those of an elastic job."""

    backend: Traced | None = None
    rdzv_backend: Traced | None = None
    rdzv_endpoint: Traced | None = None
    port: Traced | None = None
    min_nodes: Traced | None = None
    max_nodes: Traced | None = None


class Scheduling(Struct, frozen=True, kw_only=True):
    """Where and how soon pods run."""

    scheduler: Traced | None = None
    priority: Traced | None = None
    affinity: Traced | None = None
    node_selector: Entries = ()
    tolerations: tuple[Traced, ...] = ()


class Claim(Struct, frozen=True, kw_only=True):
    """A volume: one that is rendered (by size, or by size for each GPU), or one that exists (`claim`)."""

    enabled: Traced | None = None
    size: Traced | None = None
    size_per_gpu: Traced | None = None
    storage_class: Traced | None = None
    access_modes: Traced | None = None
    mount_path: Traced | None = None
    claim: Traced | None = None
    persist: Traced | None = None

    @property
    def wanted(self) -> bool:
        """A section that is written counts as enabled unless it says otherwise."""
        return bool(self.enabled.value) if self.enabled else self != _NO_CLAIM


class Workspace(Struct, frozen=True, kw_only=True):
    """Where a job's code comes from and how changes reach it."""

    source: Traced | None = None
    url: Traced | None = None
    ref: Traced | None = None
    sha256: Traced | None = None
    image: Traced | None = None
    pull_policy: Traced | None = None
    hot_reload: Traced | None = None


class Storage(Struct, frozen=True, kw_only=True):
    """The volumes of a job and the shared memory of its pods."""

    workspace: Claim = Claim()
    datasets: Claim = Claim()
    checkpoints: Claim = Claim()
    shm_per_gpu: Traced | None = None


_NO_CLAIM = Claim()
_NO_STORAGE = Storage()
_NO_DISTRIBUTED = Distributed()
_NO_SCHEDULING = Scheduling()
_NO_WORKSPACE = Workspace()

Section = TypeVar("Section", Distributed, Scheduling, Claim, Workspace)


def laid_over(job: Section, queue: Section) -> Section:
    """Return the queue's section with every value that the job gives in its place."""
    given = {name: value for name in job.__struct_fields__ if (value := getattr(job, name)) not in (None, ())}
    return replace(queue, **given) if given else queue


def claim_over(job: Claim, queue: Claim) -> Claim:
    """Return the queue's claim under the job's; a size of the job replaces the queue's size of either kind."""
    if job == _NO_CLAIM:
        return queue
    if job.size or job.size_per_gpu:
        queue = replace(queue, size=None, size_per_gpu=None)
    return laid_over(job, queue)


def storage_over(job: Storage, queue: Storage) -> Storage:
    """Return the queue's volumes under the job's."""
    if job == _NO_STORAGE:
        return queue
    return Storage(
        workspace=claim_over(job.workspace, queue.workspace),
        datasets=claim_over(job.datasets, queue.datasets),
        checkpoints=claim_over(job.checkpoints, queue.checkpoints),
        shm_per_gpu=job.shm_per_gpu or queue.shm_per_gpu,
    )


def distributed_of(fields_: Fields) -> Distributed:
    """Read `distributed`."""
    if "distributed" not in fields_.spec:
        return _NO_DISTRIBUTED
    at = "distributed"
    return Distributed(
        backend=fields_.text(at, "backend"),
        rdzv_backend=fields_.text(at, "rdzvBackend"),
        rdzv_endpoint=fields_.text(at, "rdzvEndpoint"),
        port=fields_.whole(at, "port"),
        min_nodes=fields_.whole(at, "minNodes"),
        max_nodes=fields_.whole(at, "maxNodes"),
    )


def scheduling_of(fields_: Fields) -> Scheduling:
    """Read `scheduling`."""
    if "scheduling" not in fields_.spec:
        return _NO_SCHEDULING
    at = "scheduling"
    return Scheduling(
        scheduler=fields_.text(at, "scheduler"),
        priority=fields_.text(at, "priorityClassName"),
        affinity=fields_.mapping(at, "affinity"),
        node_selector=fields_.entries(at, "nodeSelector"),
        tolerations=fields_.items(at, "tolerations"),
    )


def storage_of(fields_: Fields) -> Storage:
    """Read `storage`, and what `workspaceStorage` says about the workspace's volume."""
    if "storage" not in fields_.spec and "workspaceStorage" not in fields_.spec:
        return _NO_STORAGE
    return Storage(
        workspace=_workspace_claim(fields_),
        datasets=_claim(fields_, "storage", "datasets"),
        checkpoints=_claim(fields_, "storage", "checkpoints"),
        shm_per_gpu=fields_.quantity("storage", "shmSizePerGPU"),
    )


def workspace_of(fields_: Fields) -> Workspace:
    """Read what `workspaceStorage` says about the code's source."""
    if "workspaceStorage" not in fields_.spec:
        return _NO_WORKSPACE
    at = "workspaceStorage"
    return Workspace(
        source=fields_.text(at, "source"),
        url=fields_.text(at, "url"),
        ref=fields_.text(at, "ref"),
        sha256=fields_.text(at, "sha256"),
        image=fields_.text(at, "image"),
        pull_policy=fields_.text(at, "imagePullPolicy"),
        hot_reload=fields_.text(at, "hotReload"),
    )


def _claim(fields_: Fields, *at: str) -> Claim:
    if not fields_.has(at):
        return _NO_CLAIM
    claim = Claim(
        enabled=fields_.flag(*at, "enabled"),
        size=fields_.quantity(*at, "size"),
        size_per_gpu=fields_.quantity(*at, "sizePerGPU"),
        storage_class=fields_.text(*at, "storageClass"),
        access_modes=fields_.texts(*at, "accessModes"),
        mount_path=fields_.text(*at, "mountPath"),
        claim=fields_.text(*at, "claimName"),
        persist=fields_.flag(*at, "persist"),
    )
    if claim == _NO_CLAIM:  # `checkpoints: {}` asks for the volume as much as `enabled: true`
        return replace(claim, enabled=copied(fields_.document, ("spec", *at), value=True))
    if claim.size and claim.size_per_gpu:
        fields_.clash(claim.size, claim.size_per_gpu)
    return claim


def _workspace_claim(fields_: Fields) -> Claim:
    old, new = _claim(fields_, "workspaceStorage"), _claim(fields_, "storage", "workspace")
    if "workspaceStorage" in fields_.spec and old.enabled is None:
        old = replace(old, enabled=copied(fields_.document, ("spec", "workspaceStorage"), value=True))
    both = {name: fields_.agree(getattr(new, name), getattr(old, name)) for name in Claim.__struct_fields__}
    if new.size_per_gpu and old.size:
        fields_.clash(new.size_per_gpu, old.size)
    return Claim(**both)
