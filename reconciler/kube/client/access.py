"""Access to an API server, as kubectl finds it: a context of kubeconfig files, or the account of a pod."""

import base64
import datetime as dt
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec
import yaml
from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.errors import ConfigError, one_line
from reconciler.kube.client.connection import Address, ConnectionPool, Tls
from reconciler.kube.client.port import ClusterUnavailable
from reconciler.kube.client.proxies import proxy_of, proxy_url
from reconciler.kube.secrets import KnownSecrets, mask_text
from reconciler.kube.values import NOT_JSON

# Kubeconfig files, as kubectl reads them: several files as one, paths relative to the file that names them.
# The official client reads them too, with gaps that matter here: it leaves out proxies and impersonation, takes the
# current context of the last file, never reads a token file again, and goes on without credentials if a plugin fails.
# A credential plugin runs with the environment of the user, without a terminal, and for a minute at most. What it
# prints is never shown, except for the last line of its messages, with secrets masked.


_SECTIONS = ("clusters", "contexts", "users")

TOKEN_FILE_LASTS = dt.timedelta(minutes=1)
"""How long the content of a token file is used: tokens of pods change."""

_EARLY = dt.timedelta(minutes=5)  # a credential is renewed so long before its end

_PROVIDERS = ("gcp", "oidc")

_PLUGIN_SECONDS = 60

_EXTENSION = "client.authentication.k8s.io/exec"


class Identity(Struct, frozen=True, kw_only=True):
    """The identity to act as (impersonation); an empty user is nobody else."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers of impersonation."""
        if self.user:
            yield "Impersonate-User", self.user
            yield from (("Impersonate-Group", group) for group in self.groups)
            if self.uid:
                yield "Impersonate-Uid", self.uid


NOBODY = Identity()


class Login(Struct, frozen=True, kw_only=True):
    """The address of a server, the credentials, and the identity to act as. `renew_at`: the time to load it again."""

    address: Address
    authorization: str = ""
    identity: Identity = NOBODY
    renew_at: dt.datetime | None = None


class Proof(Struct, frozen=True, kw_only=True):
    """Credentials: the header Authorization, or a certificate. `renew_at`: the time to load them again."""

    authorization: str = ""
    certificate: bytes = b""
    key: bytes = b""
    renew_at: dt.datetime | None = None


