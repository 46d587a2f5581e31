"""Access to the pages: anybody on this machine, and elsewhere only who proves who they are."""

import base64
import binascii
import hmac
from collections.abc import Callable, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.errors import ConfigError, OutsideError
from reconciler.kube.client.port import LiveCluster
from reconciler.kube.values import mapping
from reconciler.web.listener import HttpAnswer, HttpRequest, parse_address, text_answer

Guard = Callable[[HttpRequest], HttpAnswer | None]
"""Returns the refusal of a request; None if it may pass."""

_LEAST = 16
"""Characters of a secret: one of fewer can be guessed."""
_LOOPBACK_NAMES = frozenset({"localhost", ""})
USER_HEADER, SECRET_HEADER = "x-forwarded-user", "x-proxy-secret"


class PageLogin(Struct, frozen=True, kw_only=True):
    """The proof of who a reader is: the token in a file, a proxy that knows a secret, or a token of Kubernetes."""

    token_file: str = ""
    proxy_secret_file: str = ""
    token_review: bool = False


def choose_guard(
    address: str, login: PageLogin, open_cluster: Callable[[], LiveCluster] | None, *, namespace: str = "default"
) -> Guard:
    """Return the guard of an address. Raises `ConfigError` where everybody could read.

    open_cluster: opens the cluster that reviews tokens; None if the guard is only checked.
    """
    if sum(map(bool, (login.token_file, login.proxy_secret_file, login.token_review))) > 1:
        raise ConfigError(
            "there are several ways to log in",
            hint="choose one of --token-file, --proxy-secret-file and --token-review",
        )
    if login.token_file:
        return token_guard(Path(login.token_file))
    if login.proxy_secret_file:
        return proxy_guard(Path(login.proxy_secret_file))
    if login.token_review:
        return local_guard if open_cluster is None else cluster_guard(open_cluster(), namespace)
    if not is_loopback(address):
        raise ConfigError(
            f"{address}: everybody who reaches this address could read the pages",
            hint="listen on 127.0.0.1, or add one of --proxy-secret-file, --token-file and --token-review",
        )
    return local_guard


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches an address. `:8080` is reached by all."""
    host, _ = parse_address(address)
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def local_guard(request: HttpRequest) -> HttpAnswer | None:
    """Let pass what asks for this machine by its own name: a page of another site cannot, whatever its name means."""
    host = request.headers.get("host", "").rsplit(":", 1)[0].strip("[]")
    try:
        is_local = host in _LOOPBACK_NAMES or ip_address(host).is_loopback
    except ValueError:
        is_local = False
    return None if is_local else text_answer(HTTPStatus.MISDIRECTED_REQUEST, "this address is for this machine only")


def token_guard(file: Path) -> Guard:
    """Return a guard that wants the token of a file, as `Authorization: Bearer`, or as the password of a browser."""
    _read_secret(file)

    def guard(request: HttpRequest) -> HttpAnswer | None:
        # Read again for each request: a new token counts at once.
        return None if _is_equal(_given_token(request), _read_secret(file)) else _unauthorized()

    return guard


def proxy_guard(file: Path) -> Guard:
    """Return a guard that trusts the user in `X-Forwarded-User` if `X-Proxy-Secret` is the secret of a file."""
    _read_secret(file)

    def guard(request: HttpRequest) -> HttpAnswer | None:
        is_proxy = _is_equal(request.headers.get(SECRET_HEADER, ""), _read_secret(file))
        if is_proxy and request.headers.get(USER_HEADER, "").strip():
            return None
        return text_answer(HTTPStatus.FORBIDDEN, "log in at the proxy")

    return guard


def cluster_guard(cluster: LiveCluster, namespace: str) -> Guard:
    """Return a guard that asks Kubernetes whose token it is, and whether that user may read ConfigSources."""

    def guard(request: HttpRequest) -> HttpAnswer | None:
        token = _given_token(request)
        if not token:
            return _unauthorized()
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        try:
            found = mapping(cluster.create(review).body.get("status"))
            if found.get("authenticated") is not True:
                return _unauthorized()
            allowed = cluster.create(_access_review(mapping(found.get("user")), namespace)).body
        except OutsideError:
            return text_answer(HTTPStatus.SERVICE_UNAVAILABLE, "Kubernetes does not answer whose token this is")
        if mapping(allowed.get("status")).get("allowed") is True:
            return None
        return text_answer(HTTPStatus.FORBIDDEN, "your user may not get configsources.gpureconciler.io")

    return guard


def _access_review(user: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    wanted = {"group": "gpureconciler.io", "resource": "configsources", "verb": "get", "namespace": namespace}
    spec = {"user": user.get("username", ""), "groups": user.get("groups", []), "resourceAttributes": wanted}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}


def _read_secret(file: Path) -> str:
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {file}: {error}", hint="name a file that contains the secret") from error
    if len(secret) < _LEAST:
        raise ConfigError(f"the secret in {file} has fewer than {_LEAST} characters", hint="openssl rand -hex 32")
    return secret


def _given_token(request: HttpRequest) -> str:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _is_equal(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


def _unauthorized() -> HttpAnswer:
    return HttpAnswer(
        status=HTTPStatus.UNAUTHORIZED,
        body=b"send the token as Authorization: Bearer, or as the password\n",
        headers={"WWW-Authenticate": 'Basic realm="reconciler", charset="UTF-8"'},
    )
