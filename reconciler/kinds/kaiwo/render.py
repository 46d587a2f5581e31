"""A KaiwoJob or KaiwoService as manifests: Job, RayJob, Deployment or RayService, with its volumes and its queue."""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from reconciler.kinds.aspects import Lookup
from reconciler.kinds.fields import Fields, Tree
from reconciler.kinds.kai import PRIORITY_LABEL as KAI_PRIORITY
from reconciler.kinds.kai import QUEUE_LABELS
from reconciler.kinds.kaiwo.config import DEFAULTS, NAME, KaiwoConfig, default
from reconciler.kinds.kaiwo.pods import PodContext, Role, check_sum, pod_template, with_gpus
from reconciler.kinds.kaiwo.queues import KaiwoQueueConfig
from reconciler.kinds.kaiwo.sizing import MODEL_LABEL, Size, gpu_resource, measured_nodes, resolve_size
from reconciler.kinds.kaiwo.storage import claims, download_trees, resolve_storage
from reconciler.kinds.kaiwo.workload import DEPLOYMENT, JOB, RAY_JOB, Workload
from reconciler.kinds.kueue.labels import PRIORITY_LABEL, QUEUE_LABEL
from reconciler.kinds.pods import SUSPEND
from reconciler.kinds.rendered import Rendered
from reconciler.kinds.translated import has_local_queue, local_queue, name_of, render_trees
from reconciler.kube.objects import FieldPath, ObjectKey, split_api_version
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Reason, Traced, untrace
from reconciler.kube.values import count, sequence
from reconciler.repo.config import Backend

CONFIG = ("config.kaiwo.silogen.ai", "KaiwoConfig")
QUEUES = ("kaiwo.silogen.ai", "KaiwoQueueConfig")
_DOMAIN = "kaiwo.silogen.ai"
_MAX_RAY_NAME = 47  # KubeRay 1.6, ray-operator/controllers/ray/utils/validation.go
_MAX_LABEL = 63
_NO_GPUS = default(0, "a head of Ray computes nothing")
_TTL = default(3600, "its end is recorded, so that it is not created again")
_NO_RETRY = default(0, "a failed pod ends the job, unless backoffLimit says otherwise")
_SHUT_DOWN = default(value=True, text="the cluster of a RayJob ends with it")
_UNSCALED = default(value=False, text="Kueue admits a fixed number of workers")
_START = {"dashboard-host": "0.0.0.0"}  # noqa: S104 - of the pod


def render_workload(work: Workload, lookup: Lookup) -> Rendered:
    """Render a workload for one cluster."""
    problems: list[Problem] = []
    return render_trees(work.fields, lookup, "workload", _trees(work, lookup, problems), problems)


def _trees(work: Workload, lookup: Lookup, problems: list[Problem]) -> Iterator[Tree]:
    fields, cluster = work.fields, lookup.cluster
    found = lookup.defined(CONFIG, "", NAME)
    config: KaiwoConfig = found if found is not None else DEFAULTS
    inventory = lookup.inventory()
    resource = gpu_resource(fields, config, cluster, inventory)
    nodes = measured_nodes(fields, resource.value, inventory)
    size = resolve_size(fields, nodes, problems)
    if size is None:
        return
    namespace = fields.plain("metadata", "namespace") or cluster.namespace
    queue = _queue(fields, config, lookup, namespace, problems)
    labels = _labels(work, namespace)
    models = tuple(sequence(fields.plain("spec", "gpuModels")))
    own = PodContext(
        fields=fields,
        config=config,
        cluster=cluster,
        size=size,
        resource=resource,
        models=nodes.labels if nodes is not None else (MODEL_LABEL, models),
        storage=resolve_storage(fields, config),
        labels=labels | (queue if work.form is DEPLOYMENT or cluster.backend is Backend.KAI else {}),
        has_ray=work.form.has_ray,
        problems=problems,
    )
    _check_name(work, problems)
    yield from claims(fields, config, namespace, labels)
    yield from download_trees(fields, config, own.storage, namespace, labels)
    if QUEUE_LABEL in queue and _makes_local_queue(lookup, namespace, queue[QUEUE_LABEL].value):
        yield local_queue(queue[QUEUE_LABEL], namespace)
    yield _object(work, own, lookup, namespace, queue)


