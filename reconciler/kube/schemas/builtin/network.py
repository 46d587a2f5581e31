"""Rules of Services, Ingresses and NetworkPolicies.

Sources: pkg/apis/{core,networking}/validation/validation.go of Kubernetes 1.37.
"""

import ipaddress
from collections.abc import Iterator
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import is_dns_name, is_qualified_name, later
from reconciler.kube.problems import Violation
from reconciler.kube.schemas.builtin.pods import duplicate
from reconciler.kube.schemas.messages import bad_value, format_choices, missing

Data = dict[str, Any]
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NOT_IN_PATHS = ("//", "/./", "/../", "%2f", "%2F")
_V4 = later(r"[0-9]{1,3}(\.[0-9]{1,3}){3}")
_LOCAL = tuple(map(ipaddress.ip_network, ("169.254.0.0/16", "224.0.0.0/24", "fe80::/10", "ff02::/16")))
_OF_BALANCERS = ("allocateLoadBalancerNodePorts", "loadBalancerClass", "loadBalancerSourceRanges")
_DISTRIBUTIONS = ["PreferClose", "PreferSameZone", "PreferSameNode"]


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
        yield from _protocol(port, ("spec", "ports", index))
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
        if _parse_block((block or "").strip()) is None:
            path: FieldPath = ("spec", "loadBalancerSourceRanges", index)
            yield bad_value(path, f"{block!r} is not a block of addresses", "write it as 10.0.0.0/8")
    outside = kind in ("LoadBalancer", "NodePort") or (kind == "ClusterIP" and spec.get("externalIPs"))
    if spec.get("externalTrafficPolicy") and not outside:
        yield bad_value(("spec", "externalTrafficPolicy"), "is for Services that are reached from outside", "remove it")
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from _address(address or "", ("spec", "externalIPs", index))
    addresses = spec.get("clusterIPs") or ()
    if addresses and addresses[0] != (spec.get("clusterIP") or ""):
        yield bad_value(("spec", "clusterIPs"), "must begin with clusterIP", "set clusterIP to the first address")
    if len(addresses) > 1 and "None" in addresses:
        yield bad_value(("spec", "clusterIPs"), "must list nothing besides None", "remove the others")
    if distribution is not None and distribution not in _DISTRIBUTIONS:
        hint = f"use {format_choices(_DISTRIBUTIONS)}"
        yield bad_value(("spec", "trafficDistribution"), f"{distribution[:80]!r} is not allowed", hint)


def _address(text: str, path: FieldPath) -> Iterator[Violation]:
    """Validate an address that traffic from other nodes reaches."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        yield bad_value(path, f"{text[:80]!r} is not an IP address", "write it as 10.0.0.1")
        return
    local = any(address in block for block in _LOCAL if block.version == address.version)
    if local or address.is_unspecified or address.is_loopback:
        yield bad_value(path, f"{text} is an address of one host or link", "use an address that all nodes reach")


def _parse_block(text: str) -> Network | None:
    """Return a block of addresses, such as 10.0.0.0/8; None if the text is not one, or has host bits."""
    try:
        return ipaddress.ip_network(text) if "/" in text else None
    except ValueError:
        return None


def _protocol(port: Data, path: FieldPath) -> Iterator[Violation]:
    """Validate `appProtocol` of a port."""
    protocol = port.get("appProtocol")
    if protocol is not None and not is_qualified_name(protocol):
        yield bad_value((*path, "appProtocol"), f"{protocol[:80]!r} is not a name", "write http, or domain/name")


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
    network = _parse_block(block.get("cidr") or "")
    if network is None:
        yield bad_value((*place, "cidr"), "is not a block of addresses", "write it as 10.0.0.0/8, without host bits")
        return
    for index, written in enumerate(block.get("except") or ()):
        inner = _parse_block(written or "")
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
