"""Random histories of a fleet: whatever happens, the breaker holds, and what others did stays theirs."""

import datetime as dt
import os
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.health.fast_lane import MarkResult, write_mark
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.fleet.breaker import allowed
from reconciler.nodehealth.fleet.decisions import HealthProposal, ProblemStatus
from reconciler.nodehealth.fleet.evaluate import FleetInput, Round, evaluate, next_round
from reconciler.nodehealth.fleet.lifecycle import TRANSITIONS
from reconciler.nodehealth.fleet.state import FleetState, HealthPhase
from reconciler.nodehealth.nodes import node_edits, node_mark
from reconciler.nodehealth.quarantine import NodeQuarantine
from tests.nodehealth.fleet.rounds import CHECKS, Rounds, fail, report

RUNS = int(os.environ.get("RECONCILER_TEST_HISTORIES", "40"))
NODES, ROUNDS = 24, 30
FOLLOWING = {(before, after) for (before, _), after in TRANSITIONS.items()}


@settings(max_examples=RUNS, deadline=None)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_whatever_happens(seed: int) -> None:
    """F-100: limits hold, what others did stays theirs, a dry run writes nothing, and every step is of the table."""
    chance = random.Random(seed)  # noqa: S311 (a test)
    fleet = Rounds(NODES)
    for index, name in enumerate(fleet.facts):
        fleet.change(name, pool=f"p{index % 2}", product=("H100", "H200")[index % 3 == 0])
    generation, uids = 0, 0
    bodies: dict[str, dict[str, Any]] = {}
    for _ in range(ROUNDS):
        if chance.random() < 0.03:
            generation += 1
            fleet.policy(breaker={"resetGeneration": generation})
        uids += _disturb(fleet, chance, uids)
        before = fleet.state
        fleet.round(*_reports(fleet, chance), minutes=chance.choice([1, 1, 1, 10, 60, 1500]))
        _check(fleet, before)
        _check_writes(fleet, bodies)


def _check_writes(fleet: Rounds, bodies: dict[str, dict[str, Any]]) -> None:
    """Assert that marks leave cordons, taints, labels and annotations of others alone, and that a dry run asks nobody.

    `bodies` are the nodes as our marks have left them so far.
    """
    assert fleet.last is not None
    for name, decision in fleet.last.decisions.items():
        if name in bodies and not decision.changed and decision.taint is None:
            continue  # its mark is the same as before
        facts, state = fleet.facts[name], fleet.state.nodes[name]
        body = bodies.setdefault(name, {"metadata": {}, "spec": {}, "status": {}})
        metadata, spec = body["metadata"], body["spec"]
        metadata |= {"name": name, "uid": facts.uid, "resourceVersion": "7"}
        metadata["labels"] = {**metadata.get("labels", {}), "theirs": "label"}
        spec["unschedulable"] = facts.cordoned
        spec["taints"] = [THEIRS, *(one for one in spec.get("taints", ()) if one != THEIRS)]
        mark = node_mark(decision, state, body, case="case")
        if mark is None:
            continue
        planned = write_mark(NOBODY, mark, body, clock=NOBODY, dry_run=True)
        assert planned.result in (MarkResult.PLANNED, MarkResult.UNCHANGED)
        for operation in node_edits(body, mark, fleet.now).patch:
            _apply(body, operation)
        assert (spec["unschedulable"], spec["taints"].count(THEIRS)) == (facts.cordoned, 1)
        assert metadata["labels"]["theirs"] == "label"
        assert len(spec["taints"]) == 1 + (mark.taint is not None)


def _apply(body: dict[str, Any], operation: dict[str, Any]) -> None:
    """Apply one operation of a JSON patch as an API server does."""
    *path, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    target: Any = body
    for part in path:
        target = target[int(part) if isinstance(target, list) else part]
    key = len(target) if last == "-" else int(last) if isinstance(target, list) else last
    match operation["op"]:
        case "test":
            assert target[key] == operation["value"]
        case "remove":
            del target[key]
        case _ if isinstance(target, list):
            target.insert(key, operation["value"])
        case _:
            target[key] = operation["value"]


class Nobody:
    """A cluster that must not be asked, and a clock that stands still."""

    def now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(0, dt.UTC)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"a dry run called {name}")


NOBODY: Any = Nobody()
THEIRS = {"key": "example.com/dedicated", "value": "them", "effect": "NoSchedule"}


def _disturb(fleet: Rounds, chance: random.Random, uids: int) -> int:
    """Let people and other systems do something to a node; return whether it was replaced."""
    name = chance.choice(list(fleet.facts))
    what: dict[str, Any] = chance.choice(
        [{}, {}, {"cordoned": True}, {"cordoned": False}, {"ready": False}, {"ready": True}, {"unfenced": True}]
    )
    fleet.change(name, **{"unfenced": False, **what})
    if chance.random() < 0.1:
        fleet.quarantines = [
            NodeQuarantine(name=one, node=one, uid=fleet.facts[one].uid, reason="r")
            for one in chance.sample(list(fleet.facts), chance.randrange(3))
        ]
    if chance.random() < 0.05:
        fleet.change(name, uid=f"new-{uids}")
        return 1
    return 0


