"""Config repositories of ConfigMaps: the smallest objects, of which the requests are what costs."""

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.corpus import git

_CONFIG = """apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {{name: {name}}}
spec:
  clusters: [{{name: main, namespace: {name}, external: [Namespace]}}]
  budgets: {{emptySources: allow, deletes: {{count: 1, share: 1}}}}
"""


def bodies(namespace: str, count: int) -> Iterator[dict[str, object]]:
    """Yield ConfigMaps of about 700 bytes."""
    for number in range(count):
        metadata = {"name": f"settings-{number:05}", "namespace": namespace}
        data = {f"field-{row}": f"value {number} of field {row}, some words long" for row in range(10)}
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def write(folder: Path, namespace: str, count: int) -> None:
    """Make a config repository with one ConfigMap in each file, and `bodies.jsonl` beside it for bare requests."""
    (folder / "jobs").mkdir(parents=True)
    (folder / "queues").mkdir()
    (folder / "reconciler.yaml").write_text(_CONFIG.format(name=namespace))
    lines = []
    for body in bodies(namespace, count):
        text = json.dumps(body)
        lines.append(text)
        (folder / "jobs" / f"{body['metadata']['name']}.yaml").write_text(text + "\n")  # type: ignore[index]
    folder.with_suffix(".jsonl").write_text("\n".join(lines))
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "user.name", "Bench")
    git(folder, "config", "user.email", "bench@example.com")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "corpus")
