"""The controller as a process: what it is made of, and how it starts and stops."""

import os
import re
import secrets
import shutil
import socket
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec
from msgspec import Struct

from reconciler import wiring
from reconciler.adapters.clock import SystemClock
from reconciler.controller.exporting import SpanExporter
from reconciler.controller.health.gauges import FleetGauges
from reconciler.controller.health.lane import HealthLane
from reconciler.controller.health.rounds import health_round
from reconciler.controller.leases import LeaderLease, LeaseTimes
from reconciler.controller.loop import Controller, LoopOptions
from reconciler.controller.metrics import Metrics
from reconciler.controller.reconcile import Request, reconcile
from reconciler.controller.runner import ChildRunner
from reconciler.controller.sources.objects import ClusterStore
from reconciler.controller.sources.store import FileStore, SourceStore
from reconciler.controller.web.listener import HttpListener
from reconciler.controller.web.server import Webhooks, probes
from reconciler.core.kinds.own import SOURCE
from reconciler.errors import ConfigError, OutsideError
from reconciler.outputs.terminal.logs import Log, set_up
from reconciler.ports.cluster import LiveCluster
from reconciler.wiring.cluster import ClusterFlags, open_cluster

POD_NAMESPACE = "POD_NAMESPACE"
"""Variable with the namespace of the pod, which holds the Lease."""

_log = Log(__name__)


class ControllerFlags(Struct, frozen=True, kw_only=True):
    """The flags of `reconciler controller`."""

    config: Path | None = None  # a file of sources; None: ConfigSource objects of the cluster
    secrets: Path | None = None
    state: Path = Path("reconciler-state")
    namespace: str = ""
    listen: str = "127.0.0.1:8080"
    webhooks: str = ""
    workers: int = 4
    retry: float = 2.0
    max_repository: int = 1024  # MiB
    memory: int = 2048  # MiB, of one pass
    spans: Path | None = None
    log_level: str = "info"
    log_format: str = "json"
    lease_namespace: str = ""
    lease_seconds: float = 15.0
    cluster: ClusterFlags = ClusterFlags()


def run_pass(line: bytes, environ: Mapping[str, str]) -> bytes:
    """Make the pass that a line of JSON asks for, and return the outcome as one."""
    request = msgspec.json.decode(line, type=Request)
    make = health_round if request.health else reconcile
    return msgspec.json.encode(make(request, dict(environ)))


def run_controller(flags: ControllerFlags, environ: Mapping[str, str]) -> None:
    """Run until SIGTERM or Ctrl-C, which the caller turns into the end of the process."""
    set_up(level=flags.log_level, form=flags.log_format)
    state = _state_folder(flags.state)
    scratch = _scratch_folder(state)
    with ExitStack() as stack:
        metrics = Metrics()
        cluster = None if flags.config else stack.enter_context(open_cluster(flags.cluster, environ, is_expected=True))
        store = _store(flags, state, cluster)
        lease = _lease(flags, environ, stack) if cluster else None
        leads = lease.is_held if lease else lambda: True  # sources of a file have one replica
        exporter = SpanExporter(environ, metrics, file=flags.spans)
        stack.callback(exporter.close)
        memory = flags.memory << 20
        runner, rounds = (ChildRunner(environ, folder=scratch, memory_bytes=memory, leads=leads) for _ in range(2))
        options = LoopOptions(
            state=state,
            workers=flags.workers,
            retry=flags.retry,
            max_repository=flags.max_repository << 20,
            access=flags.cluster,
        )
        controller = Controller(store, runner, metrics, exporter, options, environ=environ, leads=leads)
        gauges = FleetGauges(metrics, SystemClock())
        listeners = [HttpListener(flags.listen, probes(controller, metrics, gauges.update))]
        if flags.webhooks:
            listeners.append(HttpListener(flags.webhooks, Webhooks(controller, store, metrics).answer))
        for listener in listeners:
            listener.start()
            stack.callback(listener.stop)
        if lease is not None:

            def leadership_changed() -> None:
                controller.leadership_changed()
                rounds.interrupt()  # of a leader no more

            lease.changed = leadership_changed
            lease.start()
            stack.callback(lease.stop)
        controller.start()
        stack.callback(controller.stop)  # before the Lease is handed over
        health = HealthLane(controller, rounds, lambda: open_cluster(flags.cluster, environ), gauges=gauges)
        health.start()
        stack.callback(health.stop)
        stack.callback(_log.event, "info", "stopping")
        ports = [listener.port for listener in listeners]
        _log.event("info", "started", ports=ports, state=str(state), pid=os.getpid())
        threading.Event().wait()  # until a signal


def _store(flags: ControllerFlags, state: Path, cluster: LiveCluster | None) -> SourceStore:
    if flags.config is not None:
        store = FileStore(flags.config, state=state, secrets=flags.secrets, catalogue=wiring.catalogue())
        store.load()  # a wrong file is an error at the start, and only logged later
        return store
    if flags.secrets is not None:
        raise ConfigError("--secrets needs --config", hint="without --config, Secrets are read from the cluster")
    assert cluster is not None  # noqa: S101 - opened unless there is a file
    cluster.resource(*SOURCE)  # a missing CRD is an error at the start
    return ClusterStore(cluster, namespace=flags.namespace, instance=socket.gethostname())


def _lease(flags: ControllerFlags, environ: Mapping[str, str], stack: ExitStack) -> LeaderLease:
    """Compete for the Lease in the namespace of this pod, under a name that no other process has.

    A request for it is repeated until its deadline: what comes later renews nothing.
    """
    host = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().lower()).strip("-")[:40] or "replica"
    seconds = flags.lease_seconds
    times = LeaseTimes(duration=seconds, deadline=seconds * 2 / 3, renew=min(2.0, seconds / 6))
    return LeaderLease(
        stack.enter_context(open_cluster(flags.cluster, environ, patience=times.deadline, is_expected=True)),
        namespace=flags.lease_namespace or environ.get(POD_NAMESPACE) or flags.namespace or "default",
        identity=f"{host}-{secrets.token_hex(4)}",
        times=times,
    )


def _state_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OutsideError(f"{path} cannot be written: {error.strerror}", hint="name another --state") from error
    return path.absolute()


def _scratch_folder(state: Path) -> Path:
    """Return an empty folder for the temporary files of passes, without what those of a killed controller left."""
    folder = state / "scratch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
