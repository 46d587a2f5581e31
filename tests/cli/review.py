"""A repository of two clusters, and a branch of twelve mixed changes that reviewers must understand in a minute."""

import shutil

from tests.cli.fleet import Fleet

_CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters:
    - name: main
      backend: kai
      vendor: nvidia
      external: [Queue/default, Namespace, StorageClass]
      select: {folders: [queues/main, jobs/main]}
    - name: edge
      backend: kueue
      vendor: amd
      external: [Namespace]
      select: {folders: [queues/edge, jobs/edge]}
  sources: [queues, jobs]
  policies: [policies]
  budgets: {deletes: {count: 3, share: 0.5}, gpuQuotaChange: {share: 0.5}}
"""
_QUEUE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: %(name)s, namespace: %(namespace)s}
spec:
  queue:
    name: %(name)s
    resources:
      gpu: {quota: %(quota)d, limit: %(limit)d, overQuotaWeight: 1}
  image: registry.example.com/train@sha256:%(image)s
  nodeResources: {gpus: 8, cpus: 88, memory: 960Gi}
  scheduling:
    nodeSelector: {%(vendor)s.com/gpu.product: %(product)s}
  storage:
    shmSizePerGPU: 8Gi
    checkpoints: {enabled: true, sizePerGPU: 50Gi}
"""
_JOB = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: %(name)s, namespace: %(namespace)s, labels: {team: %(namespace)s}}
spec:
  jobQueue: %(queue)s
  numGPUs: %(gpus)d
  command: python train.py --config %(name)s.yaml
  reliability: {activeDeadlineSeconds: 86400}
"""
_CRON = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: %(name)s, namespace: eval, labels: {team: eval}}
spec:
  schedule: "15 2 * * *"
  timeZone: %(zone)s
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      activeDeadlineSeconds: 3600
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: eval
              image: registry.example.com/eval@sha256:%(image)s
              command: [python, -m, evaluate, %(name)s]
              resources: {limits: {cpu: "4", memory: 16Gi}, requests: {cpu: "4", memory: 16Gi}}
"""
_PLAIN = """\
apiVersion: batch/v1
kind: Job
metadata: {name: detr, namespace: vision, labels: {team: vision, kai.scheduler/queue: spare}}
spec:
  activeDeadlineSeconds: 86400
  template:
    metadata: {labels: {kai.scheduler/queue: spare}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers:
        - name: train
          image: registry.example.com/detr@sha256:%(image)s
          command: [python, train.py]
          resources:
            limits: {cpu: "8", memory: 64Gi, nvidia.com/gpu: 2}
            requests: {cpu: "8", memory: 64Gi, nvidia.com/gpu: 2}
"""
_CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: corpus-2025, namespace: language, labels: {team: language}}
spec:
  accessModes: [ReadWriteMany]
  storageClassName: weka-fast
  resources: {requests: {storage: 40Ti}}
