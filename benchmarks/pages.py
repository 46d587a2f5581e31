"""Measure the pages: `python -m benchmarks.pages`, a part of `make bench`.

10,000 jobs in 300 queues on 1,250 nodes in 40 racks; the evidence says that 8,000 of them run and 2,000 wait. One job
changes, then all of them. For each page: the first answer after a change, the next one, and the size. Goals: the first
byte within 200 ms of a request to a server that runs, and pages of at most 1 MB.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple

from benchmarks.corpus import git
from reconciler.plan import opening
from reconciler.repo.evidence.usage import RUNNING, WAITING, Usage, UsedPodSet, UsedWorkload, WaitReason, write_usage
from reconciler.web.guard import local_guard
from reconciler.web.listener import HttpListener
from reconciler.web.pages import PAGES
from reconciler.web.site import Website
from reconciler.web.snapshot import Snapshot, take

QUEUES, NODES, RACK, FILES = 300, 1_250, 32, 100
_RUNS = 5
_GPU, _PRODUCT = "nvidia.com/gpu", "NVIDIA-H100-80GB-HBM3"
_SETTINGS = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: pages}
spec:
  clusters: [{name: main, backend: kai, namespace: default, external: [Queue/root, Namespace/default]}]
  sources: [queues, jobs]
  budgets: {deletes: {count: null, share: null}, gpuQuotaChange: {share: null}, disruption: {share: null}}
"""
_QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: queue-{number}}}
spec: {{parentQueue: root, resources: {{gpu: {{quota: 32, limit: 64}}}}}}
"""
_JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, namespace: default, labels: {{kai.scheduler/queue: queue-{queue}, team: one}}}}
spec:
  activeDeadlineSeconds: 3600
  template:
    metadata: {{labels: {{kai.scheduler/queue: queue-{queue}}}}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers:
        - {{name: a, image: "registry.example.com/a:1", resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}
"""
_NODES = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {name: main}
spec:
  cluster: main
  takenAt: "2026-11-01T06:00:00Z"
  nodes:
"""
_NODE = """\
    - name: {name}
      labels: {{nvidia.com/gpu.product: {product}, topology.kubernetes.io/rack: rack-{rack:02}}}
      gpu: {{product: {product}, count: 8, memoryMiB: 81559}}
      cpus: 96
"""


class Names(NamedTuple):
    """The names of jobs and nodes, by number."""

    job: str = "job-{:05}"
    node: str = "node-{:04}"


_NAMES = Names()


def write_jobs(root: Path, count: int, gpus: int, names: Names = _NAMES) -> None:
    """Write the jobs in a hundred files."""
    for file in range(FILES):
        numbers = range(file, count, FILES)
        texts = [_JOB.format(name=names.job.format(number), queue=number % QUEUES, gpus=gpus) for number in numbers]
        _write(root / f"jobs/{file}.yaml", "---\n".join(texts))


def write_fleet(root: Path, count: int, names: Names = _NAMES) -> None:
    """Write settings, queues, jobs, and evidence of nodes and use, and commit them."""
    _write(root / "reconciler.yaml", _SETTINGS)
    _write(root / "queues/all.yaml", "---\n".join(_QUEUE.format(number=number) for number in range(QUEUES)))
    write_jobs(root, count, 1, names)
    nodes = (
        _NODE.format(name=names.node.format(number), rack=number // RACK, product=_PRODUCT) for number in range(NODES)
    )
    _write(root / "evidence/main/nodes.yaml", _NODES + "".join(nodes))
    used = Usage(
        cluster="main",
        observed_at="2026-11-01T06:00:00Z",
        workloads=tuple(_workload(number, names, is_running=number % 5 > 0) for number in range(count)),
    )
    _write(root / "evidence/main/usage.yaml", write_usage(used).decode())
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "config", "user.name", "Bench")
    git(root, "config", "user.email", "bench@example.com")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "sources")


def _workload(number: int, names: Names, *, is_running: bool) -> UsedWorkload:
    node = ((names.node.format(number // 8 % NODES), 1),)
    return UsedWorkload(
        api_version="batch/v1",
        kind="Job",
        namespace="default",
        name=names.job.format(number),
        queue=f"queue-{number % QUEUES}",
        state=RUNNING if is_running else WAITING,
        created_at="2026-11-01T05:00:00Z",
        conditions=() if is_running else (WaitReason(reason="OverLimit", message="the queue has no more GPUs"),),
        pod_sets=(UsedPodSet(name="main", count=1, requests={_GPU: "1"}, nodes=node if is_running else ()),),
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def answer(port: int, path: str) -> tuple[float, int]:
    """Return the seconds until the first byte of an answer, and its bytes."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    start = time.perf_counter()
    connection.request("GET", path)
    response = connection.getresponse()
    seconds = time.perf_counter() - start
    size = len(response.read())
    connection.close()
    if response.status != 200:
        raise SystemExit(f"{path}: {response.status}")
    return seconds, size


def measure_pages(root: Path, title: str) -> None:
    """Print a table of all pages."""
    environ = dict(os.environ)

    def snapshot() -> Snapshot:
        return take(opening.open_run(str(root), {}, environ), name="fleet")

    start = time.perf_counter()
    site = Website(snapshot, local_guard, lambda _: None)
    print(f"{title}: a state of the repository takes {time.perf_counter() - start:.2f} s")
    listener = HttpListener("127.0.0.1:0", site.answer)
    listener.start()
    for page in PAGES:
        first, size = answer(listener.port, page.path)
        again = statistics.median(answer(listener.port, page.path)[0] for _ in range(_RUNS))
        print(f"| {page.title} | {1000 * first:.0f} ms | {1000 * again:.0f} ms | {size / 1000:.0f} kB |")
    listener.stop()


def main() -> None:
    """Print the figures of both changes."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(prefix="pages-") as scratch:
        root = Path(scratch)
        os.environ["RECONCILER_CACHE_DIR"] = str(root / ".cache")
        write_fleet(root, count)
        subprocess.run(
            [sys.executable, "-m", "reconciler", "commit", "-o", "name"],
            cwd=root,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        first = root / "jobs/0.yaml"
        first.write_text(first.read_text().replace("gpu: 1", "gpu: 2", 1))
        measure_pages(root, "one job changed")
        write_jobs(root, count, 2)
        measure_pages(root, "all jobs changed")


if __name__ == "__main__":
    main()
