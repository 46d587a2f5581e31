"""JSON with thousands of levels is answered like text that is no JSON, wherever it is read."""

from collections.abc import Callable

import pytest

from reconciler.errors import ConfigError
from reconciler.health.jobs.running import read_series
from reconciler.health.probe import read_replay
from reconciler.nodehealth.nodes import parse_record
from reconciler.nodehealth.published import EXPECTED, expected_of
from reconciler.plan.codec import from_json
from tests.plan.plan_cases import as_row, job

DEEP = b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (from_json, "cannot read the plan"),
        (lambda content: read_replay(content, "a.json"), "a.json: not a replay file"),
        (lambda content: read_series("b.json", content), "b.json: not a recorded series of jobs"),
    ],
)
def test_a_file_of_a_flag(read: Callable[[bytes], object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(DEEP)


def test_an_annotation() -> None:
    text = DEEP.decode()
    assert parse_record(text) is None
    assert expected_of({"metadata": {"annotations": {EXPECTED: text}}}) == expected_of({})
    sized = job("sized")
    sized["metadata"]["annotations"] = {"gpureconciler.io/sizing": text.replace('"x"', '"gpu_hours"')}
    assert as_row(sized).gpu_hours == 0
