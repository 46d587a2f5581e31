"""PolicyReports: what their real definitions accept, with every verdict once."""

import time
from collections import Counter
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from reconciler import resources
from reconciler.kube.schemas import Catalogue
from reconciler.plan import Plan
from reconciler.plan.outputs.policy_report import render_policy_report
from tests import sizes
from tests.cluster.server import ApiServer
from tests.plan.outputs import plans
from tests.plan.outputs.strategies import PLANS

_OUTCOMES = {"deny": "fail", "error": "error", "warn": "warn", "audit": "warn", "excepted": "skip"}


def reports(plan: Plan) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(render_policy_report(plan)))


@pytest.fixture(scope="module")
def catalogue(report_definitions: list[dict[str, Any]]) -> Catalogue:
    return Catalogue(resources).with_definitions(report_definitions)


@pytest.mark.parametrize("name", ["small", "everything", "gated", "broken", "hostile"])
def test_every_verdict_and_problem_is_one_result(name: str) -> None:
    plan = getattr(plans, name)()
    found = [result for report in reports(plan) for result in report["results"]]
    expected = Counter(_OUTCOMES[one.result.value] for one in plan.verdicts)
    assert Counter(one["result"] for one in found if "resources" in one) == expected
    assert len(found) == len(plan.verdicts) + len(plan.problems)
    for report in reports(plan):
        counts = Counter(one["result"] for one in report["results"])
        assert {name: count for name, count in report["summary"].items() if count} == counts


def test_an_empty_report_replaces_an_earlier_one() -> None:
    (report, *_) = reports(plans.small())
    assert (report["kind"], report["metadata"]["name"]) == ("ClusterPolicyReport", "gpu-reconciler")


def test_a_result_names_its_object_and_its_place() -> None:
    plan = plans.broken()
    verdict = plan.verdicts[0]
    results = [one for report in reports(plan) for one in report["results"] if one["policy"] == verdict.rule]
    assert results[0]["resources"][0]["name"] == verdict.key.name
    assert results[0]["properties"]["place"] == str(verdict.place)


@given(plan=PLANS)
@settings(max_examples=sizes.examples(60), deadline=None)
def test_the_definitions_accept_every_report(catalogue: Catalogue, plan: Plan) -> None:
    """Hostile names of objects and namespaces stay values; the server refuses such namespaces by itself."""
    for report in reports(plan):
        wrong = [one for one in catalogue.violations(report) if one.path[:1] != ("metadata",)]
        assert wrong == []


def test_a_server_accepts_them(api_server: ApiServer, report_definitions: list[dict[str, Any]]) -> None:
    client = api_server.client
    assert all(result.ok for result in client.apply(report_definitions))
    found = [report for name in ("small", "everything", "broken") for report in reports(getattr(plans, name)())]
    deadline = time.monotonic() + 60
    while any("the server has no kind" in one.message or "404" in one.message for one in client.apply_dry_run(found)):
        assert time.monotonic() < deadline, "the definitions are not served"
        time.sleep(0.2)
    results = client.apply_dry_run(found)
    assert [result.message for result in results if not result.ok] == []
