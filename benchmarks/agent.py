"""Measure the agent of a node with 8 GPUs on the fake driver's library: `make bench`; with `--minutes 10` all of it.

To reach over ten minutes: 40 MiB of memory (PSS) beside the children that read, 0.2 % of a core with a sweep a minute.
Sweeps are closer here, so that a short run has many, but no more than the agent keeps after a week with one a minute;
the share of a core is what they take, by the minute. The API server does not answer: what publishing needs is loaded,
and every write fails.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.nodehealth.readers.fakes.library import build
from tests.nodehealth.readers.fakes.root import write_root

GPUS, PER_MINUTE = 8, 60
SHORTEST = 5.0
KEPT = 46
"""Sweeps in the history of an agent: 15 minutes, a day by the hour, a week by the day."""
_KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "none",
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    "users": [{"name": "none", "user": {}}],
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:9"}}],
}
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=1.0)
    minutes = parser.parse_args().minutes
    interval = max(SHORTEST, minutes * 60 / KEPT)
    with tempfile.TemporaryDirectory() as folder:
        library, root = build(Path(folder)), write_root(Path(folder) / "root")
        port = _free_port()
        kubeconfig = Path(folder) / "kubeconfig"
        kubeconfig.write_text(json.dumps(_KUBECONFIG))
        command = [sys.executable, "-m", "reconciler", "agent", "--kubeconfig", str(kubeconfig), "--root", str(root)]
        command += ["--listen", f"127.0.0.1:{port}", "--interval", f"{interval:g}"]
        environ = {**os.environ, "LD_LIBRARY_PATH": str(library), "FAKE_GPUS": str(GPUS), "NODE_NAME": "node-1"}
        with subprocess.Popen(command, env=environ, stderr=subprocess.DEVNULL) as agent:
            try:
                _wait_until_ready(port)
                before, start = _busy(agent.pid), time.monotonic()
                peak = _watched(agent.pid, minutes * 60)
                seconds = time.monotonic() - start
                own, children = (after - first for after, first in zip(_busy(agent.pid), before, strict=True))
            finally:
                agent.terminate()
    sweeps = seconds / interval
    print(f"agent of {GPUS} GPUs, {minutes:g} minutes: {peak:.0f} MiB of its own at most (PSS)")
    for name, used in (("the agent itself", own), ("with its children", own + children)):
        print(
            f"{name}: {used / sweeps * 1000:.0f} ms a sweep, {used / sweeps / PER_MINUTE:.2%} of a core at one a minute"
        )


def _watched(pid: int, seconds: float) -> float:
    """Return the largest memory of a process within a time, in MiB."""
    peak, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        peak = max(peak, *(int(row.split()[1]) / 1024 for row in rows if row.startswith("Pss:")))
        time.sleep(1)
    return peak


def _busy(pid: int) -> tuple[float, float]:
    """Return the processor time of a process and of the children that it has, in seconds."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    threads = [path / "children" for path in Path(f"/proc/{pid}/task").iterdir()]
    children = {child for path in threads for child in path.read_text().split()} | set(listed)
    return _ticks(str(pid)), sum(_ticks(child) for child in children)


def _ticks(pid: str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _wait_until_ready(port: int) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the agent is not ready")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    main()
