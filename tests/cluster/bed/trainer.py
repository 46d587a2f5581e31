"""The real Kubeflow Trainer, with its validating webhooks."""

import json
from pathlib import Path

from tests.cluster import shared
from tests.cluster.bed.bed import Bed, Body, installed, loopback, read_objects
from tests.cluster.bed.webhooks import SERVING, hand_over, outside
from tests.cluster.build import INSTALL
from tests.cluster.server import free_port, wait_until

_NAMESPACE = "kubeflow-system"
_PROBE = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainingRuntime",
    "metadata": {"name": "probe", "namespace": _NAMESPACE},
    "spec": {"mlPolicy": {"numNodes": 1}},
}


_SECRET: Body = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "kubeflow-trainer-webhook-cert", "namespace": _NAMESPACE},
}


def start_trainer(bed: Bed, programs: Path) -> None:
    """Start the controller; it makes the JobSets of TrainJobs."""
    folder = Path()

    def plan() -> tuple[shared.Program, ...]:
        nonlocal folder
        folder, port = bed.part_folder("trainer"), free_port()
        bed.server.client.ensure_namespaces([_NAMESPACE])
        installed(bed, [*outside(_webhooks(programs), port), _SECRET])
        settings = {
            "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": loopback()},
            "metrics": {"bindAddress": loopback(), "secureServing": False},
            "webhook": {"host": "127.0.0.1", "port": port},
            "leaderElection": {"leaderElect": False},
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        environment = (("KUBECONFIG", str(bed.kubeconfig)), ("TMPDIR", str(folder)))
        argv = (str(programs / "trainer"), f"--config={folder / 'settings.json'}")
        return (shared.Program(name="trainer", argv=argv, environment=environment),)

    def ready(check: shared.Check) -> None:
        hand_over(bed, _NAMESPACE, _SECRET["metadata"]["name"], folder / SERVING, check)
        wait_until(lambda: bed.judge(_PROBE)[0].ok, "Trainer's webhooks", check=check)

    bed.attach("trainer", plan, ready)


def _webhooks(programs: Path) -> list[Body]:
    """Return the webhooks; the module's own installation renames their namespace, with parts from the network."""
    objects = read_objects(programs / INSTALL)
    for body in objects:
        for webhook in body["webhooks"]:
            webhook["clientConfig"]["service"]["namespace"] = _NAMESPACE
    return objects
