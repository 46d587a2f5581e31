"""Submit a workload: from a folder, an image, a command, a template or a document, to the files of a change."""

import json
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError, InvalidInput
from reconciler.index.build import CompiledRevision
from reconciler.kinds.distribution import DistributionFailure, NodeKind, distribute
from reconciler.kinds.kind import Kinds
from reconciler.kinds.submitted import (
    Data,
    SubmittedWorkload,
    fill,
    kaiwo_document,
    managed_namespace,
    torchrun_document,
    with_folder,
)
from reconciler.kinds.translated import local_queue
from reconciler.kube.objects import SourceRef
from reconciler.kube.patterns import is_dns_label
from reconciler.kube.problems import Problem
from reconciler.kube.values import metadata_text, plural, text
from reconciler.kube.yaml import Document, read, write
from reconciler.repo.checkout_files import read_file
from reconciler.repo.files import FOLDER_SUFFIX, below
from reconciler.submit.folder import WorkloadFolder, read_workload
from reconciler.submit.names import workload_name
from reconciler.submit.site import NODE_GPUS, NOWHERE, Site, path_of, site_of
from reconciler.submit.templates import TemplateInput, render_template
from reconciler.submit.user import UserSettings

Files = dict[str, bytes | None]


class SubmitRequest(Struct, frozen=True, kw_only=True):
    """The request of a user, as the flags say it. Empty values were not given.

    code: the folder whose code a command runs, where `path` names none.
    contents: what `file` holds by path, documents that are submitted as they are, with what they lack.
    """

    path: Path | None = None
    overlay: Path | None = None
    code: Path | None = None
    command: str = ""
    gpus: int = 0
    replicas: int | None = None
    gpus_per_replica: int | None = None
    ray: bool = False
    serves: bool = False
    queue: str = ""
    namespace: str = ""
    create_namespace: bool = False
    image: str = ""
    pull_secret: str = ""
    version: str = ""
    name: str = ""
    template: Path | None = None
    custom: Path | None = None
    storage: str | None = None
    file: str = ""
    contents: Mapping[str, bytes] = {}


class Submission(Struct, frozen=True, kw_only=True):
    """The files of a submitted workload, and what the user should know of them. `path` is that of its document."""

    kind: str
    name: str
    namespace: str
    path: str
    files: Files
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def submit(request: SubmitRequest, user: UserSettings, kinds: Kinds, index: CompiledRevision | None) -> Submission:
    """Return the files with which a workload is submitted, in a repository or (None) outside of one."""
    site = NOWHERE if index is None else site_of(index)
    namespace = site.namespace_for(request.namespace)
    if request.file:
        return _of_file(request, user, kinds, index, site)
    queue = site.queue_for(request.queue or user.queue, namespace)
    is_torchrun = site.is_torchrun(queue, namespace) and not request.serves
    folder = _folder(request, deep=is_torchrun)
    name = _name(request, user)
    workload = SubmittedWorkload(
        name=name,
        namespace=namespace if namespace != site.namespace else "",
        user=user.user,
        queue=queue,
        gpus=request.gpus,
        replicas=request.replicas,
        gpus_per_replica=request.gpus_per_replica,
        ray=request.ray,
        serves=request.serves,
        version=request.version,
        image=request.image,
        pull_secret=request.pull_secret,
        entrypoint=request.command or folder.entrypoint,
        serve_config=folder.serve_config,
        env=folder.variables.env,
        secret_volumes=folder.variables.secret_volumes,
        storage=_storage(request.storage),
        folder=f"{name}{FOLDER_SUFFIX}" if folder.carried else "",
    )
    _check(request, workload, is_torchrun=is_torchrun)
    document = _document(request, workload, folder, site, kinds, is_torchrun=is_torchrun)
    path = _place(index, name, workload.namespace)
    files = _files(index, path, name, document, folder.carried)
    is_templated = request.template is not None or folder.template is not None
    files |= _surroundings(request, index, site, path, namespace, queue if is_templated else "")
    note = f"Kaiwo did not queue services; this one waits in queue {queue}" if request.serves and queue else ""
    return Submission(
        kind=text(document.get("kind")),
        name=name,
        namespace=namespace,
        path=path,
        files=files,
        warnings=folder.skipped,
        notes=(note,) if note else (),
    )


