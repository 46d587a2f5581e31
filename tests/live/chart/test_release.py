"""The life of a release with the real helm on a real API server: install, upgrade, uninstall."""

import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from tests.cluster.server import ApiServer
from tools.chart.build import CHART

_NAMESPACE = "helm-release"
_ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles/fleet-reconciler"


def _helm(helm: Path, server: ApiServer, folder: Path, *arguments: str) -> str:
    homes = {name: str(folder) for name in ("HOME", "HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    argv = [str(helm), *arguments, "--namespace", _NAMESPACE, "--kubeconfig", str(server.kubeconfig)]
    done = subprocess.run(argv, env=homes, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_install_upgrade_and_uninstall(helm: Path, api_server: ApiServer, tmp_path: Path) -> None:
    """F-132: notes are printed, an upgrade widens the roles, and all but the definition and its sources is removed."""
    client, run = api_server.client, partial(_helm, helm, api_server, tmp_path)
    chart = str(CHART)
    notes = run("install", "fleet", chart, "--create-namespace", "--set", "mode=observe")
    assert "runs in mode observe with 2 replicas" in notes
    assert "The controller can read no Secret" in notes
    path = f"/apis/apps/v1/namespaces/{_NAMESPACE}/deployments/fleet-reconciler"
    assert client.get(path)["spec"]["replicas"] == 2
    assert not _writes(client.get(_ROLES))
    run("upgrade", "fleet", chart, "--reuse-values", "--set", "mode=apply,replicas=3")
    assert client.get(path)["spec"]["replicas"] == 3
    assert _writes(client.get(_ROLES))
    run("uninstall", "fleet")
    assert not client.request("GET", path).ok
    assert not client.request("GET", _ROLES).ok
    assert client.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/configsources.gpureconciler.io")


def _writes(role: dict[str, Any]) -> bool:
    return any("delete" in rule["verbs"] for rule in role["rules"])
