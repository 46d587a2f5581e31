"""Edits of evidence are changes: what a cluster gains or loses, and what no longer fits."""

import json
import re
from typing import Any

import pytest

from tests.cli.fleet import Fleet

_H100, _H200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200"


def nodes(fleet: Fleet, *counts: tuple[str, int], taken: str = "2026-11-01T00:00:00Z") -> None:
    """Write an inventory of nodes with 8 GPUs each: pairs of a product and a number of nodes."""
    lines = []
    for product, count in counts:
        for number in range(count):
            lines += [
                f"    - name: {product.lower()}-{number}",
                f"      labels: {{nvidia.com/gpu.product: {product}}}",
                f"      gpu: {{product: {product}, count: 8, memoryMiB: 81559}}",
                "      cpus: 96",
            ]
    head = f'apiVersion: gpureconciler.io/v1alpha1\nkind: NodeInventory\nspec:\n  takenAt: "{taken}"\n  nodes:\n'
    fleet.write("evidence/main/nodes.yaml", head + "\n".join(lines) + "\n")


def plan(fleet: Fleet) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(fleet.run("plan", "-o", "json").out)
    return made


@pytest.fixture
def measured(fleet: Fleet) -> Fleet:
    """Return a fleet whose evidence has 8 nodes of 8 H100."""
    nodes(fleet, (_H100, 8))
    fleet.commit("evidence")
    return fleet


def test_lost_gpus_are_no_unchanged_plan(measured: Fleet) -> None:
    nodes(measured, (_H100, 2), taken="2026-11-02T00:00:00Z")
    ran = measured.run("plan", "--exit-code")
    assert ran.code == 1
    assert "No changes" not in ran.out
    assert f"-48 GPUs of capacity on main ({_H100}: 64 → 16)" in ran.out.splitlines()[0]
    assert "Evidence of main: 8 → 2 nodes, taken 2026-11-01T00:00:00Z → 2026-11-02T00:00:00Z" in ran.out
    assert "evidence.shrinks" in ran.out
    assert f"lists 16 instead of 64 {_H100}" in " ".join(ran.out.split())
    comment = measured.run("plan", "-o", "markdown").out
    assert "-48 GPUs of capacity" in comment
    assert "64&nbsp;→&nbsp;16" in comment


def test_jobs_that_no_longer_fit_are_a_risk(measured: Fleet) -> None:
    nodes(measured, (_H100, 1))
    ran = measured.run("plan")
    text = " ".join(ran.out.split())
    assert "risk.capacity-below-requests" in text
    assert "the cluster has 8 instead of 64" in text
    assert "no longer fit" in text


def test_new_evidence_with_the_same_gpus(measured: Fleet) -> None:
    nodes(measured, (_H100, 8), taken="2026-11-02T00:00:00Z")
    ran = measured.run("plan")
    assert ran.out.startswith("New evidence with the same GPUs on main")
    assert "evidence.shrinks" not in ran.out


def test_the_same_evidence_is_no_change(measured: Fleet) -> None:
    assert measured.run("plan", "--exit-code").code == 0
    assert plan(measured)["evidenceChanges"] == []


def test_removed_evidence_is_a_change(measured: Fleet) -> None:
    (measured.root / "evidence/main/nodes.yaml").unlink()
    made = plan(measured)
    assert [one["nodesAfter"] for one in made["evidenceChanges"]] == [0]
    assert [(line["before"], line["capacity"]) for line in made["capacity"]] == [(64, 0)]
    assert {verdict["rule"] for verdict in made["verdicts"]} >= {"evidence.shrinks"}


@pytest.mark.parametrize("rule", ["evidence.shrinks", "capacity.overcommit"])
def test_rules_about_capacity_can_deny(measured: Fleet, rule: str) -> None:
    measured.edit("reconciler.yaml", "  budgets:\n", f"  rules:\n    {rule}: {{action: deny}}\n  budgets:\n")
    measured.commit("rule")
    assert measured.run("plan").code == 0
    nodes(measured, (_H100, 3))
    ran = measured.run("plan")
    assert ran.code == 4
    assert rule in ran.out


