"""Measure plans over KaiwoJobs beside plans over as many TorchrunJobs, in the same run: `python -m benchmarks.kaiwo`.

Both say the same: eight GPUs, an image, a command, variables. A TorchrunJob takes the rest from its queue; for
KaiwoJobs, the repository has the LocalQueues.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree

from benchmarks.corpus import EVIDENCE, NODE, git
from benchmarks.run import measure, settle

_JOBS_PER_QUEUE = 100
_NODES = 64
_COMMAND = (sys.executable, "-m", "reconciler")
_CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: bench}
spec:
  clusters:
    - name: main
      backend: kueue
      external: [Namespace, Secret, ClusterQueue, LocalQueue, StorageClass]
  sources: [queues, jobs]
  onImmutableChange: replace
  budgets: {deletes: {count: null, share: null}, disruption: {share: null}}
"""
_QUEUE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: {queue}, namespace: research, labels: {{team: research}}}}
spec:
  queue: {{name: {queue}, resources: {{gpu: {{quota: 4096}}}}}}
  image: registry.example.com/research/train:2.7.1
  nodeResources: {{gpus: 8, cpus: 96, memory: 960Gi}}
  storage: {{shmSizePerGPU: 8Gi}}
"""
_LOCAL_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: {queue}, namespace: research}}
spec: {{clusterQueue: {queue}}}
"""
_SHARED = """\
metadata:
  name: {name}
  namespace: research
  labels: {{team: research}}
spec:
  env:
    - name: WANDB_PROJECT
      value: research
    - name: NCCL_DEBUG
      value: WARN
    - name: API_TOKEN
      valueFrom:
        secretKeyRef: {{name: tokens, key: api}}
"""
_TORCHRUN = f"""\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
{_SHARED}  jobQueue: {{queue}}
  numGPUs: 8
  command: python train.py --epochs 3 --checkpoint /checkpoints/{{name}}
"""
_KAIWO = f"""\
apiVersion: kaiwo.silogen.ai/v1alpha1
kind: KaiwoJob
{_SHARED}  clusterQueue: {{queue}}
  gpus: 8
  image: registry.example.com/research/train:2.7.1
  entrypoint: python train.py --epochs 3 --checkpoint /checkpoints/{{name}}
"""
SHAPES = {"TorchrunJobs": (_QUEUE, _TORCHRUN), "KaiwoJobs": (_LOCAL_QUEUE, _KAIWO)}


def files(count: int, shape: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of a repository with so many jobs of one kind."""
    yield "reconciler.yaml", _CONFIG
    yield "evidence/main/nodes.yaml", EVIDENCE + "".join(NODE.format(number=number) for number in range(_NODES))
    for number in range(count):
        queue = f"queue-{number // _JOBS_PER_QUEUE:03}"
        of_queue, of_job = SHAPES[shape]
        if number % _JOBS_PER_QUEUE == 0:
            yield f"queues/{queue}.yaml", of_queue.format(queue=queue)
        name = f"job-{number:05}"
        yield f"jobs/{queue}/{name}.yaml", of_job.format(name=name, queue=queue)


def bench(count: int, shape: str, scratch: Path) -> dict[str, float]:
    """Return the processor time of a first commit, a cold plan, and a warm plan after one changed file."""
    repository, cache = scratch / f"{shape}-{count}", scratch / f"cache-{shape}-{count}"
    for path, text in files(count, shape):
        target = repository / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for arguments in (("init", "--quiet"), ("config", "user.name", "Bench"), ("config", "user.email", "b@example.com")):
        git(repository, *arguments)
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "jobs")
    environ = {"RECONCILER_CACHE_DIR": str(cache), "PYTHONHASHSEED": "0"}

    def busy(*verb: str) -> float:
        return measure((*_COMMAND, *verb), cwd=repository, runs=1, **environ).processor

    found = {"first commit": busy("commit", "-o", "name")}
    settle(repository)
    rmtree(cache)
    found["cold plan"] = busy("plan")
    job = next(iter(sorted(repository.glob("jobs/*/*.yaml"))))
    job.write_text(job.read_text().replace("--epochs 3", "--epochs 4"))
    found["one file changed, warm"] = busy("plan")
    return found


def main() -> None:
    """Print the processor time of both kinds, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=(2_000, 40_000), metavar="N", help="jobs")
    for count in parser.parse_args().sizes:
        with tempfile.TemporaryDirectory(prefix="reconciler-bench-") as name:
            torchrun, kaiwo = (bench(count, shape, Path(name)) for shape in SHAPES)
        print(f"{count:,} jobs: seconds of processor time, TorchrunJobs, KaiwoJobs, ratio")
        for row, seconds in kaiwo.items():
            print(f"  {row:<24} {torchrun[row]:8.2f} {seconds:8.2f} {seconds / torchrun[row]:8.2f}", flush=True)


if __name__ == "__main__":
    main()
