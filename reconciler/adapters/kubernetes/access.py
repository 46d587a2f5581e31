"""Access to an API server, as kubectl finds it: kubeconfig files and contexts, exec plugins, or the pod's own account.

The official client loads the configuration, so that credentials work as users expect. What it ignores or hides is done
here: `as` of a user, `proxy-url`, and plugins that fail.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException
from kubernetes.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_HOST_ENV_NAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)
from kubernetes.config.kube_config import ConfigNode, KubeConfigLoader

from reconciler.core.secrets import KnownSecrets
from reconciler.errors import ConfigError, one_line
from reconciler.ports.cluster import CONCURRENCY

if TYPE_CHECKING:
    import urllib3

VARIABLE = "KUBECONFIG"
DEFAULT = "~/.kube/config"
_SECTIONS = ("clusters", "contexts", "users")
_PIECE = 1 << 16


class Access:
    """How to reach one API server and how to be let in. Threads may share it."""

    def __init__(self, configuration: Configuration, *, user: str = "", groups: Sequence[str] = ()) -> None:
        configuration.connection_pool_maxsize = 2 * CONCURRENCY  # watches hold connections beside requests
        configuration.retries = False
        self.server: str = configuration.host
        self.pool: urllib3.PoolManager = RESTClientObject(configuration).pool_manager
        self._configuration = configuration
        self._lock = Lock()
        self._impersonated = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
        if not user:
            self._impersonated = []

    def headers(self) -> Iterator[tuple[str, str]]:
        """Yield the headers of a request; credentials that expire are renewed before."""
        with self._lock:
            authorization = self._configuration.get_api_key_with_prefix("BearerToken")
        if authorization:
            yield "Authorization", authorization
        yield from self._impersonated

    def secrets(self) -> KnownSecrets:
        """Return the credentials, which servers may repeat in their messages."""
        with self._lock:
            keys = [*self._configuration.api_key.values()]
        return KnownSecrets([key.partition(" ")[2] for key in keys])


def load_access(
    environ: Mapping[str, str], *, kubeconfig: str = "", context: str = "", user: str = "", groups: Sequence[str] = ()
) -> Access:
    """Find the API server: `kubeconfig`, else the files of KUBECONFIG, else the default file, else the pod's account.

    user, groups: who to act as (impersonation); those of the kubeconfig unless they are named here.
    """
    if groups and not user:
        raise ConfigError("--as-group: no user is named", hint="name the user with --as")
    paths = _paths(environ, kubeconfig)
    if not paths and not context and environ.get(SERVICE_HOST_ENV_NAME):
        return Access(_in_cluster(environ), user=user, groups=groups)
    if not paths:
        hint = "name a kubeconfig with --kubeconfig or KUBECONFIG"
        raise ConfigError(f"no cluster: {DEFAULT} does not exist, and this is not a pod", hint=hint)
    return _from_files(paths, context, user, groups)


def _paths(environ: Mapping[str, str], kubeconfig: str) -> list[Path]:
    """Return the kubeconfig files. A named file must exist; those of the variable may be missing, as for kubectl."""
    if kubeconfig:
        path = Path(kubeconfig).expanduser()
        if not path.is_file():
            raise ConfigError(f"--kubeconfig: {kubeconfig} does not exist")
        return [path]
    named = [Path(part).expanduser() for part in environ.get(VARIABLE, "").split(os.pathsep) if part]
    found = [path for path in named or [Path(DEFAULT).expanduser()] if path.is_file()]
    if named and not found:
        raise ConfigError(f"{VARIABLE}: {', '.join(map(str, named))} does not exist")
    return found


def _from_files(paths: Sequence[Path], context: str, user: str, groups: Sequence[str]) -> Access:
    where = ", ".join(map(str, paths))
    merged = _merge(paths)
    names = [entry.value.get("name") for entry in merged.value["contexts"]]
    chosen = context or merged.value.get("current-context") or ""
    if chosen not in names:
        wrong = f"--context: {where} has no context {context!r}" if context else f"{where} has no current context"
        raise ConfigError(wrong, hint=f"contexts: {', '.join(map(str, names)) or 'none'}")
    configuration = Configuration()
    try:
        loader = KubeConfigLoader(merged, active_context=chosen, config_base_path=None)
        loader.load_and_set(configuration)
    except ConfigException as error:
        raise ConfigError(f"{where}: context {chosen}: {_tell(error)}") from None
    return Access(configuration, user=user, groups=groups)


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
        merged.setdefault("current-context", content.get("current-context") or "")
        if not merged["current-context"]:
            del merged["current-context"]
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


def _in_cluster(environ: Mapping[str, str]) -> Configuration:
    configuration = Configuration()
    try:
        loader = InClusterConfigLoader(SERVICE_TOKEN_FILENAME, SERVICE_CERT_FILENAME, environ=environ)
        loader.load_and_set(configuration)
    except ConfigException as error:
        raise ConfigError(f"the account of this pod cannot be used: {_tell(error)}") from None
    return configuration


def _tell(error: Exception) -> str:
    text = one_line(error).rstrip(".")
    return text[:1].lower() + text[1:]
