"""Statistics in rounds: shadow unless a policy says otherwise, proposals at most, and gone when a GPU is fast again."""

import random
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.core.health.findings import ProbeProfile
from reconciler.core.health.fleet.decisions import HealthProposal
from reconciler.core.health.fleet.evaluate import FleetInput, Round, evaluate, next_round
from reconciler.core.health.fleet.evidence import observe_health
from reconciler.core.health.fleet.replay import catalogue_rules, replay
from reconciler.core.health.fleet.state import CheckFailure, FleetState, HealthPhase
from reconciler.core.health.fleet.suspects import suspected
from reconciler.core.health.policy import PolicyBook, PolicyDocument
from reconciler.core.health.quarantine import NodeQuarantine, Stage
from reconciler.core.health.readings import GpuIdentity
from reconciler.core.health.report import NodeReport
from reconciler.core.health.statistics.compare import compare
from reconciler.core.health.statistics.drift import DriftBaseline, DriftState
from reconciler.core.health.statistics.series import GpuSeries
from tests.core.health.fleet.rounds import SLOTS, Rounds, fail, report

HBM = "hbm.bandwidth"
SLOW = "n003"
PROPOSE = {"checks": {check: {"mode": "propose"} for check in ("fleet.peers", "fleet.drift", "fleet.lemon")}}
LOUD: dict[str, Any] = {
    "checks": {"fleet.peers": {"mode": "enforce", "lane": "fast", "severity": "fatal"}},
}


def measured(node: str, factor: float = 1.0, runs: int = 3, seed: int = 0) -> dict[str, dict[str, GpuSeries]]:
    """Return the series of a node whose second GPU has a part of the usual speed."""
    chance = random.Random(f"{node}{seed}")  # noqa: S311 (a test)

    def series(share: float) -> GpuSeries:
        values = tuple(float(f"{3000 * share * (1 + chance.gauss(0, 0.005)):.4g}") for _ in range(runs))
        return GpuSeries(newest=values, runs=runs, scale=3352.0, limit=2849.0)

    return {HBM: {SLOTS[0]: series(1.0), SLOTS[1]: series(factor)}}


def told(node: str, at: float, factor: float = 1.0, runs: int = 3, **fields: Any) -> NodeReport:
    known = report(node, at)
    gpus = tuple(GpuIdentity(slot=slot, uuid=f"{node}-{slot}", product="NVIDIA H100") for slot in SLOTS)
    return replace(known, measured=measured(node, factor, runs), gpus=gpus, driver="570.1", **fields)


class Fleet(Rounds):
    """Rounds with the rules of the catalogue, in which every node has measured its GPUs."""

    def __init__(self, spec: dict[str, Any], count: int = 8) -> None:
        super().__init__(count, spec)
        self.reports = {name: told(name, self.now) for name in self.facts}
        self.defaults = catalogue_rules()


def test_in_shadow_mode_a_slow_gpu_is_a_note_and_nothing_else() -> None:
    """F-098: the default of health.md 4.5. A policy that names the check lets it propose."""
    fleet = Fleet({})
    made = fleet.round(told(SLOW, 0.0, 0.9))
    assert made.decisions[SLOW].phase is HealthPhase.HEALTHY
    (note,) = made.notes
    assert note.startswith(f"{SLOW}: fleet.peers on {SLOTS[1]} in shadow mode: hbm.bandwidth is 2,7")
    assert "of the median 3," in note
    fleet.policies = PolicyBook([PolicyDocument(name="p", spec={"mode": "shadow", **PROPOSE})])
    assert fleet.round(told(SLOW, 0.0, 0.9)).decisions[SLOW].proposal is None, "the ceiling of the policy"


def test_a_slow_gpu_is_proposed_and_never_taken_by_the_fast_lane() -> None:
    """F-098: also under a policy that wants the fast lane; healthy peers are left alone."""
    for spec in (PROPOSE, LOUD):
        fleet = Fleet(spec)
        made = fleet.round(told(SLOW, 0.0, 0.9))
        decision = made.decisions.pop(SLOW)
        assert (decision.phase, decision.proposal) == (HealthPhase.SUSPECT, HealthProposal.QUARANTINE)
        assert (decision.taint, decision.slots, decision.check) == (None, (SLOTS[1],), "fleet.peers")
        assert "of 16 peers (z = -" in decision.reason
        assert {one.proposal for one in made.decisions.values()} == {None}
        evidence, reason = decision.evidence, decision.reason
        again = fleet.round(replace(told(SLOW, 0.0, 0.9), measured=measured(SLOW, 0.895, seed=1))).decisions[SLOW]
        assert (again.evidence, again.reason) == (evidence, reason), "noise makes no other case and no other words"
        assert fleet.round(told(SLOW, 0.0)).decisions[SLOW].proposal is None
        assert fleet.kept(SLOW).failures == ()