def _check_name(work: Workload, problems: list[Problem]) -> None:
    name, most = work.fields.plain("metadata", "name"), _MAX_RAY_NAME if work.form.has_ray else _MAX_LABEL
    if len(name) > most:
        message = f"a {work.form.kind} has a name of at most {most} characters, not {len(name)}"
        problems.append(work.fields.problem("name", ("metadata", "name"), message, "shorten it"))


# --- queue and labels --------------------------------------------------------------------------------------------


def _queue(
    fields: Fields, config: KaiwoConfig, lookup: Lookup, namespace: str, problems: list[Problem]
) -> dict[str, Traced]:
    """Return the labels that name queue and priority, as the scheduler of the cluster reads them."""
    backend, queue = lookup.cluster.backend, fields.get("spec", "clusterQueue") or config.queue
    priority = fields.get("spec", "priorityClass")
    if backend is Backend.NONE:
        for name in ("clusterQueue", "priorityClass", "requiredTopologyLabel", "preferredTopologyLabel"):
            if fields.plain("spec", name) is not None:
                message = f"has no effect: cluster {lookup.cluster.name} has no queueing"
                hint = "set `backend` of the cluster to kueue or kai"
                problems.append(fields.warning("no-queueing", ("spec", name), message, hint))
        return {}
    names = (QUEUE_LABEL, PRIORITY_LABEL) if backend is Backend.KUEUE else (QUEUE_LABELS[0], KAI_PRIORITY)
    if backend is Backend.KUEUE:
        problems += _queue_problems(fields, queue, lookup, namespace)
    return {names[0]: queue, **({names[1]: priority} if priority is not None else {})}


def _queue_problems(fields: Fields, queue: Traced, lookup: Lookup, namespace: str) -> Iterator[Problem]:
    queues: KaiwoQueueConfig | None = lookup.defined(QUEUES, "", NAME)
    if queues is None:
        return
    namespaces = queues.namespaces.get(queue.value, ())
    if namespaces and namespace not in namespaces:
        message = (
            f"ClusterQueue {queue.value} has no LocalQueue in namespace {namespace}: only in {', '.join(namespaces)}"
        )
        path: FieldPath = ("spec", "clusterQueue") if fields.plain("spec", "clusterQueue") else ("metadata",)
        yield fields.problem("queue-namespace", path, message, "add the namespace to the KaiwoQueueConfig, or move it")
    for name in ("requiredTopologyLabel", "preferredTopologyLabel"):
        level = fields.plain("spec", name)
        if level is not None and queues.levels and level not in queues.levels:
            message = f"{level} is a level of no Topology of the KaiwoQueueConfig"
            yield fields.problem("topology", ("spec", name), message, f"use {' or '.join(sorted(queues.levels))}")


def _makes_local_queue(lookup: Lookup, namespace: str, queue: str) -> bool:
    """Return whether a workload brings the LocalQueue: neither the KaiwoQueueConfig nor anybody else does."""
    queues: KaiwoQueueConfig | None = lookup.defined(QUEUES, "", NAME)
    is_listed = queues is not None and bool(queues.namespaces.get(queue))
    return not is_listed and not has_local_queue(lookup, namespace, queue)


