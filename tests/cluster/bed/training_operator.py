"""The real Kubeflow training operator for PyTorchJobs, with its validating webhook."""

from pathlib import Path

from tests.cluster import shared
from tests.cluster.bed.bed import Bed, Body, installed, loopback
from tests.cluster.bed.webhooks import SERVING, hand_over
from tests.cluster.server import free_port, wait_until

_NAMESPACE, _SECRET = "kubeflow", "training-operator-webhook-cert"


def start_training_operator(bed: Bed, program: Path) -> None:
    """Start the operator; it makes the pods of PyTorchJobs."""
    folder = Path()

    def plan() -> tuple[shared.Program, ...]:
        nonlocal folder
        folder, port = bed.part_folder("training-operator"), free_port()
        bed.server.client.ensure_namespaces([_NAMESPACE])
        installed(bed, [*_INSTALLATION, _validation(port)])
        flags = (
            f"--kubeconfig={bed.kubeconfig}",
            f"--metrics-bind-address={loopback()}",
            f"--health-probe-bind-address={loopback()}",
            "--enable-scheme=pytorchjob",
            f"--webhook-server-port={port}",
        )
        environment = (("TMPDIR", str(folder)),)
        return (shared.Program(name="training-operator", argv=(str(program), *flags), environment=environment),)

    def ready(check: shared.Check) -> None:
        hand_over(bed, _NAMESPACE, _SECRET, folder / SERVING, check)
        wait_until(lambda: bed.judge(_PROBE)[0].ok, "the training operator's webhook", check=check)

    bed.attach("training-operator", plan, ready)


def _validation(port: int) -> Body:
    """Return the operator's webhook for PyTorchJobs; the API server reaches it through a Service that is localhost."""
    service = {
        "name": "training-operator",
        "namespace": _NAMESPACE,
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
        "metadata": {"name": "validator.training-operator.kubeflow.org"},
        "webhooks": [webhook],
    }


_INSTALLATION: tuple[Body, ...] = (
    {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "training-operator", "namespace": _NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    },
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _SECRET, "namespace": _NAMESPACE}},
)
_PROBE = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "probe", "namespace": _NAMESPACE},
    "spec": {
        "runPolicy": {},
        "pytorchReplicaSpecs": {
            "Worker": {"replicas": 1, "template": {"spec": {"containers": [{"name": "pytorch", "image": "probe"}]}}}
        },
    },
}
