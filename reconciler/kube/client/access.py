"""Access to an API server, as kubectl finds it: a context of kubeconfig files, or the account of a pod."""

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock

from msgspec.structs import replace

from reconciler.errors import ConfigError
from reconciler.kube.client.connection import Address, ConnectionPool, Tls
from reconciler.kube.client.kubeconfig import (
    NOBODY,
    TOKEN_FILE_LASTS,
    Identity,
    Login,
    log_in,
    merge,
    read_file,
    server_url,
)
from reconciler.kube.client.proxies import proxy_of
from reconciler.kube.secrets import KnownSecrets

VARIABLE = "KUBECONFIG"
DEFAULT = "~/.kube/config"
HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"
"""The variable by which a pod knows that it is one."""

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its account and the certificate of the API server."""

Load = Callable[[], Login]


class Access:
    """How to reach one API server and how to be let in. Threads may share it."""

    def __init__(self, load: Load, named: Identity = NOBODY) -> None:
        self._load = load
        self._lock = Lock()
        self.renewals = 0
        self._login = load()
        self._identity = named if named.user else self._login.identity
        self.server: str = self._login.address.url.geturl().rstrip("/")
        self.pool = ConnectionPool(self._login.address)

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers of a request; credentials that expire are renewed before."""
        login = self._login
        if login.renew_at is not None and login.renew_at <= dt.datetime.now(dt.UTC):
            with self._lock:
                if self._login is login:
                    self._use(self._load())
                login = self._login
        if login.authorization:
            yield "Authorization", login.authorization
        yield from self._identity.headers()

    def renew(self, seen: int) -> None:
        """Load the credentials again, because the server refused them; not if that was done since `seen` renewals."""
        with self._lock:
            if self.renewals == seen:
                self._use(self._load())
                self.renewals += 1

    def secrets(self) -> KnownSecrets:
        """Return the credentials, which servers may repeat in their messages."""
        secret = self._login.authorization.partition(" ")[2]
        return KnownSecrets([secret] if secret else [])

    def _use(self, login: Login) -> None:
        """Use another login. Connections stay unless its certificates differ."""
        self._login = replace(login, address=self._login.address)
        if login.address.tls != self.pool.address.tls:
            self.pool = ConnectionPool(login.address)


def load_access(
    environ: Mapping[str, str], *, kubeconfig: str = "", context: str = "", user: str = "", groups: Sequence[str] = ()
) -> Access:
    """Find the API server: `kubeconfig`, else the files of KUBECONFIG, else the default file, else the pod's account.

    user, groups: who to act as, instead of what the kubeconfig says.
    """
    if groups and not user:
        raise ConfigError("--as-group: no user is named", hint="name the user with --as")
    named = Identity(user=user, groups=tuple(groups))
    paths = _paths(environ, kubeconfig)
    if paths:
        return _from_files(paths, context, named, environ)
    if context:
        raise ConfigError(f"--context: no kubeconfig, so no context {context!r}", hint="name one with --kubeconfig")
    if environ.get(HOST_VARIABLE):
        return Access(lambda: _in_cluster(environ), named)
    hint = "name a kubeconfig with --kubeconfig or KUBECONFIG"
    raise ConfigError(f"no cluster: {DEFAULT} does not exist, and this is not a pod", hint=hint)


def has_kubeconfig(environ: Mapping[str, str], *, kubeconfig: str = "") -> bool:
    """Return whether there is a kubeconfig, so that the account of a pod is not used. Raises as `load_access`."""
    return bool(_paths(environ, kubeconfig))


def _paths(environ: Mapping[str, str], kubeconfig: str) -> list[Path]:
    """Return the kubeconfig files. A named file must exist; those of the variable may be missing, as for kubectl."""
    if kubeconfig:
        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise ConfigError(f"--kubeconfig: {kubeconfig} does not exist")
        return [path]
    named = [Path(part).expanduser() for part in environ.get(VARIABLE, "").split(os.pathsep) if part]
    found = [path for path in named or [Path(DEFAULT.replace("~", environ.get("HOME", "~"), 1))] if path.is_file()]
    if named and not found:
        raise ConfigError(f"{VARIABLE}: {', '.join(map(str, named))} does not exist")
    return found


def _from_files(paths: Sequence[Path], context: str, named: Identity, environ: Mapping[str, str]) -> Access:
    merged = merge(paths)
    names = [entry.name for entry in merged.sections["contexts"]]
    chosen = context or merged.current
    if chosen not in names:
        where = merged.where
        wrong = f"--context: {where} has no context {context!r}" if context else f"{where} has no current context"
        raise ConfigError(wrong, hint=f"contexts: {', '.join(names) or 'none'}")
    return Access(lambda: log_in(paths, chosen, environ), named)


def _in_cluster(environ: Mapping[str, str]) -> Login:
    host, port = environ[HOST_VARIABLE], environ.get("KUBERNETES_SERVICE_PORT", "")
    try:
        url = server_url(f"https://{f'[{host}]' if ':' in host else host}:{port}")
        token = _account_file("token", "token").decode().strip()
        authority = _account_file("ca.crt", "certificate")
    except ValueError:
        raise ConfigError(
            "the service account of this pod cannot be used: the API server address is not valid"
        ) from None
    return Login(
        address=Address(url=url, tls=Tls(authority=authority), proxy=proxy_of(url, environ)),
        authorization=f"Bearer {token}",
        renew_at=dt.datetime.now(dt.UTC) + TOKEN_FILE_LASTS,
    )


def _account_file(name: str, what: str) -> bytes:
    problem = f"the service account of this pod cannot be used: the {what} file"
    path = ACCOUNT / name
    if not path.is_file():
        raise ConfigError(f"{problem} does not exist")
    content = read_file(path)
    if not content.strip():
        raise ConfigError(f"{problem} is empty")
    return content
