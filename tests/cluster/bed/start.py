"""Start the bed for a person: `make cluster`. Ctrl-C stops everything.

It prints how to reach the cluster, and `RECONCILER_TEST_KUBECONFIG`, which lets the tests run against it.
"""

import argparse
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.cluster import shared
from tests.cluster.bed import operators
from tests.cluster.bed.argo_cd import start_argo_cd
from tests.cluster.bed.bed import Bed, bed, start_kwok, start_scheduler
from tests.cluster.bed.fleet import fleet, volumes
from tests.cluster.bed.flux import start_flux
from tests.cluster.bed.git_http import git_server
from tests.cluster.bed.gitea import USER, gitea
from tests.cluster.bed.kai import start_kai
from tests.cluster.bed.operators import Operator, start_operator
from tests.cluster.build import control_plane, crds, part, redis, to_stderr
from tests.cluster.kubeconfig import with_contexts
from tests.cluster.parts import (
    ARGO_CD,
    BED_MODULES,
    FLUX_KUSTOMIZE,
    FLUX_SOURCE,
    GITEA,
    HELM,
    KAI,
    KUEUE,
    KUSTOMIZE,
    KWOK,
    SYNC_MODULES,
    TRAINING_OPERATOR,
)
from tests.cluster.server import stored_state
from tests.cluster.store import PartsUnavailableError

NEEDED = (KWOK, KUEUE, KAI, TRAINING_OPERATOR, FLUX_SOURCE, FLUX_KUSTOMIZE)
"""Without these the tour of README.md cannot be walked."""
CONTEXTS = ("main", "kueue")
"""Names of the cluster in the kubeconfig: a config repository may list it once for KAI and once for Kueue."""


def main() -> int:
    """Start the cluster, print how to use it, stop it with the first SIGINT or SIGTERM; return the exit code."""
    parser = argparse.ArgumentParser(prog="make cluster", description="Start a Kubernetes with simulated GPU nodes.")
    parser.add_argument("--nodes", type=int, default=100, help="number of GPU nodes (default: %(default)s)")
    parser.add_argument("--until-ready", action="store_true", help="stop as soon as everything is ready")
    options = parser.parse_args()
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpu-reconciler-") as scratch:
        folder = Path(scratch)
        try:
            with ExitStack() as stack:
                lines = _started(folder, stack, options.nodes)
                to_stderr(f"ready after {time.monotonic() - begin:.0f} s")
                print("\n".join(lines), flush=True)  # noqa: T201 -- what a person asked for
                if not options.until_ready:
                    stop.wait()
                to_stderr("stopping")
        except (PartsUnavailableError, shared.StartError) as problem:
            to_stderr(f"error: {problem}")
            return 1
        finally:
            for place in (folder / "api-server", folder / "git", folder / "gitea"):
                if place.is_dir():
                    shared.wait_stopped(place)
    return 0


def _started(folder: Path, stack: ExitStack, nodes: int) -> list[str]:
    """Start all parts; return the lines that tell a person how to use them."""
    programs, definitions = control_plane(), crds(modules=BED_MODULES)
    running = stack.enter_context(bed(folder, programs, definitions, stored_state(programs, definitions, to_stderr)))
    git = stack.enter_context(git_server(folder / "git"))
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(_begin, _parts(running, programs.scheduler).items()))
    for body in fleet(nodes):
        running.create("/api/v1/nodes", body)
    for body in volumes(nodes):
        running.create("/api/v1/persistentvolumes", body)
    running.wait(lambda: _ready_nodes(running) == nodes, f"{nodes} nodes ready")
    access = folder / "kubeconfig"
    access.write_text(with_contexts(running.kubeconfig, CONTEXTS), encoding="utf-8")
    lines = [
        f"export KUBECONFIG={access}",
        f"export FLEET_URL={git.create('fleet')}   # an empty repository",
        *([f"export PATH={programs.kubectl.parent}:$PATH   # kubectl"] if programs.kubectl else []),
        f"# {nodes} nodes; contexts {' and '.join(CONTEXTS)}; logs: {folder}",
        f"# RECONCILER_TEST_KUBECONFIG={running.kubeconfig} make test   runs the tests on this cluster",
    ]
    try:
        forge = stack.enter_context(gitea(folder / "gitea", part(GITEA)))
        lines.append(f"# Gitea: {forge.url}, user {USER}, token {forge.token}")
    except PartsUnavailableError as problem:
        to_stderr(f"left out: gitea: {problem}")
    return [*lines, "# Ctrl-C stops everything"]


def _parts(running: Bed, scheduler: Path | None) -> dict[str, Callable[[], None]]:
    return {
        "kwok": lambda: start_kwok(running, part(KWOK) / "kwok"),
        "scheduler": lambda: start_scheduler(running, _there(scheduler, "kube-scheduler")),
        **{
            operator.part.name: partial(_start_operator, running, operator)
            for operator in (operators.KUEUE, operators.TRAINING_OPERATOR, operators.JOBSET)
        },
        "kai": lambda: start_kai(running, part(KAI)),
        "flux": lambda: start_flux(
            running,
            part(FLUX_SOURCE) / "source-controller",
            part(FLUX_KUSTOMIZE) / "kustomize-controller",
            crds(modules=SYNC_MODULES),
        ),
        "argo-cd": lambda: start_argo_cd(
            running,
            part(ARGO_CD) / "argocd",
            redis(),
            (part(KUSTOMIZE) / "kustomize", part(HELM) / "helm"),
            crds(modules=SYNC_MODULES),
        ),
    }


def _start_operator(running: Bed, operator: Operator) -> None:
    start_operator(running, operator, part(operator.part))


def _begin(entry: tuple[str, Callable[[], None]]) -> None:
    name, start = entry
    try:
        start()
        to_stderr(f"{name}: running")
    except PartsUnavailableError as problem:
        to_stderr(f"left out: {name}: {problem}")


def _there(program: Path | None, name: str) -> Path:
    if program is None:
        raise PartsUnavailableError(f"KUBEBUILDER_ASSETS={os.environ.get('KUBEBUILDER_ASSETS')} has no {name}")
    return program


def _ready_nodes(running: Bed) -> int:
    nodes = running.get("/api/v1/nodes")["items"]
    return sum(1 for node in nodes if not node["spec"].get("taints"))


if __name__ == "__main__":
    sys.exit(main())
