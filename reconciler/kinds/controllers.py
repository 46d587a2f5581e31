"""Controllers like Deployments: Argo Rollouts, OpenKruise, Knative, Slinky, Seldon, DLRover, Run:ai, Flux Framework."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Life, Pods
from reconciler.kinds.facts import PodSet
from reconciler.kinds.kind import Kind
from reconciler.kinds.pod_paths import reader, with_containers
from reconciler.kinds.pods import batch_job, bounds, of_spec, replicated
from reconciler.kinds.workloads import on_each_node
from reconciler.kube.values import count, mapping, metadata_map, sequence
from reconciler.repo.config.pod_paths import PodPath

_KRUISE, _SCALE = "apps.kruise.io", "autoscaling.knative.dev"


def _knative_service(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of a revision. It starts with one, or as many as annotations of its template say."""
    template = mapping(spec.get("template"))
    annotations = metadata_map(template, "annotations")

    def bound(name: str) -> int | None:
        written = str(annotations.get(f"{_SCALE}/{name}", annotations.get(f"{_SCALE}/{name.replace('-s', 'S')}", "")))
        return count(int(written), 0) if written.isdecimal() else None

    initial, least = bound("initial-scale"), bound("min-scale") or 0
    replicas = max(1 if initial is None else initial, least)
    # Without an annotation for the most it scales without end, and to none: what is written is a bound.
    scale = bounds(replicas, least, bound("max-scale")) if bound("max-scale") else (None, None)
    yield PodSet(replicas, template, f"{prefix}template.", None, "", *scale)


def _node_set(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    """Yield the pods of a Slurm NodeSet: `slurmd` is its container, `template` the rest of the pod."""
    template = mapping(spec.get("template")) or mapping(spec.get("podTemplate"))
    pod = mapping(template.get("spec")) or mapping(template.get("podSpecTemplate"))
    containers = [*sequence(pod.get("containers")), mapping(spec.get("slurmd"))]
    body = {"metadata": mapping(template.get("metadata")), "spec": {**pod, "containers": containers}}
    yield PodSet(count(spec.get("replicas"), 1), body, prefix)


def _seldon(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    default = count(spec.get("replicas"), 1)
    for index, predictor in enumerate(map(mapping, sequence(spec.get("predictors")))):
        for part, component in enumerate(map(mapping, sequence(predictor.get("componentSpecs")))):
            replicas = count(component.get("replicas"), count(predictor.get("replicas"), default))
            yield PodSet(replicas, component, f"{prefix}predictors[{index}].componentSpecs[{part}].")


def _mini_cluster(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    containers = map(mapping, sequence(spec.get("containers")))
    body = with_containers(*containers, **mapping(spec.get("pod")))
    yield PodSet(count(spec.get("size"), 1), body, prefix)


def _advanced_cron_job(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    template = mapping(spec.get("template"))
    job = mapping(mapping(template.get("jobTemplate")).get("spec"))
    yield from batch_job(job, f"{prefix}template.jobTemplate.spec.") if job else ()


_REPLICAS = of_spec(replicated)
_ELASTIC_ROLES = PodPath(at="spec.replicaSpecs.*")

KINDS = (
    Kind(group="argoproj.io", kind="Rollout", pods=Pods(_REPLICAS, queued_one_by_one=True)),
    Kind(group=_KRUISE, kind="CloneSet", pods=Pods(_REPLICAS, queued_one_by_one=True)),
    Kind(group=_KRUISE, kind="StatefulSet", pods=Pods(_REPLICAS), life=Life(is_stateful=True)),
    Kind(group=_KRUISE, kind="DaemonSet", pods=Pods(of_spec(on_each_node), on_each_node=True)),
    Kind(group=_KRUISE, kind="BroadcastJob", pods=Pods(of_spec(on_each_node), on_each_node=True)),
    Kind(
        group=_KRUISE,
        kind="AdvancedCronJob",
        pods=Pods(of_spec(_advanced_cron_job), job_metadata=("spec", "template", "jobTemplate", "metadata")),
    ),
    Kind(group="serving.knative.dev", kind="Service", pods=Pods(of_spec(_knative_service))),
    Kind(group="slinky.slurm.net", kind="NodeSet", pods=Pods(of_spec(_node_set))),
    Kind(group="machinelearning.seldon.io", kind="SeldonDeployment", pods=Pods(of_spec(_seldon))),
    Kind(group="elastic.iml.github.io", kind="ElasticJob", pods=Pods(reader(_ELASTIC_ROLES))),
    Kind(group="run.ai", kind="RunaiJob", pods=Pods(of_spec(batch_job))),
    Kind(group="flux-framework.org", kind="MiniCluster", pods=Pods(of_spec(_mini_cluster))),
)
