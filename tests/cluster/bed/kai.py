"""The real KAI scheduler: podgrouper, scheduler, binder and queue controller place the pods that name it."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.cluster import shared
from tests.cluster.bed.bed import Bed, Body, installed, loopback
from tests.cluster.server import free_port, listens, wait_until

_NAMESPACES = ("kai-scheduler", "kai-resource-reservation")


def start_kai(bed: Bed, programs: Path) -> None:
    """Start the four programs. Queue `default-queue` has no limit."""
    port = 0

    def plan() -> tuple[shared.Program, ...]:
        nonlocal port
        port = free_port()
        folder = bed.part_folder("kai")
        bed.server.client.ensure_namespaces(_NAMESPACES)
        installed(bed, list(_INSTALLATION))
        kubeconfig = f"--kubeconfig={bed.kubeconfig}"
        # The scheduler's port for plugins would listen on every interface; this one is refused, and not missed.
        scheduler = (f"--listen-address=127.0.0.1:{port}", "--plugin-server-port=-1", "--schedule-period=1s")
        queues = (kubeconfig, "--enable-webhook=false", f"--metrics-listen-address={loopback()}")
        flags = {
            "kai-podgrouper": _controller(kubeconfig),
            "kai-queuecontroller": queues,
            "kai-binder": _controller(kubeconfig),
            "kai-scheduler": scheduler,
        }
        environment = (("KUBECONFIG", str(bed.kubeconfig)), ("TMPDIR", str(folder)))
        return tuple(
            shared.Program(name=name, argv=(str(programs / name), *arguments), environment=environment)
            for name, arguments in flags.items()
        )

    bed.attach("kai", plan, lambda check: wait_until(lambda: listens(port), "KAI's scheduler", check=check))


def pod_groups(bed: Bed, namespace: str) -> list[Body]:
    """Return KAI's PodGroups of a namespace."""
    items: list[Body] = bed.get(f"/apis/scheduling.run.ai/v2alpha2/namespaces/{namespace}/podgroups")["items"]
    return items


def refused(bed: Bed, namespace: str) -> bool:
    """Whether the scheduler has said of every pod that has no node that it does not fit now."""
    return are_refused(bed.pods(namespace))


def are_refused(pods: Iterable[Body]) -> bool:
    """Whether the scheduler has said of each of these pods that has no node that it does not fit now."""
    waiting = [pod for pod in pods if not pod["spec"].get("nodeName")]
    return bool(waiting) and all(_is_unschedulable(pod) for pod in waiting)


def _is_unschedulable(pod: Mapping[str, Any]) -> bool:
    return any(
        condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
        for condition in pod.get("status", {}).get("conditions") or ()
    )


def _controller(kubeconfig: str) -> tuple[str, ...]:
    """Return the flags that every program made with controller-runtime takes."""
    return (kubeconfig, f"--metrics-bind-address={loopback()}", f"--health-probe-bind-address={loopback()}")


def queue(name: str, parent: str) -> Body:
    """Return a KAI queue without limits; `parent` is empty for a root."""
    share = {"quota": 0, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"cpu": share, "gpu": share, "memory": share}, **({"parentQueue": parent} if parent else {})}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def _priority(name: str, value: int) -> Body:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


_INSTALLATION: tuple[Body, ...] = (
    *(_priority(name, value) for name, value in (("train", 50), ("build-preemptible", 75), ("build", 100))),
    _priority("inference", 125),
    queue("default-parent-queue", ""),
    queue("default-queue", "default-parent-queue"),
)
