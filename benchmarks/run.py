"""Measure what a user waits for, beside a floor and peers in the same run: `make bench`.

Per corpus: cold plan; plans with a warm cache after one changed file, after one job that moves GPUs, after one changed
queue, and after evidence that is only newer; the first two also of a process that watches the files (`--watch`), from
the edit to the printed plan; a change of all queues, which updates a fifth of all objects; lint, first commit; once:
`--help`. The floor is the bare event scan of the same bytes by libyaml through PyYAML. Peers run where they are found:
`kubectl kustomize` (build only) and `kubeconform` (schema check only). Processor time is that of all processes
together, the least of all runs as the wall time is: it tells more where neighbours share the machine.
"""

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count, cycle
from pathlib import Path

from benchmarks.corpus import MIXES, git, write

SIZES = {"real": (100, 1_000, 10_000), "short": (100, 1_000, 10_000), "clusters": (5_000,)}
_MAX_FOR_KUSTOMIZE = 1_000  # its time grows faster than its input: ten thousand objects take over five minutes
_ROOT = Path(__file__).resolve().parent.parent
_INSTALLED = {"PYTHONDONTWRITEBYTECODE": ""}  # an installed package has its byte code
_SHORT_RUNS = 5  # times as many runs of what takes a fraction of a second: there a neighbour's noise is largest
_SETTLING_SECONDS = 1.1
_PAUSE_SECONDS = 0.3  # between two edits, as a person pauses at least
_GPUS_PER_NODE = 8  # a job on one node cannot move to several: the access modes of its claims cannot change
_MAX_SHOWN = 4_000  # characters of what a failed command printed: the errors are near the top of a plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Best wall and processor time of several runs in seconds, and peak memory of all processes together in MiB."""

    seconds: float
    processor: float
    mebibytes: float


