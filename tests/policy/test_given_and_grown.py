"""GPUs that a workload does not name itself: those of a LimitRange, and those of copies that an autoscaler may start."""

from typing import Any

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.policy.verdict import Result, Verdict
from reconciler.queues.queues import NO_QUEUE, QueueKey, subtract_workloads, usage_by_cluster
from reconciler.repo.config import Cluster
from tests.plan.plan_cases import (
    KUEUE_QUEUE,
    Body,
    cluster_queue,
    evaluate,
    flavor,
    inventory,
    kai_queue,
    local_queue,
    plain,
    pod_spec,
    rows,
)

LIMIT_RANGE = plain(
    "LimitRange", "defaults", spec={"limits": [{"type": "Container", "default": {"nvidia.com/gpu": 1}}]}
)


def verdicts(*bodies: Body) -> dict[str, Verdict]:
    found = evaluate(BUILT_IN, rows(bodies), Cluster(name="main"), inventory(64), {})
    return {verdict.rule: verdict for verdict in found}


def serving(label: str, queue: str, gpus: int = 8, replicas: int = 1) -> Body:
    spec = pod_spec(gpus)
    if not gpus:
        del spec["containers"][0]["resources"]
    template = {"metadata": {"labels": {label: queue}}, "spec": spec}
    body = plain("Deployment", "serve", api="apps/v1", spec={"replicas": replicas, "template": template})
    body["metadata"]["labels"] = {label: queue}
    return body


def scaler(least: int, most: int) -> Body:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "serve"}
    spec: dict[str, Any] = {"minReplicas": least, "maxReplicas": most, "scaleTargetRef": target}
    return plain("HorizontalPodAutoscaler", "grow", api="autoscaling/v2", spec=spec)


KAI = (kai_queue("leaf", 16, limit=64, parent="top"), kai_queue("top", -1))
KUEUE = (cluster_queue("c", {"h100": 64}), local_queue("l", "c"), flavor("h100", "H100"))


@pytest.mark.parametrize(
    ("label", "queue", "queues"), [("kai.scheduler/queue", "leaf", KAI), (KUEUE_QUEUE, "l", KUEUE)]
)
def test_the_fewest_copies_must_fit_the_limit_and_the_most_should(
    label: str, queue: str, queues: tuple[Body, ...]
) -> None:
    """The start is compared with the limit, where a workload that is too large waits; the maximum is a warning."""
    body = serving(label, queue)
    assert not {"quota.queue-limit", "quota.growth"} & verdicts(body, scaler(4, 8), *queues).keys()
    found = verdicts(body, scaler(4, 10), *queues)
    assert "quota.queue-limit" not in found
    assert found["quota.growth"].result is Result.WARN
    assert found["quota.growth"].message.startswith("may grow to 80 GPUs, but ")
    assert "quota.queue-limit" in verdicts(body, scaler(9, 10), *queues)


def test_gpus_by_default_count_in_the_queue_and_name_the_limit_range() -> None:
    body = serving("kai.scheduler/queue", "leaf", gpus=0, replicas=3)
    usage = usage_by_cluster(rows((body, LIMIT_RANGE, *KAI)))["main"]
    assert usage.requested == {(QueueKey("scheduling.run.ai", "Queue", "leaf"), ""): 3}
    assert usage.namespaces == {"ml": 3}
    found = verdicts(body, LIMIT_RANGE, *KAI)["quota.default-gpus"]
    assert found.message == (
        "gets GPUs that it does not name: 1 nvidia.com/gpu for each container (LimitRange defaults)"
    )
    assert found.result is Result.WARN
    assert "quota.default-gpus" not in verdicts(serving("kai.scheduler/queue", "leaf"), LIMIT_RANGE, *KAI)


def test_gpus_by_default_must_fit_the_limit() -> None:
    for label, queue, queues in (("kai.scheduler/queue", "leaf", KAI), (KUEUE_QUEUE, "l", KUEUE)):
        fits, grown = (serving(label, queue, gpus=0, replicas=number) for number in (64, 65))
        assert "quota.queue-limit" not in verdicts(fits, LIMIT_RANGE, *queues)
        assert "quota.queue-limit" in verdicts(grown, LIMIT_RANGE, *queues)


def test_workloads_can_be_taken_out_of_the_sums_again() -> None:
    """Whatever a LimitRange or an autoscaler adds to a workload goes with it."""
    body, rest = serving("kai.scheduler/queue", "leaf", gpus=0), (LIMIT_RANGE, scaler(2, 5))
    (own, *others) = rows((body, *rest))
    usage = usage_by_cluster([own, *others])
    key = (QueueKey("scheduling.run.ai", "Queue", "leaf"), "")
    assert (usage["main"].requested[key], usage["main"].growth[key]) == (2, 3)
    assert NO_QUEUE not in {queue for queue, _ in usage["main"].requested}
    assert subtract_workloads(usage, [own]) == usage_by_cluster(others)


SHARING = """\
version: v1
sharing:
  STRATEGY:
    renameByDefault: RENAME
    resources: [{name: nvidia.com/gpu, replicas: 4}, {name: nvidia.com/mig-1g.5gb, replicas: 1}]
"""


@pytest.mark.parametrize("strategy", ["timeSlicing", "mps"])
def test_gpus_that_nodes_offer_several_times_are_said(strategy: str) -> None:
    """A share has the name of a whole GPU there, so that no count can tell them apart."""
    for rename, reported in (("false", True), ("true", False)):
        text = SHARING.replace("STRATEGY", strategy).replace("RENAME", rename)
        found = verdicts(plain("ConfigMap", "device-plugin", data={"any": text, "other": "a: b"}))
        assert ("quota.shared-gpus" in found) is reported
        if reported:
            message = "nodes with this configuration offer each device 4 times as nvidia.com/gpu: 1 is a share"
            assert found["quota.shared-gpus"].message == message


@pytest.mark.parametrize("text", ["timeSlicing: [", "sharing: {timeSlicing: 4}", "sharing: {mps: {resources: [4]}}"])
def test_configurations_that_are_written_wrong_say_nothing(text: str) -> None:
    assert not verdicts(plain("ConfigMap", "device-plugin", data={"any": text}))
