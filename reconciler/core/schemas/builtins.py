"""What the server checks between the fields of built-in kinds; what it checks of one field is in `tightened`.

Sources: pkg/apis/{batch,apps,core,autoscaling}/validation/validation.go of Kubernetes 1.36.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.quantities import parse_quantity
from reconciler.core.schemas.finding import Finding
from reconciler.core.schemas.metadata import LONGEST_LABEL, volume_name_findings
from reconciler.core.schemas.pods import template_findings
from reconciler.core.schemas.words import choices

Data = dict[str, Any]
_TARGETS = ("averageUtilization", "averageValue", "value")
_ANY, _ALWAYS, _ENDING = ("Always", "OnFailure", "Never"), ("Always",), ("", "Never", "OnFailure")


def builtin_findings(data: Data, group: str, kind: str) -> Iterator[Finding]:
    """Yield what the server's own validation of a built-in kind refuses; the schema has accepted `data`."""
    check = _CHECKS.get((group, kind))
    if check is not None:
        yield from check(data)


def _pod(data: Data) -> Iterator[Finding]:
    yield from template_findings({"spec": data["spec"]}, (), _ANY)
    for field in ("initContainers", "containers"):
        for index, container in enumerate(data["spec"].get(field) or ()):
            if container["image"] != container["image"].strip():
                yield Finding(
                    rule="schema.bad-value",
                    path=("spec", field, index, "image"),
                    message="blanks before or after the image",
                    hint="remove them",
                )


def _job(data: Data) -> Iterator[Finding]:
    yield from _job_spec(data["spec"], ("spec",))
    name = _name(data)
    if data["spec"].get("completionMode") == "Indexed":
        # Pods of an Indexed Job get the host name <job>-<index>, a DNS label.
        last = f"{name}-{max((data['spec'].get('completions') or 1) - 1, 0)}"
        if "." in name or len(last) > LONGEST_LABEL:
            yield Finding(
                rule="schema.bad-name",
                path=("metadata", "name"),
                message=f"pods of an Indexed Job are called like {last}, which must be a host name",
                hint=f"leave out '.' and stay within {LONGEST_LABEL} characters with the index",
            )


def _cron_job(data: Data) -> Iterator[Finding]:
    template = data["spec"]["jobTemplate"]
    if not template.get("spec"):
        yield _missing(("spec", "jobTemplate", "spec"))
        return
    yield from _job_spec(template["spec"], ("spec", "jobTemplate", "spec"))


def _job_spec(spec: Data, path: FieldPath) -> Iterator[Finding]:
    template, indexed = spec["template"], spec.get("completionMode") == "Indexed"
    yield from template_findings(template, (*path, "template"), _ENDING)
    for field in ("backoffLimitPerIndex", "maxFailedIndexes"):
        if spec.get(field) is not None and not indexed:
            message, hint = "only an Indexed Job has indexes", "set completionMode: Indexed"
            yield Finding(rule="schema.bad-value", path=(*path, field), message=message, hint=hint)
    if indexed and spec.get("completions") is None:
        yield _missing((*path, "completions"))
    pod = template["spec"]
    names = [one["name"] for field in ("initContainers", "containers") for one in pod.get(field) or ()]
    for index, rule in enumerate((spec.get("podFailurePolicy") or {}).get("rules") or ()):
        yield from _failure_rule(rule, (*path, "podFailurePolicy", "rules", index), names)


def _failure_rule(rule: Data, path: FieldPath, containers: list[str]) -> Iterator[Finding]:
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    if bool(codes) == bool(conditions):
        yield Finding(
            rule="schema.bad-value",
            path=path,
            message="a rule looks at exit codes or at pod conditions",
            hint="give one of onExitCodes, onPodConditions",
        )
    if not codes:
        return
    name = codes.get("containerName")
    if name is not None and name not in containers:
        yield Finding(
            rule="schema.bad-value",
            path=(*path, "onExitCodes", "containerName"),
            message=f"the pod has no container {name}",
            hint=f"use one of {choices(containers)}",
        )
    if codes["operator"] == "In" and 0 in codes["values"]:
        place: FieldPath = (*path, "onExitCodes", "values", codes["values"].index(0))
        yield Finding(rule="schema.bad-value", path=place, message="exit code 0 is no failure", hint="remove it")


