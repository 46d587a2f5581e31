"""Rules between the fields of objects that limit others: quotas, ranges, budgets, autoscalers.

Sources: pkg/apis/{core,autoscaling,policy}/validation/validation.go and pkg/apis/core/helper of Kubernetes 1.36.
"""

from collections.abc import Iterator
from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.patterns import is_path_segment
from reconciler.core.problems import Violation
from reconciler.core.quantities import parse_quantity
from reconciler.core.schemas.builtin.pods import duplicate
from reconciler.core.schemas.builtin.workloads import share_violations
from reconciler.core.schemas.messages import bad_value, format_choices, missing

Data = dict[str, Any]

_METRIC_TARGETS = ("averageUtilization", "averageValue", "value")
_COUNTED = frozenset((
    *("pods", "replicationcontrollers", "services", "secrets", "configmaps", "persistentvolumeclaims"),
    *("resourcequotas", "services.nodeports", "services.loadbalancers"),
))  # fmt: skip
_COMPUTE = frozenset(("cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"))
_STANDARD = _COUNTED | _COMPUTE | {"requests.storage", "requests.ephemeral-storage", "limits.ephemeral-storage"}
_OF_PODS = _COMPUTE | {"pods"}
_SCOPES = {
    "BestEffort": frozenset({"pods"}),
    **dict.fromkeys(("CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass"), _OF_PODS),
    "Terminating": _OF_PODS,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
"""The standard resources that each scope is for."""
_FIXED_SCOPES = ("BestEffort", "CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "Terminating")
_OPPOSITES = {
    "BestEffort": ("NotBestEffort",), "NotBestEffort": ("BestEffort",),
    "Terminating": ("NotTerminating",), "NotTerminating": ("Terminating",),
}  # fmt: skip
_ORDERED = (
    *(("defaultRequest", "default"), ("min", "max"), ("min", "default"), ("min", "defaultRequest")),
    *(("default", "max"), ("defaultRequest", "max")),
)
_WORDS = {"default": "the default limit", "max": "the maximum", "defaultRequest": "the default request"}


def quota_violations(data: Data) -> Iterator[Violation]:
    """Validate a ResourceQuota: its scopes, and that each is for the resources of the quota."""
    spec = data.get("spec") or {}
    hard = spec.get("hard") or {}
    for name, amount in hard.items():
        count = parse_quantity(amount or 0)
        if name in _COUNTED and count is not None and count.denominator != 1:
            yield bad_value(("spec", "hard", name), f"{amount} is not a whole number", "write a whole number")
    path: FieldPath = ("spec", "scopes")
    scopes = [(scope or "", (*path, index)) for index, scope in enumerate(spec.get("scopes") or ())]
    yield from _scopes(scopes, hard)
    place: FieldPath = ("spec", "scopeSelector", "matchExpressions")
    selector = spec.get("scopeSelector") or {}
    expressions = [*enumerate([one or {} for one in selector.get("matchExpressions") or ()])]
    yield from _scopes([(one.get("scopeName") or "", (*place, index, "scopeName")) for index, one in expressions], hard)
    for index, one in expressions:
        operator, values = one.get("operator"), one.get("values") or ()
        if one.get("scopeName") in _FIXED_SCOPES and operator != "Exists":
            yield bad_value((*place, index, "operator"), "must be Exists for this scope", "use Exists")
        if operator in ("In", "NotIn") and not values:
            yield missing((*place, index, "values"))
        elif operator in ("Exists", "DoesNotExist") and values:
            yield bad_value((*place, index, "values"), f"is not allowed with the operator {operator}", "remove it")


def _scopes(scopes: list[tuple[str, FieldPath]], hard: Data) -> Iterator[Violation]:
    names = [name for name, _ in scopes]
    for name, path in scopes:
        if name not in _SCOPES:
            yield bad_value(path, f"{name[:80]!r} is not a scope", f"use {format_choices([*_SCOPES])}")
            continue
        if opposite := next((one for one in _OPPOSITES.get(name, ()) if one in names), ""):
            yield bad_value(path, f"{name} contradicts {opposite}", "remove one of the two")
        outside = [resource for resource in hard if resource in _STANDARD and resource not in _SCOPES[name]]
        if outside:
            yield bad_value(path, f"is not a scope of {outside[0]}", "use a quota of its own for each scope")


def limit_range_violations(data: Data) -> Iterator[Violation]:
    """Validate a LimitRange: limits of one resource do not contradict each other."""
    seen: set[str] = set()
    for index, item in enumerate((data.get("spec") or {}).get("limits") or ()):
        path: FieldPath = ("spec", "limits", index)
        if item["type"] in seen:
            yield duplicate((*path, "type"), f"type {item['type']} already has limits", "merge the two")
        seen.add(item["type"])
        for field in ("default", "defaultRequest") if item["type"] == "Pod" else ():
            if item.get(field):
                yield bad_value((*path, field), "is not allowed for the type Pod", "remove it")
        bounds = {*(item.get("min") or ()), *(item.get("max") or ())}
        if item["type"] == "PersistentVolumeClaim" and "storage" not in bounds:
            yield bad_value(path, "must have a min or max of storage", "set one of the two")
        for name, ratio in (item.get("maxLimitRequestRatio") or {}).items():
            amount = parse_quantity(ratio or 0)
            if amount is not None and amount < 1:
                yield bad_value((*path, "maxLimitRequestRatio", name), "must be at least 1", "raise it")
            low, high = (parse_quantity((item.get(field) or {}).get(name) or 0) for field in ("min", "max"))
            if amount is not None and low and high and amount > high / low:
                yield bad_value((*path, "maxLimitRequestRatio", name), "must be at most max / min", "lower it")
        for smaller, larger in _ORDERED:
            yield from _ordered(item, smaller, larger, path)


def _ordered(item: Data, smaller: str, larger: str, path: FieldPath) -> Iterator[Violation]:
    """Check that no amount of one field exceeds that of another."""
    most = item.get(larger) or {}
    for name, written in (item.get(smaller) or {}).items():
        amount, limit = parse_quantity(written or 0), parse_quantity(most.get(name) or 0)
        if name in most and amount is not None and limit is not None and amount > limit:
            yield Violation(
                rule="schema.request-over-limit",
                path=(*path, smaller, name),
                message=f"{written} exceeds {_WORDS[larger]} {most[name]}",
                hint="raise the limit",
            )


def disruption_budget_violations(data: Data) -> Iterator[Violation]:
    """Validate a PodDisruptionBudget."""
    spec = data.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        message = "minAvailable and maxUnavailable are mutually exclusive"
        yield bad_value(("spec", "maxUnavailable"), message, "remove one of the two")
    for field in ("minAvailable", "maxUnavailable"):
        yield from share_violations(spec.get(field), ("spec", field))


def autoscaler_violations(data: Data) -> Iterator[Violation]:
    """Validate a HorizontalPodAutoscaler."""
    spec, target = data["spec"], data["spec"]["scaleTargetRef"]
    group, slash, _ = (target.get("apiVersion") or "").partition("/")
    if not (group and slash) and target["kind"] != "ReplicationController":
        hint = "write apps/v1 for a Deployment or StatefulSet"
        yield bad_value(("spec", "scaleTargetRef", "apiVersion"), "must include the group of the kind", hint)
    for field in ("kind", "name"):
        if not is_path_segment(target[field]):
            message = f"{target[field][:80]!r} is not a name"
            yield bad_value(("spec", "scaleTargetRef", field), message, "remove '/' and '%'")
    least = spec.get("minReplicas") or 1
    if spec["maxReplicas"] < least:
        yield bad_value(("spec", "maxReplicas"), f"must not be less than minReplicas ({least})", "raise it")
    for index, metric in enumerate(spec.get("metrics") or ()):
        field = metric["type"][:1].lower() + metric["type"][1:]
        source = metric.get(field)
        if not source:
            yield missing(("spec", "metrics", index, field))
        elif field in ("resource", "containerResource"):
            yield from _metric_target(source["target"], ("spec", "metrics", index, field, "target"))
        elif field in ("external", "object") and not any(map(source["target"].get, ("averageValue", "value"))):
            yield missing(("spec", "metrics", index, field, "target", "averageValue"))


def _metric_target(target: Data, path: FieldPath) -> Iterator[Violation]:
    if not any(map(target.get, _METRIC_TARGETS)):
        yield missing((*path, "averageUtilization"))
    if target.get("averageUtilization") is not None and target.get("averageValue") is not None:
        yield bad_value(
            (*path, "averageValue"), "must not be set together with averageUtilization", "remove one of the two"
        )
    for field in ("averageValue", "value"):
        amount = parse_quantity(target.get(field) or 0)
        if target.get(field) is not None and amount is not None and amount <= 0:
            yield bad_value((*path, field), "must be greater than 0", "raise it")
