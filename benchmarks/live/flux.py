"""The real Flux as a peer: how long it takes to bring a commit to the cluster, or to find that nothing changed."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.corpus import git
from benchmarks.run import Measured
from tests.cluster import parts
from tests.cluster.bed import flux, git_http
from tests.cluster.bed.bed import Bed
from tests.cluster.build import crds, part, part_is_built

_SOURCES = f"/apis/source.toolkit.fluxcd.io/v1/namespaces/{flux.NAMESPACE}/gitrepositories"
_KUSTOMIZATIONS = f"/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/{flux.NAMESPACE}/kustomizations"
_MAX_SECONDS, _POLL_SECONDS = 1800.0, 0.02
_ASK = "reconcile.fluxcd.io/requestedAt"


class Flux:
    """A running Flux and a Git server that it reads."""

    def __init__(self, bed: Bed, server: git_http.GitServer) -> None:
        self._bed, self._server = bed, server
        self._pid = _process("kustomize-controller", bed.kubeconfig)

    def publish(self, name: str, repository: Path) -> None:
        """Push the rendered files of a repository, and wait until Flux has fetched them."""
        git(repository, "remote", "add", "origin", self._server.create(name))
        self.push(repository)
        self._create(_SOURCES, "source.toolkit.fluxcd.io/v1", "GitRepository", name, self._source(name))
        self._wait(lambda: self._fetched(name, _head(repository)))

    def push(self, repository: Path) -> None:
        """Push what was committed."""
        git(repository, "push", "--quiet", "origin", "main")

    def first(self, name: str, repository: Path) -> Measured:
        """Measure from a new Kustomization, whose artifact is there, until everything is applied."""
        reference = {"kind": "GitRepository", "name": name}
        spec = {"interval": "24h", "path": "./rendered/main", "prune": True, "sourceRef": reference, "timeout": "30m"}
        with self._measured() as result:
            self._create(_KUSTOMIZATIONS, "kustomize.toolkit.fluxcd.io/v1", "Kustomization", name, spec)
            self._wait(lambda: self._applied(name, _head(repository)))
        return result[0]

    def again(self, name: str) -> Measured:
        """Measure a reconcile that changes nothing."""
        with self._measured() as result:
            asked = self._ask(f"{_KUSTOMIZATIONS}/{name}")
            self._wait(lambda: self._status(name).get("lastHandledReconcileAt") == asked)
        return result[0]

    def follow(self, name: str, repository: Path) -> Measured:
        """Measure from a commit until it is applied, as if a webhook had told at once."""
        with self._measured() as result:
            self.push(repository)
            self._ask(f"{_SOURCES}/{name}")
            self._wait(lambda: self._applied(name, _head(repository)))
        return result[0]

    @contextmanager
    def _measured(self) -> Iterator[list[Measured]]:
        result: list[Measured] = []
        start, busy = time.perf_counter(), _processor(self._pid)
        yield result
        seconds, used = time.perf_counter() - start, _processor(self._pid) - busy
        result.append(Measured(seconds=seconds, processor=used, mebibytes=_peak(self._pid)))

    def _source(self, name: str) -> dict[str, Any]:
        return {"interval": "24h", "url": f"{self._server.url}/{name}.git", "ref": {"branch": "main"}}

    def _create(self, path: str, version: str, kind: str, name: str, spec: dict[str, Any]) -> None:
        metadata = {"name": name, "namespace": flux.NAMESPACE}
        self._bed.create(path, {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})

    def _ask(self, path: str) -> str:
        value = str(time.time_ns())
        body = {"metadata": {"annotations": {_ASK: value}}}
        answer = self._bed.server.client.request("PATCH", path, body, content_type="application/merge-patch+json")
        if not answer.ok:
            raise SystemExit(f"{path}: {answer.body}")
        return value

    def _status(self, name: str) -> dict[str, Any]:
        return dict(self._bed.get(f"{_KUSTOMIZATIONS}/{name}").get("status") or {})

    def _fetched(self, name: str, commit: str) -> bool:
        status = self._bed.get(f"{_SOURCES}/{name}").get("status") or {}
        return bool((status.get("artifact") or {}).get("revision") == f"main@sha1:{commit}")

    def _applied(self, name: str, commit: str) -> bool:
        return bool(self._status(name).get("lastAppliedRevision") == f"main@sha1:{commit}")

    @staticmethod
    def _wait(condition: Callable[[], bool]) -> None:
        end = time.monotonic() + _MAX_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise SystemExit("Flux did not get there in half an hour")
            time.sleep(_POLL_SECONDS)


@contextmanager
def running(bed: Bed, folder: Path) -> Iterator[Flux | None]:
    """Start Flux and a Git server; None where Flux is not built."""
    if not (part_is_built(parts.FLUX_SOURCE) and part_is_built(parts.FLUX_KUSTOMIZE)):
        yield None
        return
    source, kustomize = part(parts.FLUX_SOURCE), part(parts.FLUX_KUSTOMIZE)
    definitions = crds(modules=parts.SYNC_MODULES)
    flux.start_flux(bed, source / "source-controller", kustomize / "kustomize-controller", definitions)
    with git_http.git_server(folder / "git") as server:
        yield Flux(bed, server)


def _head(repository: Path) -> str:
    return (repository / ".git/refs/heads/main").read_text().strip()


def _process(name: str, kubeconfig: Path) -> int:
    """Return the process of a program that uses a kubeconfig."""
    wanted = f"KUBECONFIG={kubeconfig}".encode()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if (path / "comm").read_text().strip() == name[:15] and wanted in (path / "environ").read_bytes():
                return int(path.name)
        except OSError:  # it has ended
            continue
    raise SystemExit(f"{name} does not run")


def _processor(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _peak(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