def _folder(request: SubmitRequest, *, deep: bool) -> WorkloadFolder:
    """Read the folder of a workload. Without one nothing is read, whatever the current folder holds."""
    if request.path is not None:
        return read_workload(request.path, request.overlay, deep=deep)
    if deep and request.code is not None and request.command:
        found = read_workload(request.code, deep=True)
        return WorkloadFolder(carried=found.carried, skipped=found.skipped)
    return WorkloadFolder()


def _name(request: SubmitRequest, user: UserSettings) -> str:
    if request.name:
        if not is_dns_label(request.name):
            hint = "write at most 63 lower-case letters, digits and dashes"
            raise ConfigError(f"--name: {request.name!r} is not a name", hint=hint)
        return request.name
    folder = request.path or (request.code if request.command else None)
    what = folder.resolve().name if folder is not None else request.image
    if not what:
        raise ConfigError(
            "nothing to submit", hint="name a folder (--path), an image (--image), a command or a file (-f)"
        )
    return workload_name(user.user, what, request.version)


def _check(request: SubmitRequest, workload: SubmittedWorkload, *, is_torchrun: bool) -> None:
    if is_torchrun:
        if request.ray:
            raise ConfigError(f"--ray: queue {workload.queue} runs TorchrunJobs", hint="name another queue")
        if not workload.entrypoint:
            raise ConfigError("a TorchrunJob needs a command", hint='such as: "python train.py"')
    elif request.serves and request.ray and not workload.serve_config:
        raise ConfigError("--ray: a RayService needs a file serveconfig in --path", hint="add it to the folder")
    elif request.ray and not request.serves and not workload.entrypoint:
        raise ConfigError("--ray: a RayJob needs a file entrypoint in --path", hint="add it, or give a command")


def _storage(wanted: str | None) -> Mapping[str, Any]:
    """Return the storage of `SIZE[,CLASS]`."""
    if not wanted:
        return {}
    size, _, storage_class = wanted.partition(",")
    named = {"storageClassName": storage_class} if storage_class else {}
    return {"storageEnabled": True, **named, "data": {"storageSize": size}}


# The document: that of a kind, or what a template renders.


def _document(
    request: SubmitRequest,
    workload: SubmittedWorkload,
    folder: WorkloadFolder,
    site: Site,
    kinds: Kinds,
    *,
    is_torchrun: bool,
) -> Data:
    if request.template is not None or folder.template is not None:
        path = str(request.template or Path(request.path or "", "template"))
        raw = read_file(request.template) if request.template is not None else folder.template or b""
        made = render_template(path, raw, _template_input(request, workload, site))
        _check_rendered(made, kinds, serves=request.serves)
        place = {"namespace": workload.namespace} if workload.namespace else {}
        filled = {**made.data, "metadata": {"name": workload.name, **place, **made.metadata}}
        return with_folder(filled, workload.folder) if workload.folder else filled
    return torchrun_document(workload) if is_torchrun else kaiwo_document(workload)


def _check_rendered(made: Document, kinds: Kinds, *, serves: bool) -> None:
    """Refuse a document that runs no pods, one that ends to be served, and one that never ends to be submitted."""
    never_ends = kinds.find(made.group, made.kind).life.progress is None
    if kinds.pod_sets(made.data) is None:
        message = f"{made.kind or 'a document without a kind'} runs no pods"
    elif serves and not never_ends:
        message = f"{made.kind} ends: use `reconciler submit`"
    elif never_ends and not serves:
        message = f"{made.kind} never ends: use `reconciler serve`"
    else:
        return
    problem = Problem(rule="submit.template", place=made.source, field="kind", message=message)
    raise InvalidInput([problem], where=f"in what {made.source.path} renders")


