"""Rules between the fields of objects without pods: keys, addresses, Services, priorities, claims on devices.

Sources: pkg/apis/{core,networking,scheduling,resource}/validation/validation.go of Kubernetes 1.36.
"""

import base64
import ipaddress
import json
from collections.abc import Iterator
from typing import Any

from reconciler.core.objects import FieldPath
from reconciler.core.patterns import is_dns_label, is_dns_name, is_qualified_name, later
from reconciler.core.problems import Violation
from reconciler.core.schemas.builtin.cluster import Network, address_violations, parse_block, protocol_violations
from reconciler.core.schemas.builtin.pods import duplicate
from reconciler.core.schemas.messages import bad_value, format_choices, missing
from reconciler.core.schemas.metadata import label_violations

Data = dict[str, Any]

_KEY = later(r"[-._a-zA-Z0-9]{1,253}")
_OF_BALANCERS = ("allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerSourceRanges")
_DISTRIBUTIONS = ["PreferClose", "PreferSameZone", "PreferSameNode"]
_HIGHEST_PRIORITY = 1_000_000_000
_SYSTEM_PRIORITIES = ("system-cluster-critical", "system-node-critical")
_KEYS_OF_SECRETS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
}
_ACCOUNT = "kubernetes.io/service-account.name"


def config_map_violations(data: Data) -> Iterator[Violation]:
    """Validate a ConfigMap: its keys are names of files."""
    binary = data.get("binaryData") or {}
    for field in ("data", "binaryData"):
        for key in data.get(field) or ():
            yield from _key(key, (field, key))
            if field == "binaryData":
                yield from base64_violations(binary[key], (field, key))
            if field == "data" and key in binary:
                yield bad_value((field, key), "is in binaryData, too", "remove one of the two")


def secret_violations(data: Data) -> Iterator[Violation]:
    """Validate a Secret: its keys, and those that its type needs."""
    values = {**(data.get("data") or {}), **(data.get("stringData") or {})}
    for field in ("data", "stringData"):
        for key in data.get(field) or ():
            yield from _key(key, (field, key))
    for key, value in (data.get("data") or {}).items():
        yield from base64_violations(value, ("data", key))
    kind = data.get("type") or ""
    for key in _KEYS_OF_SECRETS.get(kind, ()):
        if key not in values:
            yield missing(("data", key))
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & {*values}:
        yield missing(("data", "username"))
    if kind == "kubernetes.io/service-account-token":
        annotations = (data.get("metadata") or {}).get("annotations") or {}
        if not annotations.get(_ACCOUNT):
            yield missing(("metadata", "annotations", _ACCOUNT))
    if kind == "kubernetes.io/dockerconfigjson":
        yield from _registry(data)


def _registry(data: Data) -> Iterator[Violation]:
    """Check that the credentials of a registry are JSON; `stringData` counts where both are written."""
    written = (data.get("stringData") or {}).get(".dockerconfigjson")
    encoded = (data.get("data") or {}).get(".dockerconfigjson")
    if written is not None:
        if not _is_json(written):
            yield bad_value(("stringData", ".dockerconfigjson"), "is not JSON", "correct it")
    elif encoded and not _is_encoded_json(encoded):
        yield bad_value(("data", ".dockerconfigjson"), "is not JSON in base64", "encode the value again")


def base64_violations(value: str | None, path: FieldPath) -> Iterator[Violation]:
    """Check that nothing is missing at the end; the schema knows the characters."""
    if value and len(value.replace("\r", "").replace("\n", "")) % 4:
        yield bad_value(path, "is not base64: its end is missing", "encode the value again")


def _key(key: str, path: FieldPath) -> Iterator[Violation]:
    if not _KEY.fullmatch(key) or key == "." or key.startswith(".."):
        yield bad_value(path, "is not a valid key", "use A-Z, a-z, 0-9, -, _ and ., and do not begin with '..'")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _is_encoded_json(text: str) -> bool:
    try:
        return _is_json(base64.b64decode(text).decode())
    except ValueError:
        return True  # reported as not base64


