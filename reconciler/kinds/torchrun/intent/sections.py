"""Parts that queues and jobs share: distributed, scheduling, storage. Values of a job override those of its queue."""

from collections.abc import Iterator
from enum import StrEnum
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.torchrun.intent.fields import Entries, SpecReader, duplicates
from reconciler.kube.reasons import Traced, copied


class SourceKind(StrEnum):
    """The source of a workspace: an archive, a Git repository, an object store, or what it already contains."""

    ZIP = "zip"
    GIT = "git"
    S3 = "s3"
    EXISTING = "existing"


class WorkspaceSource(Struct, frozen=True, kw_only=True):
    """The code to fetch. `ref` is Git's branch, tag or commit (empty: the remote's HEAD).

    `sha256` is the archive's digest in lower-case hex (empty: the archive is not checked).
    """

    kind: SourceKind
    url: str = ""
    ref: str = ""
    sha256: str = ""


class Distributed(Struct, frozen=True, kw_only=True):
    """The rendezvous of the processes of a job; node counts are those of an elastic job."""

    backend: Traced | None = None
    rdzv_backend: Traced | None = None
    rdzv_endpoint: Traced | None = None
    port: Traced | None = None
    min_nodes: Traced | None = None
    max_nodes: Traced | None = None


class Scheduling(Struct, frozen=True, kw_only=True):
    """The placement and the priority of pods."""

    scheduler: Traced | None = None
    priority: Traced | None = None
    affinity: Traced | None = None
    node_selector: Entries = ()
    tolerations: tuple[Traced, ...] = ()


class Claim(Struct, frozen=True, kw_only=True):
    """A volume: a new one (by size, or by size per GPU), or an existing one (`claim`)."""

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
        """True if the volume is enabled; a section that is set is, unless it says otherwise."""
        return bool(self.enabled.value) if self.enabled else self != _NO_CLAIM


class WorkspaceSection(Struct, frozen=True, kw_only=True):
    """The source of a job's code, and the way in which changes reach it."""

    source: Traced | None = None
    url: Traced | None = None
    ref: Traced | None = None
    sha256: Traced | None = None
    image: Traced | None = None
    pull_policy: Traced | None = None
    hot_reload: Traced | None = None


class NetworkSection(Struct, frozen=True, kw_only=True):
    """A network that a queue defines, on its own or on top of a preset. Resources are those of one pod."""

    name: Traced
    preset: Traced | None = None
    resources: Entries = ()
    annotations: Entries = ()
    env: tuple[Traced, ...] = ()
    capabilities: Traced | None = None


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
_NO_WORKSPACE = WorkspaceSection()

Section = TypeVar("Section", Distributed, Scheduling, Claim, WorkspaceSection)


def merge_section(job: Section, queue: Section) -> Section:
    """Return the queue's section, overridden by the values of the job."""
    given = {name: value for name in job.__struct_fields__ if (value := getattr(job, name)) not in (None, ())}
    return replace(queue, **given) if given else queue


def merge_claim(job: Claim, queue: Claim) -> Claim:
    """Return the queue's claim, overridden by the job's; a size of the job replaces the queue's size of either kind."""
    if job == _NO_CLAIM:
        return queue
    if job.size or job.size_per_gpu:
        queue = replace(queue, size=None, size_per_gpu=None)
    return merge_section(job, queue)


def merge_storage(job: Storage, queue: Storage) -> Storage:
    """Return the queue's volumes, overridden by the job's."""
    if job == _NO_STORAGE:
        return queue
    return Storage(
        workspace=merge_claim(job.workspace, queue.workspace),
        datasets=merge_claim(job.datasets, queue.datasets),
        checkpoints=merge_claim(job.checkpoints, queue.checkpoints),
        shm_per_gpu=job.shm_per_gpu or queue.shm_per_gpu,
    )


def parse_distributed(reader: SpecReader) -> Distributed:
    """Read `distributed`."""
    if "distributed" not in reader.spec:
        return _NO_DISTRIBUTED
    at = "distributed"
    return Distributed(
        backend=reader.text(at, "backend"),
        rdzv_backend=reader.text(at, "rdzvBackend"),
        rdzv_endpoint=reader.text(at, "rdzvEndpoint"),
        port=reader.whole(at, "port"),
        min_nodes=reader.whole(at, "minNodes"),
        max_nodes=reader.whole(at, "maxNodes"),
    )


