"""`make gpu-check`: every step on fakes of both libraries, and a clear end where there is no GPU."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reconciler.health.node import peak_table
from reconciler.health.probe import read_replay
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readings import ReadError
from tests.nodehealth.readers.compiled import FAKES, build
from tools.gpu_check.figures import noise, percentile
from tools.gpu_check.steps import STEPS

ROOT = Path(__file__).resolve().parents[3]


def _run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tools.gpu_check", *arguments]
    return subprocess.run(
        argv, cwd=ROOT, env={**os.environ, **environ}, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run everything once on two fake GPUs, in a fiftieth of the time; return the folder and the messages."""
    if not (FAKES / "fake_nvml.c").exists():
        pytest.skip("left out: the fake of NVML")
    folder = tmp_path_factory.mktemp("gpu-check")
    build("fake_nvml", folder / "libnvidia-ml.so.1", "-Wl,-soname,libnvidia-ml.so.1", "-w")
    cuda = build("cuda", folder / "libcuda.so.1")
    out = folder / "out"
    done = _run(
        "--library", str(cuda), "--root", str(folder), "--out", str(out), "--scale", "0.02",
        LD_LIBRARY_PATH=str(folder), FAKE_GPUS="2",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out, done.stderr


def test_every_step_has_figures(checked: tuple[Path, str]) -> None:
    report: dict[str, Any] = json.loads((checked[0] / "report.json").read_text())
    assert {name for name, _ in STEPS} <= set(report)
    assert [f"{name}: {report[name]['failed']}" for name, _ in STEPS if "failed" in report[name]] == []
    assert report["sweep cost"]["p50 ms"] > 0
    assert report["link"]["h2d, pinned"]["mean"] > 0
    assert set(report["memory"]) >= {"1 GiB", "4 GiB", "16 GiB", "data sheet GB/s, part reached"}
    assert report["arithmetic"]["bf16"]["wrong"] == 0
    assert report["noise"]["daxpy"]["n"] == 2
    assert len(report["soak"]["series"]) > 1
    text = (checked[0] / "report.txt").read_text()
    assert all(f"\n{name}\n" in text for name, _ in STEPS)


def test_the_recorded_readings_are_judged_anywhere(checked: tuple[Path, str]) -> None:
    path = checked[0] / "replay.json"
    *_, sweep = read_replay(path.read_bytes(), str(path))
    assert len(sweep.gpus) == 2
    names = {reading.name for reading in sweep.readings}
    assert {"nvml.remapped_rows", "cuda.h2d", "cuda.daxpy", "cuda.bf16", "cuda.peer"} <= names
    findings = {finding.check: finding for finding in judge(sweep, only=("compute.checksum",), peaks=peak_table())}
    assert findings["compute.checksum"].status == "PASS"


def test_without_a_driver_it_says_so(tmp_path: Path) -> None:
    done = _run("--out", str(tmp_path / "out"), LD_LIBRARY_PATH=str(tmp_path))
    if "no driver" not in done.stderr:
        pytest.skip("left out: this machine has an NVIDIA driver")
    assert done.returncode == 6
    assert ReadError.NO_LIBRARY in done.stderr or ReadError.NO_DRIVER in done.stderr
    assert not (tmp_path / "out").exists()


def test_noise() -> None:
    assert noise([1.0, 1.0]) == {"n": 2, "mean": 1.0, "cv": 0.0, "skew": 0.0, "lag1": 0.0}
    found = noise([1.0, 2.0, 1.0, 2.0])
    assert (found["mean"], found["skew"], found["best"]) == (1.5, 0, 2)
    assert found["cv"] == pytest.approx(1 / 3, rel=1e-4)
    assert found["lag1"] == -0.75  # the next one is on the other side of the mean
    assert noise([1.0, 1.0, 1.0, 9.0])["skew"] > 1
    assert (percentile([3, 1, 2], 0.5), percentile([3, 1, 2], 0.99)) == (2, 3)