def _template_input(request: SubmitRequest, workload: SubmittedWorkload, site: Site) -> TemplateInput:
    replicas, each = _shape(request, workload, site)
    entrypoint = workload.entrypoint
    storage = workload.storage
    return TemplateInput(
        meta={
            "Name": workload.name,
            "Namespace": workload.namespace or site.namespace,
            "Image": workload.image,
            "ImagePullSecret": workload.pull_secret,
            "Version": workload.version,
            "User": workload.user,
            "EnvVars": [_variable(one) for one in workload.env],
            "SecretVolumes": [
                {key[0].upper() + key[1:]: value for key, value in one.items()} for one in workload.secret_volumes
            ],
            "HasConfigMap": bool(workload.folder),
        },
        scheduling={
            "GPUsAvailablePerNode": site.gpus_per_node or NODE_GPUS,
            "TotalRequestedGPUs": workload.gpus,
            "CalculatedGPUsPerReplica": each,
            "CalculatedNumReplicas": replicas,
            "Storage": {
                "StorageClassName": storage.get("storageClassName", ""),
                "Quantity": storage["data"]["storageSize"],
            }
            if storage
            else None,
        },
        # A script of several lines is one value of YAML; Ray's templates indent it.
        entrypoint=entrypoint if request.ray or not entrypoint else json.dumps(entrypoint, ensure_ascii=False),
        serve_config=workload.serve_config,
        queue=workload.queue,
        custom=_custom(request.custom),
    )


def _variable(row: Mapping[str, Any]) -> Data:
    if "value" in row:
        return {"Name": row["name"], "Value": row["value"]}
    secret = row["valueFrom"]["secretKeyRef"]
    return {"Name": row["name"], "ValueFrom": {"SecretKeyRef": {"Name": secret["name"], "Key": secret["key"]}}}


def _custom(path: Path | None) -> Any:
    if path is None:
        return None
    reading = read(str(path), read_file(path))
    if reading.problems or len(reading.documents) != 1:
        raise InvalidInput(reading.problems or [_one_document(str(path))], where=f"in {path}")
    return reading.documents[0].data


def _one_document(path: str) -> Problem:
    return Problem(rule="submit.template", place=SourceRef(path=path), message="must have exactly one document")


def _shape(request: SubmitRequest, workload: SubmittedWorkload, site: Site) -> tuple[int, int]:
    """Return replicas and GPUs of each, for a template: those of the flags, else an even distribution over nodes."""
    if request.replicas and request.gpus_per_replica:
        return request.replicas, request.gpus_per_replica
    if not workload.gpus:
        return 1, 0
    found = distribute(workload.gpus, [NodeKind(gpus=site.gpus_per_node or NODE_GPUS)])
    if isinstance(found, DistributionFailure):
        nearest = " or ".join(map(str, found.nearest))
        problem = Problem(
            rule="submit.gpus",
            place=SourceRef(path=str(request.template or request.path or "template")),
            message=found.why,
            hint=f"request {nearest}" if nearest else "",
        )
        raise InvalidInput([problem], where="in the request")
    return found.nodes, found.per_node


# A document of the user.


def _of_file(
    request: SubmitRequest, user: UserSettings, kinds: Kinds, index: CompiledRevision | None, site: Site
) -> Submission:
    """Return the files of documents as they are, with user, queue and namespace where they have none.

    Each workload is a file; the objects that are none belong to the first one.
    """
    readings = {path: read(path, raw) for path, raw in request.contents.items()}
    problems = [problem for reading in readings.values() for problem in reading.problems]
    if problems:
        raise InvalidInput(problems, where=f"in {request.file}")
    documents = [one for reading in readings.values() for one in reading.documents]
    running = [one for one in documents if _runs_pods(kinds, one)]
    if not running:
        raise ConfigError(f"{request.file}: holds no workload", hint="submit a file with a job or a service")
    others = [one for one in documents if one not in running]
    groups = [[*others, one] if one is running[0] else [one] for one in running]
    if len(running) == 1:
        groups = [documents]
    found = [
        _of_documents(request, user, kinds, index, site, group, workload)
        for group, workload in zip(groups, running, strict=True)
    ]
    paths = [one.path for one in found]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise ConfigError(f"{request.file}: holds two workloads for {twice[0]}", hint="rename one of them")
    files = {path: content for one in found for path, content in one.files.items()}
    name = found[0].name if len(found) == 1 else f"{found[0].name}-and-{len(found) - 1}-more"
    return replace(found[0], name=name, files=files)


