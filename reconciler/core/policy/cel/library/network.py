"""`ip()` and `cidr()`.

Their run-time bytes are the canonical text alone, so that the engine's own `string(bytes)` prints them.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from reconciler.core.policy.cel.library.signature import Signature, function, member

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _address(text: str) -> Address:
    try:
        found = ip_address(text)
    except ValueError:
        raise ValueError(f"{text[:80]!r} is not an IP address") from None
    if isinstance(found, IPv6Address) and (found.scope_id or found.ipv4_mapped):
        raise ValueError(f"{text[:80]!r}: zones and IPv4-mapped IPv6 addresses are not allowed")
    return found


def _prefix(text: str) -> tuple[Address, int]:
    """Read `address/bits`; the address keeps its host bits."""
    address, slash, bits = text.partition("/")
    found = _address(address)
    plain = bits.isascii() and bits.isdigit() and (bits == "0" or not bits.startswith("0"))
    if not slash or not plain or int(bits) > found.max_prefixlen:
        raise ValueError(f"{text[:80]!r} is not a network such as 10.0.0.0/8")
    return found, int(bits)


def _network(sealed: bytes) -> Network:
    address, bits = _prefix(bytes(sealed).decode())
    return ip_network((address, bits), strict=False)


def _ip(text: str) -> bytes:
    return str(_address(text)).encode()


def _cidr(text: str) -> bytes:
    address, bits = _prefix(text)
    return f"{address}/{bits}".encode()


def _holds(text: str, parse: object) -> bool:
    try:
        parse(text)  # type: ignore[operator]
    except ValueError:
        return False
    return True


def _of(sealed: bytes) -> Address:
    return _address(bytes(sealed).decode())


def _global_unicast(address: Address) -> bool:
    """As Go's netip: unicast of any scope but loopback, link-local, unspecified and broadcast."""
    if address == IPv4Address("255.255.255.255") or address.is_unspecified:
        return False
    return not (address.is_loopback or address.is_multicast or address.is_link_local)


def _link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in IPv4Network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02  # noqa: PLR2004 - RFC 4291, 2.7


def _contains_ip(sealed: bytes, address: Address) -> bool:
    network = _network(sealed)
    return network.version == address.version and address in network


def _contains_cidr(sealed: bytes, other: Network) -> bool:
    network = _network(sealed)
    return network.version == other.version and network.prefixlen <= other.prefixlen and network.overlaps(other)


SIGNATURES: tuple[Signature, ...] = (
    function("ip", "string", "ip", _ip),
    function("isIP", "string", "bool", lambda text: _holds(text, _address)),
    function("ip.isCanonical", "string", "bool", lambda text: str(_address(text)) == text),
    function("string", "ip", "string"),
    function("string", "cidr", "string"),
    member("family", "ip", "int", lambda one: _of(one).version),
    member("isUnspecified", "ip", "bool", lambda one: _of(one).is_unspecified),
    member("isLoopback", "ip", "bool", lambda one: _of(one).is_loopback),
    member("isLinkLocalMulticast", "ip", "bool", lambda one: _link_local_multicast(_of(one))),
    member("isLinkLocalUnicast", "ip", "bool", lambda one: _of(one).is_link_local),
    member("isGlobalUnicast", "ip", "bool", lambda one: _global_unicast(_of(one))),
    function("cidr", "string", "cidr", _cidr),
    function("isCIDR", "string", "bool", lambda text: _holds(text, _prefix)),
    member("containsIP", "cidr string", "bool", lambda one, text: _contains_ip(one, _address(text))),
    member("containsIP", "cidr ip", "bool", lambda one, other: _contains_ip(one, _of(other))),
    member("containsCIDR", "cidr string", "bool", lambda one, text: _contains_cidr(one, _network(_cidr(text)))),
    member("containsCIDR", "cidr cidr", "bool", lambda one, other: _contains_cidr(one, _network(other))),
    member("ip", "cidr", "ip", lambda one: bytes(one).partition(b"/")[0]),
    member("prefixLength", "cidr", "int", lambda one: _network(one).prefixlen),
    member("masked", "cidr", "cidr", lambda one: str(_network(one)).encode()),
)
