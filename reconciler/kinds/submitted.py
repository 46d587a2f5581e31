"""The documents that `submit` and `serve` write, and what they fill in a document of the user."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.kinds.folders import FOLDER, MOUNT
from reconciler.kinds.kueue.labels import QUEUE_LABEL
from reconciler.kinds.torchrun import GROUP as TORCHRUN
from reconciler.kube.objects import split_api_version
from reconciler.kube.values import mapping, text

KAIWO = "kaiwo.silogen.ai"
_KAIWO_VERSION, _TORCHRUN_VERSION = f"{KAIWO}/v1alpha1", f"{TORCHRUN}/v1alpha1"
_SERVICE_MOUNT = "/workload/app"
_MOUNT_IN_DATA = "/workload/mounted"
"""Where the files are if a volume for data is at their usual place."""
CODE_MOUNT = "/app"
DEFAULT_IMAGE = "ghcr.io/silogen/rocm-ray:6.4"
"""The image of a workload that names none, as in Kaiwo. On Ray, that of the KaiwoConfig is used."""

Data = dict[str, Any]


class SubmittedWorkload(Struct, frozen=True, kw_only=True):
    """A submitted workload, in the words of Kaiwo. Empty values are not written; `folder` is beside the file."""

    name: str
    namespace: str = ""
    user: str = ""
    queue: str = ""
    gpus: int = 0
    replicas: int | None = None
    gpus_per_replica: int | None = None
    ray: bool = False
    serves: bool = False
    version: str = ""
    image: str = ""
    pull_secret: str = ""
    entrypoint: str = ""
    serve_config: str = ""
    env: tuple[Mapping[str, Any], ...] = ()
    secret_volumes: tuple[Mapping[str, Any], ...] = ()
    storage: Mapping[str, Any] = {}
    folder: str = ""


def kaiwo_document(workload: SubmittedWorkload) -> Data:
    """Return the KaiwoJob or the KaiwoService of a workload."""
    spec = {
        "user": workload.user,
        "clusterQueue": workload.queue,
        "version": workload.version,
        "gpus": workload.gpus,
        "replicas": workload.replicas,
        "gpusPerReplica": workload.gpus_per_replica,
        "ray": workload.ray,
        "image": workload.image or ("" if workload.ray else DEFAULT_IMAGE),
        "imagePullSecrets": [{"name": workload.pull_secret}] if workload.pull_secret else [],
        "entrypoint": "" if workload.serves and workload.ray else workload.entrypoint,
        "serveConfigV2": workload.serve_config if workload.serves and workload.ray else "",
        "env": list(workload.env),
        "secretVolumes": list(workload.secret_volumes),
        "storage": workload.storage,
    }
    mount = _SERVICE_MOUNT if workload.serves else _MOUNT_IN_DATA if workload.storage else ""
    return {
        "apiVersion": _KAIWO_VERSION,
        "kind": "KaiwoService" if workload.serves else "KaiwoJob",
        "metadata": _metadata(workload, mount),
        "spec": {key: value for key, value in spec.items() if value},
    }


def torchrun_document(workload: SubmittedWorkload) -> Data:
    """Return the TorchrunJob of a workload, which runs in the folder that it carries, without a volume for its code."""
    volumes = [
        {
            "name": one["name"],
            "secret": {"secretName": one["secretName"], "items": [{"key": one["key"], "path": one["subPath"]}]},
        }
        for one in workload.secret_volumes
    ]
    mounts = [{key: one[key] for key in ("name", "mountPath", "subPath")} for one in workload.secret_volumes]
    spec = {
        "jobQueue": workload.queue,
        "numGPUs": workload.gpus,
        "command": workload.entrypoint,
        "image": workload.image,
        "env": list(workload.env),
        "volumes": {"additionalVolumes": volumes, "additionalMounts": mounts} if volumes else {},
        "storage": {"workspace": {"enabled": False}} if workload.folder else {},
    }
    return {
        "apiVersion": _TORCHRUN_VERSION,
        "kind": "TorchrunJob",
        "metadata": _metadata(workload, CODE_MOUNT),
        "spec": {key: value for key, value in spec.items() if value or key == "numGPUs"},
    }


def _metadata(workload: SubmittedWorkload, mount: str) -> Data:
    metadata: Data = {"name": workload.name}
    if workload.namespace:
        metadata["namespace"] = workload.namespace
    if workload.folder:
        metadata["annotations"] = {FOLDER: workload.folder, **({MOUNT: mount} if mount else {})}
    return metadata


def managed_namespace(name: str) -> Data:
    """Return a Namespace whose plain workloads Kueue may manage, too."""
    metadata = {"name": name, "labels": {"kueue-managed": "true"}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def with_folder(document: Mapping[str, Any], folder: str) -> Data:
    """Return a document that carries a folder beside its file."""
    metadata = mapping(document.get("metadata"))
    annotations = {**mapping(metadata.get("annotations")), FOLDER: folder}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def fill(document: Mapping[str, Any], *, user: str, queue: str, namespace: str) -> Data:
    """Return a document with user, queue and namespace where it has none. An empty value fills nothing."""
    group, _ = split_api_version(text(document.get("apiVersion")))
    metadata, spec = dict(mapping(document.get("metadata"))), dict(mapping(document.get("spec")))
    if namespace:
        metadata.setdefault("namespace", namespace)
    if group == KAIWO:
        spec |= {"user": spec.get("user") or user} if user else {}
        spec |= {"clusterQueue": spec.get("clusterQueue") or queue} if queue else {}
    elif group == TORCHRUN:
        spec |= {"jobQueue": queue} if queue and not (spec.get("jobQueue") or spec.get("queue")) else {}
    elif queue and QUEUE_LABEL not in mapping(metadata.get("labels")):
        metadata["labels"] = {**mapping(metadata.get("labels")), QUEUE_LABEL: queue}
    return {**document, "metadata": metadata, **({"spec": spec} if spec else {})}
