"""`reconciler health replay`: what a policy would have done with stored reports."""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import run
from reconciler.nodehealth.fleet.replay import compare_replays, gate, replay
from reconciler.nodehealth.fleet.state import FleetNode, HealthPhase
from reconciler.nodehealth.policy import CheckRule, PolicyBook, PolicyDocument
from reconciler.nodehealth.published import body_of
from reconciler.nodehealth.report import NodeReport
from tests.nodehealth.fleet.rounds import fail, report

NODES = 200
WEEK = 7 * 86400
START = 1_000_000.0
POLICY = """\
apiVersion: gpureconciler.io/v1alpha1
kind: HealthPolicy
metadata: {{name: base}}
spec:
  checks:
    remap.failure: {{mode: {mode}, lane: fast, severity: fatal}}
"""


def week(failing: dict[str, int]) -> list[NodeReport]:
    """Return reports of all nodes on each day of a week; the failing ones from their day on."""
    reports = []
    for day in range(8):
        for number in range(NODES):
            name = f"n{number:03}"
            is_bad = name in failing and day >= failing[name]
            reports.append(
                report(name, START + day * 86400 + number / 1000, *((fail("remap.failure"),) if is_bad else ()))
            )
    return reports


def book(mode: str) -> PolicyBook:
    rule = {"mode": mode, "lane": "fast", "severity": "fatal"}
    return PolicyBook([PolicyDocument(name="base", spec={"checks": {"remap.failure": rule}})])


FACTS = {f"n{number:03}": FleetNode(name=f"n{number:03}", gpus=8) for number in range(NODES)}


def test_a_replay_counts_quarantines_and_trips() -> None:
    """F-098: two bad nodes in a week are one percent of 200; three at once freeze the check for six hours."""
    rules: dict[str, CheckRule] = {}
    shadow, enforce = (replay(book(mode), week({"n001": 1, "n002": 4}), FACTS, rules) for mode in ("shadow", "enforce"))
    assert (shadow.taken, enforce.taken) == ((), ("n001", "n002"))
    assert enforce.a_week == pytest.approx(2.0)
    comparison = compare_replays(shadow, enforce)
    assert comparison.changed["n001"] == (HealthPhase.SUSPECT, HealthPhase.QUARANTINED)
    (reason,) = gate(enforce, comparison)
    assert reason == "takes nodes out of use that the current policy leaves alone: n001, n002"
    assert gate(enforce, comparison, ["n001", "n002"]) == ()
    spike = replay(book("enforce"), week({f"n00{number}": 2 for number in range(4)}), FACTS, rules)
    assert len(spike.taken) == 4, "six hours later: it fails on no more nodes than the limit"
    assert any("trips the breaker: remap.failure began to fail on 4 nodes" in reason for reason in gate(spike, None))
    many = replay(book("enforce"), week({f"n0{number}0": number for number in range(1, 7)}), FACTS, rules)
    assert any("% of the nodes; the limit is 1 %" in reason for reason in gate(many, None))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    folder = tmp_path / "reports"
    folder.mkdir()
    for day in range(8):
        items: list[dict[str, Any]] = [
            body_of(one)
            for one in week({"n001": 1})
            if START + day * 86400 <= one.measured_at < START + (day + 1) * 86400
        ]
        (folder / f"day-{day}.json").write_text(json.dumps({"kind": "List", "items": items}))
    return folder


def ran(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["health", "replay", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_command(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new, old = tmp_path / "new.yaml", tmp_path / "old.yaml"
    new.write_text(POLICY.format(mode="enforce"))
    old.write_text(POLICY.format(mode="shadow").replace(", lane: fast", ""))
    code, out, _ = ran(capsys, str(new), "--reports", str(stored))
    assert (code, out.splitlines()[0]) == (0, "1,600 reports of 200 nodes: 1.0 quarantines a week")
    assert "n001: remap.failure, fast lane" in out
    code, out, _ = ran(capsys, str(new), "--reports", str(stored), "--current", str(old))
    assert code == 4
    assert "n001: suspect → quarantined" in out
    assert "must not be merged: takes nodes out of use that the current policy leaves alone: n001" in out
    assert ran(capsys, str(new), "--reports", str(stored), "--current", str(old), "--allow", "n001")[0] == 0


def test_bad_input_is_no_healthy_fleet(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(mode="enfroce"))
    code, _, err = ran(capsys, str(policy), "--reports", str(stored))
    assert code == 3
    assert "spec.checks" in err
    policy.write_text(POLICY.format(mode="enforce"))
    (stored / "broken.json").write_text('{"status": {"measuredAt": 3')
    code, _, err = ran(capsys, str(policy), "--reports", str(stored))
    assert code == 2
    assert "broken.json" in err
    code, _, err = ran(capsys, str(policy), "--reports", str(tmp_path / "none"))
    assert (code, "is not a folder" in err) == (2, True)
