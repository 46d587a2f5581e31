"""The real API server accepts our health kinds, and refuses what their schemas refuse."""

from typing import Any

import pytest
import yaml

from reconciler.kinds.health import POLICY, QUARANTINE
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.client.port import ClusterError
from reconciler.kube.objects import ObjectKey
from tests.cli.test_health_kinds import POLICY as POLICY_YAML
from tests.cli.test_health_kinds import QUARANTINE as QUARANTINE_YAML
from tests.cli.test_network_tests import POLICY as TESTS_YAML
from tests.cluster.server import wait_until
from tools.crds import crd, manifest, path_of


@pytest.mark.parametrize("kind", [POLICY, QUARANTINE])
def test_the_definitions_of_the_chart_are_up_to_date(kind: tuple[str, str]) -> None:
    assert path_of(kind).read_text() == manifest(kind), "run `make docs`"


@pytest.fixture(scope="module")
def definitions(live: KubernetesCluster) -> KubernetesCluster:
    """Install the CRDs."""
    for kind in (POLICY, QUARANTINE):
        live.apply(crd(kind))
        name = crd(kind)["metadata"]["name"]
        key = ObjectKey(group="apiextensions.k8s.io", kind="CustomResourceDefinition", namespace="", name=name)

        def established(key: ObjectKey = key) -> bool:
            conditions = ((live.get(key) or {}).get("status") or {}).get("conditions") or ()
            return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)

        wait_until(established, "the CRD")
    live.discover(again=True)
    return live


def test_the_server_accepts_them(definitions: KubernetesCluster) -> None:
    """It adds nothing: a default in one policy would override what another one says."""
    for text in (POLICY_YAML, TESTS_YAML, QUARANTINE_YAML):
        body: dict[str, Any] = yaml.safe_load(text)
        written = definitions.apply(body)
        assert written.body["spec"] == body["spec"]


@pytest.mark.parametrize(
    ("old", "new"), [("effect: NoSchedule", "effect: Cordon"), ("node: gpu-3", "node: ''"), ("2026-12-01T", "soon")]
)
def test_the_server_refuses_what_the_schema_refuses(definitions: KubernetesCluster, old: str, new: str) -> None:
    text = QUARANTINE_YAML.replace("  slots:", "  effect: NoSchedule\n  slots:")
    assert old in text
    body = yaml.safe_load(text.replace(old, new))
    body["metadata"]["name"] = "refused"
    with pytest.raises(ClusterError):
        definitions.apply(body)
