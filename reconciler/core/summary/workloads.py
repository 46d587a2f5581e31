"""Which kinds run pods, how many of which template, and whether they are suspended.

Defaults are those of each API (an absent `replicas` is 1 in `apps/v1` and Kubeflow, 0 in KubeRay).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.core.objects import split_api_version
from reconciler.core.summary.pods import count, mapping, sequence, text

Groups = Iterator[tuple[int, dict[str, Any], str]]
"""Pods of one template: how many, the template (`metadata`, `spec`), the field where it stands."""


class Workload(NamedTuple):
    """What runs pods. `labels` are those of wrapped objects; `brings` are (kind, name) of objects it creates itself."""

    groups: list[tuple[int, dict[str, Any], str]]
    suspended: bool
    labels: Sequence[tuple[Mapping[str, Any], str]]
    brings: frozenset[tuple[str, str]]


_NONE: frozenset[tuple[str, str]] = frozenset()
_DEEPEST = 4  # an AppWrapper may wrap an AppWrapper, but not for ever


def read_workload(group: str, kind: str, body: Mapping[str, Any], spec: Mapping[str, Any]) -> Workload | None:
    """Return the pods of an object, or None where it runs none.

    A kind that is not known here counts if it has `spec.template.spec.containers`, as most kinds with pods have.
    """
    reader = _READERS.get((group, kind))
    if reader is None:
        template = spec.get("template")
        if type(template) is not dict or type(mapping(template.get("spec")).get("containers")) is not list:
            return None
        reader = _replicated
    if kind == "AppWrapper":
        return _wrapper(spec)
    policy = spec.get("runPolicy")
    suspended = spec.get("suspend") is True or (type(policy) is dict and policy.get("suspend") is True)
    groups = list(reader(body if kind == "Pod" else spec, "" if kind == "Pod" else "spec"))
    return Workload(groups, suspended, [], _NONE)


def _wrapper(spec: Mapping[str, Any]) -> Workload:
    inner = [mapping(mapping(component).get("template")) for component in sequence(spec.get("components"))]
    labels = [
        (mapping(mapping(wrapped.get("metadata")).get("labels")), f"spec.components[{index}].template")
        for index, wrapped in enumerate(inner)
    ]
    names = ((text(wrapped.get("kind")), text(mapping(wrapped.get("metadata")).get("name"))) for wrapped in inner)
    groups = list(_components(spec, "spec"))
    return Workload(groups, spec.get("suspend") is True, labels, frozenset(names))


def _components(spec: Mapping[str, Any], at: str, depth: int = 0) -> Groups:
    """Yield what an AppWrapper wraps, as one: its own `suspend` decides, whatever the wrapped objects say."""
    for index, component in enumerate(sequence(spec.get("components"))):
        wrapped = mapping(mapping(component).get("template"))
        group, _ = split_api_version(text(wrapped.get("apiVersion")))
        kind, inner = text(wrapped.get("kind")), mapping(wrapped.get("spec"))
        place = f"{at}.components[{index}].template"
        if kind == "AppWrapper":
            if depth < _DEEPEST:
                yield from _components(inner, f"{place}.spec", depth + 1)
        elif kind == "Pod":
            yield 1, wrapped, place
        elif reader := _READERS.get((group, kind)):
            yield from reader(inner, f"{place}.spec")


def _pod(body: Mapping[str, Any], at: str) -> Groups:
    yield 1, dict(body), at


def _replicated(spec: Mapping[str, Any], at: str) -> Groups:
    yield count(spec.get("replicas"), 1), mapping(spec.get("template")), f"{at}.template"


def _on_each_node(spec: Mapping[str, Any], at: str) -> Groups:
    # How many nodes match is not in the object: no pods are counted, the shape of one pod is known.
    yield 0, mapping(spec.get("template")), f"{at}.template"


def _job(spec: Mapping[str, Any], at: str) -> Groups:
    parallelism = count(spec.get("parallelism"), 1)
    yield min(parallelism, count(spec.get("completions"), parallelism)), mapping(spec.get("template")), f"{at}.template"


def _cron_job(spec: Mapping[str, Any], at: str) -> Groups:
    yield from _job(mapping(mapping(spec.get("jobTemplate")).get("spec")), f"{at}.jobTemplate.spec")


def _job_set(spec: Mapping[str, Any], at: str) -> Groups:
    for index, replicated in enumerate(map(mapping, sequence(spec.get("replicatedJobs")))):
        replicas = count(replicated.get("replicas"), 1)
        job = mapping(mapping(replicated.get("template")).get("spec"))
        for pods, template, place in _job(job, f"{at}.replicatedJobs[{index}].template.spec"):
            yield pods * replicas, template, place


def _kubeflow(field: str) -> Callable[[Mapping[str, Any], str], Groups]:
    def read(spec: Mapping[str, Any], at: str) -> Groups:
        for role, replica in mapping(spec.get(field)).items():
            yield from _replicated(mapping(replica), f"{at}.{field}.{role}")

    return read


_TRAIN_JOB_OVERRIDES = ("podTemplateOverrides", "podSpecOverrides")


def _train_job(spec: Mapping[str, Any], at: str) -> Groups:
    trainer = mapping(spec.get("trainer"))
    container = {"resources": trainer.get("resourcesPerNode"), "env": trainer.get("env")}
    pod: dict[str, Any] = {"containers": [container]}
    for field in _TRAIN_JOB_OVERRIDES:
        for override in map(mapping, sequence(spec.get(field))):
            pod.update(mapping(override.get("spec")) if "spec" in override else override)
    pod["containers"] = [container]
    template = {"metadata": {"labels": spec.get("labels"), "annotations": spec.get("annotations")}, "spec": pod}
    yield count(trainer.get("numNodes"), 1), template, f"{at}.trainer"


def _ray_cluster(spec: Mapping[str, Any], at: str) -> Groups:
    head = mapping(spec.get("headGroupSpec"))
    if head:
        yield 1, mapping(head.get("template")), f"{at}.headGroupSpec.template"
    for index, workers in enumerate(map(mapping, sequence(spec.get("workerGroupSpecs")))):
        least = count(workers.get("minReplicas"), 0)
        replicas = max(count(workers.get("replicas"), least), least)
        if workers.get("suspend") is True:
            replicas = 0
        hosts = count(workers.get("numOfHosts"), 1)
        yield replicas * hosts, mapping(workers.get("template")), f"{at}.workerGroupSpecs[{index}].template"


def _ray(field: str) -> Callable[[Mapping[str, Any], str], Groups]:
    def read(spec: Mapping[str, Any], at: str) -> Groups:
        yield from _ray_cluster(mapping(spec.get(field)), f"{at}.{field}")

    return read


def _leader_worker_set(spec: Mapping[str, Any], at: str) -> Groups:
    replicas, inner = count(spec.get("replicas"), 1), mapping(spec.get("leaderWorkerTemplate"))
    size, worker = count(inner.get("size"), 1), mapping(inner.get("workerTemplate"))
    place = f"{at}.leaderWorkerTemplate"
    leader = mapping(inner.get("leaderTemplate"))
    if leader:
        yield replicas, leader, f"{place}.leaderTemplate"
        size -= 1
    yield replicas * max(size, 0), worker, f"{place}.workerTemplate"


def _volcano(spec: Mapping[str, Any], at: str) -> Groups:
    for index, task in enumerate(map(mapping, sequence(spec.get("tasks")))):
        yield from _replicated(task, f"{at}.tasks[{index}]")


_READERS: dict[tuple[str, str], Callable[[Mapping[str, Any], str], Groups]] = {
    ("", "Pod"): _pod,
    ("", "ReplicationController"): _replicated,
    ("apps", "Deployment"): _replicated,
    ("apps", "ReplicaSet"): _replicated,
    ("apps", "StatefulSet"): _replicated,
    ("apps", "DaemonSet"): _on_each_node,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("jobset.x-k8s.io", "JobSet"): _job_set,
    ("kubeflow.org", "PyTorchJob"): _kubeflow("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): _kubeflow("tfReplicaSpecs"),
    ("kubeflow.org", "MPIJob"): _kubeflow("mpiReplicaSpecs"),
    ("kubeflow.org", "XGBoostJob"): _kubeflow("xgbReplicaSpecs"),
    ("kubeflow.org", "PaddleJob"): _kubeflow("paddleReplicaSpecs"),
    ("kubeflow.org", "JAXJob"): _kubeflow("jaxReplicaSpecs"),
    ("trainer.kubeflow.org", "TrainJob"): _train_job,
    ("ray.io", "RayCluster"): _ray_cluster,
    ("ray.io", "RayJob"): _ray("rayClusterSpec"),
    ("ray.io", "RayService"): _ray("rayClusterConfig"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): _leader_worker_set,
    ("workload.codeflare.dev", "AppWrapper"): _components,
    ("batch.volcano.sh", "Job"): _volcano,
}
