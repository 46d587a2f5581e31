"""What strategies allocate on the public traces of openb (F-160, AF-17): at least what is published."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.placement.__main__ import DATA, measure, read_rows

NODES = DATA / "openb_node_list_gpu_node.csv"
ROOT = Path(__file__).parents[2]


def _published(trace: str, policy: str) -> float:
    return next(
        float(row["alloc_130"])
        for row in read_rows(DATA / "published.csv")
        if (row["trace"], row["policy"]) == (trace, policy)
    )


def _allocated(trace: str, strategy: str, mark: str = "130", seed: int = 42) -> float:
    found = measure(NODES, DATA / f"openb_pod_list_{trace}.csv.gz", strategy, seed)
    shares = found["allocated"]
    assert isinstance(shares, dict)
    return float(shares[mark])


@pytest.mark.parametrize("trace", ["default", "multigpu50", "gpushare100", "gpuspec33", "cpu250"])
def test_fragmentation_allocates_as_much_as_the_authors_of_the_method(trace: str) -> None:
    """Of one seed: within the spread of their ten (AF-17: 0.3 points); `docs/performance.md` has five seeds."""
    assert _allocated(trace, "fragmentation") >= _published(trace, "FGD") - 0.3


def test_tasks_that_need_one_model_are_not_crowded_out() -> None:
    """At 100 % the published method allocates 87.8 % where a third of the tasks names its models."""
    assert _allocated("gpuspec33", "fragmentation", "100") >= 93.5


def test_best_fit_allocates_as_published() -> None:
    """AF-17."""
    assert _allocated("default", "best_fit") >= 93.0


def test_the_benchmark_is_a_command_that_prints_json() -> None:
    command = [sys.executable, "-m", "benchmarks.placement", "--strategy", "first_fit", "--seed", "7", "-o", "json"]
    command += ["--nodes", str(NODES), "--pods", str(DATA / "openb_pod_list_multigpu50.csv.gz")]
    one, two = (subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout for _ in range(2))
    first, second = json.loads(one), json.loads(two)
    assert first["allocated"] == second["allocated"]
    assert list(first["allocated"]) == ["100", "110", "120", "130"]
    assert first["allocated"]["130"] >= 96.0