def test_two_runs_are_too_few_and_a_missing_report_ends_nothing() -> None:
    fleet = Fleet(PROPOSE)
    assert fleet.round(told(SLOW, 0.0, 0.9, runs=2)).decisions[SLOW].proposal is None
    fleet.round(told(SLOW, 0.0, 0.9))
    del fleet.reports[SLOW]
    fleet.facts.pop("n007")
    given = FleetInput(facts=fleet.facts, reports=fleet.reports, policies=fleet.policies, defaults=fleet.defaults)
    made = evaluate(given, fleet.state, fleet.now + 60)
    assert made.decisions[SLOW].proposal is HealthProposal.QUARANTINE


def test_a_drift_needs_fifty_runs_for_a_proposal() -> None:
    """F-098: before, it is a suspicion; its own past counts, so that peers need not differ."""
    baseline = DriftBaseline(median=3000.0, sigma=15.0, runs=20)

    def drifting(runs: int, newest: float = 2880.0) -> dict[str, dict[str, GpuSeries]]:
        drift = DriftState(cusum=19.0, ewma=2880.0, runs=runs, excursion=8, low=2880.0)
        series = GpuSeries(newest=(2880.0, 2880.0, newest), runs=20 + runs, baseline=baseline, drift=drift)
        return {HBM: {SLOTS[0]: series}}

    fleet = Fleet(PROPOSE)
    first = fleet.round(told(SLOW, 0.0)).decisions[SLOW]
    assert first.phase is HealthPhase.HEALTHY
    young = fleet.round(replace(told(SLOW, 0.0), measured=drifting(20))).decisions[SLOW]
    assert (young.phase, young.proposal) == (HealthPhase.SUSPECT, None)
    old = fleet.round(replace(told(SLOW, 0.0), measured=drifting(30))).decisions[SLOW]
    assert (old.proposal, old.check) == (HealthProposal.QUARANTINE, "fleet.drift")
    assert "lost 4.0 % of its 3,000 within the last 8 runs" in old.reason
    repaired = fleet.round(replace(told(SLOW, 0.0), measured=drifting(31, newest=3001.0))).decisions[SLOW]
    assert repaired.proposal is None


def test_what_others_said_of_the_node_stays() -> None:
    """A suspicion stands beside the failures of the node's own checks, and ends without them."""
    spec = {"checks": {**PROPOSE["checks"], "hbm": {"mode": "propose"}}}
    fleet = Fleet(spec)
    both = replace(told(SLOW, 0.0, 0.9), findings=(fail("hbm"),), passed=())
    for _ in range(2):
        fleet.round(both)
    assert [one.check for one in fleet.kept(SLOW).failures] == ["fleet.peers", "hbm"]
    fleet.round(replace(told(SLOW, 0.0), findings=(fail("hbm"),), passed=()))
    assert [one.check for one in fleet.kept(SLOW).failures] == ["hbm"]


def lemon(fleet: Rounds, name: str) -> None:
    """Let a node lose a GPU and fail preflights, again and again, among nodes that do not."""
    for number in range(4):
        profile = ProbeProfile.PREFLIGHT if number % 2 else ProbeProfile.LIGHT
        fleet.round(report(name, 0.0, fail("ecc", profile=profile)), minutes=60)
        fleet.round(report(name, 0.0, fail("gpu.lost")), minutes=60)
        for _ in range(3):
            fleet.round(report(name, 0.0, deep=True), minutes=20)
        fleet.round(report(name, 0.0, deep=True), minutes=1500)


