"""JUnit XML: one case per source file, failures for errors, parseable whatever the strings."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings

from reconciler.plan import Plan
from reconciler.plan.outputs.junit import render_junit
from tests import sizes
from tests.plan.outputs import plans
from tests.plan.outputs.goldens import agrees
from tests.plan.outputs.strategies import PLANS


def suite(text: str) -> ET.Element:
    root = ET.fromstring(text.encode())  # noqa: S314 - our own output
    (found,) = root
    return found


@pytest.mark.parametrize("name", ["everything", "gated", "broken", "hostile"])
def test_files_are_cases(name: str) -> None:
    text = render_junit(getattr(plans, name)())
    suite(text)
    assert agrees(f"{name}.junit.xml", text)


def test_errors_fail_their_file_and_warnings_do_not() -> None:
    found = suite(render_junit(plans.broken()))
    cases = {case.get("name"): case for case in found}
    assert found.get("tests") == "3"
    assert found.get("failures") == "2"
    failure = cases["jobs/eval/mmlu.yaml"].find("failure")
    assert failure is not None
    assert failure.get("type") == "yaml.ambiguous-scalar"
    assert "jobs/eval/mmlu.yaml:12:14" in (failure.text or "")
    assert "jobs/eval/mmlu.yaml:15:3" in (failure.text or "")
    assert cases["queues/h100.yaml"].find("failure") is None
    assert cases["queues/h100.yaml"].find("system-out") is not None


def test_an_exceeded_budget_fails() -> None:
    cases = {case.get("name"): case for case in suite(render_junit(plans.everything()))}
    assert cases["whole plan"].find("failure") is not None
    assert cases["queues/h200.yaml"].find("failure") is None


@settings(max_examples=sizes.examples(60), deadline=None)
@given(PLANS)
def test_any_strings_give_xml(plan: Plan) -> None:
    found = suite(render_junit(plan))
    failures = [case for case in found if case.find("failure") is not None]
    assert found.get("tests") == str(len(found))
    assert found.get("failures") == str(len(failures))
