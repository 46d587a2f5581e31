"""What commands that look at clusters import."""

import subprocess
import sys

_CHECK = """
import sys
import reconciler.adapters.kubernetes
heavy = {"kubernetes", "urllib3", "requests", "oauthlib", "http.client", "email"} & {*sys.modules}
assert not heavy, heavy
from reconciler.adapters.kubernetes import official
models = [name for name in sys.modules if name.startswith("kubernetes.client.models")]
assert not models, len(models)
assert "kubernetes" not in sys.modules
import kubernetes
assert kubernetes.client.Configuration is official.Configuration
assert kubernetes.client.V1Pod and kubernetes.config.load_kube_config
assert isinstance(official._api_client(official.Configuration()), kubernetes.client.ApiClient)
"""


def test_what_takes_long_is_not_imported() -> None:
    """Neither the official client nor what it needs, and its models never. The package stays whole for others."""
    subprocess.run([sys.executable, "-c", _CHECK], check=True)


def test_the_official_client_may_be_there_already() -> None:
    subprocess.run([sys.executable, "-c", "import kubernetes; import reconciler.adapters.kubernetes"], check=True)
