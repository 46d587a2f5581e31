"""The chart on a real API server: what it renders, and the namespace that it is installed in."""

import shutil
from pathlib import Path

import pytest
import yaml

from tests.chart.conftest import helm
from tests.cli.conftest import fleet, new_repository
from tests.cluster.fixtures import Parts
from tests.cluster.judges import assert_all_accepted
from tests.cluster.parts import MONITORING_MODULE
from tests.cluster.server import ApiServer, install_crds, wait_until
from tests.live.chart.rendering import Chart
from tests.live.controller.conftest import person, server, template
from tools.chart.build import CHART, NAMESPACE

SOURCES = "/apis/gpureconciler.io/v1alpha1/configsources"
__all__ = ["fleet", "helm", "new_repository", "person", "server", "template"]


@pytest.fixture(scope="session")
def chart(helm: Path) -> Chart:
    return Chart(helm)


@pytest.fixture(scope="session")
def cluster_with_monitoring(api_server: ApiServer, parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> ApiServer:
    """Return the API server with the definitions of the Prometheus operator that the chart uses; the others are huge."""
    folder = parts.crds((MONITORING_MODULE,))
    few = tmp_path_factory.mktemp("monitoring")
    for name in ("servicemonitors", "prometheusrules"):
        shutil.copy(folder / f"monitoring.coreos.com_{name}.json", few)
    install_crds(api_server.client, few)
    return api_server


@pytest.fixture(scope="session")
def cluster(api_server: ApiServer) -> ApiServer:
    """Return the API server with the definition of ConfigSource."""
    definition = yaml.safe_load((CHART / "crds" / "configsources.gpureconciler.io.yaml").read_text(encoding="utf-8"))
    assert_all_accepted(api_server.client.apply([definition]))
    wait_until(lambda: api_server.client.request("GET", SOURCES).ok, "ConfigSource")
    return api_server


@pytest.fixture(scope="session")
def restricted(api_server: ApiServer) -> str:
    """Return the namespace of the release, where the API server enforces the strictest Pod Security Standard."""
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": labels}}
    (result,) = api_server.client.apply([body])
    assert result.ok, result.message
    return NAMESPACE
