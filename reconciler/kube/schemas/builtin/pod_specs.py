"""Rules about pods that an API server has beside its schema: tolerations, claims, volumes, affinity, the host.

Source: pkg/apis/core/validation/validation.go of Kubernetes 1.37 (ValidatePodSpec).
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import is_dns_label, is_dns_name, is_label_value, is_qualified_name, later
from reconciler.kube.problems import Violation
from reconciler.kube.quantities import parse_quantity
from reconciler.kube.schemas.builtin.containers import container_violations, dots, has_dots, profile_violations
from reconciler.kube.schemas.messages import CONTAINER_RESOURCE_PATTERN, bad_value, missing

Data = Mapping[str, Any]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_IN_VOLUMES = later(r"metadata\.(?:annotations|labels|name|namespace|uid)(?:\['.*'\])?", re.DOTALL)
_CONTAINER_RESOURCE = later(CONTAINER_RESOURCE_PATTERN[1:-1])
_OF_POD = ("cpu", "memory")
_MAX_NAMESERVERS, _MAX_PERMISSIONS = 3, 0o777  # resolv.conf(5) takes three; modes have nine bits
_FILES = ("configMap", "secret", "downwardAPI")
_NAMES = {"flocker": ("datasetName", "datasetUUID"), "storageos": ("volumeName",)}


def pod_violations(spec: Data, path: FieldPath) -> Iterator[Violation]:
    """Validate a pod's spec that its schema has accepted."""
    for field, check in _CHECKS.items():
        if spec.get(field) is not None:
            yield from check(spec, path)
    ports: set[tuple[Any, ...]] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            place = (*path, field, index)
            yield from container_violations(container, place, spec, is_init=field == "initContainers")
            yield from _host_ports(container, place, ports)


def _host_ports(container: Data, path: FieldPath, seen: set[tuple[Any, ...]]) -> Iterator[Violation]:
    for index, port in enumerate(container.get("ports") or ()):
        if not port.get("hostPort"):
            continue
        key = (port.get("protocol") or "TCP", port.get("hostIP") or "", port["hostPort"])
        if key in seen:
            message = f"{port['hostPort']} is used by another port of the pod"
            yield bad_value((*path, "ports", index, "hostPort"), message, "choose another")
        seen.add(key)


def toleration_violations(spec: Data, path: FieldPath) -> Iterator[Violation]:
    """Validate the tolerations of a pod or of a RuntimeClass."""
    for index, one in enumerate(spec.get("tolerations") or ()):
        place, operator = (*path, "tolerations", index), one.get("operator") or "Equal"
        if operator not in ("Equal", "Exists"):
            yield bad_value((*place, "operator"), f"{operator} is off by default", "use Equal or Exists")
        value = one.get("value") or ""
        if operator == "Exists" and value:
            yield bad_value((*place, "value"), "must be empty when operator is Exists", "remove it")
        elif operator == "Equal" and value and not is_label_value(value):
            yield bad_value((*place, "value"), f"{value!r} is not the value of a label", "correct it")
        if one.get("tolerationSeconds") is not None and one.get("effect") != "NoExecute":
            yield bad_value((*place, "effect"), "must be NoExecute when tolerationSeconds is set", "set it")


def _resource_claims(spec: Data, path: FieldPath) -> Iterator[Violation]:
    fields = ("resourceClaimName", "resourceClaimTemplateName")
    for index, claim in enumerate(spec["resourceClaims"]):
        place = (*path, "resourceClaims", index)
        if sum(claim.get(field) is not None for field in fields) != 1:
            yield bad_value(place, f"must have one of {fields[0]} and {fields[1]}", "set one of the two")
        if not is_dns_label(claim.get("name") or ""):
            yield bad_value((*place, "name"), f"{claim.get('name')!r} is not a DNS label", "use a-z, 0-9 and -")
        for field in fields:
            if claim.get(field) is not None and not is_dns_name(claim[field]):
                yield bad_value((*place, field), f"{claim[field]!r} is not the name of an object", "correct it")


def _volumes(spec: Data, path: FieldPath) -> Iterator[Violation]:
    for index, volume in enumerate(spec["volumes"]):
        place = (*path, "volumes", index)
        if has_dots((volume.get("hostPath") or {}).get("path")):
            yield dots((*place, "hostPath", "path"))
        yield from _references(volume, place)
        for field in _FILES:
            yield from _items(volume.get(field) or {}, (*place, field))
        for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            inner = (*place, "projected", "sources", position)
            if sum(value is not None for value in (source or {}).values()) > 1:
                yield bad_value(inner, "must have one source only", "split it")
            for field in _FILES:
                yield from _items((source or {}).get(field) or {}, (*inner, field))


