"""The workloads that Kueue runs on worker clusters (MultiKueue)."""

from collections.abc import Mapping
from typing import Any

from reconciler.kinds.facts import KindId
from reconciler.kinds.kueue import MULTI_KUEUE
from reconciler.kube.values import mapping

COPIED: frozenset[KindId] = frozenset(
    (
        ("", "Pod"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
        ("jobset.x-k8s.io", "JobSet"),
        ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
        ("ray.io", "RayCluster"),
        ("ray.io", "RayJob"),
        ("ray.io", "RayService"),
        ("trainer.kubeflow.org", "TrainJob"),
        ("workload.codeflare.dev", "AppWrapper"),
        *(("kubeflow.org", f"{name}Job") for name in ("JAX", "MPI", "Paddle", "PyTorch", "TF", "XGBoost")),
    )
)
"""Kinds with an adapter in Kueue 0.19.1 (pkg/controller/jobs, MultiKueueAdapter)."""


def is_dispatched(job: Mapping[str, Any]) -> bool:
    """Return whether a job runs on a worker cluster: its pods and their nodes are there."""
    spec = mapping(job.get("spec"))
    return MULTI_KUEUE in (spec.get("managedBy"), mapping(spec.get("runPolicy")).get("managedBy"))
