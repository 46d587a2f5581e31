"""Folders beside a source document, whose files its pods see: a ConfigMap carries them.

The files stay as they are, so that a change of code is read as one; a ConfigMap of the document's name is rendered.
"""

import base64
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from hashlib import sha256

from msgspec import Struct

from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.manifest import Manifest, manifest
from reconciler.kinds.manifests.templates import Data, pod_templates, with_changes
from reconciler.kube.objects import FieldPath, OversizedContent
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import annotation, mapping, metadata_map, sequence, text
from reconciler.kube.yaml import Document
from reconciler.repo.config import Cluster
from reconciler.repo.files import FOLDER_SUFFIX

FOLDER = "gpureconciler.io/folder"
"""Annotation of a source document: the folder, by path from the folder of its file. Its name ends with `.files`."""

MOUNT = "gpureconciler.io/folder-mount"
"""Annotation: where the containers of its pods have the files."""

MOUNT_PATH = "/workload"
VOLUME = "workload-files"

_RULE = "folder.files"
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def carried_folder(document: Document) -> str:
    """Return the path of the folder that a document carries; empty without one."""
    written = annotation(document.data, FOLDER)
    return posixpath.normpath(posixpath.join(posixpath.dirname(document.source.path), written)) if written else ""


def with_folder(
    kinds: Kinds,
    manifests: Iterable[Manifest],
    document: Document,
    cluster: Cluster,
    read: Callable[[str], Mapping[str, bytes]],
) -> tuple[tuple[Manifest, ...], list[Problem]]:
    """Return the manifests of a document, whose pods see the files of its folder, and their ConfigMap."""
    made = tuple(manifests)
    if not made:
        return (), []
    written, folder = annotation(document.data, FOLDER), carried_folder(document)
    if not written.endswith(FOLDER_SUFFIX) or folder.startswith(("/", "../")):
        hint = f"name a folder beside the file, such as code{FOLDER_SUFFIX}"
        return made, [_problem(document, FOLDER, f"{written!r} is not the path of a {FOLDER_SUFFIX} folder", hint)]
    files = read(folder)
    if not files:
        return made, [_problem(document, FOLDER, f"{folder} has no files", "add files, or remove the annotation")]
    large = [name for name, content in files.items() if isinstance(content, OversizedContent)]
    if large:
        return made, [_problem(document, FOLDER, f"{folder}/{large[0]} is too large", "keep it in an object store")]
    data, items = _data(files)
    name = str(document.metadata.get("name"))
    mount = _Mount(
        document=document,
        path=annotation(document.data, MOUNT) or MOUNT_PATH,
        volume={"name": VOLUME, "configMap": {"name": name, **({"items": items} if items else {})}},
    )
    problems: list[Problem] = []
    mounted = [_mounted(kinds, one, mount, problems) for one in made]
    metadata = {"name": name, "namespace": document.key.namespace or cluster.namespace}
    config_map = manifest(
        cluster=cluster.name,
        tree={"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **data},
        source=document.source,
        reason=_reason(document, FOLDER, f"the files of {folder}"),
    )
    return (*mounted, config_map), problems


def _data(files: Mapping[str, bytes]) -> tuple[Data, list[Data]]:
    """Return the data of a ConfigMap, and the paths of its keys where a path is no key, such as one with a folder."""
    keys = {path: path if _KEY.fullmatch(path) else _key(path) for path in files}
    data: dict[str, str] = {}
    binary: dict[str, str] = {}
    for path, content in files.items():
        try:
            data[keys[path]] = _text(content)
        except UnicodeDecodeError:
            binary[keys[path]] = base64.b64encode(content).decode()
    parts: Data = {"data": data} if data else {}
    parts |= {"binaryData": binary} if binary else {}
    is_plain = all(key == path for path, key in keys.items())
    return parts, [] if is_plain else [{"key": key, "path": path} for path, key in keys.items()]


def _key(path: str) -> str:
    """Return a key for a path with a folder or other signs that no key has: distinct paths have distinct keys."""
    return f"{re.sub('[^-._a-zA-Z0-9]', '_', path)[:200]}.{sha256(path.encode()).hexdigest()[:8]}"


def _text(content: bytes) -> str:
    if b"\0" in content:
        raise UnicodeDecodeError("utf-8", content, 0, 1, "a NUL")
    return content.decode()


class _Mount(Struct, frozen=True, kw_only=True):
    document: Document
    path: str
    volume: Data


def _mounted(kinds: Kinds, one: Manifest, mount: _Mount, problems: list[Problem]) -> Manifest:
    body = deepcopy(one.body)
    document, reasons = mount.document, dict[FieldPath, Reason]()
    for path, template in pod_templates(kinds, body):
        spec: Data = template.get("spec") or {}
        known = (mapping(mapping(volume).get("configMap")).get("name") for volume in sequence(spec.get("volumes")))
        if mount.volume["configMap"]["name"] in known:  # the document mounts it itself
            continue
        spec["volumes"] = [*sequence(spec.get("volumes")), mount.volume]
        reasons[*path, "spec", "volumes"] = _reason(document, FOLDER, "carries the files of the folder")
        for number, container in enumerate(sequence(spec.get("containers"))):
            mounts = sequence(container.get("volumeMounts"))
            if any(text(mapping(other).get("mountPath")).rstrip("/") == mount.path.rstrip("/") for other in mounts):
                message = f"container {container.get('name')} of {one.key} mounts something else at {mount.path}"
                problems.append(_problem(document, MOUNT, message, f"set {MOUNT} to another path"))
                continue
            container["volumeMounts"] = [*mounts, {"name": VOLUME, "mountPath": mount.path}]
            container.setdefault("workingDir", mount.path)
            place = (*path, "spec", "containers", number)
            reasons[*place, "volumeMounts"] = _reason(document, MOUNT, "the files of the folder")
            reasons[*place, "workingDir"] = _reason(document, MOUNT, "the files of the folder are there")
    return with_changes(one, body, reasons) if reasons else one


def _reason(document: Document, name: str, what: str) -> Reason:
    origin = Origin(document=document, field=_field(document, name))
    return Reason(rule=_RULE, text=what, origins=(origin,))


def _problem(document: Document, name: str, message: str, hint: str) -> Problem:
    return document.problem(_RULE, _field(document, name), message, hint)


def _field(document: Document, name: str) -> FieldPath:
    """Return the path of an annotation, or of the one that names the folder where it is not set."""
    return ("metadata", "annotations", name if name in metadata_map(document.data, "annotations") else FOLDER)
