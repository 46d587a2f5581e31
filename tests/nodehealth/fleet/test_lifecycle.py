"""The lifecycle: every transition as a table, and the ways through it as rounds of a fleet."""

import pytest
from msgspec.structs import replace

from reconciler.health.fast_lane import open_cases
from reconciler.health.state_store import HealthCase
from reconciler.nodehealth.findings import CheckStatus, ProbeProfile
from reconciler.nodehealth.fleet.decisions import HealthProposal, ProblemStatus
from reconciler.nodehealth.fleet.failures import absorb
from reconciler.nodehealth.fleet.lifecycle import TRANSITIONS, Signal, follow
from reconciler.nodehealth.fleet.state import FleetState, HealthPhase, NodeState
from reconciler.nodehealth.policy import PolicyBook, PolicyDocument
from reconciler.nodehealth.quarantine import NodeQuarantine, Stage, TaintEffect
from reconciler.nodehealth.report import ProfileRun
from tests.nodehealth.fleet.rounds import FAST, SLOTS, SPEC, Rounds, fail, report

TABLE = """
             suspected    fenced       merged       drain        repair       validate     drained      rebooted     recovered    validated    released     overridden   survived     withdrawn
healthy      suspect      quarantined  quarantined  -            -            -            -            -            -            -            -            -            -            -
suspect      -            quarantined  quarantined  -            -            -            -            -            healthy      -            -            -            -            -
quarantined  -            -            -            draining     remediating  validating   -            validating   validating   -            probation    healthy      -            suspect
draining     -            -            -            -            remediating  validating   remediating  validating   -            -            probation    healthy      -            suspect
remediating  -            -            -            -            -            validating   -            validating   -            -            probation    healthy      -            suspect
validating   quarantined  quarantined  -            -            -            -            -            -            -            probation    probation    healthy      -            suspect
probation    -            quarantined  quarantined  -            -            -            -            -            -            -            -            -            healthy      -
retired      -            -            -            -            -            -            -            -            -            -            -            -            -            -
"""
HEAD, *ROWS = [line.split() for line in TABLE.strip("\n").splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
@pytest.mark.parametrize("signal", list(Signal))
def test_every_transition(row: list[str], signal: Signal) -> None:
    phase = HealthPhase(row[0])
    listed = dict(zip(HEAD, row[1:], strict=True))
    always = {Signal.RETIRE: "retired", Signal.REPLACED: "healthy"}
    expected = always.get(signal) or listed[signal.value]
    if phase is HealthPhase.RETIRED and signal is not Signal.REPLACED:
        expected = "-"
    assert follow(phase, signal) == (phase if expected == "-" else HealthPhase(expected))


def test_only_a_replaced_node_leaves_retired() -> None:
    assert {signal for phase, signal in TRANSITIONS if phase is HealthPhase.RETIRED} == {Signal.REPLACED}


def test_k_of_n_reports_confirm_a_failure() -> None:
    """F-096: one report makes a suspect; a second one within three takes the node out of use."""
    fleet = Rounds()
    fleet.round()
    fleet.round(report("n001", 0, fail("ecc")))
    assert fleet.of("n001").phase is HealthPhase.SUSPECT
    assert (fleet.of("n001").taint, fleet.of("n001").condition) == (None, ProblemStatus.TRUE)
    fleet.round(report("n001", 0))
    fleet.round(report("n001", 0, fail("ecc")))
    decision = fleet.of("n001")
    assert (decision.phase, decision.taint) == (HealthPhase.QUARANTINED, TaintEffect.NO_SCHEDULE)
    assert decision.proposal is HealthProposal.QUARANTINE
    assert decision.slots == (SLOTS[0],)


def test_a_fatal_failure_needs_one_report() -> None:
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.lost")))
    assert fleet.of("n001").phase is HealthPhase.QUARANTINED


def test_the_same_report_again_confirms_nothing() -> None:
    """Duplicates and older reports: one measurement is one vote, and time does not run backwards."""
    fleet = Rounds()
    fleet.round()
    once = report("n001", fleet.now + 60, fail("ecc"))
    fleet.round(once)
    fleet.round(once)
    fleet.round(report("n001", once.measured_at - 30, fail("ecc")))
    assert fleet.of("n001").phase is HealthPhase.SUSPECT
    assert len(fleet.kept("n001").failures[0].recent) == 1


def test_a_report_from_the_future_is_ignored() -> None:
    fleet = Rounds()
    fleet.round()
    made = fleet.round(report("n001", fleet.now + 3600, fail("gpu.lost")))
    assert fleet.of("n001").phase is HealthPhase.HEALTHY
    assert any("from the future" in note for note in made.notes)


def test_a_light_pass_keeps_a_heavy_failure() -> None:
    """F-090: a failed deep test ends by a deep pass only."""
    fleet = Rounds()
    deep = fail("deep.gemm", profile=ProbeProfile.DEEP)
    for _ in range(2):
        fleet.round(report("n001", 0, deep))
    assert fleet.of("n001").phase is HealthPhase.QUARANTINED
    for _ in range(30):
        fleet.round(report("n001", 0))
    assert fleet.kept("n001").failures[0].is_failing
    assert fleet.of("n001").phase is HealthPhase.QUARANTINED
    for _ in range(12):
        fleet.round(report("n001", 0, deep=True))
    assert not fleet.kept("n001").failures


def test_the_way_back() -> None:
    """Passes for ten minutes, a deep pass, a day of probation."""
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.lost")))
    for _ in range(10):
        fleet.round(report("n001", 0))
        assert fleet.of("n001").phase is HealthPhase.QUARANTINED
    fleet.round(report("n001", 0))
    assert fleet.of("n001").phase is HealthPhase.VALIDATING
    fleet.round(report("n001", 0))
    assert fleet.of("n001").phase is HealthPhase.VALIDATING, "only a deep pass validates"
    fleet.round(report("n001", 0, deep=True))
    assert (fleet.of("n001").phase, fleet.of("n001").taint) == (HealthPhase.PROBATION, None)
    fleet.round(report("n001", 0), minutes=23 * 60)
    assert fleet.of("n001").phase is HealthPhase.PROBATION
    fleet.round(report("n001", 0), minutes=70)
    assert fleet.of("n001").phase is HealthPhase.HEALTHY


def test_a_deep_pass_from_before_the_fault_validates_nothing() -> None:
    """F-096: later reports repeat it; only a run that ended after the fault counts."""
    old = ProfileRun(profile=ProbeProfile.DEEP, started_at=50.0, finished_at=60.0, status=CheckStatus.PASS)
    before = replace(report("n", 100.0, deep=True), runs=(old,))
    policy = PolicyBook([PolicyDocument(name="base", spec=SPEC)]).base
    state = absorb(NodeState(), before, policy, {}, 100.0)
    assert state.validated_at == 60.0
    assert absorb(state, replace(before, measured_at=500.0), policy, {}, 500.0).validated_at == 60.0
    again = replace(before, measured_at=600.0, runs=(replace(old, finished_at=550.0),))
    assert absorb(state, again, policy, {}, 600.0).validated_at == 550.0
    for status in (CheckStatus.UNKNOWN, CheckStatus.FAIL):
        unmeasured = replace(again, runs=(replace(again.runs[0], status=status),))
        assert absorb(state, unmeasured, policy, {}, 600.0).validated_at == 60.0, "it measured nothing"


def test_jobs_end_a_probation_earlier() -> None:
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.round(report("n001", 0, boot="boot-2"))
    fleet.round(report("n001", 0, boot="boot-2", deep=True), minutes=20)
    fleet.round(report("n001", 0, boot="boot-2", deep=True), minutes=20)
    assert fleet.of("n001").phase is HealthPhase.PROBATION
    fleet.change("n001", jobs=3)
    fleet.round(report("n001", 0, boot="boot-2"))
    assert fleet.of("n001").phase is HealthPhase.HEALTHY


def test_a_reboot_ends_an_xid_but_not_the_case() -> None:
    """An Xid of before the last boot counts no more; the node is validated, not trusted."""
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.xid")))
    assert fleet.of("n001").phase is HealthPhase.QUARANTINED
    fleet.round(report("n001", 0, boot="boot-2"))
    assert fleet.of("n001").phase is HealthPhase.VALIDATING
    assert not fleet.kept("n001").failures


def test_a_swapped_gpu_starts_a_new_history() -> None:
    """The failure was that of the GPU that is gone; the node is validated before it is used."""
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.round(report("n001", 0, uuids=("GPU-9", "GPU-2")))
    assert not fleet.kept("n001").failures
    assert fleet.of("n001").phase is HealthPhase.VALIDATING
    other = Rounds()
    other.round(report("n001", 0, fail("gpu.lost")))
    other.round(report("n001", 0, uuids=("GPU-1", "GPU-9")))
    assert other.kept("n001").failures, "another slot changed"


def test_a_replaced_node_is_another_node() -> None:
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.quarantines = [NodeQuarantine(name="n001", node="n001", uid="uid-n001", reason="r")]
    fleet.round()
    fleet.change("n001", uid="new")
    fleet.round(report("n001", 0, uid="new"))
    decision = fleet.of("n001")
    assert (decision.phase, decision.taint) == (HealthPhase.HEALTHY, None)
    assert decision.proposal is HealthProposal.REMOVE_STALE


def test_a_merged_quarantine_and_its_release() -> None:
    """F-096: what lasts is in Git. The release is proposed after a deep pass, and happens by a merge."""
    fleet = Rounds()
    fleet.round()
    fleet.quarantines = [NodeQuarantine(name="n001", node="n001", uid="uid-n001", reason="slow", stage=Stage.DRAIN)]
    fleet.round(report("n001", 0))
    assert fleet.of("n001").phase is HealthPhase.DRAINING
    fleet.change("n001", drained=True)
    fleet.round(report("n001", 0))
    assert fleet.of("n001").phase is HealthPhase.REMEDIATING
    fleet.round(report("n001", 0, boot="boot-2"))
    fleet.round(report("n001", 0, boot="boot-2", deep=True))
    assert (fleet.of("n001").phase, fleet.of("n001").proposal) == (HealthPhase.VALIDATING, HealthProposal.RELEASE)
    assert fleet.of("n001").taint is TaintEffect.NO_SCHEDULE
    fleet.quarantines = []
    fleet.round(report("n001", 0, boot="boot-2"))
    assert (fleet.of("n001").phase, fleet.of("n001").taint) == (HealthPhase.PROBATION, None)


def test_an_expired_taint_ends_only_if_the_check_passes() -> None:
    """Nobody merged: the taint is prolonged and escalated while the check fails, and gone once it passes."""
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.round(report("n001", 0, fail("gpu.lost")), minutes=25 * 60)
    decision = fleet.of("n001")
    assert (decision.phase, decision.taint, decision.escalate) == (
        HealthPhase.QUARANTINED,
        TaintEffect.NO_SCHEDULE,
        True,
    )
    assert decision.until > fleet.now
    assert "prolonged" in decision.reason
    fleet.round(report("n001", 0))
    assert not fleet.of("n001").escalate
    fleet.round(report("n001", 0), minutes=25 * 60)
    assert (fleet.of("n001").phase, fleet.of("n001").taint) in {
        (HealthPhase.PROBATION, None),
        (HealthPhase.VALIDATING, TaintEffect.NO_SCHEDULE),
    }


def test_an_expired_taint_of_a_silent_node_stays() -> None:
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.round(minutes=25 * 60)
    decision = fleet.of("n001")
    assert (decision.taint, decision.escalate) == (TaintEffect.NO_SCHEDULE, True)


def test_a_person_who_removes_the_taint_wins() -> None:
    """The case is cancelled, and nothing is done for a day, whatever fails."""
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.change("n001", unfenced=True)
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.change("n001", unfenced=False)
    fleet.round(report("n001", 0, fail("gpu.lost")), minutes=60)
    decision = fleet.of("n001")
    assert (decision.taint, decision.proposal) == (None, None)
    assert decision.condition is ProblemStatus.TRUE
    fleet.round(report("n001", 0, fail("gpu.lost")), minutes=24 * 60)
    fleet.round(report("n001", 0, fail("gpu.lost")))
    assert fleet.of("n001").phase is HealthPhase.QUARANTINED


def test_a_silent_agent_is_unknown_and_no_more() -> None:
    """A report by age: never healthy, never a taint."""
    fleet = Rounds()
    fleet.round()
    assert fleet.of("n001").condition is ProblemStatus.FALSE
    fleet.round(minutes=11)
    assert fleet.of("n001").condition is ProblemStatus.UNKNOWN
    assert fleet.of("n001").taint is None
    assert "there is no health report since 1970-01-12T13:47:40Z" in fleet.of("n001").reason
    assert fleet.last is not None
    assert {one.taint for one in fleet.last.decisions.values()} == {None}


def test_nodes_of_other_repairers_are_only_reported() -> None:
    fleet = Rounds()
    fleet.change("n001", owner="nvsentinel")
    fleet.round(report("n001", 0, fail("gpu.lost")))
    decision = fleet.of("n001")
    assert (decision.taint, decision.proposal, decision.observes_only) == (None, None, True)
    assert decision.condition is ProblemStatus.TRUE


def test_a_report_without_a_node_is_noted() -> None:
    fleet = Rounds()
    made = fleet.round(report("ghost", 0, fail("gpu.lost")))
    assert made.notes == ("ghost: there is a health report, but no such node",)
    assert "ghost" not in made.decisions
    del fleet.facts["n001"]
    assert "n001" not in fleet.round().state.nodes


def _back(fleet: Rounds, boot: str) -> None:
    """Let a node fail for good, be restarted, and pass everything for two days."""
    fleet.round(report("n001", 0, fail("gpu.lost"), boot=boot))
    for minutes in (1, 20, 60, 600, 600, 800, 800):
        fleet.round(report("n001", 0, boot=f"{boot}x", deep=True), minutes=minutes)


def test_a_node_that_comes_back_too_often_waits_for_a_person() -> None:
    """F-096: after two returns within a week it stays out, however well it passes; a release by a person counts on."""
    fleet = Rounds()
    for boot in ("b1", "b2"):
        _back(fleet, boot)
        assert fleet.of("n001").taint is None
    _back(fleet, "b3")
    decision = fleet.of("n001")
    assert (decision.phase, decision.taint) == (HealthPhase.VALIDATING, TaintEffect.NO_SCHEDULE)
    assert decision.proposal is HealthProposal.INSPECT
    assert "came back too often" in decision.reason
    for _ in range(3):
        fleet.quarantines = [NodeQuarantine(name="n001", node="n001", uid="uid-n001", reason="inspected")]
        fleet.round(report("n001", 0, boot="b3x", deep=True))
        fleet.quarantines = []
        fleet.round(report("n001", 0, boot="b3x", deep=True))
        assert fleet.of("n001").phase is HealthPhase.PROBATION
        fleet.round(report("n001", 0, fail("gpu.lost"), boot="b3x"))
    assert fleet.of("n001").proposal is HealthProposal.SUPPORT


def test_a_release_is_honoured_for_its_time() -> None:
    """F-096: who releases a node while its check fails knows better for a day; another failure still fences it."""
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.quarantines = [NodeQuarantine(name="n001", node="n001", uid="uid-n001", reason="r")]
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.quarantines = []
    for minutes in (1, 1, 600):
        fleet.round(report("n001", 0, fail("gpu.lost")), minutes=minutes)
        assert (fleet.of("n001").phase, fleet.of("n001").taint) == (HealthPhase.PROBATION, None)
        assert "a person released it" in fleet.of("n001").reason
    fleet.round(report("n001", 0, fail("gpu.lost"), fail("gpu.xid", SLOTS[1])))
    assert fleet.of("n001").phase is HealthPhase.QUARANTINED
    other = Rounds()
    other.state, other.now = (
        FleetState(nodes={"n001": replace(fleet.kept("n001"), phase=HealthPhase.PROBATION)}),
        fleet.now,
    )
    other.round(report("n001", 0, fail("gpu.lost")), minutes=25 * 60)
    assert other.of("n001").phase is HealthPhase.QUARANTINED, "its time is over"


@pytest.mark.parametrize("rule", [{"mode": "shadow"}, {"enabled": False}, {"mode": "propose"}])
def test_a_rule_that_is_switched_off_releases_at_once(rule: dict[str, object]) -> None:
    """F-096: our taint does not outlive the rule that set it, nor does a reset of the breaker fence by that rule."""
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("gpu.lost")))
    assert fleet.of("n001").taint is TaintEffect.NO_SCHEDULE
    fleet.policy(checks={**SPEC["checks"], "gpu.lost": rule}, breaker={"resetGeneration": 1})
    fleet.round()
    assert (fleet.of("n001").phase, fleet.of("n001").taint) == (HealthPhase.SUSPECT, None)
    fleet.round(report("n001", 0, fail("gpu.lost")))
    assert fleet.of("n001").taint is None
    assert not fleet.kept("n001").returns


