"""Proxies: that of a kubeconfig, or that of the environment (HTTPS_PROXY, HTTP_PROXY, NO_PROXY), as kubectl does."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit

from reconciler.errors import ConfigError


def proxy_url(text: str) -> SplitResult:
    """Parse the URL of a proxy. Raises `ConfigError`, which does not show it: it may hold a password."""
    url = urlsplit(text if "://" in text else f"http://{text}")
    if url.scheme not in ("http", "https") or not url.hostname:
        raise ConfigError("its proxy is not a URL of http or https", hint="write it as http://HOST:PORT")
    _ = url.port  # a ValueError if it is not a number
    return url


def proxy_of(server: SplitResult, environ: Mapping[str, str]) -> SplitResult | None:
    """Return the proxy that the environment names for a server; None without one."""
    name = f"{server.scheme}_proxy"
    text = environ.get(name) or environ.get(name.upper())
    if not text or _is_direct(server, environ.get("no_proxy") or environ.get("NO_PROXY") or ""):
        return None
    return proxy_url(text)


def _is_direct(server: SplitResult, exceptions: str) -> bool:
    """Return whether no proxy is used: for this machine, and for hosts, domains and networks of NO_PROXY."""
    host = (server.hostname or "").lower()
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    words = filter(None, (word.strip().lower() for word in exceptions.split(",")))
    return any(_matches(word, host, server.port, address) for word in words)


_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


def _matches(word: str, host: str, port: int | None, address: _Ip | None) -> bool:
    if word == "*":
        return True
    if address is not None and "/" in word:
        try:
            return address in ipaddress.ip_network(word, strict=False)
        except ValueError:
            return False
    name, colon, number = word.rpartition(":")
    if colon and number.isdecimal() and ":" not in name:
        if int(number) != port:
            return False
        word = name
    domain = word.removeprefix("*").removeprefix(".")
    return host == domain or (address is None and host.endswith(f".{domain}"))


def _address(host: str) -> _Ip | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
