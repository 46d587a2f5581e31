"""A cluster that does what real ones do: an API server with the controllers of Kubernetes, and parts that join it.

It is another server than the one that only judges objects: here Jobs get pods, webhooks speak, quotas count. Every part
is started by the first test that asks for it and ends with the server. Namespaces and nodes are each test's own.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.cluster import server, shared
from tests.cluster.build import INSTALL
from tests.cluster.client import Client, Result
from tests.cluster.parts import ControlPlane
from tests.cluster.server import ApiServer, free_port, wait_until
from tests.cluster.store import PartsUnavailableError

Body = dict[str, Any]
GPU = "nvidia.com/gpu"
PLAYED = ("test-bed/kubelet", "test")
"""Annotation of pods that kwok leaves alone: what they do is said with `Bed.set_phase`."""
_WEBHOOK_SECONDS = 60.0  # until they listen, and their caches have what was created a moment ago
_RECORD = "/api/v1/namespaces/default/configmaps/test-bed"
_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",  # without metrics it keeps to the bounds
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",  # takes the taint "not ready" off a node that kwok made ready
    "persistentvolume-binder-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",  # deletes the pods of a node that is gone
    "replicaset-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "statefulset-controller",
    "ttl-after-finished-controller",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bed:
    """The running cluster. `folder` holds the logs of its parts, a folder each; None for a cluster of the user's own."""

    server: ApiServer
    folder: Path | None

    @property
    def kubeconfig(self) -> Path:
        return self.server.kubeconfig

    def get(self, path: str) -> Any:
        """Return the body of a GET that must succeed."""
        return self.server.client.get(path)

    def find(self, path: str) -> Body | None:
        """Return the object of a path, None where there is none."""
        answer = self.server.client.request("GET", path)
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        assert answer.ok, answer.body
        body: Body = answer.body
        return body

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects for real; all must be accepted, at the latest when webhooks know those that others name."""
        refused = applied(self.server.client, objects)
        assert not refused, refused

    def judge(self, *objects: Mapping[str, Any]) -> list[Result]:
        """Judge objects without effect; the webhooks of the parts speak too."""
        return self.server.client.apply_dry_run(objects)

    def delete(self, path: str, **options: Any) -> None:
        """Delete what a path names; it must be there."""
        answer = self.server.client.request("DELETE", path, options)
        assert answer.ok, answer.body

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something that the controllers bring about; they back off for minutes after a failure."""
        wait_until(condition, what, seconds=300)

    def node(self, name: str, pool: str, *, gpus: int = 8, **labels: str) -> None:
        """Add a node with `gpus` GPUs and the labels `pool: <pool>` and `labels`; kwok makes it ready."""
        self.create("/api/v1/nodes", node(name, gpus=gpus, labels={"pool": pool, **labels}))

    def create(self, path: str, body: Mapping[str, Any]) -> Body:
        """Create an object in the collection of a path."""
        answer = self.server.client.request("POST", path, body)
        assert answer.ok, answer.body
        made: Body = answer.body
        return made

    def ready_nodes(self, pool: str) -> int:
        """Return how many nodes of a pool take pods: a node is tainted until kwok says that it is ready."""
        nodes = self.get(f"/api/v1/nodes?labelSelector=pool%3D{pool}")["items"]
        return sum(1 for node in nodes if not node["spec"].get("taints"))

    def pods(self, namespace: str) -> list[Body]:
        """Return the pods of a namespace by name."""
        items = self.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))

    def bound(self, namespace: str) -> list[str]:
        """Return the names of the pods that have a node."""
        return [pod["metadata"]["name"] for pod in self.pods(namespace) if pod["spec"].get("nodeName")]

    def delete_pod(self, namespace: str, name: str) -> None:
        """Remove a pod at once."""
        self.delete(f"/api/v1/namespaces/{namespace}/pods/{name}", gracePeriodSeconds=0)

    def set_phase(self, pod: Body, phase: str) -> None:
        """Play the kubelet of a pod that is `PLAYED`."""
        metadata = pod["metadata"]
        ready = {"type": "Ready", "status": str(phase == "Running")}
        body = {"status": {"phase": phase, "conditions": [ready]}}
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        content_type = "application/strategic-merge-patch+json"
        answer = self.server.client.request("PATCH", path, body, content_type=content_type)
        assert answer.ok, answer.body

    def attach(self, name: str, plan: shared.Plan, ready: shared.Ready) -> None:
        """Start a part, or find it running; in a cluster of the user's own it must be there already.

        There the ConfigMap `default/test-bed` says which parts run, as it does here.
        """
        if self.folder is not None:
            host = self.server.logs
            shared.attach(self.folder / name, host, plan, ready)
            self._record(name)
        elif name not in ((self.find(_RECORD) or {}).get("data") or {}):
            raise PartsUnavailableError(f"{self.kubeconfig}: the ConfigMap default/test-bed does not name {name}")

    def part_folder(self, name: str) -> Path:
        """Return the folder of a part's files and logs."""
        assert self.folder is not None, "only a cluster of our own starts parts"
        path = self.folder / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _record(self, name: str) -> None:
        client, body = self.server.client, {"metadata": {"name": "test-bed"}, "data": {name: "running"}}
        answer = client.request("PATCH", _RECORD, body, content_type="application/merge-patch+json")
        if answer.status == HTTPStatus.NOT_FOUND:
            client.request("POST", _RECORD.rpartition("/")[0], body)


