"""The JSON of a plan is what its schema says, for any strings that JSON can hold."""

import json

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.console.printing import whole_lines
from reconciler.plan.codec import schema, to_json
from reconciler.plan.digest import checksum
from reconciler.plan.outputs.json_report import render_json, stream_json
from tests.plan.outputs import plans

VALIDATOR = jsonschema_rs.Draft202012Validator(schema())


@pytest.mark.parametrize("name", ["everything", "gated", "quiet", "broken", "hostile"])
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


@pytest.mark.parametrize("name", ["everything", "gated", "quiet", "broken", "hostile"])
def test_the_parts_are_the_whole_document(name: str) -> None:
    """Equal bytes and checksum, whether the document is written item by item or at once."""
    plan = getattr(plans, name)()
    document = to_json(plan)
    assert render_json(plan) == json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    assert document["checksum"] == checksum(document)


def test_a_long_plan_is_written_change_by_change() -> None:
    """No part holds more than one change, and every part ends a line, so that each can be cleaned by itself."""
    changes = tuple(replace(plans.RESIZED, path=f"rendered/{number}") for number in range(500))
    parts = stream_json(replace(plans.everything(), changes=changes))
    sizes = []
    for part in parts:
        assert part.endswith("\n")
        assert part.count('"operation"') <= 1
        sizes.append(len(part))
    assert len(sizes) > 500
    assert max(sizes) < 20_000


@given(st.lists(st.text(alphabet="ab\n\r\u2028#:[", max_size=40)), st.integers(1, 30))
def test_printing_in_parts_changes_nothing(parts: list[str], size: int) -> None:
    cut = list(whole_lines(parts, size))
    assert "".join(cut) == "".join(parts)
    assert all(part.endswith("\n") for part in cut[:-1])