def parse_scheduling(reader: SpecReader) -> Scheduling:
    """Read `scheduling`."""
    if "scheduling" not in reader.spec:
        return _NO_SCHEDULING
    at = "scheduling"
    return Scheduling(
        scheduler=reader.text(at, "scheduler"),
        priority=reader.text(at, "priorityClassName"),
        affinity=reader.mapping(at, "affinity"),
        node_selector=reader.entries(at, "nodeSelector"),
        tolerations=reader.items(at, "tolerations"),
    )


def parse_storage(reader: SpecReader) -> Storage:
    """Read `storage`, and what `workspaceStorage` says about the workspace's volume."""
    if "storage" not in reader.spec and "workspaceStorage" not in reader.spec:
        return _NO_STORAGE
    return Storage(
        workspace=_workspace_claim(reader),
        datasets=_claim(reader, "storage", "datasets"),
        checkpoints=_claim(reader, "storage", "checkpoints"),
        shm_per_gpu=reader.quantity("storage", "shmSizePerGPU"),
    )


def parse_workspace(reader: SpecReader) -> WorkspaceSection:
    """Read what `workspaceStorage` says about the code's source."""
    if "workspaceStorage" not in reader.spec:
        return _NO_WORKSPACE
    at = "workspaceStorage"
    return WorkspaceSection(
        source=reader.text(at, "source"),
        url=reader.text(at, "url"),
        ref=reader.text(at, "ref"),
        sha256=reader.text(at, "sha256"),
        image=reader.text(at, "image"),
        pull_policy=reader.text(at, "imagePullPolicy"),
        hot_reload=reader.text(at, "hotReload"),
    )


def parse_networks(reader: SpecReader) -> Iterator[NetworkSection]:
    """Read `networks`; two of one name are a problem."""
    items = reader.items("networks")
    for first, second in duplicates(items, "name"):
        reader.clash(first, second)
    for index in range(len(items)):
        at = ("networks", index)
        name = reader.text(*at, "name")
        amounts = reader.mapping(*at, "resources")
        resources = ((key, reader.quantity(*at, "resources", key)) for key in (amounts.value if amounts else ()))
        if name is not None:
            yield NetworkSection(
                name=name,
                preset=reader.text(*at, "preset"),
                resources=tuple((key, value) for key, value in resources if value is not None),
                annotations=reader.entries(*at, "annotations"),
                env=reader.items(*at, "env"),
                capabilities=reader.texts(*at, "capabilities"),
            )


def _claim(reader: SpecReader, *at: str) -> Claim:
    if not reader.has(at):
        return _NO_CLAIM
    claim = Claim(
        enabled=reader.flag(*at, "enabled"),
        size=reader.quantity(*at, "size"),
        size_per_gpu=reader.quantity(*at, "sizePerGPU"),
        storage_class=reader.text(*at, "storageClass"),
        access_modes=reader.texts(*at, "accessModes"),
        mount_path=reader.text(*at, "mountPath"),
        claim=reader.text(*at, "claimName"),
        persist=reader.flag(*at, "persist"),
    )
    if claim == _NO_CLAIM:  # `checkpoints: {}` asks for the volume as much as `enabled: true`
        return replace(claim, enabled=copied(reader.document, ("spec", *at), value=True))
    if claim.size and claim.size_per_gpu:
        reader.clash(claim.size, claim.size_per_gpu)
    return claim


def _workspace_claim(reader: SpecReader) -> Claim:
    old, new = _claim(reader, "workspaceStorage"), _claim(reader, "storage", "workspace")
    if "workspaceStorage" in reader.spec and old.enabled is None:
        old = replace(old, enabled=copied(reader.document, ("spec", "workspaceStorage"), value=True))
    both = {name: reader.agree(getattr(new, name), getattr(old, name)) for name in Claim.__struct_fields__}
    if new.size_per_gpu and old.size:
        reader.clash(new.size_per_gpu, old.size)
    return Claim(**both)
