"""`reconciler status --watch` on a real API server: every state of a job that is terminated."""

import contextlib
from typing import TYPE_CHECKING

import yaml

from reconciler.console.access import ClusterFlags
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from reconciler.live.observe.status import ClusterStatus, watch_statuses
from reconciler.plan import opening
from reconciler.plan.live.clusters import cluster_opener
from tests.cli.fleet import Fleet
from tests.cluster.server import ApiServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: watched, labels: {app.kubernetes.io/managed-by: gpu-reconciler}}
spec:
  parallelism: 1
  completions: 1
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: example.com/image:1.0}]
"""


def test_the_life_of_a_terminated_job(
    fleet: Fleet, live: KubernetesCluster, api_server: ApiServer, namespace: str
) -> None:
    """F-115: the job runs, it is deleted and its children leave, it is gone. A look without a change prints nothing."""
    body = yaml.safe_load(JOB)
    body["metadata"]["namespace"] = namespace
    uid = live.create(body).body["metadata"]["uid"]
    key = ObjectKey(group="batch", kind="Job", namespace=namespace, name="watched")
    steps: Iterator[Callable[[], object]] = iter(
        [
            lambda: live.patch(
                key,
                {"status": {"active": 1, "ready": 1, "startTime": "2026-11-01T10:00:00Z"}},
                subresource="status",
            ),
            lambda: None,
            lambda: live.delete(key, uid=uid, propagation="Foreground"),
            lambda: live.patch(key, {"metadata": {"finalizers": []}}),  # what the garbage collector does at the end
        ]
    )

    def wait() -> None:
        step = next(steps, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    run = opening.open_run(str(fleet.root), {}, {})
    flags = ClusterFlags(kubeconfig=str(api_server.kubeconfig))
    seen: list[list[ClusterStatus]] = []
    with contextlib.suppress(KeyboardInterrupt):
        seen.extend(watch_statuses(run.workspace, cluster_opener(flags, {}, run.workspace.config, run.settings), wait))
    phases = [job.phase.value for found in seen for one in found for job in one.jobs if job.key == key]
    assert phases == ["Pending", "Running", "Terminating", "Terminated"]