def priority_class_violations(data: Data) -> Iterator[Violation]:
    """Validate a PriorityClass: the highest values and the prefix `system-` are those of Kubernetes."""
    name = (data.get("metadata") or {}).get("name") or ""
    if name.startswith("system-"):
        if name not in _SYSTEM_PRIORITIES:
            yield bad_value(("metadata", "name"), "must not begin with system-", "rename it")
    elif (data.get("value") or 0) > _HIGHEST_PRIORITY:
        yield bad_value(("value",), f"must be at most {_HIGHEST_PRIORITY}", "lower it")


def network_policy_violations(data: Data) -> Iterator[Violation]:
    """Validate a NetworkPolicy: blocks of addresses, ranges of ports, and peers of one kind."""
    spec = data.get("spec") or {}
    types = spec.get("policyTypes") or ()
    if len(types) > 2:  # noqa: PLR2004 - Ingress and Egress
        yield bad_value(("spec", "policyTypes"), "must have at most two", "remove the repeated one")
    for field, side in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(field) or ()):
            path: FieldPath = ("spec", field, index)
            for position, peer in enumerate((rule or {}).get(side) or ()):
                yield from _peer(peer or {}, (*path, side, position))
            for position, port in enumerate((rule or {}).get("ports") or ()):
                yield from _port(port or {}, (*path, "ports", position))


def _peer(peer: Data, path: FieldPath) -> Iterator[Violation]:
    block = peer.get("ipBlock")
    if block is None:
        return
    if peer.get("podSelector") is not None or peer.get("namespaceSelector") is not None:
        yield bad_value(path, "must not have an ipBlock together with selectors", "split it into two peers")
    place: FieldPath = (*path, "ipBlock")
    network = parse_block(block.get("cidr") or "")
    if network is None:
        yield bad_value((*place, "cidr"), "is not a block of addresses", "write it as 10.0.0.0/8, without host bits")
        return
    for index, written in enumerate(block.get("except") or ()):
        inner = parse_block(written or "")
        if inner is None or not _is_inside(inner, network):
            yield bad_value((*place, "except", index), f"is not a block within {network}", "correct it")


def _is_inside(inner: Network, outer: Network) -> bool:
    if isinstance(inner, ipaddress.IPv4Network):
        return isinstance(outer, ipaddress.IPv4Network) and inner != outer and inner.subnet_of(outer)
    return isinstance(outer, ipaddress.IPv6Network) and inner != outer and inner.subnet_of(outer)


def _port(port: Data, path: FieldPath) -> Iterator[Violation]:
    end, start = port.get("endPort"), port.get("port")
    if end is None:
        return
    if type(start) is not int:
        yield bad_value((*path, "endPort"), "requires port to be a number", "set port, or remove it")
    elif end < start:
        yield bad_value((*path, "endPort"), f"must not be less than port ({start})", "raise it")


def service_violations(data: Data) -> Iterator[Violation]:
    """Validate a Service: its ports, and what its type allows."""
    spec = data["spec"] or {}
    yield from _of_type(spec, spec.get("type") or "ClusterIP")
    yield from _traffic(spec)
    ports = spec.get("ports") or ()
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        yield missing(("spec", "ports"))
    if spec.get("type") == "ExternalName":
        yield from _external_name(spec)
    names: set[str] = set()
    node_ports: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        name, path = port.get("name"), ("spec", "ports", index, "name")
        if len(ports) > 1 and not name:
            yield missing(path, "add it; a Service with several ports needs a name for each")
        elif name and name in names:
            yield duplicate(path, f"the name {name} is used by another port", "rename it")
        names.add(name)
        yield from protocol_violations(port, ("spec", "ports", index))
        node_port = (port.get("protocol") or "TCP", port.get("nodePort") or 0)
        if node_port[1] and node_port in node_ports:
            place = ("spec", "ports", index, "nodePort")
            yield bad_value(place, f"{node_port[1]} is used by another port", "choose another, or remove it")
        node_ports.add(node_port)
        if port.get("nodePort") and (spec.get("type") or "ClusterIP") == "ClusterIP":
            place = ("spec", "ports", index, "nodePort")
            yield bad_value(place, "is not allowed for the type ClusterIP", "use the type NodePort, or remove it")