"""
_H100, _H200, _MI300 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200-141GB-HBM3e", "AMD-Instinct-MI300X-OAM"
_OLD, _NEW = "1" * 64, "2" * 64
_SWEEPS = 11  # so that 12 changes are 45 files: 15 sources, and 30 rendered ones


def write_base(fleet: Fleet) -> None:
    """Write and commit the base: two clusters, six queues, and their jobs, with what they render to."""
    for folder in ("jobs", "queues", "rendered", "evidence"):
        shutil.rmtree(fleet.root / folder)
    fleet.write("reconciler.yaml", _CONFIG)
    _queue(fleet, "main/language/h100", 192, _H100)
    _queue(fleet, "main/language/h200", 32, _H200)
    _queue(fleet, "main/vision/vision", 16, _H100)
    _queue(fleet, "main/vision/spare", 8, _H100)
    _queue(fleet, "edge/vision/mi300", 8, _MI300)
    _queue(fleet, "edge/vision/batch", 8, _MI300)
    for number in range(1, _SWEEPS + 1):
        _job(fleet, f"main/language/sweep-{number:02}", "h100", 4)
    _job(fleet, "main/language/gpt-35b", "h200", 16)
    _job(fleet, "main/language/retriever", "h200", 8)
    _job(fleet, "main/vision/vit-large", "vision", 16)
    _job(fleet, "main/vision/sam-eval", "spare", 4)
    fleet.write("jobs/main/vision/detr.yaml", _PLAIN % {"image": _OLD})
    _job(fleet, "edge/vision/clip-small", "mi300", 4)
    fleet.write("jobs/main/language/corpus.yaml", _CLAIM)
    for name in ("mmlu", "hellaswag", "gsm8k", "humaneval"):
        fleet.write(f"jobs/main/eval/{name}.yaml", _CRON % {"name": name, "zone": "Etc/UTC", "image": _OLD})
    fleet.write("evidence/main/nodes.yaml", _nodes("main", "nvidia", {_H100: 30, _H200: 5}))
    fleet.write("evidence/edge/nodes.yaml", _nodes("edge", "amd", {_MI300: 2}))
    fleet.commit("base")
    ran = fleet.run("commit")
    assert ran.code == 0, ran.err + ran.out
    fleet.git("branch", "--force", "base")


def write_changes(fleet: Fleet) -> None:
    """Make the twelve changes, uncommitted."""
    fleet.edit("queues/main/h100.yaml", _OLD, _NEW)  # 1: a new image for all jobs of a queue
    fleet.edit("queues/main/h200.yaml", "quota: 32, limit: 32", "quota: 48, limit: 64")  # 2: more quota
    _job(fleet, "main/language/llama-70b-sft", "h200", 16)  # 3: a new job
    fleet.edit("jobs/main/language/gpt-35b.yaml", "numGPUs: 16", "numGPUs: 40")  # 4: a larger job
    fleet.edit("jobs/main/vision/vit-large.yaml", "  reliability", "  suspend: true\n  reliability")  # 5: suspended
    (fleet.root / "jobs/main/language/corpus.yaml").unlink()  # 6: data
    (fleet.root / "jobs/main/language/retriever.yaml").unlink()  # 7: a job is gone
    fleet.edit("jobs/main/vision/sam-eval.yaml", "name: sam-eval,", "name: sam2-eval,")  # 8: renamed
    fleet.edit("jobs/main/vision/detr.yaml", "namespace: vision,", "namespace: vision-eval,")  # 9: moved
    (fleet.root / "queues/edge/batch.yaml").unlink()  # 10: a queue is gone
    for name in ("mmlu", "hellaswag", "gsm8k", "humaneval"):  # 11: one edit in four files
        fleet.edit(f"jobs/main/eval/{name}.yaml", "Etc/UTC", "Europe/Zurich")
    _job(fleet, "edge/vision/blip", "mi300", 8)  # 12: more than the edge has


def _queue(fleet: Fleet, path: str, quota: int, product: str) -> None:
    """Write a queue at `cluster/namespace/name`."""
    cluster, namespace, name = path.split("/")
    vendor = "amd" if product == _MI300 else "nvidia"
    values = {"name": name, "namespace": namespace, "quota": quota, "limit": quota, "image": _OLD}
    values |= {"vendor": vendor, "product": product}
    fleet.write(f"queues/{cluster}/{name}.yaml", _QUEUE % values)


def _job(fleet: Fleet, path: str, queue: str, gpus: int) -> None:
    """Write a job at `cluster/namespace/name`."""
    cluster, namespace, name = path.split("/")
    values = {"name": name, "namespace": namespace, "queue": queue, "gpus": gpus}
    fleet.write(f"jobs/{cluster}/{namespace}/{name}.yaml", _JOB % values)


def _nodes(cluster: str, vendor: str, products: dict[str, int]) -> str:
    nodes = [
        f"    - {{name: {product.lower()}-{number:02}, labels: {{{vendor}.com/gpu.product: {product}}}, "
        f"gpu: {{product: {product}, count: 8, memoryMiB: 81559}}, cpus: 96}}"
        for product, count in products.items()
        for number in range(1, count + 1)
    ]
    head = (
        "apiVersion: gpureconciler.io/v1alpha1\n"
        "kind: NodeInventory\n"
        f"metadata: {{name: {cluster}}}\n"
        f'spec:\n  cluster: {cluster}\n  takenAt: "2026-11-01T06:00:00Z"\n  nodes:\n'
    )
    return head + "\n".join(nodes) + "\n"
