"""Make the cluster of `make cluster` with kind: `make cluster-kind`, for those who have Docker.

Here the operators run inside the cluster, from their published manifests and images, on the one real node; kwok plays
the others. `--print` writes what would be applied, and runs nothing.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.bed.bed import Body, read_objects
from tests.cluster.bed.fleet import fleet, volumes
from tests.cluster.build import INSTALL, control_plane, part, to_stderr
from tests.cluster.parts import JOBSET, KAI_MODULE, KIND, KUEUE, KWOK, TRAINING_OPERATOR
from tests.cluster.store import PartsUnavailableError

NAME = "gpu-reconciler"
OPERATORS = (KWOK, KUEUE, JOBSET, TRAINING_OPERATOR)
_KAI_CHART = "oci://ghcr.io/nvidia/kai-scheduler/kai-scheduler"
_WORKLOADS = {"Deployment", "StatefulSet"}
_FIRST = ("CustomResourceDefinition", "Namespace")
_CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
_IMAGES = {"registry.k8s.io/kwok/kwok": f"registry.k8s.io/kwok/kwok:{KWOK.module.version}"}
"""Images that the manifests name without a version."""

CONFIG: Body = {
    "kind": "Cluster",
    "apiVersion": "kind.x-k8s.io/v1alpha4",
    "name": NAME,
    "networking": {"apiServerAddress": "127.0.0.1"},
    "nodes": [{"role": "control-plane"}],
}


def operators() -> list[Body]:
    """Return what the operators bring along, definitions and namespaces first; their pods run on the real node."""
    bodies = [_placed(body) for what in OPERATORS for body in read_objects(part(what) / INSTALL)]
    return sorted(bodies, key=_rank)


def nodes(count: int) -> list[Body]:
    """Return the simulated nodes, volumes, and the record by which the tests know what runs here."""
    running = ("controllers", "scheduler", "kai", *(what.name for what in OPERATORS))
    record = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "test-bed", "namespace": "default"},
        "data": dict.fromkeys(running, "running"),
    }
    return [*fleet(count), *volumes(count), record]


def steps(kind: Path, kubectl: Path, kubeconfig: Path, folder: Path) -> list[tuple[str, ...]]:
    """Return the commands that make the cluster; `folder` holds what they read."""
    access = (str(kubectl), f"--kubeconfig={kubeconfig}")
    apply = (*access, "apply", "--server-side", "--force-conflicts", "-f")
    return [
        (str(kind), "create", "cluster", f"--config={folder / 'kind.json'}", f"--kubeconfig={kubeconfig}", "--wait=3m"),
        (*apply, str(folder / "definitions.json")),
        (*access, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"),
        (*apply, str(folder / "operators.json")),
        (
            *("helm", "upgrade", "--install", "kai-scheduler", _KAI_CHART, f"--version={KAI_MODULE.version}"),
            *("--namespace=kai-scheduler", "--create-namespace", f"--kubeconfig={kubeconfig}"),
            f"--set-string=global.nodeSelector.{_CONTROL_PLANE.replace('.', chr(92) + '.')}=",
        ),
        (*access, "wait", "--for=condition=Available", "deployment", "--all", "--all-namespaces", "--timeout=10m"),
        (*apply, str(folder / "nodes.json")),
        (*access, "wait", "--for=condition=Ready", "node", "--all", "--timeout=3m"),
    ]


def write(folder: Path, count: int) -> None:
    """Write the files that the steps read."""
    folder.mkdir(parents=True, exist_ok=True)
    bodies = operators()
    definitions = [body for body in bodies if body["kind"] in _FIRST]
    (folder / "kind.json").write_text(json.dumps(CONFIG, indent=2))
    _write_list(folder / "definitions.json", definitions)
    _write_list(folder / "operators.json", [body for body in bodies if body["kind"] not in _FIRST])
    _write_list(folder / "nodes.json", nodes(count))


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the cluster, or print how; return the exit code of the first step that fails."""
    parser = argparse.ArgumentParser(prog="make cluster-kind", description="Make a kind cluster with simulated nodes.")
    parser.add_argument("--nodes", type=int, default=100, help="number of GPU nodes (default: %(default)s)")
    parser.add_argument("--folder", type=Path, default=Path(".cluster-kind"), help="where files are written")
    parser.add_argument("--print", action="store_true", help="write the files, print the commands, run nothing")
    options = parser.parse_args(arguments)
    try:
        kind, kubectl = part(KIND) / "kind", _kubectl()
        write(options.folder, options.nodes)
    except PartsUnavailableError as problem:
        to_stderr(f"error: {problem}")
        return 1
    kubeconfig = (options.folder / "kubeconfig").resolve()
    for step in steps(kind, kubectl, kubeconfig, options.folder.resolve()):
        to_stderr(f"$ {' '.join(step)}")
        if not options.print and (code := subprocess.run(step, check=False).returncode):
            to_stderr(f"error: exit code {code}; `{kind} delete cluster --name={NAME}` removes what there is")
            return code
    usage = f"export KUBECONFIG={kubeconfig}\nexport RECONCILER_TEST_KUBECONFIG={kubeconfig}   # the tests use it"
    print(f"{usage}\n# {kind} delete cluster --name={NAME} removes the cluster")  # noqa: T201 -- what was asked for
    return 0


def _kubectl() -> Path:
    program = control_plane().kubectl
    if program is None:
        raise PartsUnavailableError("no kubectl in KUBEBUILDER_ASSETS nor on PATH")
    return program


def _rank(body: Body) -> int:
    return _FIRST.index(body["kind"]) if body["kind"] in _FIRST else len(_FIRST)


def _placed(body: Body) -> Body:
    """Return an object whose pods, if it has some, run on the real node, with images that name their version."""
    if body["kind"] not in _WORKLOADS:
        return body
    pod = body["spec"]["template"]["spec"]
    pod["nodeSelector"] = {**pod.get("nodeSelector", {}), _CONTROL_PLANE: ""}
    pod["tolerations"] = [*pod.get("tolerations", []), {"operator": "Exists", "key": _CONTROL_PLANE}]
    for container in pod["containers"]:
        container["image"] = _IMAGES.get(container["image"], container["image"])
    return body


def _write_list(path: Path, bodies: list[Body]) -> None:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": bodies}))


if __name__ == "__main__":
    sys.exit(main())