def _external_name(spec: Data) -> Iterator[Violation]:
    name = (spec.get("externalName") or "").removesuffix(".")
    if not name:
        yield missing(("spec", "externalName"))
    elif not is_dns_name(name):
        yield bad_value(("spec", "externalName"), "is not a DNS name", "use a-z, 0-9, - and .")
    if spec.get("clusterIP"):
        yield bad_value(("spec", "clusterIP"), "is not allowed for the type ExternalName", "remove it")


def _of_type(spec: Data, kind: str) -> Iterator[Violation]:
    """Check the fields that only Services of some types have."""
    for field in _OF_BALANCERS if kind != "LoadBalancer" else ():
        if spec.get(field) not in (None, []):
            yield bad_value(("spec", field), "is for the type LoadBalancer", "remove it")
    balancer = spec.get("loadBalancerClass")
    if kind == "LoadBalancer" and balancer is not None and not is_qualified_name(balancer):
        yield bad_value(("spec", "loadBalancerClass"), "is not a qualified name", "write it as example.com/name")
    is_checked = kind == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
    if spec.get("healthCheckNodePort") and not is_checked:
        message = "is for the type LoadBalancer with externalTrafficPolicy: Local"
        yield bad_value(("spec", "healthCheckNodePort"), message, "remove it")
    if kind in ("LoadBalancer", "NodePort") and spec.get("clusterIP") == "None":
        yield bad_value(("spec", "clusterIP"), f"must not be None for the type {kind}", "remove it")


def _traffic(spec: Data) -> Iterator[Violation]:
    kind, distribution = spec.get("type") or "ClusterIP", spec.get("trafficDistribution")
    ranges = spec.get("loadBalancerSourceRanges") or ()
    for index, block in enumerate(ranges):
        if parse_block((block or "").strip()) is None:
            path: FieldPath = ("spec", "loadBalancerSourceRanges", index)
            yield bad_value(path, f"{block!r} is not a block of addresses", "write it as 10.0.0.0/8")
    outside = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if spec.get("externalTrafficPolicy") and not outside:
        yield bad_value(("spec", "externalTrafficPolicy"), "is for Services that are reached from outside", "remove it")
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from address_violations(address or "", ("spec", "externalIPs", index))
    addresses = spec.get("clusterIPs") or ()
    if addresses and addresses[0] != (spec.get("clusterIP") or ""):
        yield bad_value(("spec", "clusterIPs"), "must begin with clusterIP", "set clusterIP to the first address")
    if len(addresses) > 1 and "None" in addresses:
        yield bad_value(("spec", "clusterIPs"), "must list nothing besides None", "remove the others")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        hint = f"use {format_choices(_DISTRIBUTIONS)}"
        yield bad_value(("spec", "trafficDistribution"), f"{distribution[:80]!r} is not allowed", hint)


def claim_violations(data: Data) -> Iterator[Violation]:
    """Validate a ResourceClaim."""
    yield from _devices((data.get("spec") or {}).get("devices") or {}, ("spec", "devices"))


def claim_template_violations(data: Data) -> Iterator[Violation]:
    """Validate a ResourceClaimTemplate."""
    metadata = (data.get("spec") or {}).get("metadata") or {}
    yield from label_violations(metadata, ("spec", "metadata"))
    for field, value in metadata.items():
        if value not in (None, "", 0) and field not in ("annotations", "labels"):
            hint = "keep labels and annotations only"
            yield bad_value(("spec", "metadata", field), "is not allowed in a template", hint)
    inner = (data.get("spec") or {}).get("spec") or {}
    yield from _devices(inner.get("devices") or {}, ("spec", "spec", "devices"))


def device_class_violations(data: Data) -> Iterator[Violation]:
    """Validate a DeviceClass."""
    spec = data.get("spec") or {}
    yield from _selectors(spec.get("selectors") or (), ("spec", "selectors"))
    name = spec.get("extendedResourceName")
    if name is not None and ("/" not in name or "kubernetes.io/" in name or not is_qualified_name(name)):
        yield bad_value(
            ("spec", "extendedResourceName"), "is not the name of an extended resource", "write domain/name"
        )