def test_overcommit_names_guarantees_and_capacity(measured: Fleet) -> None:
    nodes(measured, (_H100, 3))
    (verdict,) = (one for one in plan(measured)["verdicts"] if one["rule"] == "capacity.overcommit")
    assert verdict["result"] == "warn"
    assert verdict["message"] == "the quotas of all queues are 32 GPUs, but the cluster has 24"


OPEN_QUEUE = """apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: open, labels: {team: platform}}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: any, resources: [{name: nvidia.com/gpu, nominalQuota: QUOTA}]}]
"""


@pytest.mark.parametrize(("quota", "expected"), [("1000000", False), ("640", True)])
def test_a_quota_that_stands_for_none_guarantees_nothing(measured: Fleet, quota: str, expected: bool) -> None:
    """Kueue has no value for "unlimited": a queue without a quota is rendered with a million GPUs."""
    measured.write("queues/open.yaml", OPEN_QUEUE.replace("QUOTA", quota))
    found = {one["rule"] for one in plan(measured)["verdicts"]}
    assert ("capacity.overcommit" in found) is expected


DAEMON_SET = """apiVersion: apps/v1
kind: DaemonSet
metadata: {name: burn-in, namespace: default, labels: {team: platform}}
spec:
  selector: {matchLabels: {app: burn-in}}
  template:
    metadata: {labels: {app: burn-in}}
    spec: {containers: [{name: main, image: "burn-in:1", resources: {limits: {nvidia.com/gpu: 1}}}]}
"""


def test_queues_cannot_give_what_daemon_sets_take(measured: Fleet) -> None:
    """F-040: all GPUs are guaranteed, and a DaemonSet takes one on each of the nodes that work can run on."""
    nodes(measured, (_H100, 4))
    measured.write("jobs/burn-in.yaml", DAEMON_SET)
    found = {one["rule"]: one["message"] for one in plan(measured)["verdicts"]}
    expected = "the quotas of all queues are 32 GPUs, but the cluster has 28, not counting the 4 that DaemonSets use"
    assert found["capacity.overcommit"] == expected
    measured.edit("queues/h100.yaml", "quota: 32", "quota: 28")
    assert "capacity.overcommit" not in {one["rule"] for one in plan(measured)["verdicts"]}


def test_two_products_use_the_products_of_the_queues(measured: Fleet) -> None:
    """A KAI quota is for any GPU; with two products in the cluster it belongs to the one that its jobs select."""
    queue = (measured.root / "queues/h100.yaml").read_text()
    measured.write(
        "queues/h200.yaml", queue.replace("h100", "h200").replace(_H100, _H200).replace("quota: 32", "quota: 8")
    )
    job = (measured.root / "jobs/vision/vit.yaml").read_text()
    measured.write("jobs/vision/vit2.yaml", job.replace("vit", "vit2").replace("h100", "h200"))
    nodes(measured, (_H100, 8), (_H200, 2))
    lines = {line["product"]: (line["capacity"], line["guaranteed"]) for line in plan(measured)["capacity"]}
    assert lines[_H100] == (64, 32)
    assert lines[_H200] == (16, 8)


@pytest.mark.parametrize(("date", "words"), [("2026-11-02", ""), ("2026-11-04", "evidence 3 days old")])
def test_a_plan_shows_the_age_of_evidence_older_than_a_day(fleet: Fleet, date: str, words: str) -> None:
    """Counted from the date of the plan, never from a clock; the digest does not depend on it."""
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 24")
    ran = fleet.run("plan", "--date", date)
    assert words in ran.out
    assert ("days old" in ran.out) == bool(words)
    digests = {
        re.findall(r"^plan (sha256:\w+)", fleet.run("plan", "--date", day).out, re.MULTILINE)[0] for day in _DAYS
    }
    assert len(digests) == 1


_DAYS = ("2026-11-02", "2026-12-24")
