"""A fleet of GPU nodes on a real API server, whose agents report what a test says."""

from typing import Any

from reconciler.health.fast_lane import HealthRules, LaneRound, node_key, run_round
from reconciler.health.state_store import StateStore
from reconciler.kube.client import KubernetesCluster
from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, HealthFinding, ProbeProfile, RepairAction
from reconciler.nodehealth.policy import CheckRule, PolicyBook, PolicyDocument
from reconciler.nodehealth.published import body_of
from reconciler.nodehealth.quarantine import NodeQuarantine
from reconciler.nodehealth.readings import GpuIdentity
from reconciler.nodehealth.report import NodeReport, ProfileRun
from tests.live.health.conftest import Node, SetClock, read

NAMESPACE = "gpu-reconciler"
FAST: dict[str, Any] = {
    "checks": {"gpu.recovery_action": {"mode": "enforce", "lane": "fast", "severity": "fatal"}},
    "breaker": {"perPool": "10%", "perModel": "20%", "unavailable": "30%"},
}
PRODUCT = "NVIDIA-H100-80GB-HBM3"


SLOT = "0000:9b:00.0"


def lost(slot: str = SLOT) -> HealthFinding:
    """Return what the check of a GPU that must be reset says."""
    return HealthFinding(
        check="gpu.recovery_action",
        status=CheckStatus.FAIL,
        message="the driver asks for a reset",
        slot=slot,
        severity=FindingSeverity.FATAL,
        action=RepairAction.RESET_GPU,
    )


class LiveFleet:
    """Nodes, their reports, and rounds of the fast lane over them."""

    def __init__(self, cluster: KubernetesCluster, clock: SetClock, source: str) -> None:
        self.cluster, self.clock = cluster, clock
        self.source = source
        self.names: list[str] = []

    def add(self, count: int, *, pool: str = "h100", labels: dict[str, str] | None = None, **spec: Any) -> list[str]:
        """Create ready nodes with eight GPUs each."""
        names = [f"{pool}-{len(self.names) + number}" for number in range(count)]
        amounts = {"nvidia.com/gpu": "8", "cpu": "96", "memory": "1000Gi", "pods": "110"}
        known = {"nvidia.com/gpu.product": PRODUCT, "gpureconciler.io/pool": pool, **(labels or {})}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        for name in names:
            metadata = {"name": name, "labels": known}
            self.cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
            status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
            self.cluster.patch(node_key(name), {"status": status}, subresource="status", manager="kubelet")
            self.cluster.patch(node_key(name), {"spec": {"taints": spec.get("taints")}}, manager="node-controller")
        self.names += names
        return names

    def report(self, name: str, *findings: HealthFinding, **fields: Any) -> None:
        """Publish a report of this moment; without findings every check passes."""
        failed = {one.check for one in findings}
        report = NodeReport(
            node=name,
            **{
                "node_uid": self.node(name)["metadata"]["uid"],
                "measured_at": self.clock.at,
                "boot_id": "boot-1",
                "gpus": (GpuIdentity(slot=SLOT, uuid="GPU-1"),),
                "findings": findings,
                "passed": tuple(one for one in ("gpu.recovery_action", "hbm.bandwidth") if one not in failed),
                **fields,
            },
        )
        body = body_of(report)
        self.cluster.apply({name: value for name, value in body.items() if name != "status"}, manager="agent")
        self.cluster.apply(body, manager="agent", force=True, subresource="status")

    def deep_pass(self, name: str) -> None:
        """Publish that a deep test passed everything."""
        passed = dict.fromkeys(("gpu.recovery_action", "hbm.bandwidth"), ProbeProfile.DEEP)
        run = ProfileRun(profile=ProbeProfile.DEEP, finished_at=self.clock.at, status=CheckStatus.PASS)
        self.report(name, passed_by=passed, runs=(run,))

    def round(
        self, spec: dict[str, Any] | None = None, reviewed: tuple[NodeQuarantine, ...] = (), *, dry_run: bool = False
    ) -> LaneRound:
        """Make one round of the fast lane under a policy, as a new process would."""
        rules = HealthRules(
            policies=PolicyBook([PolicyDocument(name="base", spec=FAST if spec is None else spec)]),
            defaults={"hbm.bandwidth": CheckRule()},
            reviewed=reviewed,
        )
        return run_round(self.cluster, self.store, rules, clock=self.clock, dry_run=dry_run)

    @property
    def store(self) -> StateStore:
        """The state of the lane."""
        return StateStore(self.cluster, namespace=NAMESPACE, source=self.source)

    def node(self, name: str) -> Node:
        """Return a node."""
        return read(self.cluster, name)
