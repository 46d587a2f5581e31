"""`reconciler probe` as a person, as Nagios and as Prometheus use it: whole processes on the fake library."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.nodehealth.readers.fakes.library import REPLAYS
from tests.nodehealth.readers.fakes.root import write_root

SOUND = REPLAYS / "fake-h200.json"


def probe(
    *arguments: str | Path, environ: dict[str, str] | None = None, timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reconciler", "probe", *map(str, arguments)]
    variables = environ or dict(os.environ)
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=timeout)


def test_a_laptop_without_a_gpu(environ: dict[str, str], tmp_path: Path) -> None:
    """Every check of GPUs is SKIP with its reason, NVML is UNKNOWN, and nothing of NVIDIA passes."""
    bare = {**environ, "LD_LIBRARY_PATH": str(tmp_path)}
    root = write_root(tmp_path / "root", gpus=0)
    result = probe("--root", root, environ=bare)
    assert result.returncode == 0, result.stderr
    assert "UNKNOWN node  nvml.init" in result.stdout
    assert "gpu.reachable" in result.stdout
    assert "this node has no GPU" in result.stdout
    report = json.loads(probe("--root", root, "-o", "json", environ=bare).stdout)
    nvidia = [one for one in report["findings"] if one["check"].startswith(("gpu", "remap", "ecc", "nvml", "power"))]
    assert {one["status"] for one in nvidia} == {"SKIP", "UNKNOWN"}
    assert probe("--root", root, "--expect-gpus", "8", "-o", "nagios", environ=bare).returncode == 2


def test_a_node_with_eight_gpus(environ: dict[str, str], tmp_path: Path) -> None:
    """One bad GPU of eight is told with its slot; the others are one row."""
    root = write_root(tmp_path)
    result = probe("--root", root, environ={**environ, "FAKE_GPUS": "8", "FAKE_VALUE_REMAP_FAILURE_3": "1"})
    lines = result.stdout.splitlines()
    assert lines[0].startswith("node-1: FAIL: 8 GPUs (NVIDIA H200), driver 580.65.06; ")
    assert lines[1].split()[:3] == ["FAIL", "0000:13:00.0", "remap.failure"]
    assert "[fatal; action contact_support]" in lines[1]
    assert any(line.split()[:4] == ["PASS", "7", "GPUs", "remap.failure"] for line in lines)


@pytest.mark.parametrize(
    ("setting", "nagios", "npd"),
    [
        ("", 0, 0),
        ("VALUE_REMAP_PENDING_0", 1, 0),
        ("VALUE_REMAP_FAILURE_0", 2, 1),
        ("ERROR_nvmlDeviceGetRemappedRows_0", 3, 2),
    ],
)
def test_exit_codes(environ: dict[str, str], tmp_path: Path, setting: str, nagios: int, npd: int) -> None:
    """0, 1, 2, 3 for Nagios; 0, 1, 2 for Node Problem Detector; 0 for a person."""
    values = {**environ, **({f"FAKE_{setting}": "1" if "VALUE" in setting else "999"} if setting else {})}
    checks = ("--root", write_root(tmp_path, gpus=2), "--check", "remap.pending", "--check", "remap.failure")
    assert probe(*checks, environ=values).returncode == 0
    result = probe(*checks, "-o", "nagios", environ=values)
    assert result.returncode == nagios
    word = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[nagios]
    assert result.stdout.startswith(f"GPU {word} - ")
    assert " | pass=" in result.stdout.splitlines()[0]
    assert probe(*checks, "--exit-style", "npd", environ=values).returncode == npd


def test_prometheus(environ: dict[str, str], tmp_path: Path) -> None:
    """The text format parses; each check of each GPU is one sample."""
    result = probe("--root", write_root(tmp_path, gpus=2), "-o", "prometheus", environ=environ)
    families = {family.name: family for family in text_string_to_metric_families(result.stdout)}
    samples = families["reconciler_probe_status"].samples
    keys = [(sample.labels["check"], sample.labels["slot"]) for sample in samples]
    assert len(keys) == len(set(keys))
    assert ("remap.failure", "0000:11:00.0") in keys
    assert all(sample.value == 1 for sample in samples)
    assert families["reconciler_probe_timestamp_seconds"].samples


def test_record_and_replay(environ: dict[str, str], tmp_path: Path) -> None:
    """A record holds every call with its value, error and latency; a replay gives the same findings anywhere."""
    root, file = write_root(tmp_path / "root", gpus=2), tmp_path / "record.json"
    result = probe("record", file, "--root", root, "--sweeps", "3", "--interval", "0.01", environ=environ)
    assert "3 sweeps" in result.stdout
    sweeps = json.loads(file.read_text())["sweeps"]
    assert len(sweeps) == 3
    names = {reading["name"] for reading in sweeps[0]["readings"]}
    assert {"nvml.recovery_action", "nvml.fabric", "nvml.row_histogram", "kmsg.lines", "sysfs.pci_gpus"} <= names
    assert any(reading.get("milliseconds") for reading in sweeps[0]["readings"])
    assert any(reading.get("error") == "not_supported" for reading in sweeps[0]["readings"])
    here = probe("--replay", file, "-o", "json", environ=environ)
    there = probe("--replay", file, "-o", "json", environ={**environ, "LD_LIBRARY_PATH": "", "NODE_NAME": "laptop"})
    assert here.stdout == there.stdout
    assert json.loads(here.stdout)["node"] == "node-1"


def test_a_record_is_checked_before_the_measurement(environ: dict[str, str], tmp_path: Path) -> None:
    """A path that cannot be written is told at once; the hour of sweeps is not lost."""
    root = write_root(tmp_path / "root", gpus=1)
    for file, problem in ((tmp_path / "none/record.json", "No such file or directory"), (tmp_path, "Is a directory")):
        command = ("record", file, "--root", root, "--sweeps", "2", "--interval", "3600")
        result = probe(*command, environ=environ, timeout=60)
        assert result.returncode == 6
        assert result.stderr == f"error: {file} cannot be written: {problem}; name another file\n"
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not a replay file"),
        (b'{"kind": "Pod", "apiVersion": "v1", "sweeps": []}', "not a replay file"),
        (None, "cannot be read"),
    ],
)
def test_a_file_that_is_no_replay(tmp_path: Path, content: bytes | None, message: str) -> None:
    """A clear error with the file and what makes one."""
    file = tmp_path / "f.json"
    if content is not None:
        file.write_bytes(content)
    result = probe("--replay", file)
    assert result.returncode == 2
    assert message in result.stderr
    assert str(file) in result.stderr


def test_an_unknown_check() -> None:
    """The nearest id is suggested."""
    result = probe("--check", "remap.fail", "--replay", SOUND)
    assert result.returncode == 2
    assert "did you mean 'remap.failure'" in result.stderr


def test_hostile_names_do_not_reach_the_terminal(environ: dict[str, str], tmp_path: Path) -> None:
    """A card may call itself anything."""
    result = probe("--root", write_root(tmp_path, gpus=2), environ={**environ, "FAKE_VALUE_NAME": "\x1b[31mred\nx"})
    assert "\x1b" not in result.stdout


def test_probe_imports_little() -> None:
    """No Kubernetes client, no compiler of rules: a probe runs every minute on small cores."""
    code = (
        "import sys; from reconciler.cli.main import run; "
        f"run(['probe', '--replay', {str(SOUND)!r}]); "
        "sys.stderr.write(' '.join(sorted(name for name in sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(result.stderr.split())
    assert "reconciler.nodehealth.judge" in loaded
    assert not loaded & {"kubernetes", "git", "yaml", "re2", "jsonschema_rs", "rich", "urllib3", "pynvml"}
    assert not loaded & {"reconciler.plan.planning", "reconciler.index.build", "reconciler.kube.schemas"}
