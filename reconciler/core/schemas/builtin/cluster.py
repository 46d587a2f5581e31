"""Rules about objects that administrators and controllers write: endpoints, nodes, classes, roles, leases.

Sources: pkg/apis/{core,discovery,networking,rbac,storage,coordination}/validation/validation.go of Kubernetes 1.36.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.patterns import (
    is_dns_label,
    is_dns_name,
    is_label_value,
    is_path_segment,
    is_qualified_name,
    later,
)
from reconciler.core.problems import Violation
from reconciler.core.quantities import parse_quantity
from reconciler.core.schemas.builtin.containers import dots, has_dots
from reconciler.core.schemas.builtin.pod_specs import overhead_violations, toleration_violations
from reconciler.core.schemas.messages import bad_value, format_choices, missing

Data = dict[str, Any]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_PATH = later(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_PORTS, _LONGEST_CONTROLLER = 65535, 250
_PROTOCOLS, _LIFECYCLES = ["SCTP", "TCP", "UDP"], ["Ephemeral", "Persistent"]
_VERSIONS = {"IPv4": 4, "IPv6": 6}
_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_V4 = later(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_ADDRESS_HINT = "write it as 10.0.0.1"
_STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
_RECLAIM_POLICIES = ["Delete", "Retain"]
_LOCAL = tuple(map(ipaddress.ip_network, ("169.254.0.0/16", "224.0.0.0/24", "fe80::/10", "ff02::/16")))
_GROUP_POLICIES = ["File", "None", "ReadWriteOnceWithFSType"]


def endpoints_violations(data: Data) -> Iterator[Violation]:
    """Validate Endpoints: each subset has addresses, and ports of 1 to 65535."""
    for index, subset in enumerate(data.get("subsets") or ()):
        path: FieldPath = ("subsets", index)
        found = subset or {}
        if not found.get("addresses") and not found.get("notReadyAddresses"):
            yield missing((*path, "addresses"))
        for field in ("addresses", "notReadyAddresses"):
            for position, address in enumerate(found.get(field) or ()):
                place: FieldPath = (*path, field, position)
                yield from address_violations((address or {}).get("ip") or "", (*place, "ip"))
                yield from _target(address or {}, place, hostname_may_be_empty=True)
        for position, port in enumerate(found.get("ports") or ()):
            number = (port or {}).get("port")
            if number is not None and not 1 <= number <= _PORTS:
                yield bad_value((*path, "ports", position, "port"), f"must be 1 to {_PORTS}", "correct it")
            name = (port or {}).get("name") or ""
            place = (*path, "ports", position)
            if not name and len(found["ports"]) > 1:
                yield missing((*place, "name"))
            yield from _port_name(name, (*place, "name"))
            yield from protocol_violations(port or {}, place)


def endpoint_slice_violations(data: Data) -> Iterator[Violation]:
    """Validate an EndpointSlice: addresses of its type, and ports with names of their own."""
    for index, endpoint in enumerate(data.get("endpoints") or ()):
        for position, address in enumerate((endpoint or {}).get("addresses") or ()):
            place: FieldPath = ("endpoints", index, "addresses", position)
            if data.get("addressType") == "FQDN":
                if not is_dns_name(address or "") or "." not in address:
                    yield bad_value(place, f"{address!r} is not a DNS name of two parts", "write it as example.com")
                continue
            found = [*address_violations(address or "", place)]
            yield from found
            version = _VERSIONS.get(data.get("addressType") or "")
            if version and not found and ipaddress.ip_address(address).version != version:
                yield bad_value(place, f"{address} is not an {data['addressType']} address", "correct addressType")
        yield from _target(endpoint or {}, ("endpoints", index), hostname_may_be_empty=False)
    names: set[str] = set()
    for index, port in enumerate(data.get("ports") or ()):
        name = (port or {}).get("name") or ""
        if name in names:
            yield bad_value(("ports", index, "name"), f"the name {name!r} is used by another port", "rename it")
        names.add(name)
        yield from _port_name(name, ("ports", index, "name"))
        yield from protocol_violations(port or {}, ("ports", index))
        if (port or {}).get("protocol") == "":
            yield bad_value(("ports", index, "protocol"), "must not be empty", f"use {format_choices(_PROTOCOLS)}")


def address_violations(text: str, path: FieldPath) -> Iterator[Violation]:
    """Validate an address that traffic from other nodes reaches."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        yield bad_value(path, f"{text[:80]!r} is not an IP address", _ADDRESS_HINT)
        return
    local = any(address in block for block in _LOCAL if block.version == address.version)
    if local or address.is_unspecified or address.is_loopback:
        yield bad_value(path, f"{text} is an address of one host or link", "use an address that all nodes reach")


