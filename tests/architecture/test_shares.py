"""The order of the tests: none is lost, and those of one server are in one worker's share."""

from types import SimpleNamespace
from typing import cast

import pytest

from tests.shares import in_shares


def _tests(path: str, count: int, *fixtures: str) -> list[pytest.Item]:
    made = (SimpleNamespace(nodeid=f"{path}::test_{number}", fixturenames=[*fixtures]) for number in range(count))
    return cast("list[pytest.Item]", [*made])


@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_every_share_begins_with_the_tests_of_its_servers(workers: int) -> None:
    private = _tests("tests/live/apply/test_apply.py", 9, "private_server")
    bed = _tests("tests/cluster/test_bed.py", 7, "bed")
    items = [
        *_tests("tests/core/test_quantities.py", 300),
        *bed,
        *_tests("tests/cli/test_plan.py", 50),
        *private,
        *_tests("tests/node/test_probe.py", 8),
    ]
    ordered = in_shares(items, workers)
    assert sorted(item.nodeid for item in ordered) == sorted(item.nodeid for item in items)
    size = len(items) // workers
    assert ordered[: len(private)] == private
    assert ordered[size : size + len(bed)] == bed
    assert all("core" in item.nodeid for item in ordered[size - 10 : size])


def test_one_worker_runs_them_all() -> None:
    items = [*_tests("tests/core/test_quantities.py", 3), *_tests("tests/cluster/test_bed.py", 2, "bed")]
    assert in_shares(items, 1) == items[3:] + items[:3]
