"""What Kueue runs on worker clusters (MultiKueue)."""

from reconciler.core.kinds.facts import KindId

COPIED: frozenset[KindId] = frozenset(
    (
        ("", "Pod"),
        ("apps", "StatefulSet"),
        ("batch", "Job"),
        ("jobset.x-k8s.io", "JobSet"),
        ("ray.io", "RayCluster"),
        ("ray.io", "RayJob"),
        ("trainer.kubeflow.org", "TrainJob"),
        ("workload.codeflare.dev", "AppWrapper"),
        *(("kubeflow.org", f"{name}Job") for name in ("JAX", "MPI", "Paddle", "PyTorch", "TF", "XGBoost")),
    )
)
"""Kinds with an adapter in Kueue 0.16.1 (pkg/controller/jobs, MultiKueueAdapter)."""
