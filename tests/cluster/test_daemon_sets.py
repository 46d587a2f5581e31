"""The nodes on which a DaemonSet runs, as the real controller says and as `quota.daemon-set` counts them."""

from typing import Any

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import summarize
from reconciler.live.observe.evidence import observe_nodes
from reconciler.repo.config import Cluster
from reconciler.sizing.inventory import Inventory
from tests.cluster.bed.bed import GPU, Bed, node
from tests.plan.plan_cases import evaluate

NAMESPACE, LABEL = "daemon-sets", "daemon-sets/side"
TAINT = {"key": "daemon-sets/gpu", "value": "yes", "effect": "NoSchedule"}
NODES: list[tuple[str, dict[str, Any]]] = [
    ("a", {}),
    ("b", {"taints": [TAINT]}),
    ("a", {"taints": [TAINT, {"key": "daemon-sets/other", "effect": "NoExecute"}]}),
    ("b", {"unschedulable": True}),
    ("a", {"taints": [{"key": "daemon-sets/soft", "effect": "PreferNoSchedule"}]}),
]
SIDES = ["a", "b"]
SPECS: list[dict[str, Any]] = [
    {},
    {"nodeSelector": {LABEL: "a"}},
    {"tolerations": [{"operator": "Exists"}]},
    {"tolerations": [{"key": TAINT["key"], "operator": "Exists"}]},
    {"tolerations": [{"key": TAINT["key"], "value": "yes", "effect": "NoSchedule"}]},
    {"tolerations": [{"key": TAINT["key"], "value": "no"}]},
    {"tolerations": [{"key": TAINT["key"], "operator": "Exists", "effect": "NoExecute"}]},
    {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}, {"key": TAINT["key"], "operator": "Exists"}]},
    {"nodeSelector": {LABEL: "b"}, "tolerations": [{"key": TAINT["key"], "operator": "Exists"}]},
]


def daemon_set(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return a DaemonSet; its pods stay on the nodes of this test."""
    terms = [{"matchExpressions": [{"key": LABEL, "operator": "In", "values": SIDES}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    container = {"name": "a", "image": "a:1", "resources": {"limits": {GPU: 1}}}
    labels = {"app": name}
    pod = {"affinity": affinity, "containers": [container], **spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


@pytest.mark.usefixtures("kwok")
def test_a_daemon_set_runs_on_the_nodes_that_are_counted(bed: Bed) -> None:
    for index, (side, spec) in enumerate(NODES):
        bed.create("/api/v1/nodes", {**node(f"daemon-{index}", labels={LABEL: side}), "spec": spec})
    bodies = [daemon_set(f"set-{index}", spec) for index, spec in enumerate(SPECS)]
    bed.apply(*bodies)

    selected = f"/api/v1/nodes?labelSelector={LABEL.replace('/', '%2F')}"

    def both() -> tuple[list[int], list[int]]:
        """Return our numbers and those of the controller."""
        items = bed.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets")["items"]
        observed = observe_nodes(bed.get(selected)["items"], [LABEL])
        nodes = Inventory(cluster="main", taken_at="", nodes=observed.nodes)
        return [counted(body, nodes) for body in bodies], [item["status"]["desiredNumberScheduled"] for item in items]

    def are_ready() -> bool:
        taints = [taint["key"] for item in bed.get(selected)["items"] for taint in item["spec"].get("taints", ())]
        return "node.kubernetes.io/not-ready" not in taints

    bed.wait(are_ready, "the nodes")
    bed.wait(lambda: len({*map(tuple, both())}) == 1, "the same numbers")
    ours, theirs = both()
    assert ours == theirs
    assert len(set(theirs)) > 2


def counted(body: dict[str, Any], nodes: Inventory) -> int:
    row = summarize(BUILT_IN, cluster="main", body=body, path="x", digest="")
    found = evaluate(BUILT_IN, [row], Cluster(name="main"), nodes, {})
    (message,) = [one.message for one in found if one.rule == "quota.daemon-set"]
    return int(message.partition(" GPU that")[0].partition(" GPUs that")[0].rpartition(" ")[2])
