"""Measure plans and applies on a real API server: `make bench-live`.

Every contender works on the same server, in turns, each in a namespace of its own: bare concurrent requests (the
floor), `kubectl apply --server-side`, Flux (its kustomize-controller, told at once), and `reconciler`. Times are those
of whole processes, the best of all rounds; ratios are to the floor of the same run. What a first apply creates is
deleted before the next one, which would otherwise list it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.corpus import git
from benchmarks.live import corpus, flux
from benchmarks.live.flux import Flux
from benchmarks.run import Measured, installed, measure
from tests.cluster import server
from tests.cluster.bed.bed import Bed
from tests.cluster.build import control_plane, crds, to_stderr

_ROOT = Path(__file__).resolve().parents[2]
_COUNTER = re.compile(rb'apiserver_request_total\{[^}]*resource="configmaps"[^}]*verb="(\w+)"[^}]*\} (\S+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where everything happens: the server, the command, kubectl, and a folder for files."""

    bed: Bed
    reconciler: str
    kubectl: Path
    scratch: Path

    def run(self, repository: Path, *words: str) -> Measured:
        """Measure one run of `reconciler` in a repository, which has a cache of its own."""
        return measure((self.reconciler, *words), cwd=repository, runs=1, **self._environ(repository))

    def _environ(self, repository: Path) -> dict[str, str]:
        return {
            "KUBECONFIG": str(self.bed.kubeconfig),
            "RECONCILER_CACHE_DIR": str(repository.with_suffix(".cache")),
            "RECONCILER_DECISION_LOG": str(self.scratch / "decisions.jsonl"),
        }

    def repository(self, name: str, count: int) -> Path:
        """Make a repository, with what it renders to, and its namespace on the server."""
        folder = self.scratch / name
        corpus.write(folder, name, count)
        self.bed.create("/api/v1/namespaces", {"metadata": {"name": name}})
        self.run(folder, "commit", "-o", "name")
        return folder

    def clear(self, *namespaces: str) -> None:
        """Delete the ConfigMaps of namespaces, and all inventories: whoever follows would read them, too."""
        for name in (*namespaces, "gpu-reconciler"):
            words = (str(self.kubectl), "--kubeconfig", str(self.bed.kubeconfig), "delete", "--raw")
            path = f"/api/v1/namespaces/{name}/configmaps"
            subprocess.run((*words, path), check=True, stdout=subprocess.DEVNULL)

    def requests(self) -> dict[str, int]:
        """Return how many requests for ConfigMaps the server has answered, by verb."""
        words = (str(self.kubectl), "--kubeconfig", str(self.bed.kubeconfig), "get", "--raw", "/metrics")
        text = subprocess.run(words, check=True, capture_output=True).stdout
        counts: dict[str, int] = {}
        for verb, value in _COUNTER.findall(text):
            counts[verb.decode()] = counts.get(verb.decode(), 0) + int(float(value))
        return counts


def first_apply(place: Place, count: int, rounds: int, peer: Flux | None) -> None:
    """Create objects on a server that has none of them."""
    rows: dict[str, list[Measured]] = {}
    for number in range(rounds):

        def add(name: str, contender: Callable[[Path], Measured], number: int = number) -> None:
            repository = place.repository(f"{re.sub('[^a-z]+', '-', name)}-{count}-{number}", count)
            rows.setdefault(name, []).append(contender(repository))
            place.clear(repository.name)

        add("bare requests", lambda repository: _bare(place, repository))
        add("kubectl apply", lambda repository: _kubectl(place, repository))
        plans: list[Measured] = []
        add("reconciler apply", lambda repository: _ours(place, repository, plans))  # noqa: B023 - called at once
        rows.setdefault("reconciler plan --live, before it", []).extend(plans)
        if peer:
            add("flux", lambda repository: _published(peer, repository))
    _print(f"first apply of {count:,} ConfigMaps", rows)


def no_change(place: Place, count: int, rounds: int, peer: Flux | None) -> None:
    """Find that nothing changed. What the server counts shows that nothing is written."""
    repository = place.repository(f"unchanged-{count}", count)
    place.run(repository, "plan", "--live", "--revision", "HEAD", "--out", "../plan.json")
    applied = place.run(repository, "apply", "../plan.json", "--no-wait")
    rows: dict[str, list[Measured]] = {"reconciler apply, once before": [applied]}
    before = place.requests()
    for _ in range(rounds):
        rows.setdefault("reconciler", []).append(place.run(repository, "plan", "--live", "--exit-code"))
    after = place.requests()
    made = {verb: after[verb] - before.get(verb, 0) for verb in after if after[verb] != before.get(verb, 0)}
    uncached = place.run(repository, "plan", "--live", "--exit-code", "--cache", "off")
    rows["reconciler, without a cache"] = [uncached]
    if peer:
        other = place.repository(f"unchanged-flux-{count}", count)
        rows["flux, once before"] = [_published(peer, other)]
        rows["flux"] = [peer.again(other.name) for _ in range(rounds)]
    _print(f"nothing changed, {count:,} ConfigMaps", rows, floor="reconciler")
    told = ", ".join(f"{number / rounds:.0f} {verb}" for verb, number in sorted(made.items())) or "none"
    print(f"  requests of reconciler for ConfigMaps in one run: {told}", flush=True)


