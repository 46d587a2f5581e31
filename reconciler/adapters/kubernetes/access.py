"""Access to an API server, as kubectl finds it: kubeconfig files and contexts, exec plugins, or the pod's own account.

The official client loads the configuration, so that credentials work as users expect. What it ignores or hides is done
here: plugins that fail, token files that change, `as` of a user, and `proxy-url`.
"""

import datetime as dt
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import yaml
from msgspec import Struct

from reconciler.adapters.kubernetes.official import (
    HOST_VARIABLE,
    ConfigException,
    ConfigNode,
    Configuration,
    FileOrData,
    InClusterConfigLoader,
    KubeConfigLoader,
    RESTClientObject,
)
from reconciler.adapters.kubernetes.plugin import run_plugin
from reconciler.core.secrets import KnownSecrets
from reconciler.errors import ConfigError, one_line
from reconciler.ports.cluster import CONCURRENCY

if TYPE_CHECKING:
    import urllib3

VARIABLE = "KUBECONFIG"
DEFAULT = "~/.kube/config"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod finds the token of its account and the certificate of the API server."""

_SECTIONS = ("clusters", "contexts", "users")
_TOKEN_FILE_LASTS = dt.timedelta(minutes=6)  # the client renews five minutes before the end


class Identity(Struct, frozen=True, kw_only=True):
    """Who to act as (impersonation); an empty user is nobody else."""

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


Load = Callable[[], tuple[Configuration, Identity]]
"""Loads a configuration, and who it says to act as."""


class Access:
    """How to reach one API server and how to be let in. Threads may share it."""

    def __init__(self, load: Load, named: Identity = NOBODY) -> None:
        self._load = load
        self._lock = Lock()
        self.renewals = 0
        self._configuration, identity = load()
        self._identity = named if named.user else identity
        self.server: str = self._configuration.host
        self.pool: urllib3.PoolManager = _pool(self._configuration)

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers of a request; credentials that expire are renewed before."""
        with self._lock:
            authorization = self._configuration.get_api_key_with_prefix("BearerToken")
        if authorization:
            yield "Authorization", authorization
        yield from self._identity.headers()

    def renew(self, seen: int) -> None:
        """Load the credentials again, because the server refused them; not if that was done since `seen` renewals."""
        with self._lock:
            if self.renewals == seen:
                self._configuration, _ = self._load()
                self.pool = _pool(self._configuration)
                self.renewals += 1

    def secrets(self) -> KnownSecrets:
        """Return the credentials, which servers may repeat in their messages."""
        with self._lock:
            keys = [*self._configuration.api_key.values()]
        return KnownSecrets([key.partition(" ")[2] for key in keys])


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
        return _from_files(paths, context, named)
    if context:
        raise ConfigError(f"--context: no kubeconfig, so no context {context!r}", hint="name one with --kubeconfig")
    if environ.get(HOST_VARIABLE):
        return Access(lambda: _in_cluster(environ), named)
    hint = "name a kubeconfig with --kubeconfig or KUBECONFIG"
    raise ConfigError(f"no cluster: {DEFAULT} does not exist, and this is not a pod", hint=hint)


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


def _from_files(paths: Sequence[Path], context: str, named: Identity) -> Access:
    where = ", ".join(map(str, paths))
    merged = _merge(paths)
    names = [entry.value.get("name") for entry in merged.value["contexts"]]
    chosen = context or merged.value.get("current-context") or ""
    if chosen not in names:
        wrong = f"--context: {where} has no context {context!r}" if context else f"{where} has no current context"
        raise ConfigError(wrong, hint=f"contexts: {', '.join(map(str, names)) or 'none'}")

    def load() -> tuple[Configuration, Identity]:
        try:
            return _configured(_merge(paths), chosen)
        except ConfigException as error:
            raise ConfigError(f"{where}: context {chosen}: {_tell(error)}") from None
        except (ValueError, TypeError, AttributeError):  # never the error itself: it may repeat a value
            raise ConfigError(f"{where}: context {chosen}: a value is not valid") from None

    return Access(load, named)


def _configured(merged: ConfigNode, context: str) -> tuple[Configuration, Identity]:
    configuration = Configuration()
    loader = _Loader(merged, active_context=context, config_base_path=None)
    loader.load_and_set(configuration)
    if proxy := loader.cluster.get("proxy-url"):
        configuration.proxy = proxy
    return configuration, loader.identity


class _Loader(KubeConfigLoader):  # type: ignore[misc]  # the client has no types
    """The official loader; a plugin that fails is an error, and token files are read again."""

    @property
    def cluster(self) -> dict[str, Any]:
        """The entry of the cluster."""
        row: dict[str, Any] = self._cluster.value
        return row

    @property
    def identity(self) -> Identity:
        """Who the user says to act as."""
        row: dict[str, Any] = self._user.value if self._user is not None else {}
        groups = tuple(str(group) for group in row.get("as-groups") or ())
        return Identity(user=str(row.get("as") or ""), groups=groups, uid=str(row.get("as-uid") or ""))

    def _load_from_exec_plugin(self) -> bool | None:
        if "exec" not in self._user:
            return None
        folder = Path(self._get_base_path(self._cluster.path))
        credential = run_plugin(self._user["exec"].value, self.cluster, folder)
        if credential.token:
            self.token = f"Bearer {credential.token}"
        if credential.client_certificate_data:
            data = {"certificate": credential.client_certificate_data, "key": credential.client_key_data}
            self.cert_file, self.key_file = (
                FileOrData(data, None, data_key_name=name, base64_file_content=False).as_file() for name in data
            )
        if credential.expiration_timestamp:
            self.expiry = dt.datetime.fromisoformat(credential.expiration_timestamp)
        return True

    def _load_user_token(self) -> bool | None:
        found: bool | None = super()._load_user_token()
        if found and "tokenFile" in self._user:
            self.expiry = dt.datetime.now(dt.UTC) + _TOKEN_FILE_LASTS
        return found


def _pool(configuration: Configuration) -> "urllib3.PoolManager":
    configuration.connection_pool_maxsize = 2 * CONCURRENCY  # watches hold connections beside requests
    configuration.retries = False
    pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
    return pool


def _merge(paths: Sequence[Path]) -> ConfigNode:
    """Merge kubeconfig files as kubectl does: the first file that defines something wins."""
    merged: dict[str, Any] = {section: [] for section in _SECTIONS}
    for path in paths:
        content = _read(path)
        for section in _SECTIONS:
            known = {entry.value.get("name") for entry in merged[section]}
            entries = [entry for entry in content.get(section) or () if isinstance(entry, dict)]
            new = [entry for entry in entries if entry.get("name") not in known]
            merged[section] += [ConfigNode(f"{section}[name={entry.get('name')}]", entry, str(path)) for entry in new]
        if current := content.get("current-context"):
            merged.setdefault("current-context", current)
    return ConfigNode("kubeconfig", merged, str(paths[0]))


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


def _in_cluster(environ: Mapping[str, str]) -> tuple[Configuration, Identity]:
    configuration = Configuration()
    try:
        loader = InClusterConfigLoader(str(ACCOUNT / "token"), str(ACCOUNT / "ca.crt"), environ=environ)
        loader.load_and_set(configuration)
    except ConfigException as error:
        raise ConfigError(f"the account of this pod cannot be used: {_tell(error)}") from None
    return configuration, NOBODY


def _tell(error: Exception) -> str:
    text = one_line(error).rstrip(".")
    return text[:1].lower() + text[1:]
