"""`url()`, read as Go's net/url does, `ip()` and `cidr()`.

An address is a value of the standard library; a URL is its text.
"""

import re
from collections.abc import Callable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import quote, unquote, unquote_plus

from reconciler.kube.cel.library.signature import Signature, function, member
from reconciler.kube.cel.values import CelError, Opaque
from reconciler.kube.patterns import later

_SCHEME = later(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_ESCAPES = later(r"%(?![0-9A-Fa-f]{2})")  # a sign that begins no escape
_PORT = later(r"(.*?)(?::([0-9]*))?", re.DOTALL)
_USER = later(r"(?:[\w.~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*", re.ASCII)
_HOST = later(r"(?:[^\x00-\x20/?#\\^`{|}\[\]@:%\x7f]|%25|%[89A-Fa-f][0-9A-Fa-f])*")
_MEANT = r"%(?:2[0-24-9A-Ea-e]|3[0-9A-Ea-e]|4[1-9A-Fa-f]|5[0-9ABDFabdf]|6[1-9A-Fa-f]|7[0-9AaEe])"
_LITERAL = later(rf"\[([0-9A-Fa-f:.]+)(?:%25((?:[\w.~!$&'()*+,;=:<>\"-]|{_MEANT})+))?\]", re.ASCII)
_PATH_SAFE = "/$&+,:;=@!'()*[]~%"


def _holds(text: str, parse: Callable[[str], object]) -> bool:
    try:
        parse(text)
    except CelError:
        return False
    return True


def _split(text: str) -> tuple[str, str, str, str]:
    """Return scheme, host with port, path and query; raises CelError if `text` is not an absolute URL or path."""
    wrong = CelError(f"{text[:80]!r} is not an absolute URL or path")
    if not text or any(ord(character) < 0x20 or ord(character) == 0x7F for character in text):  # noqa: PLR2004 - control characters
        raise wrong
    match = _SCHEME.fullmatch(text)
    scheme, rest = (match[1].lower(), match[2]) if match else ("", text)
    rest, _, _fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if not scheme:
            raise wrong
        return scheme, "", "", query  # opaque, as in mailto:someone
    host = ""
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        user, _, written = authority.rpartition("@")
        if not _USER.fullmatch(user):
            raise wrong
        host, rest = _host(written, wrong), slash + path
    if _ESCAPES.search(rest):
        raise wrong
    return scheme, host, rest, query


def _host(written: str, wrong: CelError) -> str:
    """Return a host with its port as it is meant: an address in brackets may have a zone, after `%25`."""
    name, port = _split_host(written)
    if ":" in written.rpartition("]")[2] and port and not port.isdigit():
        raise wrong
    literal = _LITERAL.fullmatch(name)
    if literal is None and not _HOST.fullmatch(name):
        raise wrong
    if literal is not None:
        try:
            IPv6Address(literal[1])
        except ValueError:
            raise wrong from None
    return unquote(name) + written[len(name) :]


def _split_host(host: str) -> tuple[str, str]:
    match = _PORT.fullmatch(host)
    return (match[1], match[2] or "") if match else (host, "")


def _make(text: str) -> Opaque:
    _split(text)
    return Opaque("url", text)


def _parts(url: Opaque) -> tuple[str, str, str, str]:
    return _split(url.value)


def _query(url: Opaque) -> dict[str, list[str]]:
    query: dict[str, list[str]] = {}
    for pair in _parts(url)[3].split("&"):
        if pair and ";" not in pair and not _ESCAPES.search(pair):
            key, _, value = pair.partition("=")
            query.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return query


def uri_errors(text: str) -> list[str]:
    """Return the mistake in a value of format `uri`."""
    return [] if _holds(text, _split) else ["is not an absolute URI"]


_URL: tuple[Signature, ...] = (
    function("url", "string", "url", _make),
    function("isURL", "string", "bool", lambda text: _holds(text, _split)),
    member("getScheme", "url", "string", lambda one: _parts(one)[0]),
    member("getHost", "url", "string", lambda one: _parts(one)[1]),
    member("getHostname", "url", "string", lambda one: _split_host(_parts(one)[1])[0].strip("[]")),
    member("getPort", "url", "string", lambda one: _split_host(_parts(one)[1])[1]),
    member("getEscapedPath", "url", "string", lambda one: quote(_parts(one)[2], safe=_PATH_SAFE)),
    member("getQuery", "url", "map<string,list<string>>", _query),
)


# --- addresses --------------------------------------------------------------------------------------------------------

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


def _address(text: str) -> Address:
    try:
        found = ip_address(text)
    except ValueError:
        raise CelError(f"{text[:80]!r} is not an IP address") from None
    if isinstance(found, IPv6Address) and (found.scope_id or found.ipv4_mapped):
        raise CelError(f"{text[:80]!r}: zones and IPv4-mapped IPv6 addresses are not allowed")
    return found


def _prefix(text: str) -> tuple[Address, int]:
    """Read `address/bits`; the address keeps its host bits."""
    address, slash, bits = text.partition("/")
    found = _address(address)
    plain = bits.isascii() and bits.isdigit() and (bits == "0" or not bits.startswith("0"))
    if not slash or not plain or int(bits) > found.max_prefixlen:
        raise CelError(f"{text[:80]!r} is not a network such as 10.0.0.0/8")
    return found, int(bits)


def _ip(text: str) -> Opaque:
    return Opaque("ip", _address(text))


def _cidr(text: str) -> Opaque:
    return Opaque("cidr", _prefix(text))


def _network(one: Opaque) -> Network:
    return ip_network(one.value, strict=False)


def _global_unicast(address: Address) -> bool:
    """As Go's netip: unicast of any scope but loopback, link-local, unspecified and broadcast."""
    if address == IPv4Address("255.255.255.255") or address.is_unspecified:
        return False
    return not (address.is_loopback or address.is_multicast or address.is_link_local)


def _link_local_multicast(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address in IPv4Network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02  # noqa: PLR2004 - RFC 4291, 2.7


def _contains_ip(one: Opaque, address: Address) -> bool:
    network = _network(one)
    return network.version == address.version and address in network


def _contains_cidr(one: Opaque, other: Opaque) -> bool:
    network, inner = _network(one), _network(other)
    return network.version == inner.version and network.prefixlen <= inner.prefixlen and network.overlaps(inner)


def _masked(one: Opaque) -> Opaque:
    network = _network(one)
    return Opaque("cidr", (network.network_address, network.prefixlen))


SIGNATURES: tuple[Signature, ...] = (
    *_URL,
    function("ip", "string", "ip", _ip),
    function("isIP", "string", "bool", lambda text: _holds(text, _address)),
    function("ip.isCanonical", "string", "bool", lambda text: str(_address(text)) == text),
    function("string", "ip", "string", lambda one: str(one.value)),
    function("string", "cidr", "string", lambda one: f"{one.value[0]}/{one.value[1]}"),
    member("family", "ip", "int", lambda one: one.value.version),
    member("isUnspecified", "ip", "bool", lambda one: one.value.is_unspecified),
    member("isLoopback", "ip", "bool", lambda one: one.value.is_loopback),
    member("isLinkLocalMulticast", "ip", "bool", lambda one: _link_local_multicast(one.value)),
    member("isLinkLocalUnicast", "ip", "bool", lambda one: one.value.is_link_local),
    member("isGlobalUnicast", "ip", "bool", lambda one: _global_unicast(one.value)),
    function("cidr", "string", "cidr", _cidr),
    function("isCIDR", "string", "bool", lambda text: _holds(text, _prefix)),
    member("containsIP", "cidr string", "bool", lambda one, text: _contains_ip(one, _address(text))),
    member("containsIP", "cidr ip", "bool", lambda one, other: _contains_ip(one, other.value)),
    member("containsCIDR", "cidr string", "bool", lambda one, text: _contains_cidr(one, _cidr(text))),
    member("containsCIDR", "cidr cidr", "bool", _contains_cidr),
    member("ip", "cidr", "ip", lambda one: Opaque("ip", one.value[0])),
    member("prefixLength", "cidr", "int", lambda one: one.value[1]),
    member("masked", "cidr", "cidr", _masked),
)