def _reports(fleet: Rounds, chance: random.Random) -> list[Any]:
    reports = []
    for name in chance.sample(list(fleet.facts), chance.randrange(NODES)):
        findings: list[HealthFinding] = []
        if chance.random() < 0.25:
            findings.append(fail(chance.choice(CHECKS), profile=chance.choice(list(ProbeProfile))))
        at = fleet.now + chance.choice([0, 0, 0, -500, 5000])
        reports.append(
            report(
                name,
                max(at, 1.0),
                *findings,
                deep=chance.random() < 0.3,
                boot=f"b{chance.randrange(2)}",
                uid=fleet.facts[name].uid,
            )
        )
    return reports


def _check(fleet: Rounds, before: FleetState) -> None:
    limits, breaker = fleet.policies.base.breaker, fleet.state.breaker
    assert fleet.last is not None
    recent = [one for one in breaker.admitted if fleet.now - one.at < limits.window and not one.is_planned]
    for (pool, cause), count in Counter((one.pool, one.cause) for one in recent).items():
        size = sum(one.pool == pool for one in fleet.facts.values())
        assert count <= allowed(limits.per_pool, size, limits.minimum), cause
    for model, count in Counter(one.product for one in recent).items():
        size = sum(one.product == model for one in fleet.facts.values())
        assert count <= allowed(limits.per_model, size, limits.minimum)
    in_git = {one.node for one in fleet.quarantines}
    new = []
    for name, decision in fleet.last.decisions.items():
        state, report_ = fleet.state.nodes[name], fleet.reports[name]
        if decision.taint is not None and name not in in_git:
            assert state.ours or decision.taint == "PreferNoSchedule"
        if state.ours and not before.nodes.get(name, state).ours:
            new.append(name)
            assert any(one.node == name and one.at == fleet.now for one in breaker.admitted), "past the breaker"
            assert fleet.now - state.measured_at <= fleet.policies.base.lifecycle.stale_after, "by a stale report"
            assert any(one.is_fast and one.last == state.measured_at for one in state.failures), "without a failure"
            is_newest = report_.measured_at == state.measured_at  # else one that came late
            assert not is_newest or any(one.status is CheckStatus.FAIL for one in report_.findings), "of its report"
        if decision.condition is ProblemStatus.FALSE:
            assert not any(one.is_failing for one in state.failures)
        if decision.changed:
            assert (decision.before, decision.phase) in FOLLOWING or _two_steps(decision.before, decision.phase)
    free = {name: one for name, one in fleet.facts.items() if not one.cordoned}
    unavailable = sum(not one.is_available or fleet.state.nodes[name].phase.is_out for name, one in free.items())
    if any(fleet.facts[name].is_available for name in new):
        assert unavailable <= allowed(limits.unavailable, len(free), limits.minimum)
    assert sum(one.proposal in NEW for one in fleet.last.decisions.values()) <= limits.proposals


NEW = (HealthProposal.QUARANTINE, HealthProposal.INSPECT, HealthProposal.SUPPORT)


def _two_steps(before: HealthPhase, after: HealthPhase) -> bool:
    """Say whether a decision and a measurement of one round lead there."""
    return any((before, middle) in FOLLOWING and (middle, after) in FOLLOWING for middle in HealthPhase)


def test_equal_inputs_give_equal_results() -> None:
    """A history that is repeated gives the same state, bit by bit."""

    def run() -> FleetState:
        chance, fleet = random.Random(7), Rounds(NODES)  # noqa: S311 (a test)
        for _ in range(20):
            fleet.round(*_reports(fleet, chance))
        return fleet.state

    assert run() == run()


@pytest.mark.parametrize("seed", range(5))
def test_a_changed_report_alone_gives_the_same_as_everything_again(seed: int) -> None:
    """The rounds that look at changed nodes only agree with those that look at all."""
    chance, fleet = random.Random(seed), Rounds(NODES)  # noqa: S311 (a test)
    made: Round | None = None
    for _ in range(25):
        _disturb(fleet, chance, 0)
        state = fleet.state
        fleet.round(*_reports(fleet, chance), minutes=chance.choice([1, 5, 15]))
        given_now = FleetInput(
            facts=dict(fleet.facts), reports=fleet.reports, policies=fleet.policies, quarantines=fleet.quarantines
        )
        if made is None:
            made = Round(given=given_now, evaluation=evaluate(given_now, state, fleet.now))
        else:
            made = next_round(made, given_now, fleet.now)
        assert fleet.last is not None
        assert made.evaluation.state == fleet.last.state
        ours, theirs = made.evaluation.decisions, fleet.last.decisions
        assert {name: one for name, one in ours.items() if one.phase is one.before} == {
            name: one for name, one in theirs.items() if ours[name].phase is ours[name].before
        }