def _controller(data: Data) -> Iterator[Finding]:
    spec = data["spec"]
    claims: set[str] = set()
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        name, place = (claim.get("metadata") or {}).get("name"), ("spec", "volumeClaimTemplates", index)
        if name:
            yield from volume_name_findings(name, (*place, "metadata", "name"))
            claims.add(name)
        else:
            yield _missing((*place, "metadata", "name"))
    yield from template_findings(spec["template"], ("spec", "template"), _ALWAYS, frozenset(claims))
    yield from _selected(spec)
    yield from _rollout(spec)
    ready, deadline = spec.get("minReadySeconds") or 0, spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= ready and data["kind"] == "Deployment":
        message, hint = f"it must be more than minReadySeconds ({ready})", "raise it"
        yield Finding(rule="schema.bad-value", path=("spec", "progressDeadlineSeconds"), message=message, hint=hint)


def _rollout(spec: Data) -> Iterator[Finding]:
    for field, surge in (("strategy", "25%"), ("updateStrategy", 0)):
        rolling = (spec.get(field) or {}).get("rollingUpdate") or {}
        if rolling.get("maxUnavailable") in (0, "0%") and rolling.get("maxSurge", surge) in (0, "0%"):
            yield Finding(
                rule="schema.bad-value",
                path=("spec", field, "rollingUpdate", "maxUnavailable"),
                message="with maxSurge 0 too, no pod could ever be replaced",
                hint="allow one of the two",
            )


