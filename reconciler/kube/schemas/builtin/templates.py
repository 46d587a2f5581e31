"""Pod templates in objects of operators, of which a controller makes pods that an API server validates then.

The definitions of these kinds declare the fields of a pod, and not its rules.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Severity, Violation

Data = dict[str, Any]

_RAY = ("RayCluster", ""), ("RayJob", "rayClusterSpec."), ("RayService", "rayClusterConfig.")
_RUNTIME = "spec.template.spec.replicatedJobs.[].template.spec.template"
_TEMPLATES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("jobset.x-k8s.io", "JobSet"): ("spec.replicatedJobs.[].template.spec.template",),
    ("trainer.kubeflow.org", "TrainingRuntime"): (_RUNTIME,),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): (_RUNTIME,),
    **{
        ("ray.io", kind): (f"spec.{prefix}headGroupSpec.template", f"spec.{prefix}workerGroupSpecs.[].template")
        for kind, prefix in (*_RAY, ("RayCronJob", "jobTemplate.rayClusterSpec."))
    },
}
"""Where kinds have templates whose pods have what is written there."""
_COMPLETED = frozenset({"TrainingRuntime", "ClusterTrainingRuntime"})  # a TrainJob may bring the image


def created_pods(data: Data, group: str, kind: str) -> Iterator[tuple[FieldPath, Data]]:
    """Yield the pods that a controller makes of an object, with the place of the template of each."""
    for path in _TEMPLATES.get((group, kind), ()):
        for place, template in _at(data, tuple(path.split(".")), ()):
            metadata = {**(template.get("metadata") or {}), "name": "pod", "namespace": "default"}
            yield place, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")}


def of_template(found: Violation, kind: str, place: FieldPath) -> Violation | None:
    """Return what is wrong with a pod as a warning of its template; None if the template is not to blame."""
    if kind in _COMPLETED and found.rule == "schema.missing-field" and found.path[-1:] == ("image",):
        return None
    message = f"{found.message}, so that no pod can be created"
    return replace(found, path=(*place, *found.path), message=message, severity=Severity.WARNING)


def _at(node: Any, path: tuple[str, ...], place: FieldPath) -> Iterator[tuple[FieldPath, Data]]:
    if not path:
        if type(node) is dict:
            yield place, node
    elif path[0] == "[]":
        for index, item in enumerate(node if type(node) is list else ()):
            yield from _at(item, path[1:], (*place, index))
    elif type(node) is dict:
        yield from _at(node.get(path[0]), path[1:], (*place, path[0]))
