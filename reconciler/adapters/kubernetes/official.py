"""The part of the official Kubernetes client that asks authentication providers (`auth-provider` of a kubeconfig).

Importing the package loads all of its 700 models, which takes longer than most commands. So its modules are imported as
if the packages around them were empty. Afterwards the packages are forgotten: whoever imports them gets them whole.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from reconciler.errors import ConfigError, one_line

_PACKAGES = ("kubernetes", "kubernetes.client", "kubernetes.config")


@contextmanager
def _empty_packages() -> Iterator[ModuleType]:
    """Stand in for the packages with empty ones; yield that of the client."""
    if any(name in sys.modules for name in _PACKAGES):  # somebody else has imported them already
        yield import_module("kubernetes.client")
        return
    spec = find_spec("kubernetes")
    roots = list(spec.submodule_search_locations or ()) if spec else []
    made = {name: ModuleType(name) for name in _PACKAGES}
    for name, module in made.items():
        module.__path__ = [str(Path(root, *name.split(".")[1:])) for root in roots]
    sys.modules.update(made)
    try:
        yield made["kubernetes.client"]
    finally:
        for name in made:
            del sys.modules[name]


def _api_client(*arguments: Any, **named: Any) -> Any:
    """Make a client of the whole package: what renews OpenID Connect tokens needs one."""
    return import_module("kubernetes.client").ApiClient(*arguments, **named)


with _empty_packages() as _client:
    Configuration: Any = import_module("kubernetes.client.configuration").Configuration
    _client.__dict__.setdefault("Configuration", Configuration)
    _client.__dict__.setdefault("ApiClient", _api_client)
    _ConfigException: Any = import_module("kubernetes.config.config_exception").ConfigException
    _kube_config = import_module("kubernetes.config.kube_config")


def provider_token(kubeconfig: dict[str, Any], context: str) -> str:
    """Return the header that an authentication provider (`auth-provider`) gives a user; empty if it gives none."""
    try:
        loader = _kube_config.KubeConfigLoader(kubeconfig, active_context=context)
        loader._load_auth_provider_token()  # noqa: SLF001 - all else is read by us
    except _ConfigException as error:
        raise ConfigError(one_line(error).rstrip(".")) from None
    return str(getattr(loader, "token", ""))