def _selected(spec: Data) -> Iterator[Finding]:
    selector = spec["selector"]
    wanted, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    if not wanted and not expressions:
        yield Finding(
            rule="schema.missing-field",
            path=("spec", "selector"),
            message="an empty selector would take every pod",
            hint="give matchLabels as in template.metadata.labels",
        )
        return
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    texts = {key: value or "" for key, value in labels.items()}
    if any(texts.get(key) != (value or "") for key, value in wanted.items()) or not all(
        _matches(expression, texts) for expression in expressions
    ):
        yield Finding(
            rule="schema.selector-mismatch",
            path=("spec", "template", "metadata", "labels"),
            message="the selector does not match the labels of the template",
            hint="repeat spec.selector.matchLabels here",
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


def _service(data: Data) -> Iterator[Finding]:
    spec = data["spec"] or {}
    ports = spec.get("ports") or ()
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        yield _missing(("spec", "ports"))
    if spec.get("type") == "ExternalName" and not spec.get("externalName"):
        yield _missing(("spec", "externalName"))
    names: set[str] = set()
    for index, port in enumerate(ports):
        name = port.get("name")
        if len(ports) > 1 and not name:
            hint = "several ports of a Service need names"
            yield Finding(
                rule="schema.missing-field",
                path=("spec", "ports", index, "name"),
                message="required, but missing",
                hint=f"add it; {hint}",
            )
        elif name and name in names:
            message = f"another port is called {name} too"
            yield Finding(
                rule="schema.duplicate-item", path=("spec", "ports", index, "name"), message=message, hint="rename it"
            )
        names.add(name)


def _autoscaler(data: Data) -> Iterator[Finding]:
    spec, target = data["spec"], data["spec"]["scaleTargetRef"]
    if "/" not in (target.get("apiVersion") or "") and target["kind"] != "ReplicationController":
        yield Finding(
            rule="schema.bad-value",
            path=("spec", "scaleTargetRef", "apiVersion"),
            message="it must name the group of the kind",
            hint="write apps/v1 for a Deployment or StatefulSet",
        )
    least = spec.get("minReplicas") or 1
    if spec["maxReplicas"] < least:
        message = f"it must not be less than minReplicas ({least})"
        yield Finding(rule="schema.bad-value", path=("spec", "maxReplicas"), message=message, hint="raise it")
    for index, metric in enumerate(spec.get("metrics") or ()):
        source = metric["type"][:1].lower() + metric["type"][1:]
        held = metric.get(source)
        if not held:
            yield _missing(("spec", "metrics", index, source))
        elif source in ("resource", "containerResource") and not any(held["target"].get(name) for name in _TARGETS):
            yield _missing(("spec", "metrics", index, source, "target", "averageUtilization"))


def _limit_range(data: Data) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, item in enumerate((data.get("spec") or {}).get("limits") or ()):
        place: FieldPath = ("spec", "limits", index)
        if item["type"] in seen:
            message, hint = f"limits of a {item['type']} are given above", "merge the two"
            yield Finding(rule="schema.duplicate-item", path=(*place, "type"), message=message, hint=hint)
        seen.add(item["type"])
        defaults = item.get("default") or {}
        for name, amount in (item.get("defaultRequest") or {}).items():
            least, most = parse_quantity(amount or 0), parse_quantity(defaults.get(name, amount) or 0)
            if least is not None and most is not None and least > most:
                message, hint = f"{amount} is more than the default limit {defaults[name]}", "raise the limit"
                yield Finding(
                    rule="schema.request-over-limit", path=(*place, "defaultRequest", name), message=message, hint=hint
                )


def _definition(data: Data) -> Iterator[Finding]:
    spec = data["spec"]
    expected = f"{spec['names']['plural']}.{spec['group']}"
    if _name(data) not in ("", expected):
        message = "it must be the plural and the group"
        yield Finding(rule="schema.bad-name", path=("metadata", "name"), message=message, hint=f"use {expected}")
    stored = [version for version in spec["versions"] if version.get("storage")]
    if len(stored) != 1:
        message, hint = f"{len(stored)} versions are stored, it must be one", "set storage: true on exactly one version"
        yield Finding(rule="schema.bad-value", path=("spec", "versions"), message=message, hint=hint)
    for index, version in enumerate(spec["versions"]):
        place: FieldPath = ("spec", "versions", index, "schema", "openAPIV3Schema")
        yield from _structural(version["schema"]["openAPIV3Schema"], place, root=True)


def _structural(schema: Data, path: FieldPath, *, root: bool = False) -> Iterator[Finding]:
    """Check that a structural schema gives the type of every field (KEP-1693)."""
    loose = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and (root or not loose):
        yield _missing((*path, "type"))
    elif root and schema["type"] != "object":
        message, hint = f"{schema['type']} is not possible at the root", "use object"
        yield Finding(rule="schema.not-allowed", path=(*path, "type"), message=message, hint=hint)
    for name, child in (schema.get("properties") or {}).items():
        yield from _structural(child or {}, (*path, "properties", name))
    for field in ("items", "additionalProperties"):
        if isinstance(schema.get(field), dict):
            yield from _structural(schema[field], (*path, field))


def _disruption(data: Data) -> Iterator[Finding]:
    spec = data.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        message, hint = "minAvailable and maxUnavailable exclude each other", "remove one of the two"
        yield Finding(rule="schema.bad-value", path=("spec", "maxUnavailable"), message=message, hint=hint)


def _binding(data: Data) -> Iterator[Finding]:
    allowed = ["ClusterRole"] if data["kind"] == "ClusterRoleBinding" else ["Role", "ClusterRole"]
    if data["roleRef"]["kind"] not in allowed:
        message, hint = f"{data['roleRef']['kind']} is not allowed", f"use {' or '.join(allowed)}"
        yield Finding(rule="schema.not-allowed", path=("roleRef", "kind"), message=message, hint=hint)


def _name(data: Data) -> str:
    return (data.get("metadata") or {}).get("name") or ""


def _missing(path: FieldPath) -> Finding:
    return Finding(rule="schema.missing-field", path=path, message="required, but missing", hint="add it")


_CHECKS: Mapping[tuple[str, str], Callable[[Data], Iterator[Finding]]] = {
    ("", "Pod"): _pod,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("apps", "Deployment"): _controller,
    ("apps", "ReplicaSet"): _controller,
    ("apps", "StatefulSet"): _controller,
    ("apps", "DaemonSet"): _controller,
    ("", "Service"): _service,
    ("", "LimitRange"): _limit_range,
    ("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    ("policy", "PodDisruptionBudget"): _disruption,
    ("rbac.authorization.k8s.io", "RoleBinding"): _binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): _binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}