def _target(endpoint: Data, path: FieldPath, *, hostname_may_be_empty: bool) -> Iterator[Violation]:
    """Check the names of an endpoint: that of its host, and that of its node."""
    hostname, node = endpoint.get("hostname"), endpoint.get("nodeName")
    if hostname is not None and not is_dns_label(hostname) and (hostname or not hostname_may_be_empty):
        yield bad_value((*path, "hostname"), f"{hostname[:80]!r} is not a DNS label", "use a-z, 0-9 and -")
    if node is not None and not is_dns_name(node):
        yield bad_value((*path, "nodeName"), f"{node[:80]!r} is not the name of a node", "use a-z, 0-9, - and .")


def protocol_violations(port: Data, path: FieldPath) -> Iterator[Violation]:
    """Validate `appProtocol` of a port."""
    protocol = port.get("appProtocol")
    if protocol is not None and not is_qualified_name(protocol):
        yield bad_value((*path, "appProtocol"), f"{protocol[:80]!r} is not a name", "write http, or domain/name")


def _port_name(name: str, path: FieldPath) -> Iterator[Violation]:
    if name and not is_dns_label(name):
        yield bad_value(path, f"{name[:80]!r} is not a DNS label", "use a-z, 0-9 and -")


def node_violations(data: Data) -> Iterator[Violation]:
    """Validate a Node: its taints and the addresses of its pods."""
    spec = data.get("spec") or {}
    blocks: list[tuple[FieldPath, Any]] = [
        (("podCIDRs", index), block) for index, block in enumerate(spec.get("podCIDRs") or ())
    ]
    for place, block in blocks or [(("podCIDR",), spec.get("podCIDR") or None)]:
        if block is not None and parse_block(block) is None:
            yield bad_value(("spec", *place), f"{block[:80]!r} is not a block of addresses", "write it as 10.0.0.0/8")
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        path: FieldPath = ("spec", "taints", index)
        key, value, effect = ((taint or {}).get(field) or "" for field in ("key", "value", "effect"))
        if not is_qualified_name(key):
            yield bad_value((*path, "key"), f"{key[:80]!r} is not a valid key", "write name or domain/name")
        if value and not is_label_value(value):
            yield bad_value((*path, "value"), f"{value[:80]!r} is not a valid value", "use letters, digits, -, _ and .")
        if (key, effect) in seen:
            yield bad_value(path, "has the key and the effect of another taint", "remove one of the two")
        seen.add((key, effect))


def ingress_violations(data: Data) -> Iterator[Violation]:
    """Validate an Ingress: its class, hosts and paths."""
    name = (data.get("spec") or {}).get("ingressClassName")
    if name is not None and not is_dns_name(name):
        path: FieldPath = ("spec", "ingressClassName")
        yield bad_value(path, f"{name[:80]!r} is not the name of a class", "use a-z, 0-9, - and .")
    for index, rule in enumerate([rule or {} for rule in (data.get("spec") or {}).get("rules") or ()]):
        place: FieldPath = ("spec", "rules", index)
        if _V4.fullmatch(rule.get("host") or ""):
            yield bad_value((*place, "host"), "must be a DNS name, not an IP address", "write a name, or remove it")
        for position, one in enumerate([one or {} for one in (rule.get("http") or {}).get("paths") or ()]):
            written = one.get("path") or ""
            wrong = next((part for part in _NOT_IN_PATHS if part in written), "")
            wrong = wrong or next((end for end in ("/..", "/.") if written.endswith(end)), "")
            if wrong and one.get("pathType") in ("Exact", "Prefix"):
                yield bad_value(
                    (*place, "http", "paths", position, "path"), f"must not contain {wrong!r}", "correct it"
                )