def measure(command: Sequence[str], *, cwd: Path, runs: int, before: Sequence[object] = (), **environ: str) -> Measured:
    """Run a command several times; `before` holds callables to run before each."""
    best, busy, peak = float("inf"), float("inf"), 0.0
    for _ in range(runs):
        for prepare in before:
            prepare()  # type: ignore[operator]
        start, before_it = time.perf_counter(), _busy()
        with subprocess.Popen(
            command,
            cwd=cwd,
            env={**os.environ, **_INSTALLED, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            with _watched(process.pid) as memory:
                output, problems = process.communicate()
            best = min(best, time.perf_counter() - start)
        busy = min(busy, _busy() - before_it)
        if process.returncode:
            raise SystemExit(f"{output.decode()[:_MAX_SHOWN]}\n{problems.decode()[-600:]}\n{' '.join(command)} failed")
        peak = max(peak, memory[0])
    return Measured(seconds=best, processor=busy, mebibytes=peak)


def watch(reconciler: str, edit: Callable[[], None], *, cwd: Path, runs: int, **environ: str) -> Measured:
    """Let `plan --watch` plan several edits; its time is from the edit to the last line of the plan."""
    command = (reconciler, "plan", "--watch")
    best, busy, peak = float("inf"), float("inf"), 0.0
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **_INSTALLED, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        _end_of_plan(process)
        for _ in range(runs):
            time.sleep(_PAUSE_SECONDS)
            before = _busy_of(process.pid)
            edit()
            start = time.perf_counter()
            _end_of_plan(process)
            best = min(best, time.perf_counter() - start)
            busy = min(busy, _busy_of(process.pid) - before)
            peak = max(peak, _pss(process.pid) / 1024)
        process.kill()
    return Measured(seconds=best, processor=busy, mebibytes=peak)


def _end_of_plan(process: subprocess.Popen[str]) -> None:
    for line in process.stdout or ():
        if line.startswith("Plan:"):
            return
    raise SystemExit("plan --watch has ended")


def _busy_of(pid: int) -> float:
    """Return the processor time of a living process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _busy() -> float:
    """Return the processor time of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextmanager
def _watched(pid: int) -> Iterator[list[float]]:
    """Sample the proportional memory of a process and its children every 50 ms."""
    peak, done = [0.0], threading.Event()

    def sample() -> None:
        while not done.wait(0.05):
            # Until a child executes its program, its memory is that of its parent, to the page: it counts once.
            peak[0] = max(peak[0], sum({_pss(each) for each in (pid, *_children(pid))}) / 1024)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _pss(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


FLOOR = """
import gc, pathlib, yaml
gc.disable()
for path in pathlib.Path('.').rglob('*.yaml'):
    if 'rendered' not in path.parts:
        for event in yaml.parse(path.read_bytes(), Loader=yaml.CLoader):
            pass
"""


def installed(scratch: Path) -> str:
    """Install this checkout into an environment of its own, as users have it, and return the command.

    Tools for development bring packages that are imported where they are found (typing_extensions: 8 ms).
    """
    environment = scratch / "venv"
    subprocess.run((sys.executable, "-m", "venv", str(environment)), check=True)
    python = environment / "bin" / "python"
    subprocess.run((str(python), "-m", "pip", "install", "--quiet", str(_ROOT)), check=True, stderr=subprocess.DEVNULL)
    return str(environment / "bin" / "reconciler")


def settle(repository: Path) -> None:
    """Let git see that its files are older than its index: of younger ones it reads the content again each time."""
    time.sleep(_SETTLING_SECONDS)
    git(repository, "update-index", "-q", "--refresh")


def bench(reconciler: str, size: int, mix: str, scratch: Path, runs: int) -> None:
    """Measure one corpus and print its rows."""
    repository = scratch / f"corpus-{mix}-{size}"
    repository.mkdir()
    sources = write(repository, size, mix=mix)
    cache = scratch / f"cache-{mix}-{size}"
    environ = {"RECONCILER_CACHE_DIR": str(cache), "PYTHONHASHSEED": "0"}

    def forget() -> None:
        shutil.rmtree(cache, ignore_errors=True)

    def call(*verb: str, times: int = runs, before: Sequence[object] = ()) -> Measured:
        return measure((reconciler, *verb), cwd=repository, runs=times, before=before, **environ)

    rows = {"first commit": call("commit", "-o", "name", times=1, before=(forget,))}
    settle(repository)
    floor = measure((sys.executable, "-c", FLOOR), cwd=repository, runs=runs)
    rows["cold plan"] = call("plan", before=(forget,))
    rows["lint, cold"] = call("lint", before=(forget,))
    call("plan", times=1)
    for edit in _edits(repository):
        for name, *verb in edit.rows:
            rows[name] = call(*verb, times=runs * edit.runs, before=(edit.apply,))
        if edit.is_watched:
            name = f"{edit.rows[0][0]}, --watch"
            rows[name] = watch(reconciler, edit.apply, cwd=repository, runs=runs * edit.runs, **environ)
        git(repository, "checkout", "--quiet", "--", ".")
    settle(repository)
    call("plan", times=1)
    rows["nothing changed, warm"] = call("plan", times=runs * _SHORT_RUNS)
    with pull_request(repository) as base:
        plan = ("plan", "--revision", "HEAD", "--base", base)
        rows["pull request of one file, cold"] = call(*plan, before=(forget,))
        call("plan", "--revision", base, times=1, before=(forget,))
        shutil.copytree(cache, kept := scratch / f"kept-{mix}-{size}")
        restore = partial(shutil.copytree, kept, cache)
        rows["the same, with the cache of its base"] = call(*plan, times=runs * _SHORT_RUNS, before=(forget, restore))
    _change_queues(repository)
    rows["all queues changed, cold"] = call("plan", times=1, before=(forget,))
    rows["all queues changed, cold, -o json"] = call("plan", "-o", "json", times=1, before=(forget,))
    git(repository, "checkout", "--quiet", "--", ".")
    print(f"\n{size:,} documents, {mix} mix, {sources / 1e6:.1f} MB of sources")
    _row("floor: libyaml event scan", floor, floor)
    for name, measured in rows.items():
        _row(name, measured, floor)
    for name, measured in _peers(repository, size, runs):
        _row(f"peer: {name}", measured, floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A change before each plan with a warm cache, another one each time; `rows` are names and commands."""

    apply: Callable[[], None]
    rows: tuple[tuple[str, ...], ...]
    runs: int = _SHORT_RUNS
    is_watched: bool = False


def _edits(repository: Path) -> tuple[Edit, ...]:
    number = count(1)
    job = next(path for path in sorted(repository.glob("jobs/*/job-*.yaml")) if _gpus(path) > _GPUS_PER_NODE)
    queue = min(repository.glob("queues/*.yaml"))
    sizes = cycle((16, 24, 32, 40))
    one = "one file changed, warm"
    return (
        Edit(
            apply=_editing(job, "maxRestarts: ", lambda: f"maxRestarts: {next(number)}"),
            rows=((one, "plan"), (f"{one}, -o json", "plan", "-o", "json")),
            is_watched=True,
        ),
        Edit(
            apply=_editing(job, f"numGPUs: {_gpus(job)}", lambda: f"numGPUs: {next(sizes)}"),
            rows=(("one job moves GPUs, warm", "plan"),),
            is_watched=True,
        ),
        Edit(
            apply=_editing(queue, "cpus: 96", lambda: f"cpus: {94 - next(number) % 40}"),
            rows=(("one queue changed, warm", "plan"),),
            runs=1,
        ),
        Edit(apply=lambda: _observe(repository, next(number)), rows=(("time of the evidence changed, warm", "plan"),)),
    )


def _editing(path: Path, old: str, new: Callable[[], str]) -> Callable[[], None]:
    """Return a function that writes a file with a part of its present text replaced, each time by another."""
    text = path.read_text()

    def edit() -> None:
        path.write_text(text.replace(old, new()))

    return edit


@contextmanager
def pull_request(repository: Path) -> Iterator[str]:
    """Commit a change of one file while the block runs; yield the commit before it."""
    base = git(repository, "rev-parse", "HEAD").strip()
    _edits(repository)[0].apply()
    git(repository, "commit", "--quiet", "--all", "--message", "one file")
    try:
        yield base
    finally:
        git(repository, "reset", "--quiet", "--hard", base)


def _gpus(job: Path) -> int:
    return int(job.read_text().partition("numGPUs: ")[2].split()[0])


def _observe(repository: Path, number: int) -> None:
    """Write evidence that differs from the last only in the time when it was taken."""
    for path in repository.glob("evidence/*/nodes.yaml"):
        text = path.read_text()
        before = text.partition('takenAt: "')[2].partition('"')[0]
        path.write_text(text.replace(before, f"2026-11-02T{number // 60 % 24:02}:{number % 60:02}:00Z"))


def _change_queues(repository: Path) -> None:
    """Change what all jobs inherit, so that each of them is updated."""
    for queue in repository.glob("queues/*.yaml"):
        queue.write_text(queue.read_text().replace("cpus: 96", "cpus: 95"))


def _row(name: str, measured: Measured, floor: Measured) -> None:
    ratio = measured.seconds / floor.seconds
    times = f"{measured.seconds:8.3f} s {ratio:7.2f} x floor {measured.processor:8.2f} s busy"
    print(f"  {name:<42} {times} {measured.mebibytes:8.0f} MiB", flush=True)


def _peers(repository: Path, size: int, runs: int) -> Iterator[tuple[str, Measured]]:
    rendered = repository / "rendered"
    kubectl, (first, *others) = shutil.which("kubectl"), sorted(rendered.iterdir())
    if kubectl and not others and size <= _MAX_FOR_KUSTOMIZE:  # which refuses one name on two clusters
        rendered = first
        files = sorted(str(path.relative_to(rendered)) for path in rendered.rglob("*.yaml"))
        (rendered / "kustomization.yaml").write_text("resources:\n" + "".join(f"- {path}\n" for path in files))
        yield "kubectl kustomize (build of rendered/)", measure((kubectl, "kustomize", "."), cwd=rendered, runs=1)
        (rendered / "kustomization.yaml").unlink()
    kubeconform = os.environ.get("KUBECONFORM") or shutil.which("kubeconform")
    if kubeconform:
        command = (kubeconform, "-ignore-missing-schemas", "-schema-location", "/nowhere", "-n", "2", ".")
        yield "kubeconform (reads all, checks nothing offline)", measure(command, cwd=rendered, runs=runs)


def main() -> None:
    """Run the benchmarks of the chosen sizes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="documents in each corpus")
    parser.add_argument("--mixes", nargs="+", default=tuple(MIXES), choices=tuple(MIXES), help="kinds of corpus")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each measurement; the best counts")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as name:
        scratch = Path(name)
        reconciler = installed(scratch)
        bare = measure((sys.executable, "-c", "pass"), cwd=scratch, runs=arguments.runs * _SHORT_RUNS)
        helped = measure((reconciler, "--help"), cwd=scratch, runs=arguments.runs * _SHORT_RUNS)
        print(f"python -c pass {bare.seconds * 1000:.0f} ms, reconciler --help {helped.seconds * 1000:.0f} ms", end="")
        print(f" ({helped.seconds / bare.seconds:.1f} x)")
        for mix in arguments.mixes:
            for size in arguments.sizes or SIZES[mix]:
                bench(reconciler, size, mix, scratch, arguments.runs)


if __name__ == "__main__":
    main()
