"""A plan that changes a HealthPolicy shows what it would have done by what the repository has recorded."""

import json
from typing import TYPE_CHECKING, Any

import pytest

from reconciler.nodehealth.published import body_of
from tests.cli.fleet import Fleet
from tests.cli.test_evidence_changes import nodes
from tests.nodehealth.fleet.rounds import fail, report

if TYPE_CHECKING:
    from reconciler.nodehealth.findings import HealthFinding

_H100 = "NVIDIA-H100-80GB-HBM3"
_START = 1_793_491_200.0  # 2026-11-01
POLICY = """\
apiVersion: gpureconciler.io/v1alpha1
kind: HealthPolicy
metadata: {name: base}
spec:
  checks:
    hbm.bandwidth: {mode: MODE, severity: fatal}
"""
EXCEPTION = """\
apiVersion: gpureconciler.io/v1alpha1
kind: PolicyException
metadata: {name: bad-node}
spec:
  rule: health.replay
  object: {kind: HealthPolicy, name: base}
  reason: node 3 is known to be bad
  owner: ops@example.com
  expires: "2026-12-01"
"""


def names() -> list[str]:
    return [f"{_H100.lower()}-{number}" for number in range(8)]


@pytest.fixture
def measured(fleet: Fleet) -> Fleet:
    """Return a fleet with 8 nodes and a policy that only collects."""
    nodes(fleet, (_H100, 8))
    fleet.write("queues/health.yaml", POLICY.replace("MODE", "shadow"))
    return fleet


def settle(fleet: Fleet) -> None:
    """Commit, and render what is committed."""
    fleet.commit("evidence")
    assert fleet.run("commit").code == 0


def record(fleet: Fleet, *bad: str) -> None:
    """Store the reports of a week: from the third day on, the bad nodes fail."""
    for day in range(8):
        items: list[dict[str, Any]] = []
        for name in names():
            findings: tuple[HealthFinding, ...] = (fail("hbm.bandwidth"),) if name in bad and day > 1 else ()
            items.append(body_of(report(name, _START + day * 86400, *findings)))
        fleet.write(f"evidence/main/reports/day-{day}.json", json.dumps({"kind": "List", "items": items}))


def effects(fleet: Fleet) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(fleet.run("plan", "--base", "HEAD", "-o", "json").out)["healthPolicies"]
    return found


def enforce(fleet: Fleet) -> None:
    fleet.write("queues/health.yaml", POLICY.replace("MODE", "enforce, lane: fast"))


def test_reports_are_replayed(measured: Fleet) -> None:
    """F-098: the plan says how many quarantines a week, and whose verdict changes; it needs an exception to be merged."""
    record(measured, names()[3])
    settle(measured)
    assert effects(measured) == []
    enforce(measured)
    (effect,) = effects(measured)
    assert (effect["basis"], effect["reports"], effect["nodes"]) == ("reports", 64, 8)
    assert (effect["first"], effect["last"]) == ("2026-11-01", "2026-11-08")
    assert (effect["before"], effect["after"]) == (0.0, 1.0)
    assert effect["verdicts"] == [{"node": names()[3], "before": "suspect", "after": "quarantined, tainted"}]
    ran = measured.run("plan", "--base", "HEAD")
    assert ran.code == 4
    text = " ".join(ran.out.split())
    assert "replayed on 64 reports of 8 nodes (2026-11-01 to 2026-11-08): 1 quarantine a week instead of 0" in text
    assert f"takes nodes out of use that the current policy leaves alone: {names()[3]}" in text
    assert "[health.replay]" in text or "health.replay" in text
    measured.write("policies/exceptions/bad-node.yaml", EXCEPTION)
    assert measured.run("plan", "--base", "HEAD").code == 0


def test_the_effect_ends_with_the_merge(measured: Fleet) -> None:
    record(measured)
    enforce(measured)
    (effect,) = effects(measured)
    assert (effect["changed"], effect["refused"]) == (0, [])
    settle(measured)
    assert effects(measured) == []
    measured.edit("queues/health.yaml", "spec:\n", "spec:\n  jobs: {exclude: true}\n")
    assert effects(measured) == [], "what it changes in jobs is seen in their manifests"


def test_without_reports_the_recorded_health_counts(measured: Fleet) -> None:
    """F-098: nodes whose recorded failures lead to something else; what is not recorded is unknown."""
    lines = [f"  - {{name: {name}, status: PASS}}" for name in names()[1:7]]
    lines += [
        f"  - {{name: {names()[0]}, status: FAIL, issues: [{{check: hbm.bandwidth, status: FAIL, severity: fatal}}]}}"
    ]
    head = "apiVersion: gpureconciler.io/v1alpha1\nkind: NodeHealth\nmetadata: {name: main}\n"
    body = 'spec:\n  takenAt: "2026-11-01T06:00:00Z"\n  nodes:\n' + "\n".join(lines) + "\n"
    measured.write("evidence/main/health.yaml", head + body)
    settle(measured)
    enforce(measured)
    (effect,) = effects(measured)
    assert (effect["basis"], effect["nodes"], effect["refused"]) == ("health", 7, [])
    assert effect["verdicts"] == [{"node": names()[0], "before": "nothing", "after": "tainted"}]
    assert effect["unknown"] == ["1 node without a recorded health"]
    measured.edit("queues/health.yaml", "severity: fatal", "severity: fatal, limits: {failBelow: 0.9}")
    (effect,) = effects(measured)
    assert (
        "who passes under the new limits of hbm.bandwidth: records contain no values of checks that passed"
        in effect["unknown"]
    )
    measured.edit("queues/health.yaml", "spec:\n", "spec:\n  expected: {gpus: 8}\n")
    (effect,) = effects(measured)
    said = "which nodes lack what `expected` says now: agents compare it with values that records do not contain"
    assert said in effect["unknown"]
    failing = body.replace("status: PASS", "status: FAIL, issues: [{check: hbm.bandwidth, status: FAIL}]")
    measured.write("evidence/main/health.yaml", head + failing)
    (effect,) = effects(measured)
    assert effect["refused"] == ["acts at once on 7 recorded nodes more, 100.0 % of them; the limit is 1 %"]
    assert measured.run("plan", "--base", "HEAD").code == 4


def test_without_records_the_effect_is_unknown(measured: Fleet) -> None:
    """F-098: unknown is said, never taken for harmless; so is a record that cannot be read."""
    settle(measured)
    enforce(measured)
    (effect,) = effects(measured)
    assert (effect["basis"], effect["changed"]) == ("", 0)
    assert "neither evidence/main/reports/ nor evidence/main/health.yaml has records" in effect["unknown"][0]
    assert "Unknown: the effect" in " ".join(measured.run("plan", "--base", "HEAD").out.split())
    record(measured)
    measured.write("evidence/main/reports/broken.json", '{"status": {"measuredAt": 3')
    (effect,) = effects(measured)
    assert effect["basis"] == ""
    assert "evidence/main/reports/broken.json" in effect["unknown"][0]
    assert measured.run("lint").code == 0, "stored reports are no evidence of other kinds"


def test_clusters_whose_names_have_hyphens(measured: Fleet) -> None:
    measured.edit("reconciler.yaml", "name: main", "name: main-1")
    (measured.root / "evidence/main").rename(measured.root / "evidence/main-1")
    (effect,) = effects(measured)
    assert effect["cluster"] == "main-1"