def test_a_bad_rule_is_disabled_before_the_breaker_is_reset() -> None:
    """F-096: one commit does both; the reports of before fence nobody by the old rule."""
    fleet = Rounds(100)
    fleet.round(*(report(name, 0, fail("gpu.lost")) for name in fleet.facts))
    fleet.policy(checks={**SPEC["checks"], "gpu.lost": {"mode": "shadow"}}, breaker={"resetGeneration": 1})
    made = fleet.round(minutes=0.25)
    assert {one.taint for one in made.decisions.values()} == {None}
    assert not made.state.breaker.frozen


def test_the_latest_policy_judges_what_was_seen() -> None:
    """F-096: enforcement begins with the round after the commit, for a failure that a current report contains."""
    fleet = Rounds(spec={"checks": {"gpu.lost": {"mode": "shadow"}}})
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.policy(checks={"gpu.lost": SPEC["checks"]["gpu.lost"]})
    fleet.round()
    assert fleet.of("n001").phase is HealthPhase.QUARANTINED


def test_a_stale_report_never_fences() -> None:
    """F-096: whatever a policy or a thaw allows later."""
    fleet = Rounds(spec={"checks": {"gpu.lost": {"mode": "shadow"}}})
    fleet.round(report("n001", 0, fail("gpu.lost")))
    fleet.policy(checks={"gpu.lost": SPEC["checks"]["gpu.lost"]})
    fleet.round(minutes=60)
    assert (fleet.of("n001").phase, fleet.of("n001").taint) == (HealthPhase.SUSPECT, None)