def _labels(work: Workload, namespace: str) -> Tree:
    """Return Kaiwo's labels of objects and pods."""
    fields, name = work.fields, work.fields.plain("metadata", "name")
    run = sha256(f"{work.document.kind}/{namespace}/{name}".encode()).hexdigest()[:16]
    text = "the key of the source in place of a UID, which no object has before it exists"
    labels: Tree = {
        f"{_DOMAIN}/managed": "true",
        f"{_DOMAIN}/name": fields.made(_label(name), "label", "the name of the workload", ("metadata", "name")),
        f"{_DOMAIN}/run-id": fields.made(run, "run-id", text, ("metadata", "name")),
        f"{_DOMAIN}/type": "service" if work.form.is_service else "job",
    }
    user = _label(fields.plain("spec", "user") or "")
    if user:
        labels[f"{_DOMAIN}/user"] = fields.made(user, "user", "the user as a label", ("spec", "user"))
    return labels


def _label(text: str) -> str:
    """Return the form of a text that is a DNS label (RFC 1123); empty if nothing is left of it."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_MAX_LABEL].strip("-")


# --- the object --------------------------------------------------------------------------------------------------


def _object(work: Workload, own: PodContext, lookup: Lookup, namespace: str, queue: Tree) -> Tree:
    form, fields = work.form, work.fields
    labels = own.labels | queue | _version(fields)
    metadata = _object_metadata(work, lookup, namespace, labels)
    if form is JOB:
        spec = _job(work, own, lookup)
    elif form is RAY_JOB:
        spec = _ray_job(work, own)
    elif form is DEPLOYMENT:
        spec = _deployment(work, own)
    else:
        return _ray_service(work, own, metadata)
    return {"apiVersion": form.api, "kind": form.kind, "metadata": metadata, "spec": spec}


def _version(fields: Fields) -> Tree:
    version = fields.plain("spec", "version")
    label = f"{_DOMAIN}/version"
    return {label: fields.made(_version_label(version), "version", "", ("spec", "version"))} if version else {}


def _version_label(version: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", version).strip("-_.") or "none"


def _object_metadata(work: Workload, lookup: Lookup, namespace: str, labels: Tree) -> Tree:
    fields, field = work.fields, ("spec", work.form.field, "metadata")
    group = split_api_version(work.form.api)[0]
    key = ObjectKey(group=group, kind=work.form.kind, namespace=namespace, name=fields.plain("metadata", "name"))
    name = name_of(fields, lookup, key)
    annotations = fields.entries(*field, "annotations")
    if duration := fields.get("spec", "duration"):
        annotations[f"{_DOMAIN}/duration"] = duration
    if stopped := fields.get("metadata", "annotations", SUSPEND):
        annotations[SUSPEND] = stopped
    metadata = {"name": name, "namespace": namespace, "labels": fields.entries(*field, "labels") | labels}
    return metadata | ({"annotations": annotations} if annotations else {})


def _command(work: Workload) -> list[Any] | None:
    """Return the command of an entrypoint: a shell with a script."""
    entrypoint = work.fields.plain("spec", "entrypoint")
    if entrypoint is None or work.form.has_ray:
        return None
    script, shell = entrypoint.strip().replace("\\\n", " "), "/bin/sh"
    if script.startswith("#!"):
        first, _, script = script.partition("\n")
        shell = first.removeprefix("#!").strip()
    made = work.fields.made(script, "entrypoint", "the entrypoint as a script", ("spec", "entrypoint"))
    return [*shell.split(), "-c", made]


def _main(work: Workload, own: PodContext, container: str, restart: str, shm: str = "1Gi") -> Role:
    gpus = own.size.gpus
    return Role(
        container=container, gpus=gpus, shm=shm, amounts=with_gpus(gpus), command=_command(work), restart=restart
    )


def _job(work: Workload, own: PodContext, lookup: Lookup) -> Tree:
    fields, size = work.fields, own.size
    dropped = ("template", *(("suspend",) if lookup.cluster.backend is Backend.KUEUE else ()))
    spec = fields.entries(*work.inner, without=dropped)
    spec.setdefault("backoffLimit", _NO_RETRY)
    if lookup.has_runs():
        spec.setdefault("ttlSecondsAfterFinished", _TTL)
    pods = count(fields.plain(*work.inner, "parallelism"), 1)
    if size.replicas.value > 1:
        several = {"completionMode": "Indexed", "completions": size.replicas, "parallelism": size.replicas}
        for name, value in several.items():
            if name in spec and spec[name].value != untrace(value):
                message = f"{spec[name].value} contradicts the {size.replicas.value} pods of the workload"
                own.problems.append(fields.problem("contradiction", (*work.inner, name), message, "remove it"))
        own.problems.append(_separate(work, size))
        pods = size.replicas.value
        spec |= several
    template = pod_template(own, (*work.inner, "template"), _main(work, own, "workload", "Never"))
    check_sum(own, [(pods, template)])
    return spec | {"template": template}


def _separate(work: Workload, size: Size) -> Problem:
    """Return the note that the pods of a Job do not know each other."""
    path: FieldPath = next((path for path in (("spec", "gpus"), ("spec", "replicas")) if work.fields.plain(*path)), ())
    message = f"the entrypoint runs once in each of {size.replicas.value} pods, which do not know each other"
    hint = "set `ray: true`, or use a TorchrunJob, if they are to work together; JOB_COMPLETION_INDEX is their number"
    return work.fields.warning("separate-pods", path, message, hint)


def _deployment(work: Workload, own: PodContext) -> Tree:
    fields, name = work.fields, work.fields.get("metadata", "name")
    spec = fields.entries(*work.inner, without=("template",))
    is_sized = own.has_gpus or fields.plain("spec", "replicas") is not None
    if is_sized and "replicas" in spec and spec["replicas"].value != own.size.replicas.value:
        message = f"{spec['replicas'].value} contradicts the {own.size.replicas.value} pods of the workload"
        own.problems.append(fields.problem("contradiction", (*work.inner, "replicas"), message, "remove it"))
    if is_sized or "replicas" not in spec:
        spec["replicas"] = own.size.replicas
    template = pod_template(own, (*work.inner, "template"), _main(work, own, "workload", ""))
    if "selector" not in spec:
        spec["selector"] = {"matchLabels": {"app": name}}
        template["metadata"]["labels"] = {"app": name, **template["metadata"]["labels"]}
    check_sum(own, [(spec["replicas"].value, template)])
    return spec | {"template": template}


# --- Ray ---------------------------------------------------------------------------------------------------------


def _ray_job(work: Workload, own: PodContext) -> Tree:
    fields = work.fields
    dropped = ("rayClusterSpec", *(("suspend",) if own.cluster.backend is Backend.KUEUE else ()))
    spec = fields.entries(*work.inner, without=dropped)
    spec.setdefault("shutdownAfterJobFinishes", _SHUT_DOWN)
    spec.setdefault("backoffLimit", _NO_RETRY)
    if entrypoint := fields.get("spec", "entrypoint"):
        spec["entrypoint"] = entrypoint
    return spec | {"rayClusterSpec": _cluster(work, own, (*work.inner, "rayClusterSpec"))}


def _ray_service(work: Workload, own: PodContext, metadata: Tree) -> Tree:
    """Return the RayService; under Kueue in an AppWrapper that declares the pods of every group."""
    fields, form = work.fields, work.form
    spec = fields.entries(*work.inner, without=("rayClusterConfig",))
    if applications := fields.get("spec", "serveConfigV2"):
        spec["serveConfigV2"] = applications
    cluster = _cluster(work, own, (*work.inner, "rayClusterConfig"))
    service = {
        "apiVersion": form.api,
        "kind": form.kind,
        "metadata": metadata,
        "spec": spec | {"rayClusterConfig": cluster},
    }
    if own.cluster.backend is not Backend.KUEUE:
        return service
    service["metadata"] = {"name": metadata["name"], "labels": own.labels}
    path = "template.spec.rayClusterConfig"
    pod_sets: list[Tree] = [{"path": f"{path}.headGroupSpec.template", "replicas": 1}]
    for index, group in enumerate(cluster["workerGroupSpecs"]):
        reason = Reason(rule="kaiwo.pod-sets", text="every group of workers is admitted with all of its pods")
        pods = Traced(_most(group, cluster), reason)
        pod_sets.append({"path": f"{path}.workerGroupSpecs[{index}].template", "replicas": pods})
    component = {"template": service, "podSets": pod_sets}
    api = "workload.codeflare.dev/v1beta2"
    return {"apiVersion": api, "kind": "AppWrapper", "metadata": metadata, "spec": {"components": [component]}}


def _cluster(work: Workload, own: PodContext, at: FieldPath) -> Tree:
    """Return the cluster of Ray: a head without GPUs, and workers with all of them."""
    fields = work.fields
    cluster = fields.entries(*at, without=("headGroupSpec", "workerGroupSpecs"))
    if own.cluster.backend is Backend.KUEUE and untrace(cluster.get("enableInTreeAutoscaling")) is True:
        message = "Kueue admits a fixed number of workers: it refuses a cluster that scales itself"
        path = (*at, "enableInTreeAutoscaling")
        own.problems.append(fields.problem("autoscaling", path, message, "remove it"))
    cluster.setdefault("enableInTreeAutoscaling", _UNSCALED)
    head_at = (*at, "headGroupSpec")
    amounts: Tree = {"cpu": default("2", "a head of Ray"), "memory": own.config.head_memory}
    head = Role(container="ray-head", gpus=_NO_GPUS, shm="1Gi", amounts=amounts)
    template = pod_template(own, (*head_at, "template"), head)
    cluster["headGroupSpec"] = {"rayStartParams": _START, **fields.entries(*head_at), "template": template}
    written = len(sequence(fields.plain(*at, "workerGroupSpecs")))
    groups = range(written or (0 if fields.plain(*at) is not None and not own.has_gpus else 1))
    cluster["workerGroupSpecs"] = [_workers(work, own, (*at, "workerGroupSpecs", index)) for index in groups]
    pods = [(1, template), *((_most(group, cluster), group["template"]) for group in cluster["workerGroupSpecs"])]
    check_sum(own, pods)
    return cluster


def _workers(work: Workload, own: PodContext, at: FieldPath) -> Tree:
    """Return a group of workers. The first one has the GPUs and the pods of the workload; others are as written."""
    fields = work.fields
    group: Tree = {"groupName": "default-worker-group", "rayStartParams": {}, **fields.entries(*at)}
    is_first, size = at[-1] == 0, own.size
    is_made = fields.plain(*at) is None
    is_sized = is_first and (own.has_gpus or is_made or fields.plain("spec", "replicas") is not None)
    if is_sized:
        for name in ("replicas", "minReplicas", "maxReplicas"):
            if name in group and group[name].value != size.replicas.value:
                message = f"{group[name].value} contradicts the {size.replicas.value} pods of the workload"
                own.problems.append(fields.problem("contradiction", (*at, name), message, "remove it"))
            group[name] = size.replicas
    gpus = size.gpus if is_sized else _NO_GPUS
    role = Role(container="ray-worker", gpus=gpus, shm="200Gi", amounts=with_gpus(gpus))
    return group | {"template": pod_template(own, (*at, "template"), role)}


def _most(group: Tree, cluster: Tree) -> int:
    """Return the most pods that a group of workers may have."""
    plain = {name: untrace(group.get(name)) for name in ("replicas", "minReplicas", "maxReplicas", "numOfHosts")}
    pods = max(count(plain["replicas"], 0), count(plain["minReplicas"], 0))
    if untrace(cluster.get("enableInTreeAutoscaling")) is True:
        pods = max(pods, count(plain["maxReplicas"], pods))
    return pods * count(plain["numOfHosts"], 1)
