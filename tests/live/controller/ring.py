"""A controller of one source and an object that two parties write: `ring` puts a rival beside it."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reconciler.console.access import ClusterFlags
from reconciler.controller.exporting import SpanExporter
from reconciler.controller.loop import Controller, LoopOptions
from reconciler.controller.outcome import PassOutcome
from reconciler.controller.reconcile import Request, reconcile
from reconciler.controller.sources.source import ConfigSource, Mode
from reconciler.controller.sources.status import SourceStatus
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from reconciler.web.metrics import Metrics


class InProcess:
    """Makes passes in this process: a second one would prove nothing more here."""

    def run(self, request: Request) -> PassOutcome:
        return reconcile(request, dict(os.environ))

    def interrupt(self) -> None:
        pass

    stop = interrupt


class OneSource:
    """A store of one source, which remembers the last status and the events."""

    def __init__(self, source: ConfigSource) -> None:
        self.source, self.saved, self.told = source, SourceStatus(), list[str]()

    def load(self) -> tuple[ConfigSource, ...]:
        return (self.source,)

    def status(self, _: ConfigSource) -> SourceStatus:
        return self.saved

    def save(self, _: ConfigSource, status: SourceStatus) -> None:
        self.saved = status

    def secret(self, _: ConfigSource, __: str) -> dict[str, bytes]:
        return {}

    def record_event(self, _: ConfigSource, *, warning: bool, reason: str, message: str) -> None:
        self.told.append(f"{'warning' if warning else 'normal'} {reason}: {message}")

    def wait(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.05))

    def close(self) -> None:
        pass


class Ring:
    """The controller, the store of its only source, and the object that two parties write."""

    def __init__(
        self, controller: Controller, store: OneSource, metrics: Metrics, cluster: KubernetesCluster, namespace: str
    ) -> None:
        self.controller, self.store, self.metrics, self.cluster = controller, store, metrics, cluster
        self.key = ObjectKey(group="", kind="ConfigMap", namespace=namespace, name="app")

    def round(self, text: str, manager: str = "rival") -> str:
        """Let the rival write, then make a pass; return what the object says after it."""
        self.cluster.patch(self.key, {"data": {"greeting": text}}, manager=manager)
        return self.visit()

    def visit(self) -> str:
        self.controller.visit(self.store.source.key)
        return str((self.cluster.get(self.key) or {})["data"]["greeting"])

    def version(self) -> str:
        """Return the version of the object, which every write changes."""
        return str((self.cluster.get(self.key) or {})["metadata"]["resourceVersion"])

    def delete(self) -> None:
        metadata = (self.cluster.get(self.key) or {})["metadata"]
        self.cluster.delete(
            self.key, uid=metadata["uid"], resource_version=metadata["resourceVersion"], propagation="Background"
        )

    def fights(self) -> float:
        lines = self.metrics.exposition("text/plain")[1].decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("reconciler_resource_fights_total "))


@contextmanager
def ring(url: str, cluster: KubernetesCluster, kubeconfig: Path, state: Path, namespace: str) -> Iterator[Ring]:
    """Run a controller that applies a repository, whose ConfigMap `app` of this namespace is looked at."""
    source = ConfigSource(namespace="default", name="fleet", url=url, mode=Mode.APPLY, timeout=60, interval=5)
    store, metrics = OneSource(source), Metrics()
    options = LoopOptions(state=state, workers=0, access=ClusterFlags(kubeconfig=str(kubeconfig)))
    controller = Controller(store, InProcess(), metrics, SpanExporter({}, metrics), options, environ=dict(os.environ))
    controller.start()
    deadline = time.monotonic() + 10
    while not controller.sources() and time.monotonic() < deadline:
        time.sleep(0.01)
    yield Ring(controller, store, metrics, cluster, namespace)
    controller.stop(5)
