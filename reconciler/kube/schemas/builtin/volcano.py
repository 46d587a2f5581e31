"""The refusals of the webhooks of Volcano for a new Queue or Job.

Sources: pkg/webhooks/admission/queues/validate/validate_queue.go and pkg/webhooks/admission/jobs/validate/admit_job.go.
Quotas of a queue are compared by the releases after 1.10; what these disagree on is a warning. Without the state of a
queue, which is no part of its manifest, and the plugins and policies of a job, whose names depend on the release.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import nan
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Severity, Violation
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.schemas.messages import bad_value

Data = dict[str, Any]

_HIERARCHY = "volcano.sh/hierarchy"
_WEIGHTS = "volcano.sh/hierarchy-weights"
_CAPABILITY: FieldPath = ("spec", "capability")
_DESERVED: FieldPath = ("spec", "deserved")
_GUARANTEE: FieldPath = ("spec", "guarantee", "resource")


def volcano_queue_violations(data: Data) -> Iterator[Violation]:
    """Validate a Queue: guarantee <= deserved <= capability of each resource, its weight, and its place in a tree."""
    spec = data.get("spec") or {}
    capability, deserved = spec.get("capability") or {}, spec.get("deserved") or {}
    guarantee = (spec.get("guarantee") or {}).get("resource") or {}
    for path, amounts in ((_CAPABILITY, capability), (_DESERVED, deserved), (_GUARANTEE, guarantee)):
        for name, amount in amounts.items():
            if (_amount(amount) or 0) < 0:
                yield bad_value((*path, name), f"{amount} is negative", "set 0 or more")
    yield from _more_than(deserved, _DESERVED, capability, "capability")
    yield from _more_than(guarantee, _GUARANTEE, capability, "capability")
    yield from _more_than(guarantee, _GUARANTEE, deserved, "deserved")
    for name, amount in guarantee.items():
        if name not in deserved and (_amount(amount) or 0) > 0:
            yield Violation(
                rule="schema.bad-value",
                path=(*_GUARANTEE, name),
                message=f"{amount} is guaranteed, but spec.deserved has no {name}: newer releases of Volcano refuse it",
                hint=f"add {name} to spec.deserved, at least {amount}",
                severity=Severity.WARNING,
            )
    if (spec.get("weight") or 0) < 0:
        yield bad_value(("spec", "weight"), f"{spec['weight']} is not positive", "set 1 or more")
    yield from _hierarchy((data.get("metadata") or {}).get("annotations") or {})


def _more_than(left: Data, path: FieldPath, right: Data, field: str) -> Iterator[Violation]:
    """Yield the resources of which `left` has more than `right`, where both name them."""
    for name, amount in left.items():
        own, other = _amount(amount), _amount(right.get(name))
        if own is not None and other is not None and own > other:
            message = f"{amount} is more than spec.{field}, {right[name]}"
            yield bad_value((*path, name), message, f"lower it, or raise {name} of spec.{field}")


def _amount(value: Any) -> Fraction | None:
    return None if value is None else parse_quantity(value)


def _hierarchy(annotations: Mapping[str, Any]) -> Iterator[Violation]:
    """Check the path of a queue in the tree of the plugin drf, and its weights."""
    paths, weights = (annotations.get(name) or "" for name in (_HIERARCHY, _WEIGHTS))
    if not (paths or weights):
        return
    place: FieldPath = ("metadata", "annotations", _WEIGHTS if weights else _HIERARCHY)
    numbers = weights.split("/")
    if len(numbers) != len(paths.split("/")):
        message = f"has {len(numbers)} parts, but {_HIERARCHY} has {len(paths.split('/'))}"
        yield bad_value(place, message, f"set one weight for each part of {_HIERARCHY}, as root/team and 1/2")
        return
    for number in numbers:
        if not _is_weight(number):
            yield bad_value(place, f"{number!r} is not a positive number", "set one weight for each part, as 1/2")


def _is_weight(text: str) -> bool:
    try:
        number = float(text)
    except ValueError:
        number = nan if text[:2].lower() == "0x" else 0.0  # Go reads hexadecimal numbers, too
    return not number <= 0


def volcano_job_violations(data: Data) -> Iterator[Violation]:
    """Validate a Job: it has tasks, their names differ, and there are enough pods for each `minAvailable`."""
    spec = data.get("spec") or {}
    for field in ("minAvailable", "maxRetry", "ttlSecondsAfterFinished"):
        if (spec.get(field) or 0) < 0:
            yield bad_value(("spec", field), f"{spec[field]} is negative", "set 0 or more")
    tasks = spec.get("tasks") or ()
    if not tasks:
        yield bad_value(("spec", "tasks"), "the job has no task", "add one, with a pod template")
        return
    names: set[str] = set()
    for index, task in enumerate(task or {} for task in tasks):
        path: FieldPath = ("spec", "tasks", index)
        yield from _task(task, path)
        name = task.get("name") or f"default{index}"
        if name in names:
            yield bad_value((*path, "name"), f"another task is named {name}", "give each task a name of its own")
        names.add(name)
    pods = sum(max(0, (task or {}).get("replicas") or 0) for task in tasks)
    least = spec.get("minAvailable") or 0
    if least > pods:
        message = f"{least} pods are more than the {pods} of all tasks"
        yield bad_value(("spec", "minAvailable"), message, f"set at most {pods}, or raise the replicas of a task")


def _task(task: Data, path: FieldPath) -> Iterator[Violation]:
    replicas, least = task.get("replicas") or 0, task.get("minAvailable") or 0
    for field, value in (("replicas", replicas), ("minAvailable", least)):
        if value < 0:
            yield bad_value((*path, field), f"{value} is negative", "set 0 or more")
    if least > max(replicas, 0):
        message = f"{least} pods are more than the replicas of the task, {replicas}"
        yield bad_value((*path, "minAvailable"), message, f"set at most {replicas}, or raise replicas")
