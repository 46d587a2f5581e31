"""The JSON of a plan is what its schema says, for any strings that JSON can hold."""

import json

import jsonschema_rs
import pytest

from reconciler.core.plan.codec import schema
from reconciler.outputs.json_report import render_json
from tests.outputs import plans

VALIDATOR = jsonschema_rs.Draft202012Validator(schema())


@pytest.mark.parametrize("name", ["everything", "quiet", "broken", "hostile"])
def test_plans_are_what_their_schema_says(name: str) -> None:
    text = render_json(getattr(plans, name)())
    data = json.loads(text)
    assert [error.message for error in VALIDATOR.iter_errors(data)] == []
    assert data["kind"] == "Plan"
    assert text.endswith("}\n")


def test_nothing_is_lost_on_the_way() -> None:
    data = json.loads(render_json(plans.everything()))
    first = data["changes"][1]["fields"][0]
    assert (first["path"], first["before"], first["after"]) == ("spec.completions", 1, 4)
    assert first["why"]["text"] == "32 GPUs / 8 per node = 4 nodes"
    assert first["why"]["places"][1] == {"path": "queues/h100.yaml", "line": 8, "column": 5}