def ingress_class_violations(data: Data) -> Iterator[Violation]:
    """Validate an IngressClass: its controller is a name with a domain, as example.com/ingress."""
    path: FieldPath = ("spec", "controller")
    controller = (data.get("spec") or {}).get("controller") or ""
    domain, slash, rest = controller.partition("/")
    if not controller:
        yield missing(path)
    elif len(controller.encode()) > _LONGEST_CONTROLLER:
        yield bad_value(path, f"must not exceed {_LONGEST_CONTROLLER} bytes", "shorten it")
    elif not (slash and is_dns_name(domain) and _PATH.fullmatch(rest)):
        yield bad_value(path, f"{controller!r} is not a name with a domain", "write it as example.com/ingress")
    name = ((data.get("spec") or {}).get("parameters") or {}).get("name") or ""
    if not is_path_segment(name):
        yield bad_value(("spec", "parameters", "name"), f"{name[:80]!r} is not the name of an object", "correct it")


def parse_block(text: str) -> Network | None:
    """Return a block of addresses, such as 10.0.0.0/8; None if the text is not one, or has host bits."""
    try:
        return ipaddress.ip_network(text) if "/" in text else None
    except ValueError:
        return None


def namespace_violations(data: Data) -> Iterator[Violation]:
    """Validate a Namespace: its finalizers."""
    for index, name in enumerate([name or "" for name in (data.get("spec") or {}).get("finalizers") or ()]):
        if not is_qualified_name(name) or ("/" not in name and name not in _STANDARD_FINALIZERS):
            yield bad_value(
                ("spec", "finalizers", index), f"{name[:80]!r} is not the name of a finalizer", "write domain/name"
            )


def storage_class_violations(data: Data) -> Iterator[Violation]:
    """Validate a StorageClass: what happens to its volumes."""
    if data.get("reclaimPolicy"):  # a server takes an empty one
        yield from _one_of(data, "reclaimPolicy", _RECLAIM_POLICIES, ())
    if "" in (data.get("parameters") or {}):
        yield bad_value(("parameters",), "has a parameter without a name", "remove it")


def _one_of(data: Data, field: str, allowed: list[str], path: FieldPath) -> Iterator[Violation]:
    value = data.get(field)
    if value is not None and value not in allowed:
        yield bad_value((*path, field), f"{value[:80]!r} is not allowed", f"use {format_choices(allowed)}")


def volume_violations(data: Data) -> Iterator[Violation]:
    """Validate a PersistentVolume: where it is, its size, and the class of attributes, which is for CSI drivers."""
    path: FieldPath = ("spec", "volumeAttributesClassName")
    spec = data.get("spec") or {}
    name = spec.get("volumeAttributesClassName")
    if spec.get("nodeAffinity") is not None and spec["nodeAffinity"].get("required") is None:
        yield missing(("spec", "nodeAffinity", "required"))
    if spec.get("local") is not None and spec.get("nodeAffinity") is None:
        yield missing(("spec", "nodeAffinity"))
    host = (spec.get("hostPath") or {}).get("path") or ""
    if has_dots(host):
        yield dots(("spec", "hostPath", "path"))
    if host.rstrip("/") == "" and spec.get("hostPath") and spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        message = "must not be Recycle for the root of a host"
        yield bad_value(("spec", "persistentVolumeReclaimPolicy"), message, "use Retain")
    yield from _storage(spec.get("capacity") or {}, ("spec", "capacity"))
    yield from _access_modes(spec, ("spec",))
    if name is not None and spec.get("csi") is None:
        yield bad_value(path, "is for volumes of CSI drivers", "remove it")
    elif name is not None and not is_dns_name(name):
        yield _bad_class(name, path)


