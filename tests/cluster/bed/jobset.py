"""The real JobSet controller, with its webhooks."""

import json
from pathlib import Path

from tests.cluster import shared
from tests.cluster.bed.bed import Bed, installed, loopback, read_objects
from tests.cluster.bed.webhooks import SERVING, hand_over, outside
from tests.cluster.build import INSTALL
from tests.cluster.server import free_port, wait_until

_PROBE = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "probe", "namespace": "jobset-system"},
    "spec": {
        "replicatedJobs": [
            {
                "name": "a",
                "template": {
                    "spec": {
                        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}}
                    }
                },
            }
        ]
    },
}


def start_jobset(bed: Bed, programs: Path) -> None:
    """Start the controller; it makes the Jobs of JobSets."""
    folder = Path()

    def plan() -> tuple[shared.Program, ...]:
        nonlocal folder
        folder, port = bed.part_folder("jobset"), free_port()
        # The webhook of pods speaks of exclusive placement alone, and would stand in the way of every pod.
        without = frozenset({"mpod.kb.io", "vpod.kb.io"})
        installed(bed, outside(read_objects(programs / INSTALL), port, without=without))
        settings = {
            "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": loopback()},
            "metrics": {"bindAddress": loopback()},
            "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(folder / SERVING)},
            "internalCertManagement": {"enable": True},
            "leaderElection": {"leaderElect": False},
        }
        (folder / "settings.json").write_text(json.dumps(settings))
        environment = (("KUBECONFIG", str(bed.kubeconfig)), ("TMPDIR", str(folder)))
        argv = (str(programs / "jobset"), f"--config={folder / 'settings.json'}")
        return (shared.Program(name="jobset", argv=argv, environment=environment),)

    def ready(check: shared.Check) -> None:
        hand_over(bed, "jobset-system", "jobset-webhook-server-cert", folder / SERVING, check)
        wait_until(lambda: bed.judge(_PROBE)[0].ok, "JobSet's webhooks", check=check)

    bed.attach("jobset", plan, ready)
