"""`url()`: absolute URLs and absolute paths, read as Go's net/url does."""

import re
from urllib.parse import quote, unquote_plus

from reconciler.core.patterns import later
from reconciler.core.policy.cel.library.signature import Signature, function, member, seal, unseal

_SCHEME = later(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_ESCAPES = later(r"%(?![0-9A-Fa-f]{2})")
_PORT = later(r"(.*?)(?::([0-9]*))?", re.DOTALL)
_HOST = later(r"[^\s/?#\\<>\"^`{|}\[\]@:]*|\[[0-9A-Fa-f:.%]+\]")
_PATH_SAFE = "/$&+,:;=@!'()*[]~%"


def _split(text: str) -> tuple[str, str, str, str]:
    """Scheme, host with port, path and query; ValueError where `text` is no absolute URL or path."""
    wrong = ValueError(f"{text[:80]!r} is not an absolute URL or path")
    if not text or any(ord(sign) < 0x20 or ord(sign) == 0x7F for sign in text):  # noqa: PLR2004 - control characters
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
        host, rest = authority.rpartition("@")[2], slash + path
        name, port = _host(host)
        if not _HOST.fullmatch(name) or (":" in host.rpartition("]")[2] and not (port.isdigit() or port == "")):
            raise wrong
    if _ESCAPES.search(rest) or " " in host:
        raise wrong
    return scheme, host, rest, query


def _host(host: str) -> tuple[str, str]:
    match = _PORT.fullmatch(host)
    return (match[1], match[2] or "") if match else (host, "")


def _make(text: str) -> bytes:
    _split(text)
    return seal("url", text)


def _is_url(text: str) -> bool:
    try:
        _split(text)
    except ValueError:
        return False
    return True


def _parts(sealed: bytes) -> tuple[str, str, str, str]:
    return _split(unseal("url", sealed))


def _query(sealed: bytes) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in _parts(sealed)[3].split("&"):
        if pair and ";" not in pair and not _ESCAPES.search(pair):
            key, _, value = pair.partition("=")
            found.setdefault(unquote_plus(key), []).append(unquote_plus(value))
    return found


def problems(text: str) -> list[str]:
    """Say what is wrong with a `uri` format's value."""
    return [] if _is_url(text) else ["is not an absolute URI"]


SIGNATURES: tuple[Signature, ...] = (
    function("url", "string", "url", _make),
    function("isURL", "string", "bool", _is_url),
    member("getScheme", "url", "string", lambda one: _parts(one)[0]),
    member("getHost", "url", "string", lambda one: _parts(one)[1]),
    member("getHostname", "url", "string", lambda one: _host(_parts(one)[1])[0].strip("[]")),
    member("getPort", "url", "string", lambda one: _host(_parts(one)[1])[1]),
    member("getEscapedPath", "url", "string", lambda one: quote(_parts(one)[2], safe=_PATH_SAFE)),
    member("getQuery", "url", "map<string,list<string>>", _query),
)