def one_commit(place: Place, count: int, rounds: int, peer: Flux | None) -> None:
    """Bring a commit that changes one of many objects to the cluster."""
    rows: dict[str, list[Measured]] = {}
    ours = place.repository(f"commits-{count}", count)
    _ours(place, ours, [])
    theirs = place.repository(f"commits-flux-{count}", count) if peer else None
    if peer and theirs:
        _published(peer, theirs)
    for number in range(rounds):
        _edit(ours / "jobs", number)
        git(ours, "commit", "--quiet", "--all", "--message", "edit")
        planned = place.run(ours, "plan", "--live", "--revision", "HEAD", "--out", "../plan.json")
        rows.setdefault("reconciler plan --live", []).append(planned)
        rows.setdefault("reconciler apply", []).append(place.run(ours, "apply", "../plan.json", "--no-wait"))
        if peer and theirs:
            _edit(theirs / "rendered/main", number)
            git(theirs, "commit", "--quiet", "--all", "--message", "edit")
            rows.setdefault("flux", []).append(peer.follow(theirs.name, theirs))
    _print(f"one of {count:,} ConfigMaps changed, from commit to applied", rows, floor="reconciler apply")


def _edit(folder: Path, number: int) -> None:
    path = next(iter(sorted(folder.rglob("*settings-00007.yaml"))))
    path.write_text(re.sub(r"value \w+ of field 3", f"value {number}e of field 3", path.read_text()))


def _bare(place: Place, repository: Path) -> Measured:
    words = (sys.executable, "-m", "benchmarks.live.bare", str(place.bed.kubeconfig))
    return measure((*words, str(repository.with_suffix(".jsonl"))), cwd=_ROOT, runs=1)


def _kubectl(place: Place, repository: Path) -> Measured:
    words = (str(place.kubectl), "--kubeconfig", str(place.bed.kubeconfig), "apply", "--server-side", "-R", "-f")
    return measure((*words, "rendered"), cwd=repository, runs=1)


def _ours(place: Place, repository: Path, plans: list[Measured]) -> Measured:
    plans.append(place.run(repository, "plan", "--live", "--revision", "HEAD", "--out", "../plan.json"))
    return place.run(repository, "apply", "../plan.json", "--no-wait")


def _published(peer: Flux, repository: Path) -> Measured:
    peer.publish(repository.name, repository)
    return peer.first(repository.name, repository)


def _print(title: str, rows: dict[str, list[Measured]], floor: str = "bare requests") -> None:
    print(f"\n{title}, best of {max(map(len, rows.values()))}")
    least = min(row.seconds for row in rows[floor])
    for name, found in rows.items():
        seconds, busy = min(row.seconds for row in found), min(row.processor for row in found)
        peak = max(row.mebibytes for row in found)
        ratio = f"{seconds / least:7.2f} x {floor}"
        print(f"  {name:<36} {seconds:8.2f} s {ratio:<28} {busy:7.2f} s busy {peak:6.0f} MiB", flush=True)


@contextmanager
def _place(scratch: Path) -> Iterator[Place]:
    programs, definitions = control_plane(), crds()
    if programs.kubectl is None:
        raise SystemExit("no kubectl: it is a peer")
    state = server.stored_state(programs, definitions, to_stderr)
    with server.api_server(scratch / "api-server", programs, definitions, seed=state) as running:
        bed = Bed(server=running, folder=scratch / "parts")
        yield Place(bed=bed, reconciler=installed(scratch), kubectl=programs.kubectl, scratch=scratch)


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=1_000, metavar="N", help="objects of the first apply")
    parser.add_argument("--many", type=int, default=10_000, metavar="N", help="objects of the unchanged reconcile")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="rounds of each case; the best counts")
    parser.add_argument("--no-flux", action="store_true", help="leave Flux out")
    arguments = parser.parse_args()
    os.environ.setdefault("PYTHONPATH", str(_ROOT))
    scratch = Path(tempfile.mkdtemp(prefix="reconciler-bench-live-"))
    try:
        with (
            _place(scratch) as place,
            nullcontext() if arguments.no_flux else flux.running(place.bed, scratch) as peer,
        ):
            load = os.getloadavg()[0]
            print(f"{os.cpu_count()} cores, load {load:.1f} before" + ("" if peer else ", without Flux"), flush=True)
            first_apply(place, arguments.first, arguments.rounds, peer)
            one_commit(place, arguments.first, arguments.rounds, peer)
            no_change(place, arguments.many, arguments.rounds, peer)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