def volume_claim_violations(claim: Data, path: FieldPath = ()) -> Iterator[Violation]:
    """Validate a PersistentVolumeClaim or a template of it: its size, its modes, and the class of attributes."""
    spec = claim.get("spec") or {}
    name = spec.get("volumeAttributesClassName")
    if name and not is_dns_name(name):
        yield _bad_class(name, (*path, "spec", "volumeAttributesClassName"))
    yield from _storage((spec.get("resources") or {}).get("requests") or {}, (*path, "spec", "resources", "requests"))
    yield from _access_modes(spec, (*path, "spec"))


def _storage(amounts: Data, path: FieldPath) -> Iterator[Violation]:
    amount = parse_quantity(amounts.get("storage") or 0)
    if "storage" in amounts and amount is not None and amount <= 0:
        yield bad_value((*path, "storage"), "must be greater than 0", "raise it")


def _access_modes(spec: Data, path: FieldPath) -> Iterator[Violation]:
    modes = spec.get("accessModes") or ()
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield bad_value((*path, "accessModes"), "must list nothing besides ReadWriteOncePod", "remove the others")


def _bad_class(name: str, path: FieldPath) -> Violation:
    return bad_value(path, f"{name[:80]!r} is not the name of a class", "use a-z, 0-9, - and .")


def runtime_class_violations(data: Data) -> Iterator[Violation]:
    """Validate a RuntimeClass: the nodes that its pods are bound to."""
    scheduling = data.get("scheduling") or {}
    for name, value in (scheduling.get("nodeSelector") or {}).items():
        path: FieldPath = ("scheduling", "nodeSelector", name)
        if not is_qualified_name(name):
            yield bad_value(path, f"{name[:80]!r} is not the key of a label", "write name or domain/name")
        elif value and not is_label_value(value):
            yield bad_value(path, f"{value[:80]!r} is not the value of a label", "use letters, digits, -, _ and .")
    yield from overhead_violations((data.get("overhead") or {}).get("podFixed") or {}, ("overhead", "podFixed"))
    yield from toleration_violations(scheduling, ("scheduling",))
    seen = []
    for index, one in enumerate(scheduling.get("tolerations") or ()):
        key = [one.get(field) or "" for field in ("key", "operator", "value", "effect")]
        if key in seen:
            yield bad_value(("scheduling", "tolerations", index), "is in the list already", "remove it")
        seen.append(key)


def role_violations(data: Data) -> Iterator[Violation]:
    """Validate a Role or ClusterRole: URLs are for ClusterRoles, in rules without resources."""
    for index, rule in enumerate(data.get("rules") or ()):
        path: FieldPath = ("rules", index, "nonResourceURLs")
        if not (rule or {}).get("nonResourceURLs"):
            continue
        if data["kind"] == "Role":
            yield bad_value(path, "is not allowed in a Role", "move the rule to a ClusterRole")
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            yield bad_value(path, "must not be set together with resources", "split the rule in two")
    selectors = data.get("aggregationRule")
    if selectors is not None and not selectors.get("clusterRoleSelectors"):
        yield missing(("aggregationRule", "clusterRoleSelectors"))


def csi_driver_violations(data: Data) -> Iterator[Violation]:
    """Validate a CSIDriver: its modes and its tokens."""
    spec = data.get("spec") or {}
    yield from _one_of(spec, "fsGroupPolicy", _GROUP_POLICIES, ("spec",))
    if spec.get("serviceAccountTokenInSecrets") is not None and not spec.get("tokenRequests"):
        yield bad_value(("spec", "serviceAccountTokenInSecrets"), "requires tokenRequests", "set tokenRequests")
    for index, mode in enumerate(spec.get("volumeLifecycleModes") or ()):
        if mode not in _LIFECYCLES:
            message = f"{str(mode)[:80]!r} is not a mode of volumes"
            yield bad_value(("spec", "volumeLifecycleModes", index), message, f"use {format_choices(_LIFECYCLES)}")


def lease_violations(data: Data) -> Iterator[Violation]:
    """Validate a Lease: its durations."""
    spec = data.get("spec") or {}
    seconds, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
    if seconds is not None and seconds <= 0:
        yield bad_value(("spec", "leaseDurationSeconds"), "must be greater than 0", "raise it")
    if transitions is not None and transitions < 0:
        yield bad_value(("spec", "leaseTransitions"), "must not be negative", "raise it")