def test_a_report_is_bound_to_its_machine() -> None:
    """F-096: without the UID of the node, its boot must be that of the node; else another machine may have written it."""
    for boot, phase in (("", HealthPhase.SUSPECT), ("other", HealthPhase.SUSPECT), ("boot-1", HealthPhase.QUARANTINED)):
        fleet = Rounds()
        fleet.round()
        fleet.change("n001", boot_id=boot)
        fleet.round(replace(report("n001", 0, fail("gpu.lost")), node_uid=""))
        assert fleet.of("n001").phase is phase


def test_a_quarantine_without_a_uid_ends_with_its_machine() -> None:
    """F-096: a new node of the name is not meant."""
    fleet = Rounds()
    fleet.quarantines = [NodeQuarantine(name="n001", node="n001", reason="r")]
    fleet.round()
    assert fleet.of("n001").phase is HealthPhase.QUARANTINED
    fleet.change("n001", uid="new")
    for _ in range(3):
        fleet.round(report("n001", 0, uid="new"))
        assert (fleet.of("n001").phase, fleet.of("n001").taint) == (HealthPhase.HEALTHY, None)
    assert fleet.of("n001").proposal is HealthProposal.REMOVE_STALE


def test_policies_escalate_any_xid() -> None:
    """F-096: a warning that a policy calls fatal is fatal; of several codes each is seen."""
    fleet = Rounds(spec={"xid": {"109": FAST, "95": FAST}})
    warning = replace(
        fail("gpu.xid"), status=CheckStatus.WARN, codes=(109,), message="Xid 109 (Context switch timeout)"
    )
    both = replace(fail("gpu.xid"), codes=(), message="Xid 48 (Double bit ECC error); Xid 95 (Uncontained ECC error)")
    fleet.round(report("n001", 0, warning), report("n002", 0, both), report("n003", 0, replace(warning, codes=(31,))))
    assert [fleet.of(name).phase for name in ("n001", "n002")] == [HealthPhase.QUARANTINED] * 2
    assert fleet.of("n003").phase is HealthPhase.HEALTHY
    assert {one.cause for one in fleet.state.breaker.admitted} == {"gpu.xid 109", "gpu.xid 95"}


