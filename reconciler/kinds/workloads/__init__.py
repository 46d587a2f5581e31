"""Built-in kinds of Kubernetes: pods and what runs them, storage, configuration, access."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil
from typing import Any

from msgspec.structs import replace

from reconciler.kinds.aspects import Dependents, Holds, Life, Naming, Pods, Source
from reconciler.kinds.facts import Body, Controlled, Deletion, PodSet, Quota, Reference, Relations
from reconciler.kinds.immutable import only
from reconciler.kinds.kind import Kind
from reconciler.kinds.kueue.labels import MIN_PARALLELISM, is_started
from reconciler.kinds.manifests.ownership import KEEP
from reconciler.kinds.pods import REPLICAS, batch_job, is_paused, is_suspended, of_spec, replicated
from reconciler.kinds.progress import Phase, Progress, Workers, by_conditions, by_workers, conditions, holds, status_of
from reconciler.kinds.quantities import gpu_quantity
from reconciler.kinds.terms import LimitTerms, NamespaceTerms, texts
from reconciler.kinds.workloads import authored, immutable, losses
from reconciler.kinds.workloads.sharing import offered_again
from reconciler.kinds.workloads.training import job_training
from reconciler.kube.quantities import is_positive, parse_quantity
from reconciler.kube.values import annotation, count, mapping, metadata_map, sequence, text
from reconciler.repo.config import Backend
from reconciler.sizing.devices import WHOLE_GPUS, is_gpu, read_devices

_MAX_DIGITS = 9  # of a number of pods


def _pod(body: Body, prefix: str) -> Iterator[PodSet]:
    yield PodSet(1, dict(body), prefix)


def on_each_node(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield no pods of a known shape: how many nodes match is not in the object."""
    yield PodSet(0, mapping(spec.get("template")), f"{prefix}template.")


