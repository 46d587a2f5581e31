"""Errors from what an API server answers: the `Status` object of a refusal, or no answer at all. Secrets are masked."""

import re
import ssl
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.errors import one_line
from reconciler.kube.client.connection import NotConnected
from reconciler.kube.client.port import ClusterError, ClusterUnavailable, Expired, FieldError
from reconciler.kube.secrets import KnownSecrets, mask_text
from reconciler.kube.values import NOT_JSON

_NOT_IN_SCHEMA = "field not declared in schema"  # server-side apply answers 500 to an unknown field
_MAX_LENGTH = 2000  # characters of a server's message
_UNAUTHORIZED, _FORBIDDEN, _GONE, _BUSY, _FAILED = 401, 403, 410, 429, 500
_HINTS: Mapping[int, str] = {
    _UNAUTHORIZED: "check the credentials of the context, such as its token or plugin",
    _FORBIDDEN: "ask for a role with this permission",
    413: "make the object smaller",
}


class _StatusCause(Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class _Details(Struct, frozen=True):
    causes: Sequence[_StatusCause] | None = None
    retry_after: int = msgspec.field(default=0, name="retryAfterSeconds")


class _Metadata(Struct, frozen=True):
    next_page: str = msgspec.field(default="", name="continue")


class _Status(Struct, frozen=True):
    message: str = ""
    reason: str = ""
    details: _Details | None = None
    metadata: _Metadata | None = None


def refusal(
    purpose: str, status: int, raw: bytes, *, retry_after: float, secrets: KnownSecrets, is_write: bool
) -> ClusterError:
    """Return the error of an answer that is not a success. `is_write`: a failure leaves the outcome unknown."""
    told = _parse(raw)
    details = told.details or _Details()
    message = masked(told.message, secrets) or "the server gives no reason"
    reason = masked(told.reason, secrets)
    words = f"{status} {reason}".rstrip()
    kind: type[ClusterError] = ClusterError
    is_failure = status >= _FAILED and _NOT_IN_SCHEMA not in told.message
    if status == _GONE:
        kind = Expired
    elif status == _BUSY or is_failure:
        kind = ClusterUnavailable
    error = kind(
        f"cannot {purpose}: {words}: {message}",
        hint=_HINTS.get(status, ""),
        status=status,
        reason=reason,
        causes=[
            FieldError(
                reason=masked(cause.reason, secrets),
                message=masked(cause.message, secrets),
                field=masked(cause.field, secrets),
            )
            for cause in details.causes or ()
        ],
        retry_after=retry_after or details.retry_after,
        outcome_unknown=is_write and is_failure,
    )
    if isinstance(error, Expired) and told.metadata:
        error.next_page = told.metadata.next_page
    return error


def unreachable(purpose: str, server: str, error: BaseException, *, outcome_unknown: bool) -> ClusterUnavailable:
    """Return the error of a connection that could not be made, or that broke."""
    cause = error
    while isinstance(error, NotConnected) and cause.__cause__ is not None:
        cause = cause.__cause__
    where = mask_text(server)
    if isinstance(cause, ssl.SSLCertVerificationError):
        text = f"the certificate of {where} is not trusted: {one_line(cause.verify_message)}"
        hint = "check certificate-authority and tls-server-name in the kubeconfig"
    elif isinstance(cause, TimeoutError):
        text, hint = f"{where} did not answer in time", ""
    else:
        reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
        text, hint = f"{where} cannot be reached: {one_line(mask_text(reason))}", "check the server of the kubeconfig"
    return ClusterUnavailable(f"cannot {purpose}: {text}", hint=hint, outcome_unknown=outcome_unknown)


def retry_after(text: str) -> float:
    """Return the seconds that the server asks to wait (the header Retry-After); 0 if it does not say."""
    return float(text) if re.fullmatch(r"[0-9]{1,5}", text) else 0.0


def watch_error(purpose: str, body: Any, secrets: KnownSecrets) -> ClusterError:
    """Return the error that a watch sent as an event."""
    status = body.get("code") if isinstance(body, dict) else None
    raw = msgspec.json.encode(body)
    code = status if isinstance(status, int) else _FAILED
    return refusal(purpose, code, raw, retry_after=0.0, secrets=secrets, is_write=False)


def masked(text: str, secrets: KnownSecrets) -> str:
    """Return a server's text as one line without secrets."""
    return one_line(mask_text(secrets.mask(text)), _MAX_LENGTH)


def _parse(raw: bytes) -> _Status:
    try:
        return msgspec.json.decode(raw, type=_Status)
    except NOT_JSON:  # a proxy's page, or nothing
        return _Status(message=raw[:_MAX_LENGTH].decode(errors="replace"))