def test_so_many_proposals_are_open_at_once() -> None:
    """F-096: those that are open stay open; the rest is counted."""
    fleet = Rounds()
    fleet.policy(breaker={"spike": {"nodes": 1000}})
    for start in (0, 15, 30, 30):
        names = [f"n{number:03}" for number in range(start, start + 15)]
        for _ in range(2):
            fleet.round(*(report(name, 0, fail("hbm")) for name in names))
    made = fleet.round()
    asked = {name for name, one in made.decisions.items() if one.proposal is not None}
    assert len(asked) == 20
    assert asked >= {f"n{number:03}" for number in range(15)}
    assert "25 nodes more should be proposed; 20 are, as many as may be open" in made.notes


def test_a_proposing_check_never_taints() -> None:
    fleet = Rounds()
    for _ in range(5):
        fleet.round(report("n001", 0, fail("hbm")))
    decision = fleet.of("n001")
    assert (decision.phase, decision.taint, decision.proposal) == (
        HealthPhase.SUSPECT,
        None,
        HealthProposal.QUARANTINE,
    )


def test_shadow_and_disabled_checks_do_nothing() -> None:
    for rule in ({"mode": "shadow"}, {"mode": "enforce", "lane": "fast", "severity": "fatal", "enabled": False}):
        fleet = Rounds(spec={"checks": {"gpu.lost": rule}})
        for _ in range(5):
            fleet.round(report("n001", 0, fail("gpu.lost")))
        is_seen = rule.get("enabled", True)
        assert fleet.of("n001").phase is (HealthPhase.SUSPECT if is_seen else HealthPhase.HEALTHY), "seen, not acted on"
        assert (fleet.of("n001").condition is ProblemStatus.TRUE) == is_seen
        assert (fleet.of("n001").taint, fleet.of("n001").proposal) == (None, None)
    ceiling = Rounds(spec={"mode": "shadow", "checks": {"gpu.lost": {"mode": "enforce", "lane": "fast"}}})
    ceiling.round(report("n001", 0, fail("gpu.lost")))
    assert (ceiling.of("n001").phase, ceiling.of("n001").taint) == (HealthPhase.SUSPECT, None)


