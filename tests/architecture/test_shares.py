"""The order of the tests: none is lost, and those of one server are in one worker's share."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.shares import in_shares

ROOT = Path(__file__).parents[2]


def _tests(path: str, count: int, *fixtures: str) -> list[pytest.Item]:
    made = (SimpleNamespace(nodeid=f"{path}::test_{number}", fixturenames=[*fixtures]) for number in range(count))
    return cast("list[pytest.Item]", [*made])


@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_every_share_begins_with_the_tests_of_its_servers(workers: int) -> None:
    private = _tests("tests/live/apply/test_apply.py", 9, "private_server")
    waiting = _tests("tests/nodehealth/readers/test_probe.py", 8)
    breaking = _tests("tests/live/health/test_events.py", 2, "fragile")
    bed = _tests("tests/cluster/test_bed.py", 7, "bed")
    items = [
        *_tests("tests/kube/test_quantities.py", 300),
        *bed,
        *_tests("tests/cli/test_plan.py", 50),
        *private,
        *waiting,
        *breaking,
    ]
    ordered = in_shares(items, workers)
    assert sorted(item.nodeid for item in ordered) == sorted(item.nodeid for item in items)
    size = len(items) // workers
    assert ordered[: len(private)] == private
    assert ordered[size : size + len(bed)] == bed
    assert all("kube" in item.nodeid for item in ordered[size - 10 : size])
    first = ordered.index(breaking[0])
    assert ordered[first : first + 10] == breaking + waiting
    assert "cli" in ordered[first - 1].nodeid, "other tests compute while those of the servers wait"


def test_a_server_stops_after_the_last_test_that_uses_it(tmp_path: Path) -> None:
    """With all that uses it in turn; a later test starts it again."""
    (tmp_path / "test_servers.py").write_text("""
import pytest
pytest_plugins = ("tests.cluster.fixtures",)
SEEN = []

@pytest.fixture(scope="session")
def bed():
    SEEN.append("start")
    yield "bed"
    SEEN.append("stop")

@pytest.fixture(scope="session")
def kueue(bed):
    yield bed + " with kueue"
    SEEN.append("without kueue")

def test_first(kueue):
    assert kueue == "bed with kueue"

def test_second(bed):
    assert SEEN == ["start"]

def test_third():
    assert SEEN == ["start", "without kueue", "stop"]

def test_fourth(kueue):
    assert SEEN[3:] == ["start"]
""")
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert "4 passed" in done.stdout, done.stdout + done.stderr


def test_one_worker_runs_them_all() -> None:
    items = [*_tests("tests/kube/test_quantities.py", 3), *_tests("tests/cluster/test_bed.py", 2, "bed")]
    assert in_shares(items, 1) == items[3:] + items[:3]
