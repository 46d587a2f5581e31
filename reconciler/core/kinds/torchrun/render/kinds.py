"""The two kinds of workload that run torchrun, and what differs inside their pods."""

from msgspec import Struct

from reconciler.core.config import Backend


class Workload(Struct, frozen=True, kw_only=True):
    """A kind of workload: how its pods know their rank, how the first one is reached, what its container is called."""

    kind: str
    container: str
    rank: str  # environment variable that holds the number of a pod, from 0
    rank_label: str  # pod label to fill that variable from; empty: the kind sets it by itself
    first: str  # host of pod 0, by the job's name
    service: bool  # whether we render the headless Service that its pods meet through

    def host(self, job: str) -> str:
        """Return the name under which pod 0 is reached by the others, in the same namespace."""
        return self.first.format(job=job)


INDEXED_JOB = Workload(
    kind="Job",
    container="trainer",
    rank="JOB_COMPLETION_INDEX",
    rank_label="",
    first="{job}-0.{job}",
    service=True,
)
"""batch/v1 Job with `completionMode: Indexed`: pods `<job>-<n>`, reached through a headless Service of ours."""

PYTORCH_JOB = Workload(
    kind="PyTorchJob",
    container="pytorch",
    rank="NODE_RANK",
    rank_label="training.kubeflow.org/replica-index",
    first="{job}-worker-0",
    service=False,
)
"""kubeflow.org/v1 PyTorchJob of workers only: the training operator makes a headless Service for each pod."""


def workload_for(backend: Backend, nodes: int) -> Workload:
    """Return the kind that starts all or nothing: under KAI a Job of several pods does not, a PyTorchJob does."""
    return PYTORCH_JOB if backend is Backend.KAI and nodes > 1 else INDEXED_JOB
