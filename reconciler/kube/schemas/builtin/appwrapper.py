"""The refusals of the webhook of AppWrapper for a new one.

Source: internal/webhook/appwrapper_webhook.go and pkg/utils/utils.go of appwrapper 1.2. Without the rights of the user,
and the fields of pods that a component declares in a kind of its own.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import later
from reconciler.kube.problems import Violation
from reconciler.kube.schemas.messages import bad_value

Data = dict[str, Any]

_OWN = ("workload.codeflare.dev/v1beta2", "AppWrapper")
_MAX_COUNT = 8  # pod sets of one workload of Kueue
_ROOT = "template"
_STEP = later(r"\.((?:.[^.\[]*)?)|\[([+-]?\d+)\]", re.ASCII | re.DOTALL)
_NO_PLACE = object()


class _PodsAt(NamedTuple):
    """Pods of a component: where their template is, and how many there are."""

    path: str
    replicas: int


class _NoPodsError(ValueError):
    """Says why the pods of a component cannot be found."""


def app_wrapper_violations(data: Data) -> Iterator[Violation]:
    """Validate an AppWrapper: what it may hold, and its pod sets."""
    namespace = (data.get("metadata") or {}).get("namespace")
    total = 0
    place: FieldPath = ("spec", "components")
    components = (data.get("spec") or {}).get("components") or ()
    for index, component in enumerate(components):
        path: FieldPath = (*place, index)
        template = component.get("template") or {}
        yield from _content(template, (*path, "template"), namespace)
        declared = component.get("podSets") or ()
        found = [*_declared(declared, template, (*path, "podSets"))]
        yield from found
        try:
            inferred = _inferred(template)
        except _NoPodsError as problem:
            yield bad_value((*path, "template"), str(problem), "correct the object, or run it without an AppWrapper")
            continue
        total += max(len(declared), len(inferred))
        different = "" if found else _difference(declared, inferred)
        if different:
            yield bad_value((*path, "podSets"), different, "remove podSets: those of this kind are known")
    if not total:
        yield bad_value(place, "no component has pods", "add one that has, or declare its podSets")
    elif total > _MAX_COUNT:
        yield bad_value(place, f"{total} pod sets, at most {_MAX_COUNT} are allowed", "use several AppWrappers")


def _content(template: Data, path: FieldPath, namespace: Any) -> Iterator[Violation]:
    if (template.get("apiVersion"), template.get("kind")) == _OWN:
        yield bad_value(path, "an AppWrapper cannot hold another", "add its components to this one")
    inner = (template.get("metadata") or {}).get("namespace")
    if inner and namespace and inner != namespace:
        message = f"is not the namespace of the AppWrapper, {namespace}"
        yield bad_value((*path, "metadata", "namespace"), message, "remove it")


def _declared(declared: Sequence[Data], template: Data, path: FieldPath) -> Iterator[Violation]:
    for index, pod_set in enumerate(declared):
        try:
            _require_pods(template, pod_set.get("path") or "")
        except _NoPodsError as problem:
            hint = "write the path of a pod template in this component, such as template.spec.template"
            yield bad_value((*path, index, "path"), str(problem), hint)


def _difference(declared: Sequence[Data], inferred: Sequence[_PodsAt]) -> str:
    """Return what is wrong with declared pod sets, compared with those that the kind of the object has."""
    replicas = {pod_set.get("path") or "": pod_set.get("replicas") for pod_set in declared}
    if len(replicas) < len(declared):
        return "two pod sets have the same path"
    if declared and inferred and len(inferred) != len(declared):
        return f"{len(declared)} pod sets, the object has {len(inferred)}"
    for one in inferred if declared else ():
        if one.path not in replicas:
            return f"has no pod set with the path {one.path}"
        written = 1 if replicas[one.path] is None else replicas[one.path]
        if written != one.replicas:
            return f"{written} replicas at {one.path}, the object has {one.replicas}"
    return ""


def _inferred(template: Data) -> list[_PodsAt]:
    """Return the pod sets of an object of a known kind; none for other kinds."""
    read = _READERS.get((template.get("apiVersion") or "", template.get("kind") or ""))
    found = [] if read is None else [*read(template)]
    for one in found:
        _require_pods(template, one.path)
    return found


def _job(template: Data) -> Iterator[_PodsAt]:
    yield _PodsAt("template.spec.template", _parallel(template, "template.spec."))


def _job_set(template: Data) -> Iterator[_PodsAt]:
    for prefix in _with_templates(template, "template.spec.replicatedJobs"):
        replicas = _number(template, f"{prefix}replicas", 1) * _parallel(template, f"{prefix}template.spec.")
        yield _PodsAt(f"{prefix}template.spec.template", replicas)


def _pytorch_job(template: Data) -> Iterator[_PodsAt]:
    for role in ("Master", "Worker"):
        yield from _replicated(template, f"template.spec.pytorchReplicaSpecs.{role}.")


def _ray_cluster(template: Data) -> Iterator[_PodsAt]:
    return _ray(template, "template.spec.")


def _ray_job(template: Data) -> Iterator[_PodsAt]:
    return _ray(template, "template.spec.rayClusterSpec.")


def _ray(template: Data, prefix: str) -> Iterator[_PodsAt]:
    yield _PodsAt(f"{prefix}headGroupSpec.template", 1)
    for group in _with_templates(template, f"{prefix}workerGroupSpecs"):
        yield from _replicated(template, group)


def _pod(_: Data) -> Iterator[_PodsAt]:
    yield _PodsAt(_ROOT, 1)


def _controller(template: Data) -> Iterator[_PodsAt]:
    return _replicated(template, "template.spec.")


_READERS = {
    ("batch/v1", "Job"): _job,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): _job_set,
    ("kubeflow.org/v1", "PyTorchJob"): _pytorch_job,
    ("ray.io/v1", "RayCluster"): _ray_cluster,
    ("ray.io/v1", "RayJob"): _ray_job,
    ("v1", "Pod"): _pod,
    ("apps/v1", "Deployment"): _controller,
    ("apps/v1", "StatefulSet"): _controller,
}
"""The kinds whose pod sets the webhook infers."""


def _with_templates(template: Data, path: str) -> Iterator[str]:
    """Yield the prefix of each item of a list that has a template."""
    items = _found(template, path)
    for index in range(len(items) if type(items) is list else 0):
        prefix = f"{path}[{index}]."
        if _found(template, f"{prefix}template") is not _NO_PLACE:
            yield prefix


def _replicated(template: Data, prefix: str) -> Iterator[_PodsAt]:
    if _found(template, f"{prefix}template") is not _NO_PLACE:
        replicas = _found(template, f"{prefix}replicas")
        if replicas not in (None, _NO_PLACE) and type(replicas) is not int:
            raise _NoPodsError(f"{prefix}replicas is not an integer")
        yield _PodsAt(f"{prefix}template", replicas if type(replicas) is int else 1)


def _parallel(template: Data, prefix: str) -> int:
    parallelism = _number(template, f"{prefix}parallelism", 1)
    return min(parallelism, _number(template, f"{prefix}completions", parallelism))


def _number(template: Data, path: str, default: int) -> int:
    value = _found(template, path)
    return value if type(value) is int else default


def _require_pods(template: Data, path: str) -> None:
    """Raise `_NoPodsError` unless there is a pod template at a path."""
    node = _at(template, path)
    if type(node) is not dict or type(node.get("spec")) is not dict:
        raise _NoPodsError(f"no pod template is at {path}")


def _found(template: Data, path: str) -> Any:
    try:
        return _at(template, path)
    except _NoPodsError:
        return _NO_PLACE


def _at(template: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path such as `template.spec.tasks[0].template`; raise `_NoPodsError` if there is none."""
    if not path:
        raise _NoPodsError("is required")
    if not path.startswith(_ROOT):
        raise _NoPodsError("must begin with template")
    node: Any = template
    position = len(_ROOT)
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            raise _NoPodsError(f"{path[position:]!r} is not a field or an index")
        position = step.end()
        if step[2] is None:
            if type(node) is not dict or step[1] not in node:
                raise _NoPodsError(f"nothing is at {path[:position]}")
            node = node[step[1]]
        else:
            index = int(step[2])
            if type(node) is not list or not 0 <= index < len(node):
                raise _NoPodsError(f"nothing is at {path[:position]}")
            node = node[index]
    return node
