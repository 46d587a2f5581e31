"""A real API server takes all that the chart renders, also where it enforces the strictest Pod Security Standard."""

from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.test_renders import every_case, values
from tests.cluster.judges import assert_all_accepted
from tests.cluster.server import ApiServer
from tests.live.chart.rendering import Chart
from tools.chart.access import MODES
from tools.chart.build import MANIFESTS


@every_case
def test_every_rendered_object_is_accepted(
    cluster_with_monitoring: ApiServer, restricted: str, chart: Chart, case: Path
) -> None:
    """F-132: server-side dry run with strict fields, of every typical set of values."""
    results = cluster_with_monitoring.client.apply_dry_run(chart(values(case)))
    assert_all_accepted(results)
    warnings = [warning for result in results for warning in result.warnings]
    assert not [warning for warning in warnings if 'container \\"kmsg\\"' not in warning]


@pytest.mark.parametrize("mode", MODES)
def test_plain_manifests_are_accepted(api_server: ApiServer, restricted: str, mode: str) -> None:
    """F-132."""
    bodies = list(yaml.safe_load_all((MANIFESTS / f"{mode}.yaml").read_text(encoding="utf-8")))
    assert bodies[0]["kind"] == "Namespace"
    assert_all_accepted(api_server.client.apply_dry_run(bodies))


@every_case
def test_pods_satisfy_the_restricted_standard(api_server: ApiServer, restricted: str, chart: Chart, case: Path) -> None:
    """F-132: admission of the API server, which judges the pod itself."""
    answer = _create(api_server, restricted, _pod(chart, case))
    assert answer.ok, answer.body
    assert not answer.warnings


@pytest.mark.parametrize(
    "change",
    [
        {"hostNetwork": True},
        {"securityContext": {"runAsUser": 0}},
        {"volumes": [{"name": "host", "hostPath": {"path": "/"}}]},
    ],
    ids=str,
)
def test_the_standard_is_enforced_here(
    api_server: ApiServer, restricted: str, chart: Chart, change: dict[str, Any]
) -> None:
    """The judge refuses what it should: the test above does not pass for want of admission."""
    body = _pod(chart, next(iter(_cases())))
    body["spec"] |= {**change, "volumes": [*body["spec"]["volumes"], *change.get("volumes", ())]}
    answer = _create(api_server, restricted, body)
    assert answer.status == HTTPStatus.FORBIDDEN
    assert "PodSecurity" in answer.body["message"]


def _cases() -> list[Path]:
    return [Path(__file__).parents[2] / "chart" / "cases" / "default"]


def _pod(chart: Chart, case: Path) -> dict[str, Any]:
    """Return the pod that the ReplicaSet of the Deployment would make."""
    (deployment,) = (body for body in chart(values(case)) if body["kind"] == "Deployment")
    template = deployment["spec"]["template"]
    spec = {name: value for name, value in template["spec"].items() if name != "priorityClassName"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": "pod"}, "spec": spec}


def _create(api_server: ApiServer, namespace: str, body: dict[str, Any]) -> Any:
    return api_server.client.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", body)
