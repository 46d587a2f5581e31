"""A cluster on which the real KAI scheduler places pods: an API server of its own, kwok nodes, and no containers.

kube-controller-manager makes the pods of Jobs, the Kubeflow training operator (with its validating webhook) those of
PyTorchJobs; KAI's podgrouper, scheduler, binder and queue controller do the rest; kwok plays the kubelets.
"""

import base64
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import server, shared
from tests.cluster.client import Result
from tests.cluster.parts import ControlPlane
from tests.cluster.server import ApiServer, free_port, wait_until

GPU = "nvidia.com/gpu"
_OPERATOR_NAMESPACE = "kubeflow"
_WEBHOOKS = "validator.training-operator.kubeflow.org"
_CERTIFICATES = Path("k8s-webhook-server/serving-certs")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The built programs of the scheduling cluster, by name."""

    control_plane: ControlPlane
    state: Path
    manager: Path
    kai: Path
    kwok: Path
    operator: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Kai:
    """The running cluster. Queue `default-queue` has no limit; nodes and namespaces are each test's own."""

    server: ApiServer

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects for real; all must be accepted."""
        refused = [result for result in self.server.client.apply(objects) if not result.ok]
        assert not refused, refused

    def judge(self, *objects: Mapping[str, Any]) -> list[Result]:
        """Judge objects without effect; the training operator's webhook speaks too."""
        return self.server.client.apply_dry_run(objects)

    def node(self, name: str, pool: str, *, gpus: int = 8, **labels: str) -> None:
        """Add a node with `gpus` GPUs and the labels `pool: <pool>` and `labels`; kwok makes it ready."""
        capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", GPU: str(gpus)}
        status = {"allocatable": capacity, "capacity": capacity}
        metadata = {"name": name, "labels": {"pool": pool, "kubernetes.io/hostname": name, **labels}}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
        answer = self.server.client.request("POST", "/api/v1/nodes", body)
        assert answer.ok, answer.body

    def ready_nodes(self, pool: str) -> int:
        """Return how many nodes of a pool take pods: a node is tainted until kwok says that it is ready."""
        nodes = self.server.client.get(f"/api/v1/nodes?labelSelector=pool%3D{pool}")["items"]
        return sum(1 for node in nodes if not node["spec"].get("taints"))

    def pods(self, namespace: str) -> list[dict[str, Any]]:
        """Return the pods of a namespace by name."""
        items = self.server.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))

    def bound(self, namespace: str) -> list[str]:
        """Return the names of the pods that have a node."""
        return [pod["metadata"]["name"] for pod in self.pods(namespace) if pod["spec"].get("nodeName")]

    def pod_groups(self, namespace: str) -> list[dict[str, Any]]:
        """Return KAI's PodGroups of a namespace."""
        path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups"
        items: list[dict[str, Any]] = self.server.client.get(path)["items"]
        return items

    def refused(self, namespace: str) -> bool:
        """Whether the scheduler has said of every pod that has no node that it does not fit now."""
        waiting = [pod for pod in self.pods(namespace) if not pod["spec"].get("nodeName")]
        return bool(waiting) and all(_is_unschedulable(pod) for pod in waiting)

    def wait(self, condition: Callable[[], object], what: str) -> None:
        """Wait for something that the controllers bring about."""
        wait_until(condition, what, seconds=60)

    def delete_pod(self, namespace: str, name: str) -> None:
        """Remove a pod at once."""
        answer = self.server.client.request(
            "DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", {"gracePeriodSeconds": 0}
        )
        assert answer.ok, answer.body


@contextmanager
def scheduling_cluster(folder: Path, programs: Programs, crds: Path) -> Iterator[Kai]:
    """Run (or join) the scheduling cluster of `folder`."""
    state, control_plane = programs.state, programs.control_plane
    with server.api_server(folder / "kai-api-server", control_plane, crds, seed=state) as running:
        launch = _Launch(folder / "kai", programs, running)
        with shared.running(folder / "kai", launch.plan, launch.ready):
            yield Kai(server=running)


def _is_unschedulable(pod: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
        for condition in pod.get("status", {}).get("conditions") or ()
    )


