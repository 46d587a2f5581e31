"""Many clusters: each job runs on one of twenty clusters, and every cluster has all of 300 queues."""

from collections.abc import Iterator

CLUSTERS = 20
QUEUES = 300


def config() -> str:
    """Return `reconciler.yaml`: clusters select their own folder of jobs, and all queues."""
    clusters = "".join(
        f"    - name: c{number:02}\n      backend: kai\n      select: {{folders: [queues, jobs/c{number:02}]}}\n"
        "      external: [Namespace, Queue/default, PersistentVolumeClaim, PriorityClass, ServiceAccount]\n"
        for number in range(CLUSTERS)
    )
    return _CONFIG + clusters + "  sources: [queues, jobs]\n"


def files(count: int, *, backend: str, seed: int) -> Iterator[tuple[str, str]]:  # noqa: ARG001 - as all mixes
    """Yield the queues, an inventory for each cluster, and `count` jobs in turns over clusters and queues."""
    for number in range(QUEUES):
        yield f"queues/q{number:03}.yaml", _QUEUE.format(name=f"q{number:03}")
    for number in range(CLUSTERS):
        nodes = "".join(f"    - {{name: n{node}, gpu: {{product: H100, count: 8}}}}\n" for node in range(50))
        yield f"evidence/c{number:02}/nodes.yaml", _EVIDENCE.format(name=f"c{number:02}") + nodes
    for number in range(count):
        cluster, queue = f"c{number % CLUSTERS:02}", f"q{number % QUEUES:03}"
        name = f"job-{number:05}"
        yield f"jobs/{cluster}/{name}.yaml", _JOB.format(name=name, queue=queue, gpus=8 * (1 + number % 3))


_CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: clusters}
spec:
  onImmutableChange: replace
  budgets: {deletes: {count: null, share: null}, gpuQuotaChange: {share: null}, disruption: {share: null}}
  clusters:
"""
_QUEUE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {{name: {name}, namespace: default, labels: {{team: one}}}}
spec:
  queue: {{name: {name}, parentQueue: default, resources: {{gpu: {{quota: 8, limit: 64}}}}}}
  image: registry.example.com/train:2.7
  nodeResources: {{gpus: 8, cpus: 96, memory: 960Gi}}
"""
_JOB = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {{name: {name}, namespace: default, labels: {{team: one}}}}
spec:
  jobQueue: {queue}
  numGPUs: {gpus}
  command: torchrun train.py --epochs 3
  reliability: {{maxRestarts: 2, activeDeadlineSeconds: 3600}}
"""
_EVIDENCE = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {{name: {name}}}
spec:
  takenAt: "2026-11-01T00:00:00Z"
  nodes:
"""