@contextmanager
def bed(folder: Path, programs: ControlPlane, crds: Path, state: Path) -> Iterator[Bed]:
    """Run (or join) the cluster of `folder`: the API server with all CRDs, and kube-controller-manager."""
    if programs.manager is None:
        raise PartsUnavailableError("KUBEBUILDER_ASSETS has no kube-controller-manager, which makes the pods of Jobs")
    with server.api_server(folder / "api-server", programs, crds, seed=state) as running:
        # Named by the server's port: a server that was started again gets parts of its own.
        port = running.client.endpoint.server.rpartition(":")[2]
        started = Bed(server=running, folder=folder / f"parts-{port}")
        _start_controllers(started, programs.manager)
        yield started


@contextmanager
def existing(path: Path, crds: Path, logs: Path) -> Iterator[Bed]:
    """Use the cluster of a kubeconfig that the user named for tests."""
    with server.existing_cluster(path, crds, logs) as running:
        yield Bed(server=running, folder=None)


def _start_controllers(running: Bed, program: Path) -> None:
    def plan() -> tuple[shared.Program, ...]:
        flags = (
            f"--kubeconfig={running.kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            "--leader-elect=false",
            f"--controllers={','.join(_CONTROLLERS)}",
            "--horizontal-pod-autoscaler-sync-period=1s",
        )
        return (shared.Program(name="kube-controller-manager", argv=(str(program), *flags)),)

    def ready(check: shared.Check) -> None:
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until(lambda: running.find(account), "kube-controller-manager", check=check)

    running.attach("controllers", plan, ready)


def start_scheduler(running: Bed, program: Path) -> None:
    """Start kube-scheduler, which places pods that name no scheduler of their own."""
    port = 0

    def plan() -> tuple[shared.Program, ...]:
        nonlocal port
        port = free_port()
        flags = (
            f"--kubeconfig={running.kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--leader-elect=false",
        )
        return (shared.Program(name="kube-scheduler", argv=(str(program), *flags)),)

    running.attach("scheduler", plan, lambda check: wait_until(lambda: server.listens(port), "scheduler", check=check))


def start_kwok(running: Bed, program: Path) -> None:
    """Start kwok, which plays the kubelet of every node: nodes become ready, pods run, those of Jobs complete."""
    port = 0

    def plan() -> tuple[shared.Program, ...]:
        nonlocal port
        port = free_port()
        stages = running.part_folder("kwok") / "stages.yaml"
        bodies = read_objects(program.with_name(INSTALL))
        stages.write_text("\n---\n".join(json.dumps(body) for body in bodies if body["kind"] == "Stage"))
        flags = (
            f"--kubeconfig={running.kubeconfig}",
            f"--config={stages}",
            "--manage-all-nodes",
            f"--disregard-status-with-annotation-selector={'='.join(PLAYED)}",
            f"--server-address=127.0.0.1:{port}",
        )
        return (shared.Program(name="kwok", argv=(str(program), *flags)),)

    running.attach("kwok", plan, lambda check: wait_until(lambda: server.listens(port), "kwok", check=check))


def node(name: str, *, gpus: int = 8, labels: Mapping[str, str] | None = None) -> Body:
    """Return a node with GPUs, as a kubelet and the device plugin of the vendor would register it."""
    capacity = {"cpu": "96", "memory": "1Ti", "pods": "110", GPU: str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": {"kwok.x-k8s.io/node": "fake"},  # for a kwok that does not manage all nodes
        },
        "status": {"allocatable": capacity, "capacity": capacity},
    }


def loopback() -> str:
    """Return an address to listen on."""
    return f"127.0.0.1:{free_port()}"


def installed(running: Bed, objects: list[Body]) -> None:
    """Apply what an installation of a part brings along."""
    refused = [result for result in running.server.client.apply(objects) if not result.ok]
    if refused:
        raise shared.StartError(f"installation: {refused}")


def read_objects(path: Path) -> list[Body]:
    """Read the objects that the build of a part kept."""
    bodies: list[Body] = json.loads(path.read_text(encoding="utf-8"))
    return bodies


def applied(client: Client, objects: Sequence[Mapping[str, Any]]) -> list[Result]:
    """Apply objects and return the refusals that last longer than a webhook's cache needs to know what they name."""
    deadline = time.monotonic() + _WEBHOOK_SECONDS
    left = objects
    while True:
        results = client.apply(left)
        refused = [result for result in results if not result.ok]
        left = tuple(body for body, result in zip(left, results, strict=True) if not result.ok)
        is_late = any(_is_late(one.message) for one in refused)
        if not is_late or time.monotonic() > deadline:
            return refused
        time.sleep(0.2)


def _is_late(message: str) -> bool:
    """Whether a webhook refuses what it will take: an object that others name is new to it, or it does not listen yet."""
    return ("admission webhook" in message and "not found" in message) or (
        "failed calling webhook" in message and "connection refused" in message
    )