def _references(volume: Data, path: FieldPath) -> Iterator[Violation]:
    """Check that a volume says what it is a volume of, or of which container."""
    for field, names in _NAMES.items():
        if volume.get(field) is not None and not any(volume[field].get(name) for name in names):
            yield missing((*path, field, names[0]))
    channel = volume.get("fc")
    if channel is not None and bool(channel.get("targetWWNs")) is bool(channel.get("wwids")):
        yield bad_value((*path, "fc"), "must have either targetWWNs or wwids", "set one of the two")
    for index, item in enumerate((volume.get("downwardAPI") or {}).get("items") or ()):
        if item.get("resourceFieldRef") and not item["resourceFieldRef"].get("containerName"):
            yield missing((*path, "downwardAPI", "items", index, "resourceFieldRef", "containerName"))


def _items(source: Data, path: FieldPath) -> Iterator[Violation]:
    for index, item in enumerate(source.get("items") or ()):
        place, written = (*path, "items", index), item.get("path")
        if has_dots(written):
            yield dots((*place, "path"))
        elif isinstance(written, str) and written.startswith(".."):
            yield bad_value((*place, "path"), "must not begin with '..'", "rename the file")
        elif isinstance(written, str) and written.startswith("/"):
            yield bad_value((*place, "path"), "must be a relative path", "remove the leading /")
        if not 0 <= (item.get("mode") or 0) <= _MAX_PERMISSIONS:
            yield bad_value((*place, "mode"), "must be 0 to 0777", "write it in octal, such as 0644")
        field = (item.get("fieldRef") or {}).get("fieldPath")
        if field is not None and not _IN_VOLUMES.fullmatch(field):
            hint = "use the name, namespace, uid, labels or annotations of metadata"
            yield bad_value((*place, "fieldRef", "fieldPath"), f"{field} is not available in a volume", hint)


def _dns(spec: Data, path: FieldPath) -> Iterator[Violation]:
    servers = spec["dnsConfig"].get("nameservers") or ()
    if len(servers) > _MAX_NAMESERVERS:
        yield bad_value((*path, "dnsConfig", "nameservers"), f"must have at most {_MAX_NAMESERVERS}", "remove some")


def _host_aliases(spec: Data, path: FieldPath) -> Iterator[Violation]:
    for index, alias in enumerate(spec["hostAliases"]):
        if not _is_address(alias.get("ip") or ""):
            yield bad_value((*path, "hostAliases", index, "ip"), "is not an IP address", "correct it")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _shared_processes(spec: Data, path: FieldPath) -> Iterator[Violation]:
    if spec["shareProcessNamespace"] is True and spec.get("hostPID") is True:
        yield bad_value(
            (*path, "shareProcessNamespace"), "must not be set together with hostPID", "remove one of the two"
        )


def _host_users(spec: Data, path: FieldPath) -> Iterator[Violation]:
    for field in ("hostNetwork", "hostPID", "hostIPC") if spec["hostUsers"] is False else ():
        if spec.get(field) is True:
            yield bad_value((*path, field), "is not allowed when hostUsers is false", "remove one of the two")
    for field in ("initContainers", "containers") if spec["hostUsers"] is False else ():
        for index, container in enumerate(spec.get(field) or ()):
            if container.get("volumeDevices"):
                place = (*path, field, index, "volumeDevices")
                yield bad_value(place, "is not allowed when hostUsers is false", "remove one of the two")


def _security(spec: Data, path: FieldPath) -> Iterator[Violation]:
    place = (*path, "securityContext")
    on_host = (spec["securityContext"].get("windowsOptions") or {}).get("hostProcess") is True
    if on_host and spec.get("hostNetwork") is not True:
        yield bad_value((*place, "windowsOptions", "hostProcess"), "requires hostNetwork", "set hostNetwork: true")
    yield from profile_violations(spec["securityContext"], place)
    for index, sysctl in enumerate(spec["securityContext"].get("sysctls") or ()):
        name = (sysctl.get("name") or "").replace("/", ".")
        if spec.get("hostNetwork") is True and name.startswith("net."):
            yield bad_value((*place, "sysctls", index, "name"), "is not allowed with hostNetwork", "remove it")