def _of_documents(  # noqa: PLR0917 - where a workload goes
    request: SubmitRequest,
    user: UserSettings,
    kinds: Kinds,
    index: CompiledRevision | None,
    site: Site,
    group: Sequence[Document],
    workload: Document,
) -> Submission:
    """Return the file of a workload and of the objects beside it."""
    documents: list[Data] = []
    for one in group:
        written = metadata_text(one.data, "namespace")
        if request.namespace and written and written != request.namespace:
            place = one.at(("metadata", "namespace"))
            raise ConfigError(
                f"{place}: the namespace is {written}, not {request.namespace}", hint="change -n or the file"
            )
        is_workload = one is workload
        namespace = request.namespace if not kinds.find(one.group, one.kind).is_cluster_scoped else ""
        documents.append(
            fill(
                one.data,
                user=user.user if is_workload else "",
                queue=(request.queue or user.queue) if is_workload else "",
                namespace=namespace,
            )
        )
    name = metadata_text(workload.data, "name")
    namespace = metadata_text(workload.data, "namespace") or request.namespace
    raw = request.contents[workload.source.path]
    is_same = documents == [one.data for one in read(workload.source.path, raw).documents]
    content = raw if is_same else b"---\n".join(map(write, documents))
    path = _place(index, name, namespace, group)
    files: Files = {path: content}
    files |= _surroundings(request, index, site, path, namespace or site.namespace, "")
    return Submission(kind=workload.kind, name=name, namespace=namespace or site.namespace, path=path, files=files)


def _runs_pods(kinds: Kinds, document: Document) -> bool:
    row = kinds.find(document.group, document.kind)
    is_own = row.source.render is not None and row.source.dependents == ""
    return is_own or kinds.pod_sets(document.data) is not None


# The files of a change.


def _files(index: CompiledRevision | None, path: str, name: str, document: Data, carried: Mapping[str, bytes]) -> Files:
    """Return the file of a workload and those of its folder; None for those that it carried and does not any more."""
    folder = posixpath.join(posixpath.dirname(path), f"{name}{FOLDER_SUFFIX}")
    files: Files = dict.fromkeys(below(index.revision.files.carried, folder) if index is not None else ())
    return {path: write(document), **files, **{f"{folder}/{file}": content for file, content in carried.items()}}


def _place(index: CompiledRevision | None, name: str, namespace: str, beside: Iterable[Document] = ()) -> str:
    """Return the path of a workload's file: that of the one that has its name, else a new one.

    beside: the documents that the new file has. Raises `ConfigError` for a file with others, which would be lost.
    """
    new = path_of(index, "jobs", f"{namespace}/{name}" if namespace else name)
    if index is None:
        return new
    namespaces = {namespace} if namespace else {one.namespace for one in index.clusters}
    rows = list(index.first_summaries())
    own = [row for row in rows if row.is_workload and row.name == name and row.namespace in namespaces]
    known = {row.source for row in own if "#" not in row.source}
    path = known.pop() if len(known) == 1 else new
    places = {one.place for one in own}
    kept = {(one.kind, metadata_text(one.data, "name")) for one in beside}
    in_file = [row for row in rows if row.source == path and (row.kind, row.name) not in kept]
    others = {row.key for row in in_file if row.place not in places}
    if others:
        message = f"{path} defines {plural(len(others), 'other object')}, too, such as {min(map(str, others))}"
        raise ConfigError(message, hint="move them to a file of their own, or choose another --name")
    return path


def _surroundings(  # noqa: PLR0917 - where a workload goes
    request: SubmitRequest, index: CompiledRevision | None, site: Site, path: str, namespace: str, queue: str
) -> Files:
    """Return the files of what a workload needs and the repository lacks: its namespace, and its LocalQueue there."""
    files: Files = {}
    if site.lacks_namespace(namespace):
        if not request.create_namespace:
            raise InvalidInput([_no_namespace(path, namespace, site)])
        files[path_of(index, "queues", f"namespace-{namespace}")] = write(managed_namespace(namespace))
    if queue and site.lacks_alias(queue, namespace):
        files[path_of(index, "queues", f"{namespace}-{queue}")] = write(local_queue(queue, namespace))
    return files


def _no_namespace(path: str, namespace: str, site: Site) -> Problem:
    return Problem(
        rule="reference.namespace",
        place=SourceRef(path=path),
        field="metadata.namespace",
        message=f"neither this repository nor `external` of a cluster has the namespace {namespace}",
        hint=f"create it with --create-namespace, or use one of {', '.join(sorted(site.namespaces))}",
    )
