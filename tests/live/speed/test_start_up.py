"""What commands that look at clusters import."""

import subprocess
import sys

_CHECK = """
import sys
import reconciler.adapters.kubernetes
from reconciler.adapters.kubernetes import official
models = [name for name in sys.modules if name.startswith("kubernetes.client.models")]
assert not models, len(models)
assert "kubernetes" not in sys.modules
import kubernetes
assert kubernetes.client.Configuration is official.Configuration
assert kubernetes.client.V1Pod and kubernetes.config.load_kube_config
assert isinstance(official._api_client(official.Configuration()), kubernetes.client.ApiClient)
"""


def test_the_models_of_the_official_client_are_not_imported() -> None:
    """They take longer than most commands. The package stays whole for others that import it."""
    subprocess.run([sys.executable, "-c", _CHECK], check=True)


def test_the_official_client_may_be_there_already() -> None:
    subprocess.run([sys.executable, "-c", "import kubernetes; import reconciler.adapters.kubernetes"], check=True)
