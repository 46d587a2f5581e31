"""Volumes of a workload: its claims, and the download that fills them before it starts.

A download is a Job whose name holds the digest of what it fetches. The workload waits in an init container for the file
that this download leaves, so that it works under every tool that applies manifests, and again after each change.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct

from reconciler.download.config import STATE
from reconciler.kinds.fields import Fields, Tree
from reconciler.kinds.kaiwo.config import KaiwoConfig, default
from reconciler.kinds.manifests.ownership import KEEP
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Traced, untrace
from reconciler.kube.values import mapping, sequence, text
from reconciler.kube.yaml import write

_AT: FieldPath = ("spec", "storage")
_DATA: FieldPath = (*_AT, "data")
_HF: FieldPath = (*_AT, "huggingFace")
_SOURCES = {"s3": "buckets", "gcs": "buckets", "azureBlob": "containers", "git": ""}
"""Sources of a download, and the field with their buckets."""
_REFERENCES = ("accessKeyId", "secretKey", "applicationCredentials", "connectionString", "username", "token")
_SECRETS = "/app/secrets"
_CONFIG = "/app/config"
_DIGITS = 8

_KEPT = default("true", "claims are kept when the workload is removed: they may hold checkpoints")
_MODE = default("ReadWriteMany", "pods on several nodes use the volume")


class Download(Struct, frozen=True, kw_only=True):
    """A download: its configuration, and the file that it leaves when it is done."""

    config: str
    digest: str
    marker: str
    place: Traced  # the field that asks for it


class WorkloadVolumes(Struct, frozen=True, kw_only=True):
    """The volumes of a workload, in its pods: volumes and mounts, the variables about them, and the download."""

    volumes: tuple[Tree, ...] = ()
    mounts: tuple[Tree, ...] = ()
    env: tuple[Tree, ...] = ()
    download: Download | None = None


def storage_problems(fields: Fields) -> Iterator[Problem]:
    """Yield what is wrong with the storage of a workload, whatever the cluster is."""
    if fields.plain(*_AT) is None:
        return
    if fields.plain(*_AT, "storageEnabled") is not True:
        for path in (_DATA, _HF):
            if fields.plain(*path) is not None:
                hint = "set storageEnabled: true, or remove the section"
                yield fields.warning("ignored", path, "has no effect without storageEnabled", hint)
        return
    for path, wanted in ((_DATA, "download"), (_HF, "preCacheRepos")):
        if fields.plain(*path, wanted) and fields.plain(*path, "storageSize") is None:
            yield fields.problem("storage", (*path, wanted), "there is no volume to store it", "set storageSize")
    if _has_downloads(fields) and fields.plain(*_AT, "accessMode") in ("ReadWriteOnce", "ReadWriteOncePod"):
        message = "the download may run on another node than the workload, which then cannot mount the volume"
        yield fields.warning("access-mode", (*_AT, "accessMode"), message, "use ReadWriteMany")
    for path in _sources(fields):
        yield from _source_problems(fields, path)


def _sources(fields: Fields) -> Iterator[FieldPath]:
    for source in _SOURCES:
        for index in range(len(sequence(fields.plain(*_DATA, "download", source)))):
            yield (*_DATA, "download", source, index)


def _source_problems(fields: Fields, path: FieldPath) -> Iterator[Problem]:
    source, inner = mapping(fields.plain(*path)), _SOURCES[str(path[-2])]
    if source.get("branch") and source.get("commit"):
        message = "a commit has no branch: Kaiwo ignores the commit"
        yield fields.problem("contradiction", (*path, "commit"), message, "set one of them")
    for name in _REFERENCES:
        found = source.get(name)
        if found is not None and not (found.get("file") or (found.get("secretName") and found.get("secretKey"))):
            yield fields.problem("secret", (*path, name), "names no value", "set secretName and secretKey")
    targets = [(*path, "targetPath")]
    for outer, bucket in enumerate(map(mapping, sequence(source.get(inner)))):
        for kind in ("files", "folders"):
            count = len(sequence(bucket.get(kind)))
            targets += [(*path, inner, outer, kind, index, "targetPath") for index in range(count)]
        if not bucket.get("files") and not bucket.get("folders"):
            yield fields.problem("download", (*path, inner, outer), "fetches nothing", "add files or folders")
    for target in targets:
        folder = text(fields.plain(*target))
        if folder.startswith("/") or ".." in folder.split("/"):
            message = "leaves the volume"
            yield fields.problem("target-path", target, message, "use a path below the mount, without `..`")


def _has_downloads(fields: Fields) -> bool:
    return any(True for _ in _sources(fields)) or bool(fields.plain(*_HF, "preCacheRepos"))


def resolve_storage(fields: Fields, config: KaiwoConfig) -> WorkloadVolumes:
    """Return the volumes of a workload."""
    if fields.plain(*_AT, "storageEnabled") is not True:
        return WorkloadVolumes()
    name = fields.plain("metadata", "name")
    data = _mount("data", fields, _DATA, config.data_path)
    cache = _mount("hf", fields, _HF, config.hf_path)
    found = [mount for mount in (data, cache) if mount is not None]
    return WorkloadVolumes(
        volumes=tuple(_volume(mount["name"], f"{name}-{mount['name']}") for mount in found),
        mounts=tuple(found),
        env=({"name": "HF_HOME", "value": cache["mountPath"]},) if cache is not None else (),
        download=_download(fields, data, cache) if _has_downloads(fields) else None,
    )


def _mount(name: str, fields: Fields, path: FieldPath, otherwise: Traced) -> Tree | None:
    if fields.plain(*path, "storageSize") is None:
        return None
    return {"name": name, "mountPath": fields.get(*path, "mountPath") or otherwise}


def _volume(name: str, claim: str) -> Tree:
    return {"name": name, "persistentVolumeClaim": {"claimName": claim}}


def claims(fields: Fields, config: KaiwoConfig, namespace: str, labels: Mapping[str, Any]) -> Iterator[Tree]:
    """Yield the claims of a workload."""
    if fields.plain(*_AT, "storageEnabled") is not True:
        return
    for suffix, path in (("data", _DATA), ("hf", _HF)):
        size = fields.get(*path, "storageSize")
        if size is None:
            continue
        mode = fields.get(*_AT, "accessMode") or _MODE
        spec: Tree = {"accessModes": [mode], "resources": {"requests": {"storage": size}}}
        storage_class = fields.get(*_AT, "storageClassName") or config.storage_class
        if storage_class is not None:
            spec["storageClassName"] = storage_class
        metadata = {
            "name": f"{fields.plain('metadata', 'name')}-{suffix}",
            "namespace": namespace,
            "labels": dict(labels),
            "annotations": {KEEP: _KEPT},
        }
        yield {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


# --- downloads ---------------------------------------------------------------------------------------------------


def _download(fields: Fields, data: Tree | None, cache: Tree | None) -> Download | None:
    """Return the configuration of `reconciler download`, with the marker of its own."""
    target = data or cache
    if target is None:
        return None
    config: Tree = {"root": target["mountPath"]}
    config |= {"hfHome": cache["mountPath"]} if cache else {}
    for source in _SOURCES:
        items = sequence(fields.plain(*_DATA, "download", source))
        if items:
            config[source] = [{key: _resolved(key, value) for key, value in item.items()} for item in items]
    repositories = sequence(fields.plain(*_HF, "preCacheRepos"))
    if repositories:
        config["hf"] = list(repositories)
    plain = untrace(config)
    digest = sha256(write(plain)).hexdigest()[:_DIGITS]
    path = f"{untrace(target['mountPath'])}/{STATE}/{digest}"
    anchor = (*_DATA, "download") if any(True for _ in _sources(fields)) else (*_HF, "preCacheRepos")
    place = fields.made(
        None, "download", "another download is another file, and another Job: both hold its digest", anchor
    )
    return Download(config=write({**plain, "marker": digest}).decode(), digest=digest, marker=path, place=place)


def _resolved(key: str, value: Any) -> Any:
    """Return a field of a source; a secret is the file where the download finds its value."""
    if key not in _REFERENCES:
        return value
    return {"file": value.get("file") or f"{_SECRETS}/{value['secretName']}/{value['secretKey']}"}


def _secret_names(fields: Fields) -> list[str]:
    names = set()
    for path in _sources(fields):
        source = mapping(fields.plain(*path))
        names |= {mapping(source.get(key)).get("secretName") for key in _REFERENCES if not _file(source, key)}
    return sorted(name for name in names if name)


def _file(source: Mapping[str, Any], key: str) -> Any:
    return mapping(source.get(key)).get("file")


_WAITING = "busybox:1.37.0"


def wait_container(download: Download, storage: WorkloadVolumes) -> Tree:
    """Return the init container in which a workload waits for its download."""
    script = f"until [ -f '{download.marker}' ]; do sleep 5; done"
    small = {"cpu": "10m", "memory": "32Mi"}
    return {
        "name": "wait-for-download",
        "image": _WAITING,
        "command": ["/bin/sh", "-c", Traced(script, download.place.reason)],
        "resources": {"requests": small, "limits": small},
        "volumeMounts": list(storage.mounts),
    }


def download_trees(
    fields: Fields, config: KaiwoConfig, storage: WorkloadVolumes, namespace: str, labels: Mapping[str, Any]
) -> Iterator[Tree]:
    """Yield the configuration of a download, and its Job. Kueue does not queue it: it must end before the workload."""
    download = storage.download
    if download is None:
        return
    name = Traced(f"{fields.plain('metadata', 'name')}-download-{download.digest}", download.place.reason)
    metadata = {"name": name, "namespace": namespace, "labels": {**labels, "kaiwo.silogen.ai/type": "downloader"}}
    written = Traced(download.config, download.place.reason)
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": written}}
    secrets = _secret_names(fields)
    container = {
        "name": "download",
        "image": config.download_image,
        "command": ["reconciler", "download", f"{_CONFIG}/config.yaml"],
        "env": [*fields.items("spec", "env"), *storage.env],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "4Gi"}},
        "volumeMounts": [
            *storage.mounts,
            {"name": "config", "mountPath": _CONFIG, "readOnly": True},
            *(
                {"name": f"secret-{secret}", "mountPath": f"{_SECRETS}/{secret}", "readOnly": True}
                for secret in secrets
            ),
        ],
    }
    pod: Tree = {
        "restartPolicy": "OnFailure",
        "securityContext": {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000},
        "containers": [container],
        "volumes": [
            *storage.volumes,
            {"name": "config", "configMap": {"name": name}},
            *({"name": f"secret-{secret}", "secret": {"secretName": secret}} for secret in secrets),
        ],
    }
    if pull := fields.items("spec", "imagePullSecrets"):
        pod["imagePullSecrets"] = pull
    template = {"metadata": {"labels": metadata["labels"]}, "spec": pod}
    spec = {"backoffLimit": 3, "activeDeadlineSeconds": 86400, "template": template}
    yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
