"""Rules about containers that an API server has beside its schema: probes, variables, mounts, security.

Source: pkg/apis/core/validation/validation.go of Kubernetes 1.37 (validateContainers, validateProbe, validateEnv).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import is_dns_label, is_qualified_name, later
from reconciler.kube.problems import Violation
from reconciler.kube.quantities import canonical, parse_quantity
from reconciler.kube.schemas.messages import bad_value, format_choices, missing

Data = Mapping[str, Any]

_SUBSCRIPT = later(r"metadata\.(?:labels|annotations)\['(.*)'\]", re.DOTALL)
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_DEFAULT_GRACE = 30  # seconds; the API server sets them where a pod names none
_ADMIN = frozenset(("SYS_ADMIN", "CAP_SYS_ADMIN"))
_RECURSIVE = ["Disabled", "Enabled", "IfPossible"]
_RESIZABLE = ("cpu", "memory")
_OF_CPU = frozenset(("0", "1", "1m"))
_OF_BYTES = frozenset(("0", "1", "1k", *(f"1{unit}" for unit in "MGTPE"), *(f"1{unit}i" for unit in "KMGTPE")))
_POLICIES = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")


def container_violations(container: Data, path: FieldPath, spec: Data, *, is_init: bool) -> Iterator[Violation]:
    """Validate one container of a pod that its schema has accepted."""
    is_sidecar = is_init and container.get("restartPolicy") == "Always"
    for field in (*_PROBES, "lifecycle"):
        if is_init and not is_sidecar and container.get(field) is not None:
            hint = "remove it, or make the container a sidecar with restartPolicy: Always"
            yield bad_value((*path, field), "is not allowed for an init container", hint)
        elif field in _PROBES and container.get(field):
            yield from _probe(field, container[field], (*path, field))
    for field, check in _CHECKS.items():
        if container.get(field) is not None:
            yield from check(container, path, spec)


def has_dots(path: Any) -> bool:
    """Return whether a path has `..` as one of its parts."""
    return isinstance(path, str) and ".." in path.split("/")


def dots(path: FieldPath) -> Violation:
    """Return the violation for a path that leads upwards."""
    return bad_value(path, "must not contain '..'", "write the path without it")


def _probe(field: str, probe: Data, path: FieldPath) -> Iterator[Violation]:
    if field != "readinessProbe" and (probe.get("successThreshold") or 1) != 1:
        yield bad_value((*path, "successThreshold"), f"must be 1 for a {field}", "remove it")
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is None:
        return
    place = (*path, "terminationGracePeriodSeconds")
    if field == "readinessProbe":
        yield bad_value(place, "is not allowed for a readinessProbe", "remove it")
    elif grace <= 0:
        yield bad_value(place, "must be greater than 0", "raise it")


def _lifecycle(container: Data, path: FieldPath, spec: Data) -> Iterator[Violation]:
    grace = spec.get("terminationGracePeriodSeconds")
    grace = _DEFAULT_GRACE if grace is None else grace
    for field in ("postStart", "preStop"):
        sleep = ((container["lifecycle"].get(field) or {}).get("sleep") or {}).get("seconds")
        if sleep is not None and not 0 <= sleep <= grace:
            message = f"must not be longer than terminationGracePeriodSeconds ({grace})"
            yield bad_value((*path, "lifecycle", field, "sleep", "seconds"), message, "lower it")


def _env(container: Data, path: FieldPath, spec: Data) -> Iterator[Violation]:
    volumes = [volume.get("name") for volume in spec.get("volumes") or ()]
    for index, entry in enumerate(container["env"]):
        source = entry.get("valueFrom")
        if not source:
            continue
        place = (*path, "env", index, "valueFrom")
        if entry.get("value"):
            yield bad_value(place, "must not be set together with value", "remove one of the two")
        resource = source.get("resourceFieldRef") or {}
        divisor = canonical(resource.get("divisor") or "0")
        if divisor not in (_OF_CPU if (resource.get("resource") or "").endswith(".cpu") else _OF_BYTES):
            yield bad_value((*place, "resourceFieldRef", "divisor"), f"{divisor} is not allowed here", "use 1")
        if source.get("fileKeyRef") and source["fileKeyRef"].get("volumeName") not in volumes:
            yield bad_value((*place, "fileKeyRef", "volumeName"), "is not a volume of the pod", "add the volume")
        field = (source.get("fieldRef") or {}).get("fieldPath") or ""
        if field in ("metadata.labels", "metadata.annotations"):
            hint = f"name one of them: {field}['key']"
            yield bad_value((*place, "fieldRef", "fieldPath"), "is not a single value", hint)
        match = _SUBSCRIPT.fullmatch(field)
        if match is not None and not is_qualified_name(match[1]):
            hint = "write the key of a label or an annotation"
            yield bad_value((*place, "fieldRef", "fieldPath"), f"{match[1]!r} is not a valid key", hint)


def _mounts(container: Data, path: FieldPath, _: Data) -> Iterator[Violation]:
    privileged = (container.get("securityContext") or {}).get("privileged") is True
    for index, mount in enumerate(container["volumeMounts"]):
        place = (*path, "volumeMounts", index)
        for field in ("subPath", "subPathExpr"):
            written = mount.get(field)
            if written and written.startswith("/"):
                yield bad_value((*place, field), "must be a relative path", "remove the leading /")
            elif has_dots(written):
                yield dots((*place, field))
        if mount.get("subPath") and mount.get("subPathExpr"):
            yield bad_value((*place, "subPathExpr"), "must not be set together with subPath", "remove one of the two")
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            hint = "use HostToContainer"
            yield bad_value((*place, "mountPropagation"), "is allowed for privileged containers only", hint)
        recursive = mount.get("recursiveReadOnly")
        if recursive is not None and recursive not in _RECURSIVE:
            hint = f"use {format_choices(_RECURSIVE)}"
            yield bad_value((*place, "recursiveReadOnly"), f"{recursive[:80]!r} is not allowed", hint)
        elif recursive not in (None, "Disabled") and mount.get("readOnly") is not True:
            yield bad_value((*place, "recursiveReadOnly"), "requires readOnly: true", "set readOnly: true")


def _devices(container: Data, path: FieldPath, _: Data) -> Iterator[Violation]:
    for index, device in enumerate(container["volumeDevices"]):
        if has_dots(device.get("devicePath")):
            yield dots((*path, "volumeDevices", index, "devicePath"))


def _security(container: Data, path: FieldPath, spec: Data) -> Iterator[Violation]:
    context, place = container["securityContext"], (*path, "securityContext")
    added = (context.get("capabilities") or {}).get("add") or ()
    escalates = context.get("privileged") is True or not _ADMIN.isdisjoint(added)
    if context.get("allowPrivilegeEscalation") is False and escalates:
        hint = "remove it, or privileged and CAP_SYS_ADMIN"
        yield bad_value((*place, "allowPrivilegeEscalation"), "must not be false for such a container", hint)
    if context.get("procMount") == "Unmasked" and spec.get("hostUsers") is not False:
        yield bad_value((*place, "procMount"), "Unmasked requires hostUsers: false", "set hostUsers: false for the pod")
    yield from profile_violations(context, place)


def profile_violations(context: Data, path: FieldPath) -> Iterator[Violation]:
    """Validate the profiles of seccomp and AppArmor of a pod or container: only Localhost has a path."""
    for field in ("seccompProfile", "appArmorProfile"):
        profile = context.get(field) or {}
        written, place = profile.get("localhostProfile"), (*path, field, "localhostProfile")
        if profile.get("type") == "Localhost":
            if not written:
                yield bad_value(place, "is required for the type Localhost", "add it")
            elif field == "seccompProfile" and (has_dots(written) or written.startswith("/")):
                yield bad_value(place, "must be a relative path without '..'", "correct it")
        elif written is not None and profile:
            yield bad_value(place, "is allowed for the type Localhost only", "remove it")


def _resources(container: Data, path: FieldPath, spec: Data) -> Iterator[Violation]:
    resources, place = container["resources"], (*path, "resources")
    names = [claim.get("name") for claim in spec.get("resourceClaims") or ()]
    for index, claim in enumerate(resources.get("claims") or ()):
        if claim.get("name") not in names:
            hint = "add it under resourceClaims of the pod"
            yield bad_value((*place, "claims", index, "name"), f"claim {claim.get('name')} not found in the pod", hint)
        request = claim.get("request")
        if request and not is_dns_label(request):
            where = (*place, "claims", index, "request")
            yield bad_value(where, f"{request[:80]!r} is not a DNS label", "use a-z, 0-9 and -")
    both = ((field, resources.get(field) or {}) for field in ("limits", "requests"))
    amounts = [(field, name, amount) for field, listed in both for name, amount in listed.items()]
    if not any(name in ("cpu", "memory") for _, name, _ in amounts):
        pages = next(((field, name) for field, name, _ in amounts if name.startswith("hugepages-")), None)
        if pages is not None:
            yield bad_value((*place, *pages), "requires cpu or memory", "request cpu or memory, too")
    for field, name, amount in amounts:
        if name.startswith("requests."):
            yield bad_value((*place, field, name), "is not the name of a resource", "remove 'requests.'")
        size = parse_quantity(name.removeprefix("hugepages-")) if name.startswith("hugepages-") else None
        value = parse_quantity(amount) if size and amount is not None else None
        if size and value is not None and value % size:
            yield bad_value((*place, field, name), f"{amount} is not a multiple of the page size", "round it up")


def _resize(container: Data, path: FieldPath, _: Data) -> Iterator[Violation]:
    seen: set[str] = set()
    for index, policy in enumerate(container["resizePolicy"]):
        name, place = policy.get("resourceName"), (*path, "resizePolicy", index, "resourceName")
        if name not in _RESIZABLE:
            yield bad_value(place, f"{name} cannot be resized", "use cpu or memory")
        if name in seen:
            yield bad_value(place, f"{name} is listed twice", "remove one")
        seen.add(name)


def _restart_policy(container: Data, path: FieldPath, _: Data) -> Iterator[Violation]:
    if container["restartPolicy"] not in _POLICIES:
        yield bad_value((*path, "restartPolicy"), "is not a policy", f"use {' or '.join(_POLICIES)}")


def _restart_rules(container: Data, path: FieldPath, _: Data) -> Iterator[Violation]:
    if container["restartPolicyRules"] and not container.get("restartPolicy"):
        yield bad_value((*path, "restartPolicy"), "is required with restartPolicyRules", "add it")
    for index, rule in enumerate(container["restartPolicyRules"]):
        place, codes = (*path, "restartPolicyRules", index), rule.get("exitCodes")
        if rule.get("action") not in _ACTIONS:
            yield bad_value((*place, "action"), "is not an action", f"use {' or '.join(_ACTIONS)}")
        if codes is None:
            yield missing((*place, "exitCodes"))
        elif codes.get("operator") not in ("In", "NotIn"):
            yield bad_value((*place, "exitCodes", "operator"), "is not an operator", "use In or NotIn")


_CHECKS = {
    "lifecycle": _lifecycle,
    "env": _env,
    "volumeMounts": _mounts,
    "volumeDevices": _devices,
    "securityContext": _security,
    "resources": _resources,
    "resizePolicy": _resize,
    "restartPolicy": _restart_policy,
    "restartPolicyRules": _restart_rules,
}
