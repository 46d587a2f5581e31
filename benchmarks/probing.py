"""Measure a probe on the fake driver's library: one sweep, its checks, and the whole command: `make bench`.

To reach: 300 ms for the whole command with one GPU. A sweep is what the agent does each minute, by the parent and its
child; the calls of a real driver take longer than those of the fake.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.readers.library import LibrarySource
from reconciler.nodehealth.readers.system import SystemSource
from reconciler.nodehealth.readings import SourceReadings, make_sweep
from tests.nodehealth.readers.fakes.library import build
from tests.nodehealth.readers.fakes.root import write_root

GPUS, RUNS = 8, 20


def best(action: Callable[[], object], runs: int = RUNS) -> float:
    """Return the shortest of several times, in milliseconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times) * 1000


def main() -> None:
    """Print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        library, root = build(Path(folder)), write_root(Path(folder) / "root")
        environ = {**os.environ, "LD_LIBRARY_PATH": str(library)}
        source = LibrarySource("nvml", environ={**environ, "FAKE_GPUS": str(GPUS)})
        system = SystemSource(root)

        def read() -> SourceReadings:
            found = source.read(ProbeProfile.LIGHT, SourceReadings())
            return found.plus(system.read(ProbeProfile.LIGHT, found))

        sweep = make_sweep("node-1", 1.0, read())
        busy = time.process_time()
        reading = best(read)
        busy = (time.process_time() - busy) / RUNS * 1000
        checking = best(lambda: judge(sweep))
        source.close()
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole = best(lambda: _probe(root, {**environ, "FAKE_GPUS": "1"}), runs=10)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = (after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime) / 10 * 1000
    print(f"light sweep of {GPUS} GPUs, {len(sweep.readings)} readings: {reading:.0f} ms, {busy:.0f} ms in the parent")
    print(f"all checks of it: {checking:.1f} ms")
    print(f"`reconciler probe`, one GPU, whole process: {whole:.0f} ms ({processor:.0f} ms of processor)")


def _probe(root: Path, environ: dict[str, str]) -> None:
    command = (sys.executable, "-m", "reconciler", "probe", "--root", str(root))
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
