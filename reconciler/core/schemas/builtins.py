"""Rules between the fields of built-in kinds, beyond what their schemas express.

Rules about single fields are part of the schemas (`tools/schemas/constraints.py`).
Sources: pkg/apis/{batch,apps,core,autoscaling}/validation/validation.go of Kubernetes 1.36.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.patterns import LABEL_LENGTH, is_dns_name, is_path_segment, later
from reconciler.core.problems import Violation
from reconciler.core.quantities import parse_quantity
from reconciler.core.schemas.cluster_rules import (
    csi_driver_violations,
    endpoint_slice_violations,
    endpoints_violations,
    ingress_class_violations,
    lease_violations,
    namespace_violations,
    node_violations,
    role_violations,
    runtime_class_violations,
    storage_class_violations,
    volume_claim_violations,
    volume_violations,
)
from reconciler.core.schemas.extension_rules import (
    api_service_violations,
    binding_violations,
    definition_violations,
    webhook_violations,
)
from reconciler.core.schemas.messages import bad_value, format_choices, missing
from reconciler.core.schemas.metadata import embedded_violations, volume_name_violations
from reconciler.core.schemas.object_rules import (
    claim_template_violations,
    claim_violations,
    config_map_violations,
    device_class_violations,
    network_policy_violations,
    priority_class_violations,
    secret_violations,
    service_violations,
)
from reconciler.core.schemas.pods import duplicate, template_violations
from reconciler.core.schemas.schedules import schedule_problem
from reconciler.core.schemas.webhooks.appwrapper import app_wrapper_violations

Data = dict[str, Any]
_METRIC_TARGETS = ("averageUtilization", "averageValue", "value")
_MANAGER = later(
    r"(?=.{1,63}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
)
_ANY_RESTART, _ALWAYS, _NOT_ALWAYS = ("Always", "OnFailure", "Never"), ("Always",), ("", "Never", "OnFailure")


def builtin_violations(data: Data, group: str, kind: str) -> Iterator[Violation]:
    """Validate an object of a built-in kind, or of one with a known webhook, that its schema has accepted."""
    validate = _VALIDATORS.get((group, kind))
    if validate is not None:
        yield from validate(data)


def _pod(data: Data) -> Iterator[Violation]:
    yield from template_violations({"spec": data["spec"]}, (), _ANY_RESTART)
    yield from _pod_priority(data["spec"])
    for field in ("initContainers", "containers"):
        for index, container in enumerate(data["spec"].get(field) or ()):
            if container["image"] != container["image"].strip():
                path: FieldPath = ("spec", field, index, "image")
                yield bad_value(path, "has leading or trailing whitespace", "remove it")


def _pod_priority(spec: Data) -> Iterator[Violation]:
    """Check what the server computes from the class of priority."""
    if spec.get("priorityClassName"):
        return
    if spec.get("priority"):
        yield bad_value(("spec", "priority"), "is set by the server", "set priorityClassName")
    if spec.get("preemptionPolicy") == "Never":
        yield bad_value(("spec", "preemptionPolicy"), "is set by the server", "set priorityClassName")


def _pod_template(data: Data) -> Iterator[Violation]:
    yield from template_violations(data.get("template") or {}, ("template",), _ANY_RESTART)


def _job(data: Data) -> Iterator[Violation]:
    by_default = 1 if data["spec"].get("parallelism") is None else None
    yield from _job_spec(data["spec"], ("spec",), by_default)
    if data["spec"].get("manualSelector") is not True:
        if any((data["spec"].get("selector") or {}).values()):
            yield bad_value(("spec", "selector"), "is set by the server", "remove it")
    elif data["spec"].get("selector") is None:
        yield missing(("spec", "selector"))
    else:
        yield from _selector(data["spec"], may_be_empty=True)
    if data["spec"].get("completionMode") == "Indexed":
        # Pods of an Indexed Job have the host name <job>-<index>, a DNS label.
        name = _name(data)
        last = f"{name}-{max((data['spec'].get('completions') or 1) - 1, 0)}"
        if "." in name or len(last) > LABEL_LENGTH:
            yield Violation(
                rule="schema.bad-name",
                path=("metadata", "name"),
                message=f"pods of an Indexed Job use their name, such as {last}, as host name",
                hint=f"do not use '.', and use at most {LABEL_LENGTH} characters including the index",
            )


def _cron_job(data: Data) -> Iterator[Violation]:
    problem = schedule_problem(data["spec"]["schedule"])
    if problem:
        yield bad_value(("spec", "schedule"), problem, "correct it, or use a macro such as @daily")
    path: FieldPath = ("spec", "jobTemplate", "spec")
    spec = data["spec"]["jobTemplate"].get("spec")
    if spec:
        yield from _job_spec(spec, path)
        if spec.get("selector") is not None:
            yield bad_value((*path, "selector"), "is set by the server", "remove it")
        if spec.get("manualSelector") is True:
            yield bad_value((*path, "manualSelector"), "must not be true in a CronJob", "remove it")
    else:
        yield missing(path)


def _job_spec(spec: Data, path: FieldPath, default_completions: int | None = None) -> Iterator[Violation]:
    template, indexed = spec["template"], spec.get("completionMode") == "Indexed"
    yield from template_violations(template, (*path, "template"), _NOT_ALWAYS)
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(field) is not None and not indexed:
            yield bad_value((*path, field), "requires an Indexed Job", "set completionMode: Indexed")
    if indexed and spec.get("completions") is None and default_completions is None:
        yield missing((*path, "completions"))
    yield from _indexes(spec, path)
    manager = spec.get("managedBy")
    if manager is not None and not _MANAGER.fullmatch(manager):
        yield bad_value((*path, "managedBy"), "is not a name with a domain", "write it as example.com/controller")
    pod = template["spec"]
    names = [container["name"] for field in ("initContainers", "containers") for container in pod.get(field) or ()]
    for index, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        yield from _failure_rule(rule, (*path, "podFailurePolicy", "rules", index), names)


def _indexes(spec: Data, path: FieldPath) -> Iterator[Violation]:
    most, completions = spec.get("maxFailedIndexes"), spec.get("completions")
    if most is None:
        return
    if spec.get("backoffLimitPerIndex") is None:
        yield missing((*path, "backoffLimitPerIndex"))
    if completions is not None and most > completions:
        yield bad_value((*path, "maxFailedIndexes"), f"must be at most completions ({completions})", "lower it")


def _failure_rule(rule: Data, path: FieldPath, containers: list[str]) -> Iterator[Violation]:
    codes = rule.get("onExitCodes")
    if bool(codes) == bool(rule.get("onPodConditions")):
        hint = "set either onExitCodes or onPodConditions"
        yield bad_value(path, "must match either exit codes or pod conditions", hint)
    if not codes:
        return
    name = codes.get("containerName")
    if name is not None and name not in containers:
        hint = f"allowed values: {format_choices(containers)}"
        yield bad_value((*path, "onExitCodes", "containerName"), f"container {name} not found in the pod", hint)
    if codes["operator"] == "In" and 0 in codes["values"]:
        index = codes["values"].index(0)
        yield bad_value((*path, "onExitCodes", "values", index), "exit code 0 is not a failure", "remove it")


def _controller(data: Data) -> Iterator[Violation]:
    spec = data["spec"]
    claims: set[str] = set()
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        path: FieldPath = ("spec", "volumeClaimTemplates", index, "metadata", "name")
        name = _name(claim)
        if name:
            yield from volume_name_violations(name, path)
            claims.add(name)
        else:
            yield missing(path)
        yield from volume_claim_violations(claim, ("spec", "volumeClaimTemplates", index))
    yield from template_violations(spec["template"], ("spec", "template"), _ALWAYS, frozenset(claims))
    yield from _selector(spec)
    yield from _rollout(spec)
    if (spec["template"].get("spec") or {}).get("activeDeadlineSeconds") is not None:
        path = ("spec", "template", "spec", "activeDeadlineSeconds")
        yield bad_value(path, f"is not allowed for the pods of a {data['kind']}", "remove it")
    ready, deadline = spec.get("minReadySeconds") or 0, spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= ready and data["kind"] == "Deployment":
        message = f"must be greater than minReadySeconds ({ready})"
        yield bad_value(("spec", "progressDeadlineSeconds"), message, "raise it")


def _rollout(spec: Data) -> Iterator[Violation]:
    for field, default_surge in (("strategy", "25%"), ("updateStrategy", 0)):
        rolling = (spec.get(field) or {}).get("rollingUpdate") or {}
        if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge", default_surge) in (0, "0%"):
            path: FieldPath = ("spec", field, "rollingUpdate", "maxUnavailable")
            yield bad_value(path, "must not be 0 when maxSurge is 0: no pod could be replaced", "raise one of the two")


def _selector(spec: Data, *, may_be_empty: bool = False) -> Iterator[Violation]:
    """Check that a selector selects the pods of the template. A server takes an empty one of Jobs alone."""
    selector = spec["selector"]
    required, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    if not required and not expressions and may_be_empty:
        return
    if not required and not expressions:
        yield Violation(
            rule="schema.missing-field",
            path=("spec", "selector"),
            message="an empty selector matches every pod",
            hint="set matchLabels to the labels in template.metadata.labels",
        )
        return
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    labels = {key: value or "" for key, value in labels.items()}
    if any(labels.get(key) != (value or "") for key, value in required.items()) or not all(
        _matches(expression, labels) for expression in expressions
    ):
        yield Violation(
            rule="schema.selector-mismatch",
            path=("spec", "template", "metadata", "labels"),
            message="spec.selector does not match the labels of the template",
            hint="add the labels in spec.selector.matchLabels here",
        )


def _matches(expression: Data, labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def _autoscaler(data: Data) -> Iterator[Violation]:
    spec, target = data["spec"], data["spec"]["scaleTargetRef"]
    group, slash, _ = (target.get("apiVersion") or "").partition("/")
    if not (group and slash) and target["kind"] != "ReplicationController":
        hint = "write apps/v1 for a Deployment or StatefulSet"
        yield bad_value(("spec", "scaleTargetRef", "apiVersion"), "must include the group of the kind", hint)
    for field in ("kind", "name"):
        yield from _segment(target[field], ("spec", "scaleTargetRef", field))
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


def _limit_range(data: Data) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, item in enumerate((data.get("spec") or {}).get("limits") or ()):
        path: FieldPath = ("spec", "limits", index)
        if item["type"] in seen:
            yield duplicate((*path, "type"), f"type {item['type']} already has limits", "merge the two")
        seen.add(item["type"])
        defaults = item.get("default") or {}
        for name, amount in (item.get("defaultRequest") or {}).items():
            request, limit = parse_quantity(amount or 0), parse_quantity(defaults.get(name, amount) or 0)
            if request is not None and limit is not None and request > limit:
                yield Violation(
                    rule="schema.request-over-limit",
                    path=(*path, "defaultRequest", name),
                    message=f"{amount} exceeds the default limit {defaults[name]}",
                    hint="raise the limit",
                )


def _ingress(data: Data) -> Iterator[Violation]:
    name = (data.get("spec") or {}).get("ingressClassName")
    if name is not None and not is_dns_name(name):
        path: FieldPath = ("spec", "ingressClassName")
        yield bad_value(path, f"{name[:80]!r} is not the name of a class", "use a-z, 0-9, - and .")


def _disruption_budget(data: Data) -> Iterator[Violation]:
    spec = data.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        message = "minAvailable and maxUnavailable are mutually exclusive"
        yield bad_value(("spec", "maxUnavailable"), message, "remove one of the two")


def _role_binding(data: Data) -> Iterator[Violation]:
    allowed = ["ClusterRole"] if data["kind"] == "ClusterRoleBinding" else ["Role", "ClusterRole"]
    kind = data["roleRef"]["kind"]
    if kind not in allowed:
        message, hint = f"{kind} is not allowed", f"use {' or '.join(allowed)}"
        yield Violation(rule="schema.not-allowed", path=("roleRef", "kind"), message=message, hint=hint)
    yield from _segment(data["roleRef"]["name"], ("roleRef", "name"))


def _app_wrapper(data: Data) -> Iterator[Violation]:
    found = [*app_wrapper_violations(data)]
    yield from found
    seen = {one.path for one in found}
    for index, component in enumerate((data.get("spec") or {}).get("components") or ()):
        path: FieldPath = ("spec", "components", index, "template", "metadata")
        metadata = ((component or {}).get("template") or {}).get("metadata")
        if isinstance(metadata, dict):
            yield from (one for one in embedded_violations(metadata, path) if one.path not in seen)


def _segment(name: str, path: FieldPath) -> Iterator[Violation]:
    if not is_path_segment(name):
        yield bad_value(path, f"{name[:80]!r} is not a name", "remove '/' and '%'")


def _name(data: Data) -> str:
    return (data.get("metadata") or {}).get("name") or ""


_VALIDATORS: Mapping[tuple[str, str], Callable[[Data], Iterator[Violation]]] = {
    ("", "Pod"): _pod,
    ("", "ConfigMap"): config_map_violations,
    ("", "Secret"): secret_violations,
    ("scheduling.k8s.io", "PriorityClass"): priority_class_violations,
    ("networking.k8s.io", "NetworkPolicy"): network_policy_violations,
    ("resource.k8s.io", "ResourceClaim"): claim_violations,
    ("resource.k8s.io", "ResourceClaimTemplate"): claim_template_violations,
    ("resource.k8s.io", "DeviceClass"): device_class_violations,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): webhook_violations,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): webhook_violations,
    ("apiregistration.k8s.io", "APIService"): api_service_violations,
    ("", "Endpoints"): endpoints_violations,
    ("discovery.k8s.io", "EndpointSlice"): endpoint_slice_violations,
    ("", "Node"): node_violations,
    ("networking.k8s.io", "Ingress"): _ingress,
    ("networking.k8s.io", "IngressClass"): ingress_class_violations,
    ("node.k8s.io", "RuntimeClass"): runtime_class_violations,
    ("storage.k8s.io", "CSIDriver"): csi_driver_violations,
    ("coordination.k8s.io", "Lease"): lease_violations,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("apps", "Deployment"): _controller,
    ("apps", "ReplicaSet"): _controller,
    ("apps", "StatefulSet"): _controller,
    ("apps", "DaemonSet"): _controller,
    ("", "Service"): service_violations,
    ("", "Namespace"): namespace_violations,
    ("", "PersistentVolume"): volume_violations,
    ("", "PersistentVolumeClaim"): volume_claim_violations,
    ("", "PodTemplate"): _pod_template,
    ("storage.k8s.io", "StorageClass"): storage_class_violations,
    ("rbac.authorization.k8s.io", "Role"): role_violations,
    ("rbac.authorization.k8s.io", "ClusterRole"): role_violations,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): binding_violations,
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding"): binding_violations,
    ("", "LimitRange"): _limit_range,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
    ("rbac.authorization.k8s.io", "RoleBinding"): _role_binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _role_binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): definition_violations,
    ("workload.codeflare.dev", "AppWrapper"): _app_wrapper,
}
"""Which validation of a server or webhook each kind has, beside its schema."""
