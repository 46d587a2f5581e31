"""Webhooks of GitHub, GitLab and Gitea: whether a request is genuine, and which reference it is about.

A webhook is only a hint to look at the repository now: nothing of its content is used but the name of a reference.
"""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct

from reconciler.core.values import NOT_JSON

MAX_BYTES = 1 << 20
_TOLERANCE_SECONDS = 300.0


class Provider(StrEnum):
    """What sends webhooks. Forgejo signs as Gitea does."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    UNKNOWN = "unknown"


class Hint(Struct, frozen=True, kw_only=True):
    """What a request says. `is_genuine`: signed with our token. `ref`: the pushed reference; empty: not known."""

    provider: Provider
    is_genuine: bool
    ref: str = ""
    delivery: str = ""  # its id, where the signature covers it or nothing better exists


class _Payload(Struct):
    ref: str = ""


def provider_of(headers: Mapping[str, str]) -> Provider:
    """Tell the sender by its headers, whose names are in lower case. Gitea also sends those of GitHub."""
    if "x-gitea-signature" in headers or "x-forgejo-signature" in headers:
        return Provider.GITEA
    if "x-hub-signature-256" in headers:
        return Provider.GITHUB
    if "x-gitlab-token" in headers or ("webhook-signature" in headers and "webhook-id" in headers):
        return Provider.GITLAB
    return Provider.UNKNOWN


def check(headers: Mapping[str, str], body: bytes, token: bytes, now: float) -> Hint:
    """Check the signature of a request; an empty token signs nothing."""
    provider = provider_of(headers)
    is_genuine = bool(token) and _CHECKS[provider](headers, body, token, now)
    delivery = next((headers[name] for name in _DELIVERY if headers.get(name)), "")
    return Hint(provider=provider, is_genuine=is_genuine, ref=_ref(body) if is_genuine else "", delivery=delivery[:100])


_DELIVERY = ("webhook-id", "x-github-delivery", "x-gitea-delivery", "x-gitlab-event-uuid")


def _github(headers: Mapping[str, str], body: bytes, token: bytes, _: float) -> bool:
    return _same(headers["x-hub-signature-256"], "sha256=" + _hex(token, body))


def _gitea(headers: Mapping[str, str], body: bytes, token: bytes, _: float) -> bool:
    sent = headers.get("x-gitea-signature") or headers.get("x-forgejo-signature", "")
    return _same(sent, _hex(token, body))


def _gitlab(headers: Mapping[str, str], body: bytes, token: bytes, now: float) -> bool:
    """Check the signature of Standard Webhooks if there is one, else the token that GitLab sends as it is."""
    if "webhook-signature" not in headers:
        return _same(headers["x-gitlab-token"], token.decode("utf-8", "surrogateescape"))
    identity, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isascii() or not sent_at.isdigit() or abs(now - int(sent_at[:12])) > _TOLERANCE_SECONDS:
        return False
    signed = f"{identity}.{sent_at}.".encode("utf-8", "surrogateescape") + body
    expected = "v1," + base64.b64encode(hmac.new(_standard_key(token), signed, hashlib.sha256).digest()).decode()
    return any(_same(sent, expected) for sent in headers["webhook-signature"].split()[:8])


def _standard_key(token: bytes) -> bytes:
    """Return the key of a token of the form `whsec_<base64>`, or the token itself."""
    if not token.startswith(b"whsec_"):
        return token
    try:
        return base64.b64decode(token.removeprefix(b"whsec_"), validate=True)
    except ValueError:
        return token


def _hex(token: bytes, body: bytes) -> str:
    return hmac.new(token, body, hashlib.sha256).hexdigest()


def _same(sent: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(*(text.encode("utf-8", "surrogateescape") for text in (sent, expected)))


def _ref(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Payload).ref
    except NOT_JSON:
        return ""


_CHECKS = {
    Provider.GITHUB: _github,
    Provider.GITLAB: _gitlab,
    Provider.GITEA: _gitea,
    Provider.UNKNOWN: lambda *_: False,
}
