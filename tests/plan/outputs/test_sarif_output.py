"""SARIF 2.1.0: valid by the standard's own schema, at source lines, stable when lines move, bounded."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft4Validator
from msgspec.structs import replace

from reconciler.plan import Plan
from reconciler.plan.outputs.sarif import render_sarif
from tests import sizes
from tests.plan.outputs import plans
from tests.plan.outputs.goldens import agrees
from tests.plan.outputs.strategies import PLANS

# OASIS sarif-schema-2.1.0.json with errata 01, as the Go module github.com/owenrumney/go-sarif/v3 v3.3.1 carries it.
SCHEMA = Path(__file__).with_name("data") / "sarif-2.1.0.schema.json.gz"


VALIDATOR = Draft4Validator(json.loads(gzip.decompress(SCHEMA.read_bytes())))


def complaints(text: str) -> list[str]:
    """Return what the standard's schema has against a file."""
    return [error.message for error in VALIDATOR.iter_errors(json.loads(text))]


def results(plan: Plan, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(render_sarif(plan, **options))["runs"][0]["results"]
    return found


@pytest.mark.parametrize("name", ["everything", "gated", "broken", "quiet", "hostile"])
def test_the_standard_accepts_it(name: str) -> None:
    text = render_sarif(getattr(plans, name)())
    assert complaints(text) == []
    assert agrees(f"{name}.sarif", text)


def test_the_schema_can_refuse() -> None:
    assert complaints('{"version": "2.1.0", "runs": [{"results": []}]}')


def test_results_stand_at_source_lines() -> None:
    denial = next(result for result in results(plans.everything()) if result["ruleId"] == "max-gpus-per-job")
    location = denial["locations"][0]["physicalLocation"]
    assert location["artifactLocation"]["uri"] == "jobs/pretrain/gpt-35b.yaml"
    assert location["region"] == {"startLine": 14, "startColumn": 10}
    assert denial["level"] == "error"


def test_what_an_exception_allows_is_suppressed() -> None:
    suppressed = [result["ruleId"] for result in results(plans.everything()) if "suppressions" in result]
    assert suppressed == ["host-network"]


def test_fingerprints_do_not_move_with_lines() -> None:
    plan = plans.broken()
    moved = replace(
        plan, problems=tuple(replace(one, place=replace(one.place, line=one.place.line + 40)) for one in plan.problems)
    )
    marks = [[result["partialFingerprints"] for result in results(one)] for one in (plan, moved)]
    assert marks[0] == marks[1]
    twice = replace(plan, problems=plan.problems[:1] * 2)
    assert len({str(result["partialFingerprints"]) for result in results(twice)}) == len(results(twice))


def test_more_than_github_takes_is_counted_and_errors_stay() -> None:
    problem = plans.broken().problems[2]  # a warning
    plan = replace(plans.broken(), problems=(*[problem] * 6_000, plans.broken().problems[0]))
    run = json.loads(render_sarif(plan))["runs"][0]
    assert len(run["results"]) == 5_000
    assert [result["level"] for result in run["results"][:2]] == ["error", "error"]
    (notice,) = run["invocations"][0]["toolExecutionNotifications"]
    assert notice["message"]["text"].startswith("1,002 more findings omitted")


def test_rules_have_a_description_and_help() -> None:
    run = json.loads(render_sarif(plans.everything()))["runs"][0]
    by_id = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert by_id["max-gpus-per-job"]["shortDescription"]["text"] == "Max gpus per job"
    assert by_id["max-gpus-per-job"]["help"]["text"].startswith("ask for 24 or fewer")
    assert by_id["risk.pvc-data-loss"]["shortDescription"]["text"].startswith("A claim is deleted")
    for result in run["results"]:
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]


@settings(max_examples=sizes.examples(45), deadline=None)
@given(PLANS)
def test_any_strings_give_valid_sarif(plan: Plan) -> None:
    text = render_sarif(plan)
    assert text.isascii()
    assert complaints(text) == []
    messages = [result["message"]["text"] for result in json.loads(text)["runs"][0]["results"]]
    assert not any("](" in message for message in messages)  # in a SARIF message that is a link