def test_a_failed_preflight_is_a_preference() -> None:
    fleet = Rounds()
    fleet.round(report("n001", 0, fail("ecc", profile=ProbeProfile.PREFLIGHT)))
    assert (fleet.of("n001").phase, fleet.of("n001").taint) == (HealthPhase.SUSPECT, TaintEffect.PREFER_NO_SCHEDULE)


def test_a_node_that_falls_off_after_every_restart_stops_for_good() -> None:
    """F-096: two returns by itself, then it waits for a person, also when the week of the returns is over."""
    fleet, fenced, before = Rounds(), 0, None
    for day in range(30):
        for minutes, *bad in ((1, fail("gpu.lost")), (30,), (60,), (600,), (700,)):
            boot = f"boot-{day}-{bool(bad)}"
            fleet.round(report("n001", 0, *bad, boot=boot, deep=not bad), minutes=minutes)
            fenced += before is None and fleet.of("n001").taint is not None
            before = fleet.of("n001").taint
    assert fenced == 3
    assert fleet.of("n001").proposal is HealthProposal.INSPECT
    fleet.change("n001", unfenced=True)  # a person takes the taint off
    fleet.round(report("n001", 0, boot="boot-30"))
    assert fleet.of("n001").phase is HealthPhase.HEALTHY


