"""Measure an adopted repository: `python -m benchmarks.adopting`, a part of `make bench`.

First: `init --existing` and the first plan of 300 objects in 12 overlays, with nothing in the cache. Then: a plan after
an edit of one overlay of 50, beside what it has to do at least, in the same run: `kustomize build` of that overlay, and
a plan of the same objects as plain files after the same edit.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path

from benchmarks.corpus import git
from benchmarks.run import measure

_JOB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: d{number}, labels: {{team: a}}{namespace}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: d{number}}}}}
  template:
    metadata: {{labels: {{app: d{number}}}}}
    spec:
      containers: [{{name: a, image: "a:1", resources: {{limits: {{nvidia.com/gpu: 1}}}}}}]
"""
_RUNS = 5


def overlays(root: Path, number: int, objects: int) -> None:
    """Write a base of objects, and overlays of it in namespaces of their own."""
    names = [f"d{position}.yaml" for position in range(objects)]
    write(root, "base/kustomization.yaml", "resources:\n" + "".join(f"- {name}\n" for name in names))
    for position, name in enumerate(names):
        write(root, f"base/{name}", _JOB.format(number=position, namespace="", replicas=1))
    for overlay in range(number):
        write(root, f"overlays/o{overlay}/kustomization.yaml", _overlay(overlay, 2))


def _overlay(number: int, replicas: int) -> str:
    return f"namespace: n{number}\nresources: [../../base]\nreplicas: [{{name: d0, count: {replicas}}}]\n"


def plain(root: Path, number: int, objects: int) -> None:
    """Write the same objects as files."""
    for overlay in range(number):
        for position in range(objects):
            where, replicas = f", namespace: n{overlay}", 1 if position else 2
            text = _JOB.format(number=position, namespace=where, replicas=replicas)
            write(root, f"overlays/o{overlay}/d{position}.yaml", text)


def write(root: Path, path: str, text: str) -> None:
    """Write a file of the repository."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def main() -> None:
    """Print the figures."""
    reconciler = shutil.which("reconciler", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    kustomize = shutil.which("kustomize")
    build = [kustomize, "build"] if kustomize else ["kubectl", "kustomize"]
    with tempfile.TemporaryDirectory(prefix="adopting-") as scratch:
        cache = str(Path(scratch) / "cache")
        first = _repository(Path(scratch) / "first", lambda root: overlays(root, 12, 25))
        made = measure([str(reconciler), "init", "--existing"], cwd=first, runs=1, RECONCILER_CACHE_DIR=cache)
        planned = measure([str(reconciler), "plan"], cwd=first, runs=1, RECONCILER_CACHE_DIR=cache)
        print(f"two commands, 300 objects in 12 overlays: {made.seconds:.2f} s + {planned.seconds:.2f} s (goal: 10 s)")

        built = _adopted(Path(scratch) / "built", lambda root: overlays(root, 50, 6), str(reconciler), cache)
        files = _adopted(Path(scratch) / "files", lambda root: plain(root, 50, 6), str(reconciler), cache)
        numbers = count(3)

        def edit_overlay() -> None:
            write(built, "overlays/o7/kustomization.yaml", _overlay(7, next(numbers)))

        def edit_file() -> None:
            text = _JOB.format(number=0, namespace=", namespace: n7", replicas=next(numbers))
            write(files, "overlays/o7/d0.yaml", text)

        plan = [str(reconciler), "plan", "--base", "main"]
        ours = measure(plan, cwd=built, runs=_RUNS, before=[edit_overlay], RECONCILER_CACHE_DIR=cache)
        beside = measure(plan, cwd=files, runs=_RUNS, before=[edit_file], RECONCILER_CACHE_DIR=cache)
        one = measure([*build, "overlays/o7"], cwd=built, runs=_RUNS)
        floor = one.seconds + beside.seconds
        ratio = ours.seconds / floor
        print(
            f"one overlay of 50: {ours.seconds:.2f} s; its build {one.seconds:.2f} s + plain files "
            f"{beside.seconds:.2f} s = {floor:.2f} s; ratio {ratio:.2f} (goal: 1.5)"
        )


def _repository(root: Path, make: Callable[[Path], None]) -> Path:
    make(root)
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "as it is")
    return root


def _adopted(root: Path, make: Callable[[Path], None], reconciler: str, cache: str) -> Path:
    _repository(root, make)
    measure([reconciler, "init", "--existing"], cwd=root, runs=1, RECONCILER_CACHE_DIR=cache)
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "reconciler.yaml")
    measure([reconciler, "plan", "--base", "main"], cwd=root, runs=1, RECONCILER_CACHE_DIR=cache)
    return root


if __name__ == "__main__":
    main()