def _devices(devices: Data, path: FieldPath) -> Iterator[Violation]:
    names: set[str] = set()
    for index, request in enumerate(devices.get("requests") or ()):
        place: FieldPath = (*path, "requests", index)
        yield from _request_name(request.get("name") or "", names, place)
        names.add(request.get("name") or "")
        exact, alternatives = request.get("exactly"), request.get("firstAvailable")
        if (exact is None) is not bool(alternatives) and "deviceClassName" not in request:
            yield bad_value(place, "must have either exactly or firstAvailable", "set one of the two")
        if exact is not None:
            yield from _exact(exact, (*place, "exactly"))
        inner: set[str] = set()
        for position, alternative in enumerate(alternatives or ()):
            below: FieldPath = (*place, "firstAvailable", position)
            yield from _request_name(alternative.get("name") or "", inner, below)
            inner.add(alternative.get("name") or "")
            yield from _exact(alternative, below)
        names |= {f"{request.get('name')}/{name}" for name in inner}
    yield from _about_requests(devices, path, names)


def _about_requests(devices: Data, path: FieldPath, names: set[str]) -> Iterator[Violation]:
    for field in ("constraints", "config"):
        for index, one in enumerate([one or {} for one in devices.get(field) or ()]):
            place: FieldPath = (*path, field, index)
            for position, name in enumerate(one.get("requests") or ()):
                if name not in names:
                    yield bad_value(
                        (*place, "requests", position), f"request {name} not found in the claim", "correct it"
                    )
            if field == "constraints" and not (one.get("matchAttribute") or one.get("distinctAttribute")):
                yield missing((*place, "matchAttribute"))
            if field == "config" and one.get("opaque") is None:
                yield missing((*place, "opaque"))


def _request_name(name: str, seen: set[str], path: FieldPath) -> Iterator[Violation]:
    if not is_dns_label(name):
        yield bad_value((*path, "name"), f"{name!r} is not a DNS label", "use a-z, 0-9 and -")
    elif name in seen:
        yield bad_value((*path, "name"), f"the name {name} is used by another request", "rename one of the two")


def _exact(request: Data, path: FieldPath) -> Iterator[Violation]:
    name, mode, number = request.get("deviceClassName"), request.get("allocationMode"), request.get("count")
    if name and not is_dns_name(name):
        yield bad_value((*path, "deviceClassName"), f"{name!r} is not the name of a device class", "correct it")
    if mode == "All" and number:
        yield bad_value((*path, "count"), "must not be set together with allocationMode: All", "remove one of the two")
    elif number is not None and number < 0:
        yield bad_value((*path, "count"), "must be greater than 0", "raise it")
    yield from _selectors(request.get("selectors") or (), (*path, "selectors"))


def _selectors(selectors: Any, path: FieldPath) -> Iterator[Violation]:
    for index, selector in enumerate(selectors):
        cel = (selector or {}).get("cel")
        if cel:
            yield from _selector(cel.get("expression") or "", (*path, index, "cel", "expression"))
        else:
            yield missing((*path, index, "cel"))


def _selector(expression: str, path: FieldPath) -> Iterator[Violation]:
    """Check the expression that selects devices (k8s.io/dynamic-resource-allocation/cel)."""
    from reconciler.core.cel import Checked, Declarations, check, type_of  # noqa: PLC0415 - few objects have one

    fields = {name: type_of(kind) for name, kind in _DEVICE.items()}
    declared = Declarations(variables={"device": type_of("DRADevice")}, objects={"DRADevice": fields})
    found = check(expression, declared)
    if not isinstance(found, Checked):
        for error in found:
            yield bad_value(path, f"{error.message} (column {error.column})", "the only variable is `device`")
    elif found.kind.name not in ("bool", "dyn"):
        yield bad_value(path, f"must evaluate to bool, not {found.kind}", "compare it with something")


_DEVICE = {
    "driver": "string",
    "attributes": "map<string,map<string,dyn>>",
    "capacity": "map<string,map<string,quantity>>",
    "allowMultipleAllocations": "bool",
}
