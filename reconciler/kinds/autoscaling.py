"""Autoscalers of Kubernetes and KEDA: they set the number of pods of another object, which is not written twice."""

from collections.abc import Iterator

from reconciler.kinds.aspects import Dependents, Life, Lookup, Source
from reconciler.kinds.facts import Body, KindId, Relations, Scale
from reconciler.kinds.kind import Kind
from reconciler.kube.objects import ObjectKey, format_path, split_api_version
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.values import annotation, count, mapping, pruned, text, value_at
from reconciler.kube.yaml import Document

_HPA: KindId = ("autoscaling", "HorizontalPodAutoscaler")
_KEDA: KindId = ("keda.sh", "ScaledObject")
_DEFAULT_TARGETS: dict[KindId, KindId] = {_HPA: ("", ""), _KEDA: ("apps", "Deployment")}
"""What `scaleTargetRef` means without `apiVersion` and `kind`: keda.sh, ScaledObject specification."""


def autoscaled_problems(document: Document, key: ObjectKey, row: Kind, lookup: Lookup) -> Iterator[Problem]:
    """Yield a warning if a source says how many pods an object has, and an autoscaler of the repository, too."""
    if not row.pods.scale or value_at(document.data, row.pods.scale) is None:
        return
    for kind in _DEFAULT_TARGETS:
        for name in lookup.defined_names(kind, key.namespace):
            scaler = lookup.defined(kind, key.namespace, name)
            if scaler is not None and _target(kind, scaler.data) == (key.group, key.kind, key.name):
                field = format_path(row.pods.scale)
                message = f"{kind[1]} {name} sets {field} too, so a sync of Flux or Argo CD stops pods that it added"
                hint = f"remove {field}: docs/live-clusters.md says how to do that while the pods run"
                yield document.problem("autoscaler.replicas", row.pods.scale, message, hint, severity=Severity.WARNING)


def _target(kind: KindId, body: Body) -> tuple[str, str, str]:
    reference = mapping(mapping(body.get("spec")).get("scaleTargetRef"))
    group, default = _DEFAULT_TARGETS[kind]
    version = text(reference.get("apiVersion"))
    return (
        split_api_version(version)[0] if version else group,
        text(reference.get("kind")) or default,
        text(reference.get("name")),
    )


_PAUSED, _PAUSED_AT = "autoscaling.keda.sh/paused", "autoscaling.keda.sh/paused-replicas"
_MOST_OF_KEDA = 100


def _hpa(body: Body) -> Relations:
    """Read a HorizontalPodAutoscaler, which leaves an object alone that is scaled to 0."""
    spec = mapping(body.get("spec"))
    least = count(spec.get("minReplicas"), 1)
    group, kind, name = _target(_HPA, body)
    most = max(least, count(spec.get("maxReplicas"), least))
    return Relations(scale=Scale((group, kind), name, least, most, starts=least == 0))


def _scaled_object(body: Body) -> Relations:
    """Read a ScaledObject of KEDA (keda.sh, ScaledObject specification), which starts an object that is scaled to 0."""
    spec = mapping(body.get("spec"))
    group, kind, name = _target(_KEDA, body)
    paused_at = text(annotation(body, _PAUSED_AT))
    least = count(spec.get("minReplicaCount"), 0)
    most = max(least, count(spec.get("maxReplicaCount"), _MOST_OF_KEDA))
    least = min(least, count(spec.get("idleReplicaCount"), least))
    if paused_at.isdecimal() and paused_at.isascii():
        least = most = count(int(paused_at[:9]), 0)
    elif annotation(body, _PAUSED) == "true":
        return Relations()
    return Relations(scale=Scale((group, kind), name, least, most, starts=True))


_UTILIZATION = {"type": "Utilization", "averageUtilization": 80}
_DEFAULT_METRICS = [{"type": "Resource", "resource": {"name": "cpu", "target": _UTILIZATION}}]
"""What an API server adds to an autoscaler without metrics: pkg/apis/autoscaling/v2/defaults.go."""


def _without_default_metrics(body: Body) -> Body:
    path = ("spec", "metrics")
    return pruned(body, path) if value_at(body, path) == _DEFAULT_METRICS else body


KINDS = (
    Kind(
        group=_HPA[0],
        kind=_HPA[1],
        source=Source(dependents=Dependents.NAMED),
        relations=_hpa,
        life=Life(authored=_without_default_metrics),
    ),
    Kind(group=_KEDA[0], kind=_KEDA[1], source=Source(dependents=Dependents.NAMED), relations=_scaled_object),
)