def test_an_open_proposal_is_told_again_every_day() -> None:
    """F-096: one case that nobody decides about escalates; it is no new proposal."""
    fleet, escalated, cases = Rounds(count=4), 0, set()
    for minute in range(72 * 6):
        made = fleet.round(report("n001", 0, *([fail("hbm")] if minute % 2 else [])), minutes=10)
        escalated += made.decisions["n001"].escalate
        cases.add(fleet.kept("n001").proposed_at)
    assert (escalated, len(cases - {0.0})) == (2, 1)
    assert fleet.of("n001").reason.endswith("proposed 2 days ago, and nobody has decided")
    assert fleet.of("n001").taint is None


@pytest.mark.parametrize("checks", [("hbm",), ("hbm", "ecc", "deep.gemm")])
def test_a_day_of_flapping_is_one_case(checks: tuple[str, ...]) -> None:
    """F-096: 2 of 20 minutes, by one check or by another one each time: one case, few openings of its proposal."""
    fleet, opened, before, cases, ids = Rounds(count=4), 0, None, dict[str, HealthCase](), set[str]()
    fleet.policy(checks={check: {"mode": "propose"} for check in checks})
    for minute in range(24 * 60):
        bad = [fail(checks[minute // 20 % len(checks)])] if minute % 20 < 2 else []
        made = fleet.round(report("n001", 0, *bad))
        cases = open_cases(cases, made.decisions.values(), fleet.now, fleet.state.nodes)
        ids |= {case.id for case in cases.values()}
        opened += before is None and fleet.of("n001").proposal is not None
        before = fleet.of("n001").proposal
    assert len(ids) == 1
    assert opened <= len(checks) + 1
