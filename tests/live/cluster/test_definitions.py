"""The definitions of a real API server: `observe` records them, files are validated by them, `--live` asks anew."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from reconciler.errors import UnsafePlan
from reconciler.kube.client.port import ClusterError
from reconciler.kube.objects import ObjectKey
from tests.cluster.server import wait_until
from tests.live.cluster.conftest import LiveFleet
from tests.repo.test_definitions import WIDGETS

GROUP = "definitions.example.com"
NAME = f"widgets.{GROUP}"
KEY = ObjectKey(group="apiextensions.k8s.io", kind="CustomResourceDefinition", namespace="", name=NAME)
FILE = "evidence/main/definitions.yaml"
WIDGET = f"apiVersion: {GROUP}/v1\nkind: Widget\nmetadata: {{name: w, namespace: default}}\nspec: SPEC\n"


def definition(*fields: str) -> dict[str, Any]:
    """Return a definition of widgets whose spec has more fields."""
    made = copy.deepcopy(WIDGETS)
    made["metadata"] = {"name": NAME}
    made["spec"]["group"] = GROUP
    spec = made["spec"]["versions"][1]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"] |= {field: {"type": "integer", "description": f"Of {field}."} for field in fields}
    return made


@pytest.fixture
def site(live_fleet: LiveFleet) -> Iterator[LiveFleet]:
    """Yield a repository and a cluster that serves widgets."""
    serve(live_fleet)
    yield live_fleet
    body = live_fleet.cluster.get(KEY)
    if body is not None:
        live_fleet.cluster.delete(KEY, uid=body["metadata"]["uid"], propagation="Background")


def serve(site: LiveFleet, *fields: str) -> None:
    """Serve widgets with more fields, and wait until the server does."""
    site.cluster.apply(definition(*fields), force=True)
    spec = {"size": 1, **dict.fromkeys(fields, 1)}
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "probe", "namespace": "default"}}

    def is_served() -> bool:
        try:
            site.cluster.apply({**body, "spec": spec}, dry_run=True)
        except ClusterError:
            return False
        return True

    wait_until(is_served, "widgets with these fields")


def observe(site: LiveFleet) -> str:
    ran = site.fleet.run("observe", "--kubeconfig", str(site.server.kubeconfig))
    assert ran.code == UnsafePlan.exit_code, "the server has no nodes, so that those of the evidence stay"
    return ran.out


def test_what_a_cluster_serves_validates_its_files(site: LiveFleet) -> None:
    """F-153: a definition that nobody ships, recorded once, and again when it changes."""
    fleet = site.fleet
    path = fleet.write("jobs/widget.yaml", WIDGET.replace("SPEC", "{sise: 1}"))
    assert f'unknown API group "{GROUP}", so only metadata is validated' in fleet.run("lint", "--width", "300").out
    assert f"wrote {FILE}" in observe(site)
    text = (fleet.root / FILE).read_text()
    assert f"group: {GROUP}" in text
    assert f"kubernetes: {site.cluster.version().removeprefix('v')}" in text
    assert "Of " not in text
    assert len(text) < 400_000, "a small file, whatever the server serves"
    linted = fleet.run("lint", "--width", "300")
    assert linted.code == 3
    assert f"unknown field (cluster main serves {GROUP}/v1)" in linted.out
    assert "did you mean size?" in linted.out
    assert FILE not in observe(site), "an unchanged cluster gives no change"
    serve(site, "sise")
    assert f"wrote {FILE}" in observe(site)
    assert fleet.run("lint").code == 0
    path.unlink()


def test_the_cluster_outranks_the_evidence(site: LiveFleet) -> None:
    """F-153: a plan against the live cluster asks its server about fields that the evidence lacks."""
    fleet = site.fleet
    path = fleet.write("jobs/widget.yaml", WIDGET.replace("SPEC", "{size: 1, later: 2}"))
    observe(site)
    assert fleet.run("plan").code == 3
    refused = site.plan("--width", "300")
    assert refused.code != 0
    assert "later" in refused.out
    serve(site, "later")
    planned, plan = site.plan_json()
    assert planned.code == 0, planned.out
    found = [one for one in plan["problems"] if one["rule"] == "schema.unknown-field"]
    assert [(one["severity"], one["field"]) for one in found] == [("warning", "spec.later")]
    assert any(change["key"]["kind"] == "Widget" for change in plan["changes"])
    assert fleet.run("plan").code == 3, "what the live plan knew is not kept"
    path.unlink()
