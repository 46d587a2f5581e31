"""HealthPolicy and NodeQuarantine are kinds of the config repository: linted, rendered, planned."""

import json
from typing import Any

from tests.cli.fleet import Fleet
from tests.cli.test_evidence_changes import nodes

POLICY = """\
apiVersion: gpureconciler.io/v1alpha1
kind: HealthPolicy
metadata: {name: base}
spec:
  checks:
    hbm.bandwidth: {mode: propose, limits: {failBelow: 0.75}}
  xid:
    "79": {mode: enforce, lane: fast, severity: fatal, action: power_cycle}
  breaker: {perPool: 5%, window: 24h}
"""
QUARANTINE = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeQuarantine
metadata: {name: gpu-3}
spec:
  node: gpu-3
  nodeUID: 5b1c9f1e-0000-4000-8000-000000000003
  slots: ["0000:9b:00.0"]
  check: hbm.bandwidth
  reason: "GPU 3 reads 3,310 GB/s; the median of 128 GPUs is 4,290"
  until: "2026-12-01T00:00:00Z"
"""


def test_they_are_rendered_and_planned(fleet: Fleet) -> None:
    fleet.write("queues/health.yaml", f"{POLICY}---\n{QUARANTINE}")
    plan = json.loads(fleet.run("plan", "-o", "json").out)
    made = {change["path"] for change in plan["changes"]}
    assert "rendered/main/_cluster/healthpolicy-base.yaml" in made
    assert "rendered/main/_cluster/nodequarantine-gpu-3.yaml" in made
    fleet.commit("health")
    assert fleet.run("commit").code == 0
    rendered = (fleet.root / "rendered/main/_cluster/nodequarantine-gpu-3.yaml").read_text()
    assert "node: gpu-3" in rendered


def test_a_quarantine_that_has_ended_is_reported(fleet: Fleet) -> None:
    """It still takes its node out of every figure, as long as its file is there."""
    fleet.write("queues/health.yaml", QUARANTINE)
    fleet.commit("health")
    said = "ended on 2026-12-01, but the plan still counts node gpu-3 as kept out of use"
    for command in ("lint", "plan"):
        assert "ended on" not in fleet.run(command, "--date", "2026-12-01").out
        ran = fleet.run(command, "--date", "2026-12-02")
        assert ran.code == 0
        assert "queues/health.yaml:10:10" in ran.out
        assert said in " ".join(ran.out.split())
        assert "remove the file, or set a later `until`" in " ".join(ran.out.split())
    fleet.write("queues/health.yaml", QUARANTINE.replace('  until: "2026-12-01T00:00:00Z"\n', ""))
    assert "ended on" not in fleet.run("lint", "--date", "2026-12-02").out


def test_wrong_policies_are_reported_all_at_once(fleet: Fleet) -> None:
    wrong = POLICY.replace("perPool: 5%", "perPool: 5").replace("mode: propose", "mode: cordon")
    fleet.write("queues/health.yaml", wrong)
    ran = fleet.run("lint")
    assert ran.code == 3
    assert "spec.breaker.perPool" in ran.out
    assert "spec.checks" in ran.out


def test_what_no_schema_can_say(fleet: Fleet) -> None:
    extra = "  lifecycle: {confirmations: 4, of: 3, ttl: 48h}\n  jobs: {preflight: {jobs: all}}\n"
    fleet.write("queues/health.yaml", POLICY.replace("mode: enforce, lane", "mode: propose, lane") + extra)
    ran = fleet.run("lint")
    text = " ".join(ran.out.split())
    assert ran.code == 3
    assert "4 of 3 reports can never agree" in text
    assert "longer than 24h" in text
    assert "there is no image" in text
    assert "the fast lane acts only with mode enforce" in text


def test_names_that_do_not_exist(fleet: Fleet) -> None:
    """A rule of a check that nobody runs would silently do nothing."""
    wrong = POLICY.replace("hbm.bandwidth", "hbm.bandwith").replace(
        "  xid", "    pcie.h2d: {limits: {failUnder: 1}}\n  xid"
    )
    fleet.write("queues/health.yaml", wrong + "  jobs: {preflight: {image: x@sha256:1, checks: [gpu.cuont]}}\n")
    ran = fleet.run("lint")
    text = " ".join(ran.out.split())
    assert ran.code == 3
    assert "unknown check 'hbm.bandwith' → did you mean hbm.bandwidth?" in text
    assert "unknown limit 'failUnder' of pcie.h2d" in text
    assert "unknown check 'gpu.cuont' → did you mean gpu.count?" in text
    fleet.commit("health")
    refused = fleet.run("health", "--offline")
    assert refused.code == 3, "a policy that does not count is not shown as none"
    assert "hbm.bandwith" in refused.err


def test_xids_that_are_no_numbers(fleet: Fleet) -> None:
    """Messages are matched by the number as it is printed, so any other key would silently do nothing."""
    rules = "".join(f'    "{key}": {{mode: propose}}\n' for key in ("Xid 48", "-1", "079", "119"))
    fleet.write("queues/health.yaml", POLICY.replace("  breaker", f"{rules}  breaker"))
    ran = fleet.run("lint")
    text = " ".join(ran.out.split())
    assert ran.code == 3
    for key in ("Xid 48", "-1", "079"):
        assert f"'{key}' is not the number of an Xid" in text
    assert "write it as 79" in text
    assert text.count("is not the number") == 3, "79 and 119 are"


def test_what_nodes_should_have_is_checked_with_its_place(fleet: Fleet) -> None:
    """A wrong value would be compared with every node."""
    fleet.write("queues/health.yaml", POLICY + "  expected: {gpus: -1, pcieWidth: 7, links: 18}\n")
    text = " ".join((ran := fleet.run("lint")).out.split())
    assert ran.code == 3
    for field in ("spec.expected.gpus", "spec.expected.pcieWidth", "links"):
        assert field in text
    assert "queues/health.yaml:10:20: spec.expected.gpus" in text
    denied = "  expected: {drivers: [570.1, 580.2], deniedDrivers: ['580.2']}\n"
    fleet.write("queues/health.yaml", POLICY + denied.replace("570.1", "'570.1'").replace(" 580.2]", " '580.2']"))
    text = " ".join((ran := fleet.run("lint")).out.split())
    assert ran.code == 3
    assert "spec.expected.deniedDrivers[0]: driver 580.2 is allowed as well" in text


def test_a_limit_without_an_effect_is_a_warning(fleet: Fleet) -> None:
    """Agents judge by the catalogue: a limit that is not judged again would silently do nothing."""
    fleet.write("queues/health.yaml", POLICY.replace("  xid", "    throttle: {limits: {failPercent: 20}}\n  xid"))
    ran = fleet.run("lint")
    text = " ".join(ran.out.split())
    assert ran.code == 0
    assert "has no effect: agents judge by the catalogue" in text
    assert text.count("has no effect") == 1, "failBelow of hbm.bandwidth has one"


def test_a_quarantine_without_uid_is_a_warning(fleet: Fleet) -> None:
    fleet.write("queues/health.yaml", "\n".join(line for line in QUARANTINE.split("\n") if "UID" not in line))
    ran = fleet.run("lint")
    assert ran.code == 0
    assert "names no `nodeUID`" in " ".join(ran.out.split())
    assert "health.quarantine" in ran.out


def test_a_quarantine_and_what_it_costs(fleet: Fleet) -> None:
    """F-102: the plan says what a node costs that leaves, and what comes back when it returns."""
    nodes(fleet, ("NVIDIA-H100-80GB-HBM3", 8))
    fleet.commit("evidence")
    text = QUARANTINE.replace("node: gpu-3", "node: nvidia-h100-80gb-hbm3-3")
    fleet.write("queues/health.yaml", text)
    plan = fleet.run("plan")
    assert "-8 NVIDIA-H100-80GB-HBM3, 56 left" in " ".join(plan.out.split())
    fleet.commit("quarantine")
    assert fleet.run("commit").code == 0
    assert "Node health" not in fleet.run("plan", "--base", "HEAD").out
    (fleet.root / "queues/health.yaml").unlink()
    back = " ".join(fleet.run("plan", "--base", "HEAD").out.split())
    assert "returns to use" in back
    assert "+8 NVIDIA-H100-80GB-HBM3, 64 left" in back


def evictions(fleet: Fleet) -> list[dict[str, Any]]:
    """Return the risks of evicted pods in the plan of the working tree."""
    risks = json.loads(fleet.run("plan", "--base", "HEAD", "-o", "json").out)["risks"]
    return [risk for risk in risks if risk["rule"] == "risk.node-eviction"]


def test_a_quarantine_that_evicts_is_a_disruption(fleet: Fleet) -> None:
    """F-096: the plan names the jobs that may lose their pods, once, and says so where nobody knows."""
    nodes(fleet, ("NVIDIA-H100-80GB-HBM3", 8))
    assert fleet.run("commit").code == 0
    known = QUARANTINE.replace("node: gpu-3", "node: nvidia-h100-80gb-hbm3-3")
    evicting = known.replace("  slots:", "  effect: NoExecute\n  slots:")
    fleet.write("queues/health.yaml", known)
    assert evictions(fleet) == []
    fleet.write("queues/health.yaml", evicting)
    (risk,) = evictions(fleet)
    assert risk["harm"] == "disruption"
    assert risk["key"] == {"group": "gpureconciler.io", "kind": "NodeQuarantine", "namespace": "", "name": "gpu-3"}
    assert "evicts every pod on node nvidia-h100-80gb-hbm3-3 that does not tolerate it; 3 jobs with " in risk["message"]
    text = " ".join(fleet.run("plan", "--base", "HEAD").out.split())
    assert "evicts every pod on node nvidia-h100-80gb-hbm3-3" in text
    fleet.commit("evict")
    assert fleet.run("commit").code == 0
    fleet.write("queues/health.yaml", evicting.replace("2026-12-01", "2026-12-02"))
    assert evictions(fleet) == [], "the pods are gone already"
    fleet.write("queues/health.yaml", evicting.replace("name: gpu-3", "name: gpu-9").replace("hbm3-3", "hbm3-99"))
    (risk,) = evictions(fleet)
    assert "no evidence lists the node, so it is unknown which jobs run there" in risk["message"]