@pytest.mark.parametrize(("mode", "proposal"), [("shadow", None), ("propose", HealthProposal.RETIRE)])
def test_a_lemon_is_proposed_for_retirement(mode: str, proposal: HealthProposal | None) -> None:
    """F-098: health.md 4.4; in shadow mode it is a note. Git that says so already ends the proposal."""
    spec = {
        "checks": {
            "gpu.lost": {"mode": "propose", "severity": "fatal"},
            "ecc": {"mode": "propose"},
            "fleet.lemon": {"mode": mode},
        }
    }
    fleet = Rounds(60, spec)
    fleet.round(minutes=20 * 1440)
    lemon(fleet, "n001")
    made = fleet.round()
    assert made.decisions["n001"].proposal is proposal
    if proposal is None:
        assert any("n001: fleet.lemon in shadow mode: " in note for note in made.notes)
        return
    assert "4 x fatal, 2 x preflight within 90 days" in made.decisions["n001"].reason
    assert {one.proposal for name, one in made.decisions.items() if name != "n001"} == {None}
    again = fleet.round().decisions["n001"]
    assert (again.reason, again.evidence) == (made.decisions["n001"].reason, made.decisions["n001"].evidence)
    fleet.quarantines = [NodeQuarantine(name="n001", node="n001", uid="uid-n001", reason="r", stage=Stage.RETIRE)]
    assert fleet.round().decisions["n001"].proposal is None
    fleet.quarantines = []
    fleet.change("n001", uid="new")
    fleet.round(report("n001", 0.0, uid="new"))
    assert fleet.round().decisions["n001"].proposal is None, "another node has the name"


def test_evidence_holds_what_policies_propose_and_no_values() -> None:
    """F-102: noise of measurements makes no difference of health.yaml; a slow GPU under a policy does."""
    fleet = Fleet({})
    reports = {**fleet.reports, SLOW: told(SLOW, fleet.now, 0.9)}
    noisy = {name: replace(one, measured=measured(name, seed=7)) for name, one in fleet.reports.items()}
    noisy[SLOW] = replace(reports[SLOW], measured=measured(SLOW, 0.9, seed=7))

    def seen(spec: dict[str, Any], given: dict[str, NodeReport]) -> dict[str, Any]:
        policy = PolicyBook([PolicyDocument(name="p", spec=spec)]).base
        suspicions = compare(given, fleet.facts).suspicions
        found: dict[str, list[CheckFailure]] = {
            name: [*suspected(one, policy, catalogue_rules())] for name, one in suspicions.items()
        }
        return observe_health(given.values(), now=fleet.now, stale_after=600, suspected=found)

    assert seen({}, reports) == seen({}, noisy) == observe_health(reports.values(), now=fleet.now, stale_after=600)
    assert seen(PROPOSE, reports) == seen(PROPOSE, noisy)
    (issue,) = seen(PROPOSE, reports)[SLOW].issues
    assert (issue.check, issue.slot, issue.status) == ("fleet.peers", SLOTS[1], "FAIL")


def test_replay_knows_the_statistics() -> None:
    """F-098: what a policy with them would have proposed."""
    fleet = Fleet(PROPOSE)
    stored = [
        told(name, fleet.now + 60 * hour, 0.9 if name == SLOW else 1.0) for hour in range(3) for name in fleet.facts
    ]
    for spec, taken in ((PROPOSE, (SLOW,)), ({}, ())):
        book = PolicyBook([PolicyDocument(name="p", spec=spec)])
        assert replay(book, stored, fleet.facts, catalogue_rules()).taken == taken


@pytest.mark.parametrize("seed", range(4))
def test_changed_nodes_alone_give_the_same_as_everything_again(seed: int) -> None:
    """Values, pools, drivers and nodes come and go; the statistics of what changed agree with those of all."""
    chance = random.Random(seed)  # noqa: S311 (a test)
    fleet = Fleet(PROPOSE, 30)
    made: Round | None = None
    facts, reports = dict(fleet.facts), dict(fleet.reports)
    for step in range(12):
        for name in chance.sample(sorted(fleet.facts), chance.randrange(3)):
            match chance.randrange(5):
                case 0:
                    facts[name] = replace(fleet.facts[name], pool=chance.choice("ab"))
                case 1:
                    reports.pop(name, None)
                case 2:
                    facts.pop(name, None)
                case 3:
                    facts[name] = fleet.facts[name]
                    reports[name] = told(name, fleet.now + 60 * step, chance.choice([0.85, 1.0]))
                case _:
                    reports[name] = replace(told(name, fleet.now + 60 * step), driver="580.2")
        given = FleetInput(facts=dict(facts), reports=dict(reports), policies=fleet.policies, defaults=fleet.defaults)
        now = fleet.now + 60 * step
        if made is None:
            made = Round(given=given, evaluation=evaluate(given, FleetState(), now))
            continue
        whole = evaluate(given, made.evaluation.state, now)
        made = next_round(made, given, now)
        assert made.evaluation.statistics is not None
        assert whole.statistics is not None
        assert made.evaluation.statistics.suspicions == whole.statistics.suspicions
        assert made.evaluation.statistics.cohorts.keys() == whole.statistics.cohorts.keys()
        assert made.evaluation.state.nodes == whole.state.nodes