class _Launch:
    def __init__(self, folder: Path, programs: Programs, running: ApiServer) -> None:
        self._folder, self._programs, self._server = folder, programs, running

    def plan(self) -> tuple[shared.Program, ...]:
        webhook = free_port()
        self._prepare(webhook)
        kubeconfig = f"--kubeconfig={self._server.kubeconfig}"
        manager = (
            kubeconfig,
            "--bind-address=127.0.0.1",
            f"--secure-port={free_port()}",
            f"--cert-dir={self._folder / 'manager-certificates'}",
            "--leader-elect=false",
            # node-lifecycle takes the taint "not ready" off a node that kwok made ready.
            "--controllers=job-controller,garbage-collector-controller,namespace-controller,node-lifecycle-controller",
        )
        # The scheduler's port for plugins would listen on every interface; this one is refused, and not missed.
        scheduler = (f"--listen-address={_loopback()}", "--plugin-server-port=-1", "--schedule-period=500ms")
        queues = (kubeconfig, "--enable-webhook=false", f"--metrics-listen-address={_loopback()}")
        operator = (*self._controller(), "--enable-scheme=pytorchjob", f"--webhook-server-port={webhook}")
        kwok = (kubeconfig, "--manage-all-nodes", f"--server-address={_loopback()}")
        kai = self._programs.kai
        return (
            self._program("kube-controller-manager", self._programs.manager, manager),
            self._program("kwok", self._programs.kwok, kwok),
            self._program("training-operator", self._programs.operator, operator),
            self._program("kai-podgrouper", kai / "kai-podgrouper", self._controller()),
            self._program("kai-queuecontroller", kai / "kai-queuecontroller", queues),
            self._program("kai-binder", kai / "kai-binder", self._controller()),
            self._program("kai-scheduler", kai / "kai-scheduler", scheduler),
        )

    def ready(self, check: Callable[[], None]) -> None:
        """Hand the operator the certificate that it wrote, as a mounted Secret would; wait for its webhook."""
        client = self._server.client
        path = f"/api/v1/namespaces/{_OPERATOR_NAMESPACE}/secrets/training-operator-webhook-cert"
        wait_until(lambda: (client.get(path).get("data") or {}).keys() >= {"tls.crt"}, "certificate", check=check)
        folder = self._folder / _CERTIFICATES
        folder.mkdir(parents=True, exist_ok=True)
        for name, value in client.get(path)["data"].items():
            (folder / name).write_bytes(base64.b64decode(value))
        wait_until(lambda: client.apply_dry_run([_PROBE])[0].ok, "training operator's webhook", check=check)

    def _program(self, name: str, path: Path, flags: tuple[str, ...]) -> shared.Program:
        environment = (("KUBECONFIG", str(self._server.kubeconfig)), ("TMPDIR", str(self._folder)))
        return shared.Program(name=name, argv=(str(path), *flags), environment=environment)

    def _controller(self) -> tuple[str, ...]:
        """Return the flags that every program made with controller-runtime takes."""
        return (
            f"--kubeconfig={self._server.kubeconfig}",
            f"--metrics-bind-address={_loopback()}",
            f"--health-probe-bind-address={_loopback()}",
        )

    def _prepare(self, webhook: int) -> None:
        """Apply what an installation of KAI and of the training operator brings along."""
        client = self._server.client
        client.ensure_namespaces(["kai-scheduler", "kai-resource-reservation", _OPERATOR_NAMESPACE])
        refused = [result for result in client.apply([*_INSTALLATION, _validation(webhook)]) if not result.ok]
        if refused:
            raise shared.StartError(f"installation: {refused}")


def _loopback() -> str:
    return f"127.0.0.1:{free_port()}"


def queue(name: str, parent: str) -> dict[str, Any]:
    """Return a KAI queue without limits; `parent` is empty for a root."""
    share = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"cpu": share, "gpu": share, "memory": share}, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _priority(name: str, value: int) -> dict[str, Any]:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def _validation(port: int) -> dict[str, Any]:
    """Return the operator's webhook for PyTorchJobs; the API server reaches it through a Service that is localhost."""
    service = {
        "name": "training-operator",
        "namespace": _OPERATOR_NAMESPACE,
        "path": "/validate-kubeflow-org-v1-pytorchjob",
        "port": port,
    }
    rule = {
        "apiGroups": ["kubeflow.org"],
        "apiVersions": ["v1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["pytorchjobs"],
    }
    webhook = {
        "name": "validator.pytorchjob.training-operator.kubeflow.org",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service},
        "failurePolicy": "Fail",
        "rules": [rule],
        "sideEffects": "None",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": _WEBHOOKS},
        "webhooks": [webhook],
    }


_INSTALLATION: tuple[dict[str, Any], ...] = (
    *(_priority(name, value) for name, value in (("train", 50), ("build-preemptible", 75), ("build", 100))),
    _priority("inference", 125),
    queue("default-parent-queue", ""),
    queue("default-queue", "default-parent-queue"),
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "training-operator", "namespace": _OPERATOR_NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    },
    {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "training-operator-webhook-cert", "namespace": _OPERATOR_NAMESPACE},
    },
)
_PROBE = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "probe", "namespace": _OPERATOR_NAMESPACE},
    "spec": {
        "runPolicy": {},
        "pytorchReplicaSpecs": {
            "Worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "probe"}]}}}
        },
    },
}