def _cron_job(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    return batch_job(mapping(mapping(spec.get("jobTemplate")).get("spec")), f"{prefix}jobTemplate.spec.")


def _runtime_class(body: Body, prefix: str) -> Iterator[PodSet]:
    """Yield the requests that the class adds to a pod: admission copies its overhead."""
    overhead = mapping(body.get("overhead")).get("podFixed")
    if overhead:
        yield PodSet(1, {"spec": {"overhead": overhead}}, f"{prefix}overhead.")


def _pod_template(body: Body, prefix: str) -> Iterator[PodSet]:
    yield PodSet(1, mapping(body.get("template")), f"{prefix}template.")


def _resource_quota(body: Body) -> Relations:
    """Read a namespace's limit on requests of GPUs. It guarantees nothing, because it reserves nothing."""
    quotas = []
    for key, value in mapping(mapping(body.get("spec")).get("hard")).items():
        resource = text(key).removeprefix("requests.")
        if is_gpu(resource):
            quotas.append(Quota("" if resource in WHOLE_GPUS else resource, 0.0, gpu_quantity(value)))
    return Relations(quotas=tuple(quotas))


def _limit_range(body: Body) -> Relations:
    """Read what the containers of a namespace request by default: an API server fills in limits and bounds as well."""
    amounts: dict[str, Any] = {}
    for item in map(mapping, sequence(mapping(body.get("spec")).get("limits"))):
        if item.get("type") == "Container":
            for field in ("min", "defaultRequest", "max", "default"):  # the last decides where several are set
                amounts |= {text(name): value for name, value in mapping(item.get(field)).items() if is_positive(value)}
    amounts.pop("", None)
    return Relations(
        resources=tuple(sorted(amounts)),
        defaults=tuple(sorted(read_devices(amounts).items())),
        terms=LimitTerms(tuple(_limits(body))),
    )


def _limits(body: Body) -> Iterator[tuple[str, str, str, str]]:
    """Yield the items of a LimitRange: type, field, resource and amount."""
    for item in map(mapping, sequence(mapping(body.get("spec")).get("limits"))):
        for field in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio"):
            for name, amount in mapping(item.get(field)).items():
                yield text(item.get("type")), field, text(name), str(amount)


def _namespace(body: Body) -> Relations:
    return Relations(terms=NamespaceTerms(texts(mapping(body.get("metadata")).get("labels"))))


def _claim(body: Body) -> Relations:
    spec = mapping(body.get("spec"))
    name, size = text(spec.get("storageClassName")), _amounts(spec).get("storage")
    requested = parse_quantity(size) if isinstance(size, str | int | float) and not isinstance(size, bool) else None
    return Relations(
        references=(Reference(*STORAGE_CLASS, "", name, "spec.storageClassName"),) if name else (),
        volume=None if requested is None else (name, ceil(max(requested, Fraction(0)))),
    )


def _amounts(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(mapping(spec.get("resources")).get("requests"))


CONFIG_MAP = ("", "ConfigMap")
_TRAINING = (b"model", b"MODEL", b"SFT_TRAINER", b"distributed_type", b"zero_optimization", b"torchrun", b"accelerate")
"""Words of the configurations and scripts of trainings, which sizing reads where a job mounts them."""
NAMESPACE = ("", "Namespace")
MUTATIONS = (
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"),
)
"""Kinds whose objects change others when a server admits them."""
NODE = ("", "Node")
POD = ("", "Pod")
DEPLOYMENT = ("apps", "Deployment")
DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")
JOB = ("batch", "Job")
PERSISTENT_VOLUME_CLAIM = ("", "PersistentVolumeClaim")
SECRET = ("", "Secret")
SERVICE_ACCOUNT = ("", "ServiceAccount")
RUNTIME_CLASS = ("node.k8s.io", "RuntimeClass")
STORAGE_CLASS = ("storage.k8s.io", "StorageClass")
PRIORITY_CLASS = ("scheduling.k8s.io", "PriorityClass")


def _priority_class(body: Body) -> Relations:
    value = body.get("value")
    return Relations(priority=value if type(value) is int else 0)


def _job_pods(body: Body, prefix: str) -> Iterator[PodSet]:
    """Yield the pods of a Job, some of which Kueue may start it without."""
    least = annotation(body, MIN_PARALLELISM)
    is_elastic = least.isascii() and least.isdecimal() and len(least) <= _MAX_DIGITS
    for pods in batch_job(mapping(body.get("spec")), f"{prefix}spec."):
        yield pods._replace(spare=max(0, pods.replicas - int(least))) if is_elastic else pods


def job_progress(body: Body) -> Progress:
    """Read a Job: one that failed some pods runs until its controller says that it ended."""
    spec, status = mapping(body.get("spec")), status_of(body)
    active, ready = count(status.get("active"), 0), count(status.get("ready"), 0)
    failed, parallelism = count(status.get("failed"), 0), count(spec.get("parallelism"), 1)
    workers = Workers(
        wanted=min(parallelism, count(spec.get("completions"), parallelism)),
        pending=max(active - ready, 0),
        running=min(ready, active),
        ready=min(ready, active),
        succeeded=count(status.get("succeeded"), 0),
        failed=failed,
    )
    progress = replace(by_conditions(body, workers=workers, succeeded="Complete"), restarts=failed)
    ends = holds(body, "FailureTarget", "SuccessCriteriaMet")
    if ends is not None and not progress.finished_at:  # its last pods are deleted
        return replace(progress, phase=Phase.TERMINATING)
    if (is_suspended(body) or is_paused(body)) and not progress.finished_at:
        return replace(progress, phase=Phase.TERMINATING if active else Phase.SUSPENDED)
    return progress


def deployment_progress(body: Body) -> Progress:
    """Read a Deployment: one past its progress deadline is in error, although its controller keeps trying."""
    wanted, status = count(mapping(body.get("spec")).get("replicas"), 1), status_of(body)
    ready = min(count(status.get("readyReplicas"), 0), wanted)
    has_pods = bool(count(status.get("replicas"), 0))
    workers = Workers(wanted=wanted, pending=wanted - ready if has_pods else 0, running=ready, ready=ready)
    progressing = conditions(body).get("Progressing", {})
    if progressing.get("status") == "False":
        return Progress(phase=Phase.ERROR, workers=workers, message=text(progressing.get("message")))
    return Progress(phase=by_workers(workers) if wanted else Phase.SUSPENDED, workers=workers)


def _is_partially_admitted(body: Body) -> bool:
    annotations = metadata_map(body, "annotations")
    return MIN_PARALLELISM in annotations and is_started(_SUSPEND)(body)


_SUSPEND = ("spec", "suspend")
_PARTIALLY_ADMITTED = tuple(
    Controlled(
        path=("spec", field),
        by="Kueue",
        source="pkg/controller/jobs/job/job_controller.go (RunWithPodSetsInfo)",
        when=f"with the annotation `{MIN_PARALLELISM}`, while it runs in a queue",
        applies=_is_partially_admitted,
    )
    for field in ("parallelism", "completions")
)
_INJECTED = (
    "cert-manager.io/inject-ca-from",
    "cert-manager.io/inject-ca-from-secret",
    "cert-manager.io/inject-apiserver-ca",
)


def _is_injected(body: Body) -> bool:
    annotations = metadata_map(body, "annotations")
    return any(name in annotations for name in _INJECTED)


def _authorities(*path: str) -> tuple[Controlled, ...]:
    """Return the certificates of authorities that the injector of cert-manager writes at a path."""
    return (
        Controlled(
            path=(*path, "caBundle"),
            by="cert-manager",
            source="pkg/controller/cainjector/injectors.go",
            when=f"with an annotation {', '.join(f'`{name}`' for name in _INJECTED)}",
            applies=_is_injected,
        ),
    )


_AGGREGATED = (
    Controlled(
        path=("rules",),
        by="controller of Kubernetes",
        source="pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go",
        when="with `aggregationRule`",
        applies=lambda body: "aggregationRule" in body,
    ),
)
WEBHOOKS = (
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
)
"""Kinds whose objects change or refuse others when a server admits them, by programs."""

_TEMPLATE = only("spec.template")


def _on_delete(before: Body, after: Body) -> Sequence[str]:
    """Return the template if it differs and reaches a pod only when somebody deletes that pod."""
    strategy = mapping(mapping(after.get("spec")).get("updateStrategy")).get("type")
    return _TEMPLATE(before, after) if strategy == "OnDelete" else ()


_COPIES = Pods(of_spec(replicated), queued_one_by_one=True, scale=REPLICAS)

_RUNNING = (
    Kind(group="", kind="Pod", pods=Pods(_pod), life=Life(immutable=immutable.pod, authored=authored.pod)),
    Kind(group="", kind="ReplicationController", pods=_COPIES, life=Life(unapplied=_TEMPLATE)),
    Kind(
        group="apps",
        kind="Deployment",
        pods=_COPIES,
        life=Life(immutable=immutable.deployment, serving=deployment_progress),
    ),
    Kind(
        group="apps",
        kind="ReplicaSet",
        pods=_COPIES,
        life=Life(immutable=immutable.selector, unapplied=_TEMPLATE),
    ),
    Kind(
        group="apps",
        kind="StatefulSet",
        pods=Pods(of_spec(replicated), scale=REPLICAS),
        life=Life(
            immutable=immutable.stateful_set,
            unapplied=_on_delete,
            losses=losses.stateful_set,
            is_stateful=True,
            authored=authored.stateful_set,
        ),
    ),
    Kind(
        group="apps",
        kind="DaemonSet",
        pods=Pods(of_spec(on_each_node), on_each_node=True),
        life=Life(immutable=immutable.selector, unapplied=_on_delete),
    ),
    Kind(
        group="batch",
        kind="Job",
        source=Source(training=job_training),
        pods=Pods(_job_pods, suspend=_SUSPEND, scale=("spec", "parallelism")),
        life=Life(
            immutable=immutable.job,
            has_generations=True,
            controlled=_PARTIALLY_ADMITTED,
            authored=authored.job,
            progress=job_progress,
        ),
    ),
    Kind(
        group="batch", kind="CronJob", pods=Pods(of_spec(_cron_job), job_metadata=("spec", "jobTemplate", "metadata"))
    ),
)

_STORING = (
    Kind(
        group="",
        kind="PersistentVolumeClaim",
        holds=Holds.VOLUME,
        relations=_claim,
        life=Life(
            immutable=immutable.claim,
            deletion=Deletion(
                rule="risk.pvc-data-loss",
                noun="claim",
                effect=", and its data may be lost with it",
                hint=f"back up the data first, or annotate the claim with {KEEP}: 'true' before you remove its source",
                names_users=True,
            ),
            is_stateful=True,
            authored=authored.claim,
        ),
        naming=Naming(rule="reference.pvc"),
    ),
    Kind(
        group="",
        kind="PersistentVolume",
        is_cluster_scoped=True,
        life=Life(immutable=immutable.volume, losses=losses.volume, is_stateful=True, authored=authored.volume),
    ),
    Kind(
        group=STORAGE_CLASS[0],
        kind=STORAGE_CLASS[1],
        is_cluster_scoped=True,
        life=Life(
            immutable=immutable.storage_class,
            deletion=Deletion(
                rule="risk.storage-class-delete",
                noun="storage class",
                effect=", so claims of it that have no volume yet stay Pending",
                hint="first change the claims and templates that name it",
                names_users=True,
            ),
            losses=losses.storage_class,
        ),
        naming=Naming(rule="reference.storage-class"),
    ),
    Kind(
        group="",
        kind="ConfigMap",
        holds=Holds.DATA,
        relations=lambda body: Relations(offered_again=offered_again(mapping(body.get("data")))),
        source=Source(dependents=Dependents.NAMED, looked_up=_TRAINING),
        life=Life(immutable=immutable.data),
        naming=Naming(rule="reference.config-map", existing=("kube-root-ca.crt",)),
    ),
    Kind(
        group="",
        kind="Secret",
        holds=Holds.SECRETS,
        life=Life(immutable=immutable.data),
        naming=Naming(rule="reference.secret"),
    ),
)

_GOVERNING = (
    Kind(
        group="",
        kind="Namespace",
        is_cluster_scoped=True,
        relations=_namespace,
        holds=Holds.OBJECTS,
        source=Source(dependents=Dependents.ALL),
        life=Life(
            deletion=Deletion(
                rule="risk.namespace-delete",
                noun="namespace",
                effect=" with everything in it",
                hint="first move what you want to keep to another namespace",
            ),
            never_moves=True,  # its objects are deleted with it
            authored=authored.namespace,
        ),
        naming=Naming(existing=("default", "kube-system", "kube-public", "kube-node-lease")),
    ),
    *(
        Kind(group=group, kind=kind, is_cluster_scoped=True, source=Source(dependents=Dependents.ALL))
        for group, kind in MUTATIONS
    ),
    Kind(
        group="apiextensions.k8s.io",
        kind="CustomResourceDefinition",
        is_cluster_scoped=True,
        holds=Holds.KINDS,
        source=Source(dependents=Dependents.ALL),
        life=Life(
            immutable=immutable.definition,
            deletion=Deletion(
                rule="risk.crd-delete",
                noun="definition",
                effect=" with every object of its kind",
                hint="delete or migrate the objects first",
            ),
            never_moves=True,  # its objects are deleted with it
            controlled=_authorities("spec", "conversion", "webhook", "clientConfig"),
        ),
    ),
    Kind(group="", kind="Node", is_cluster_scoped=True, life=Life(immutable=immutable.node)),
    Kind(group="", kind="ResourceQuota", relations=_resource_quota, life=Life(immutable=immutable.quota)),
    Kind(group="", kind="LimitRange", relations=_limit_range),
    Kind(
        group="",
        kind="Service",
        life=Life(immutable=immutable.service, authored=authored.service),
        naming=Naming(rule="reference.route", existing=("kubernetes",)),
    ),
    Kind(group="", kind="ServiceAccount", naming=Naming(rule="reference.service-account", existing=("default",))),
    Kind(
        group="rbac.authorization.k8s.io", kind="ClusterRole", is_cluster_scoped=True, life=Life(controlled=_AGGREGATED)
    ),
    *(
        Kind(
            group=group,
            kind=kind,
            is_cluster_scoped=True,
            life=Life(controlled=_authorities("webhooks", "*", "clientConfig")),
        )
        for group, kind in WEBHOOKS
    ),
    Kind(group="rbac.authorization.k8s.io", kind="RoleBinding", life=Life(immutable=immutable.role_ref)),
    Kind(
        group="rbac.authorization.k8s.io",
        kind="ClusterRoleBinding",
        is_cluster_scoped=True,
        life=Life(immutable=immutable.role_ref),
    ),
    Kind(
        group=PRIORITY_CLASS[0],
        kind=PRIORITY_CLASS[1],
        is_cluster_scoped=True,
        relations=_priority_class,
        life=Life(immutable=immutable.priority_class),
        naming=Naming(
            rule="reference.priority-class",
            existing=("system-cluster-critical", "system-node-critical"),
            # Installed with the KAI scheduler.
            existing_with=((Backend.KAI, ("train", "build-preemptible", "build", "inference")),),
        ),
    ),
    *(
        Kind(group=PRIORITY_CLASS[0], kind=kind, life=Life(immutable=immutable.gangs))
        for kind in ("CompositePodGroup", "PodGroup", "Workload")
    ),
    Kind(
        group=RUNTIME_CLASS[0],
        kind=RUNTIME_CLASS[1],
        is_cluster_scoped=True,
        pods=Pods(provides=_runtime_class),
        life=Life(immutable=immutable.handler),
    ),
    Kind(group="", kind="PodTemplate", pods=Pods(provides=_pod_template)),
    Kind(group="networking.k8s.io", kind="IngressClass", is_cluster_scoped=True),
    Kind(group="storage.k8s.io", kind="CSIDriver", is_cluster_scoped=True),
    Kind(
        group="storage.k8s.io",
        kind="VolumeAttributesClass",
        is_cluster_scoped=True,
        life=Life(immutable=immutable.attributes_class),
    ),
    Kind(group="", kind="Event", naming=Naming(has_group_in_path=True)),
    Kind(group="events.k8s.io", kind="Event", naming=Naming(has_group_in_path=True)),
)

KINDS = (*_RUNNING, *_STORING, *_GOVERNING)
