"""Repairs: bounded steps that people have merged, asked of a tool of the user, and never while GPUs are in use."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reconciler.health import rounds
from reconciler.health.fast_lane import HealthRules, LaneRound
from reconciler.health.state_store import LaneState, StoredState
from reconciler.nodehealth.findings import RepairAction
from reconciler.nodehealth.fleet.evaluate import FleetInput
from reconciler.nodehealth.fleet.repairs import RepairStep, RepairTry, due_steps
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.nodehealth.quarantine import NodeQuarantine, Stage
from reconciler.settings import ALERT_WEBHOOKS
from tests.nodehealth.fleet.rounds import SPEC, Rounds, report

RESET, TICKET = RepairAction.RESET_GPU, RepairAction.CONTACT_SUPPORT


def waiting(action: RepairAction = RESET, **rule: Any) -> Rounds:
    """Return a fleet with a node that Git wants repaired."""
    fleet = Rounds(40, spec={**SPEC, "repair": {"mode": "enforce", **rule}})
    stage = {"uid": "uid-n001", "reason": "Xid 95", "slots": ("0000:9b:00.0",), "action": action}
    fleet.quarantines = [NodeQuarantine(name="n001", node="n001", stage=Stage.REPAIR, **stage)]  # type: ignore[arg-type]
    fleet.round(report("n001", 0))
    assert fleet.of("n001").phase is HealthPhase.REMEDIATING
    return fleet


def due(fleet: Rounds, tries: dict[str, RepairTry], minutes: float = 0.0) -> list[RepairStep]:
    given = FleetInput(
        facts=fleet.facts, reports=fleet.reports, policies=fleet.policies, quarantines=tuple(fleet.quarantines)
    )
    assert fleet.last is not None
    return list(due_steps(given, fleet.last, tries, fleet.now + 60 * minutes))


def test_steps_are_bounded() -> None:
    """F-096, F-165: as many attempts as the policy allows, one at a time, then one ticket, then nothing."""
    fleet, tries, seen = waiting(attempts=2, timeout="30m"), dict[str, RepairTry](), []
    for minutes in (0, 10, 31, 62, 93, 124):
        for step in due(fleet, tries, minutes):
            seen.append((minutes, step.action, step.attempt))
            tries[step.node] = RepairTry(attempt=step.attempt, at=fleet.now + 60 * minutes)
    assert seen == [(0, RESET, 1), (31, RESET, 2), (62, TICKET, 3)]


def test_what_is_not_due() -> None:
    """F-096: another stage, another machine, a node that somebody else repairs, or one that has been restarted."""
    assert due(waiting(RepairAction.RUN_DIAG), {})[0].action is TICKET, "no step that a tool can take"
    staged = waiting()
    staged.quarantines = [NodeQuarantine(name="n001", node="n001", uid="uid-n001", reason="r", stage=Stage.DRAIN)]
    assert due(staged, {}) == []
    other = waiting()
    other.change("n001", uid="new")
    assert due(other, {}) == []
    owned = waiting()
    owned.change("n001", owner="medik8s")
    owned.round(report("n001", 0))
    assert due(owned, {}) == []
    restarted = waiting()
    restarted.round(report("n001", 0, boot="boot-2"))
    assert due(restarted, {}) == []


class Store:
    """The state of a lane in memory."""

    def __init__(self) -> None:
        self.state = LaneState()

    def read(self) -> StoredState:
        return StoredState(state=self.state, version="1")

    def write(self, state: LaneState, *_: StoredState) -> None:
        self.state = state


class Tool:
    """What a round asks of the outside: pods of a node, events, and the user's tool."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_busy: bool) -> None:
        self.sent: list[Any] = []
        self.told: list[str] = []
        self.is_busy = is_busy
        for name in ("pods_on", "uses_gpus", "record_event"):
            monkeypatch.setattr(rounds, name, getattr(self, name))
        monkeypatch.setattr(rounds, "IncomingWebhook", lambda *_: SimpleNamespace(post=self.sent.append))

    def pods_on(self, *_: Any) -> list[dict[str, Any]]:
        return [{}]

    def uses_gpus(self, *_: Any) -> bool:
        return self.is_busy

    def record_event(self, *_: Any, reason: str, **__: Any) -> None:
        self.told.append(reason)


@pytest.mark.parametrize(
    ("mode", "is_busy", "told"),
    [("enforce", False, ["RepairStarted"]), ("shadow", False, ["RepairWouldStart"]), ("enforce", True, [])],
)
def test_the_tool_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str, is_busy: bool, told: list[str]
) -> None:
    """F-096, F-165: with shadow only an event says what would be asked; while pods use GPUs, nothing is."""
    fleet, store, tool, nobody = waiting(mode=mode), Store(), Tool(monkeypatch, is_busy=is_busy), SimpleNamespace()
    (tmp_path / "repair-url").write_text("https://tool.example/repair")
    assert fleet.last is not None
    reading: Any = SimpleNamespace(facts=fleet.facts, reports=fleet.reports)
    rules = HealthRules(policies=fleet.policies, reviewed=tuple(fleet.quarantines))
    environ: Any = {ALERT_WEBHOOKS: str(tmp_path)}
    problems: list[str] = []
    for _ in range(2):
        done = LaneRound(reading=reading, evaluation=fleet.last, state=store.state, now=fleet.now)
        start: Any = rounds.start_repairs
        problems += start(environ, nobody, store, done, rules, clock=nobody).failures
    assert (tool.told, bool(problems)) == (told, is_busy)
    found = [(one["node"], one["action"], one["attempt"]) for one in tool.sent]
    assert found == ([("n001", "reset_gpu", 1)] if told == ["RepairStarted"] else [])