def _affinity(spec: Data, path: FieldPath) -> Iterator[Violation]:
    node, place = spec["affinity"].get("nodeAffinity") or {}, (*path, "affinity", "nodeAffinity")
    for index, term in enumerate((node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()):
        yield from _node_term(term or {}, (*place, _REQUIRED, "nodeSelectorTerms", index))
    for index, term in enumerate(node.get(_PREFERRED) or ()):
        yield from _node_term(term.get("preference") or {}, (*place, _PREFERRED, index, "preference"))
    for field in ("podAffinity", "podAntiAffinity"):
        found, inner = spec["affinity"].get(field) or {}, (*path, "affinity", field)
        for index, term in enumerate(found.get(_REQUIRED) or ()):
            yield from _pod_term(term or {}, (*inner, _REQUIRED, index))
        for index, term in enumerate(found.get(_PREFERRED) or ()):
            yield from _pod_term(term.get("podAffinityTerm") or {}, (*inner, _PREFERRED, index, "podAffinityTerm"))


def _pod_term(term: Data, path: FieldPath) -> Iterator[Violation]:
    both = {*(term.get("matchLabelKeys") or ())} & {*(term.get("mismatchLabelKeys") or ())}
    if both:
        place = (*path, "matchLabelKeys")
        yield bad_value(place, f"{min(both)} is in mismatchLabelKeys, too", "remove one of the two")
    for index, name in enumerate(term.get("namespaces") or ()):
        if not is_dns_label(name or ""):
            yield bad_value((*path, "namespaces", index), "is not the name of a namespace", "use a-z, 0-9 and -")


def _node_term(term: Data, path: FieldPath) -> Iterator[Violation]:
    for index, one in enumerate(term.get("matchExpressions") or ()):
        place, values = (*path, "matchExpressions", index, "values"), one.get("values") or ()
        if one.get("operator") in ("Exists", "DoesNotExist") and values:
            yield bad_value(place, f"is not allowed with the operator {one['operator']}", "remove it")
        elif one.get("operator") in ("Gt", "Lt") and len(values) != 1:
            yield bad_value(place, f"must have one value with the operator {one['operator']}", "keep one")
    for index, one in enumerate(term.get("matchFields") or ()):
        if one.get("key") != "metadata.name":
            yield bad_value((*path, "matchFields", index, "key"), "is not a field of nodes", "use metadata.name")


def _spread(spec: Data, path: FieldPath) -> Iterator[Violation]:
    for index, one in enumerate(spec["topologySpreadConstraints"]):
        place = (*path, "topologySpreadConstraints", index)
        if one.get("minDomains") is not None and one.get("whenUnsatisfiable") != "DoNotSchedule":
            yield bad_value((*place, "minDomains"), "requires whenUnsatisfiable: DoNotSchedule", "remove it")
        if one.get("matchLabelKeys") and one.get("labelSelector") is None:
            yield bad_value((*place, "matchLabelKeys"), "requires a labelSelector", "add it")


def _gates(spec: Data, path: FieldPath) -> Iterator[Violation]:
    for index, gate in enumerate(spec["schedulingGates"]):
        if not is_qualified_name(gate.get("name") or ""):
            yield bad_value((*path, "schedulingGates", index, "name"), "is not a qualified name", "use a-z, 0-9 and -")
    if spec["schedulingGates"] and spec.get("nodeName"):
        yield bad_value((*path, "nodeName"), "must not be set together with schedulingGates", "remove one of the two")


def _system(spec: Data, path: FieldPath) -> Iterator[Violation]:
    name = spec["os"].get("name")
    if name not in ("linux", "windows"):
        yield bad_value((*path, "os", "name"), f"{name} is not supported", "use linux or windows")
    context = spec.get("securityContext") or {}
    if name == "linux" and context.get("windowsOptions") is not None:
        yield bad_value((*path, "securityContext", "windowsOptions"), "is not allowed for linux", "remove it")
    if name == "windows":
        for field in _LINUX_ONLY:
            if context.get(field) is not None:
                yield bad_value((*path, "securityContext", field), "is not allowed for windows", "remove it")


_LINUX_ONLY = (
    *("fsGroup", "fsGroupChangePolicy", "runAsGroup", "runAsUser", "seLinuxOptions", "seccompProfile"),
    *("appArmorProfile", "supplementalGroups", "sysctls"),
)


def _node_name(spec: Data, path: FieldPath) -> Iterator[Violation]:
    if spec["nodeName"] and not is_dns_name(spec["nodeName"]):
        yield bad_value((*path, "nodeName"), "is not the name of a node", "use a-z, 0-9, - and .")


def _account(spec: Data, path: FieldPath) -> Iterator[Violation]:
    """Check the old name of serviceAccountName, which counts where that is empty."""
    name = spec["serviceAccount"]
    if name and not spec.get("serviceAccountName") and not is_dns_name(name):
        yield bad_value((*path, "serviceAccount"), f"{name[:80]!r} is not the name of an account", "correct it")


def _overhead(spec: Data, path: FieldPath) -> Iterator[Violation]:
    yield from overhead_violations(spec["overhead"], (*path, "overhead"))


def overhead_violations(amounts: Data, path: FieldPath) -> Iterator[Violation]:
    """Validate what pods need beside their containers, in a pod or a RuntimeClass."""
    for name, amount in amounts.items():
        place = (*path, name)
        if not _CONTAINER_RESOURCE.fullmatch(name) or not is_qualified_name(name):
            yield bad_value(place, "is not a resource of containers", "use cpu or memory")
        elif (parse_quantity(amount or 0) or 0) < 0:
            yield bad_value(place, "must not be negative", "raise it")


def _of_pod(spec: Data, path: FieldPath) -> Iterator[Violation]:
    if spec["resources"].get("claims") is not None:
        yield bad_value((*path, "resources", "claims"), "is for containers", "move it to a container")
    for field in ("limits", "requests"):
        for name in spec["resources"].get(field) or ():
            if name not in _OF_POD and not name.startswith("hugepages-"):
                hint = "request it in a container"
                yield bad_value((*path, "resources", field, name), f"{name} cannot be requested for a pod", hint)
    yield from total_violations(spec, (*path, "resources"), defaulted=False)


def total_violations(spec: Data, path: FieldPath, *, defaulted: bool) -> Iterator[Violation]:
    """Validate the request of a whole pod: it covers its containers, and is within its limit.

    `defaulted`: a server adds the requests that follow from limits and from containers, as in a pod, not in a template.
    """
    for name in _OF_POD:
        amounts = [_requested(container, name, defaulted=defaulted) for container in spec.get("containers") or ()]
        parsed = [parse_quantity(amount or 0) for amount in amounts]
        written, most = ((spec["resources"].get(field) or {}).get(name) for field in ("requests", "limits"))
        containers = sum(amount for amount in parsed if amount is not None)
        total = parse_quantity(written or 0) if written is not None or not defaulted else containers
        limit = parse_quantity(most or 0)
        if None in parsed or total is None or limit is None:
            continue
        if written is not None and total < containers:
            message = f"the containers request more {name} than this"
            yield _over((*path, "requests", name), message, "raise the request")
        if most is not None and total > limit:
            yield _over((*path, "limits", name), f"the pod requests more {name} than this limit", "raise the limit")


def _over(path: FieldPath, message: str, hint: str) -> Violation:
    return Violation(rule="schema.request-over-limit", path=path, message=message, hint=hint)


def _requested(container: Data, name: str, *, defaulted: bool) -> Any:
    resources = container.get("resources") or {}
    limit = (resources.get("limits") or {}).get(name) if defaulted else None
    return (resources.get("requests") or {}).get(name, limit)


def _ephemeral(spec: Data, path: FieldPath) -> Iterator[Violation]:
    if spec["ephemeralContainers"]:
        yield bad_value((*path, "ephemeralContainers"), "cannot be set when a pod is created", "remove it")


def _override(spec: Data, path: FieldPath) -> Iterator[Violation]:
    place = (*path, "hostnameOverride")
    if not is_dns_name(spec["hostnameOverride"]):
        yield bad_value(place, "is not a DNS name", "use a-z, 0-9, - and .")
    for field in ("hostNetwork", "setHostnameAsFQDN"):
        if spec.get(field) is True:
            yield bad_value(place, f"is not allowed together with {field}", "remove one of the two")


_CHECKS = {
    "tolerations": toleration_violations,
    "resourceClaims": _resource_claims,
    "volumes": _volumes,
    "dnsConfig": _dns,
    "hostAliases": _host_aliases,
    "shareProcessNamespace": _shared_processes,
    "hostUsers": _host_users,
    "securityContext": _security,
    "affinity": _affinity,
    "topologySpreadConstraints": _spread,
    "schedulingGates": _gates,
    "os": _system,
    "nodeName": _node_name,
    "serviceAccount": _account,
    "overhead": _overhead,
    "resources": _of_pod,
    "ephemeralContainers": _ephemeral,
    "hostnameOverride": _override,
}