class _Credential(Struct, frozen=True, rename="camel"):
    """The output of a plugin: a token, or a client certificate with its key."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str = ""


class _Printed(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    status: _Credential = field(default_factory=_Credential)


class NamedEntry(Struct, frozen=True, kw_only=True):
    """A named entry of a section, and the folder of its file."""

    name: str = ""
    value: Mapping[str, Any] = {}
    folder: Path = Path()

    def file(self, field: str) -> Path:
        """Return the path that a field holds."""
        return Path(os.path.normpath(self.folder / str(self.value[field])))

    def content(self, field: str) -> bytes:
        """Return what `<field>-data` holds, else the content of the file that the field names; empty without both."""
        if data := self.value.get(f"{field}-data"):
            return base64.standard_b64decode(str(data))
        return read_file(self.file(field)) if self.value.get(field) else b""


class Kubeconfig(Struct, frozen=True, kw_only=True):
    """Kubeconfig files as one."""

    where: str
    sections: Mapping[str, Sequence[NamedEntry]]
    current: str = ""

    def entry(self, section: str, name: Any) -> NamedEntry | None:
        """Return an entry by its name; None if there is none."""
        return next((entry for entry in self.sections[section] if entry.name == str(name)), None)


def merge(paths: Sequence[Path]) -> Kubeconfig:
    """Merge kubeconfig files as kubectl does: the first file that defines something wins."""
    merged: dict[str, list[NamedEntry]] = {section: [] for section in _SECTIONS}
    current = ""
    for path in paths:
        content, folder = _read(path), path.absolute().parent
        for section in _SECTIONS:
            known = {entry.name for entry in merged[section]}
            for row in content.get(section) or ():
                if isinstance(row, dict) and str(row.get("name")) not in known:
                    value = row.get(section.removesuffix("s")) or {}
                    merged[section].append(NamedEntry(name=str(row.get("name")), value=value, folder=folder))
        current = current or str(content.get("current-context") or "")
    return Kubeconfig(where=", ".join(map(str, paths)), sections=merged, current=current)


def log_in(paths: Sequence[Path], context: str, environ: Mapping[str, str]) -> Login:
    """Load a context of kubeconfig files. Raises `ConfigError`, which shows no value of them."""
    merged = merge(paths)
    try:
        return _log_in(merged, context, environ)
    except ConfigError as error:
        raise ConfigError(f"{merged.where}: context {context}: {error.message}", hint=error.hint) from None
    except (ValueError, TypeError, AttributeError, KeyError):  # never the error itself: it may repeat a value
        raise ConfigError(f"{merged.where}: context {context}: a value is not valid") from None


def _log_in(merged: Kubeconfig, context: str, environ: Mapping[str, str]) -> Login:
    named = merged.entry("contexts", context)
    chosen = named.value if named is not None else {}
    cluster = merged.entry("clusters", chosen["cluster"])
    if cluster is None:
        raise ConfigError(f"its cluster {chosen['cluster']!r} is not among the clusters")
    user = merged.entry("users", chosen.get("user")) or NamedEntry()
    url = server_url(str(cluster.value.get("server") or ""))
    proxy = str(cluster.value.get("proxy-url") or "")
    proof = _proof(user, cluster)
    return Login(
        address=Address(
            url=url,
            tls=_tls(cluster, user, proof) if url.scheme == "https" else Tls(),
            proxy=proxy_url(proxy) if proxy else proxy_of(url, environ),
        ),
        authorization=proof.authorization,
        identity=_identity(user.value),
        renew_at=proof.renew_at,
    )


def server_url(text: str) -> SplitResult:
    """Parse the URL of a server. Raises `ConfigError`, which does not show it: it may hold a password."""
    url = urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        raise ConfigError("its server is not a URL", hint="write it as https://HOST:PORT")
    _ = url.port  # a ValueError if it is not a number
    return url


def _tls(cluster: NamedEntry, user: NamedEntry, proof: Proof) -> Tls:
    return Tls(
        authority=cluster.content("certificate-authority"),
        certificate=proof.certificate or user.content("client-certificate"),
        key=proof.key or user.content("client-key"),
        server_name=str(cluster.value.get("tls-server-name") or ""),
        is_verified=not cluster.value.get("insecure-skip-tls-verify"),
    )


def _identity(user: Mapping[str, Any]) -> Identity:
    groups = tuple(str(group) for group in user.get("as-groups") or ())
    return Identity(user=str(user.get("as") or ""), groups=groups, uid=str(user.get("as-uid") or ""))


def _proof(user: NamedEntry, cluster: NamedEntry) -> Proof:
    """Return the credentials of a user: of a provider, a token, a plugin or a password, in the official order."""
    row = user.value
    provider = row.get("auth-provider") or {}
    if provider.get("name") in _PROVIDERS and (token := _provider_token(provider)):
        return Proof(authorization=token)
    if given := row.get("token"):
        return Proof(authorization=f"Bearer {given}")
    if "token" not in row and row.get("tokenFile"):
        content = read_file(user.file("tokenFile")).decode().strip()
        if content:
            return Proof(authorization=f"Bearer {content}", renew_at=dt.datetime.now(dt.UTC) + TOKEN_FILE_LASTS)
    if row.get("exec"):
        return _plugin_proof(user, cluster)
    if "username" in row and "password" in row:
        pair = f"{row['username']}:{row['password']}".encode()
        return Proof(authorization=f"Basic {base64.b64encode(pair).decode()}")
    return Proof()


def _provider_token(provider: Mapping[str, Any]) -> str:
    """Ask the official client for the header that an authentication provider gives; empty if it gives none."""
    from kubernetes import client, config  # noqa: PLC0415 - rare, and its 700 models take long to import

    content = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "https://localhost"}}],
        "users": [{"name": "a", "user": {"auth-provider": provider}}],
    }
    asked = client.Configuration()
    try:
        config.load_kube_config_from_dict(content, client_configuration=asked, persist_config=False)
    except config.ConfigException as error:
        raise ConfigError(one_line(error).rstrip(".")) from None
    return str(asked.api_key.get("BearerToken", ""))


def _plugin_proof(user: NamedEntry, cluster: NamedEntry) -> Proof:
    printed = _run_plugin(user.value["exec"], cluster.value, user.folder)
    end = printed.expiration_timestamp
    return Proof(
        authorization=f"Bearer {printed.token}" if printed.token else "",
        certificate=printed.client_certificate_data.encode(),
        key=printed.client_key_data.encode(),
        renew_at=_moment(end) - _EARLY if end else None,
    )


def _run_plugin(exec_config: Mapping[str, Any], cluster: Mapping[str, Any], folder: Path) -> _Credential:
    """Run the plugin of a kubeconfig. A relative path is below the folder of the kubeconfig."""
    command = str(exec_config.get("command") or "")
    name = one_line(command)
    program = str(folder / command) if os.sep in command else command
    arguments = [str(argument) for argument in exec_config.get("args") or ()]
    environ = {**os.environ, "KUBERNETES_EXEC_INFO": _plugin_request(exec_config, cluster)}
    environ |= {str(row["name"]): str(row.get("value") or "") for row in exec_config.get("env") or ()}
    try:
        ran = subprocess.run(
            [program, *arguments],
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PLUGIN_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _plugin_failed(name, f"did not exit within {_PLUGIN_SECONDS} s") from None
    except OSError as error:
        hint = one_line(exec_config.get("installHint") or "install it, or choose another context")
        raise _plugin_failed(name, f"cannot be started: {error.strerror}", hint) from None
    if ran.returncode:
        lines = ran.stderr.decode(errors="replace").strip().splitlines()
        reason = f": {one_line(mask_text(lines[-1]))}" if lines else ""
        raise _plugin_failed(name, f"failed with exit code {ran.returncode}{reason}")
    return _read_credential(name, str(exec_config.get("apiVersion") or ""), ran.stdout)


def _plugin_request(exec_config: Mapping[str, Any], cluster: Mapping[str, Any]) -> str:
    """Return the input of the plugin: the version of its answer, and the cluster if the kubeconfig says so."""
    spec: dict[str, Any] = {"interactive": False}
    if exec_config.get("provideClusterInfo"):
        shown = {key: value for key, value in cluster.items() if key != "extensions"}
        extensions = {row.get("name"): row.get("extension") for row in cluster.get("extensions") or ()}
        spec["cluster"] = {**shown, "config": extensions.get(_EXTENSION)}
    return json.dumps({"apiVersion": exec_config.get("apiVersion"), "kind": "ExecCredential", "spec": spec})


def _read_credential(name: str, version: str, printed: bytes) -> _Credential:
    try:
        answer = msgspec.json.decode(printed, type=_Printed)
    except NOT_JSON:
        raise _plugin_failed(name, "printed no ExecCredential") from None
    if answer.kind != "ExecCredential" or answer.api_version != version:
        shown = one_line(mask_text(f"{answer.kind} of {answer.api_version}"), 100)
        raise _plugin_failed(name, f"printed {shown} instead of ExecCredential of {version}")
    status = answer.status
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise _plugin_failed(name, "printed neither a token nor a certificate with its key")
    return status


def _plugin_failed(name: str, what: str, hint: str = "run it by hand to see why") -> ClusterUnavailable:
    return ClusterUnavailable(f"the credential plugin {name} {what}", hint=hint)


def _moment(text: str) -> dt.datetime:
    found = dt.datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def read_file(path: Path) -> bytes:
    """Read a file that a kubeconfig names. Raises `ConfigError`."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - safe
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)  # never the error itself: it repeats lines of the file
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise ConfigError(f"{place}: not valid YAML") from None
    if not isinstance(content, dict) or any(not isinstance(content.get(key) or [], list) for key in _SECTIONS):
        raise ConfigError(f"{path} is not a kubeconfig")
    return content


VARIABLE = "KUBECONFIG"

DEFAULT = "~/.kube/config"

HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"
"""The variable by which a pod knows that it is one."""

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its account and the certificate of the API server."""

Load = Callable[[], Login]


class Access:
    """The access to one API server. Threads may share it."""

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
