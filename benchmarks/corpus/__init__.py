"""Config repositories of any size, made from a seed, in three mixes.

`real` has the lengths, the styles and the kinds that config repositories of training teams have; `short` has one short
document of each kind, over and over: what is spent on every object weighs most there. `clusters` has jobs of twenty
clusters that share 300 queues.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpus import clusters, real, short

MIXES = {"real": real.files, "short": short.files, "clusters": clusters.files}


def files(count: int, *, backend: str = "kai", mix: str = "real", seed: int = 7) -> Iterator[tuple[str, str]]:
    """Yield path and text of files that hold about `count` documents together."""
    yield "reconciler.yaml", clusters.config() if mix == "clusters" else _CONFIG.format(backend=backend)
    yield from MIXES[mix](count, backend=backend, seed=seed)
    if mix != "clusters":
        nodes = "".join(NODE.format(number=number) for number in range(_NODES))
        yield "evidence/main/nodes.yaml", EVIDENCE + nodes


def write(folder: Path, count: int, *, backend: str = "kai", mix: str = "real") -> int:
    """Make a Git repository with a corpus and its first commit; return the bytes of its sources."""
    size = 0
    for path, text in files(count, backend=backend, mix=mix):
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        size += len(text)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "user.name", "Bench")
    git(folder, "config", "user.email", "bench@example.com")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "corpus")
    return size


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder."""
    call = ["git", "-C", str(folder), *arguments]
    return subprocess.run(call, check=True, capture_output=True, text=True).stdout


_NODES = 2_000
NODE = "    - {{name: n{number:04}, gpu: {{product: NVIDIA-H100-80GB-HBM3, count: 8}}}}\n"
EVIDENCE = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {name: main}
spec:
  takenAt: "2026-11-01T00:00:00Z"
  nodes:
"""
_CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {{name: bench}}
spec:
  clusters:
    - name: main
      backend: {backend}
      external: [Namespace, Queue/default, PriorityClass, StorageClass, ConfigMap, Secret, ServiceAccount,
                 PersistentVolumeClaim]
  sources: [queues, jobs, manifests]
  onImmutableChange: replace
  budgets: {{deletes: {{count: null, share: null}}, gpuQuotaChange: {{share: null}}, disruption: {{share: null}}}}
"""
