"""Statistics of a fleet: how rarely healthy GPUs are flagged, how often slow ones are, and the estimates behind it."""

import datetime as dt
import random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.core.health.statistics.drift import DriftState, drift_baseline, follow_drift
from reconciler.core.health.statistics.learning import AcceptedRun, PresentLimits, learn
from reconciler.core.health.statistics.lemons import (
    LemonKind,
    LemonMark,
    LemonNode,
    exposure_days,
    find_lemons,
    gamma_above,
)
from reconciler.core.health.statistics.peers import (
    Cohort,
    CohortKey,
    benjamini_hochberg,
    changed_cohort,
    cohort_drift,
    make_cohort,
    outliers,
    t5_tail,
)
from tools.health_simulation import false_positives, power, runs_to_alarm

DAY = 86400.0


@pytest.mark.parametrize(("kind", "cv", "gpus"), [("normal", 0.01, 8), ("t3", 0.01, 64), ("skew", 0.01, 8)])
def test_healthy_gpus_are_hardly_ever_flagged(kind: str, cv: float, gpus: int) -> None:
    """F-098: z alone flags up to 2 % of healthy GPUs in each run; the gate and the best of three flag none."""
    rates = false_positives(kind, cv, gpus, 4000 // gpus)
    assert 2e-3 < rates.z_alone < 4e-2
    assert rates.gated < rates.z_alone
    assert rates.best_of_three <= 2e-4


@pytest.mark.parametrize(
    ("kind", "gpus", "drop", "low", "high"),
    [
        ("normal", 8, 0.05, 0.25, 0.52),
        ("normal", 8, 0.07, 0.82, 0.97),
        ("normal", 8, 0.10, 0.98, 1.0),
        ("t3", 64, 0.07, 0.94, 1.0),
        ("skew", 8, 0.07, 0.78, 0.95),
        ("skew", 8, 0.10, 0.96, 1.0),
    ],
)
def test_slow_gpus_are_found(kind: str, gpus: int, drop: float, low: float, high: float) -> None:
    """Five percent is a coin flip, seven percent is reliable, ten percent is certain."""
    found = power(kind, 0.01, gpus, drop, fleets=250 if gpus < 10 else 100)
    assert low <= found <= high


def test_half_a_slow_cohort_hides_itself() -> None:
    assert power("normal", 0.01, 16, 0.10, fleets=100, bad=1) == 1.0
    assert power("normal", 0.01, 16, 0.10, fleets=100, bad=4) > 0.85
    assert power("normal", 0.01, 16, 0.10, fleets=100, bad=8) == 0.0


def test_delays_and_false_alarms_of_the_cusum() -> None:
    """A limit of 10: no false alarm in thousands of runs, where 5 has one in about 900; two sigma in seven runs."""
    assert 500 < runs_to_alarm(0.0, 5.0, 40, 5000) < 1500
    assert runs_to_alarm(0.0, 10.0, 10, 5000) > 4500
    assert runs_to_alarm(1.0, 10.0, 200, 1000) == pytest.approx(21, abs=2.5)
    assert runs_to_alarm(2.0, 10.0, 200, 1000) == pytest.approx(7.3, abs=1)
    assert runs_to_alarm(3.0, 10.0, 200, 1000) == pytest.approx(4.6, abs=0.6)


KEY = CohortKey("hbm", "h100", "570", "a", 3352.0, 1)


def cohort(values: list[float], nodes: int = 2) -> Cohort:
    return make_cohort({(f"n{index % nodes}", f"s{index}"): value for index, value in enumerate(values)})


def test_an_outlier_says_why() -> None:
    values = [100.0, 101.0, 99.5, 100.4, 99.8, 100.9, 100.2, 80.0]
    (found,) = outliers({KEY: cohort(values)})
    assert (found.node, found.slot, found.peers) == ("n1", "s7", 8)
    assert found.message.startswith("hbm is 80, -20.1 % of the median 100.1 of 8 peers (z = -")
    assert outliers({KEY: cohort(values[1:])}) == (), "seven GPUs are no cohort"
    assert outliers({KEY: cohort(values, nodes=1)}) == (), "nor is one node"
    other = KEY._replace(product="h200")
    assert outliers({KEY: cohort(values[:4]), other: cohort(values[4:])}) == (), "different GPUs are no peers"
    assert outliers({KEY: cohort([*values[:-1], 400.0])}) == (), "a fast GPU is no problem"


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(1.0, 1e4).map(lambda value: float(f"{value:.4g}")), min_size=1, max_size=60), st.data())
def test_a_cohort_is_the_same_however_it_came_about(values: list[float], data: st.DataObject) -> None:
    """Median and deviation are those of the textbook, at once and after a few values changed."""
    made = cohort(values)
    middle = median(values)
    deviation = 1.4826 * median(abs(value - middle) for value in values)
    assert made.middle == pytest.approx(middle)
    assert made.sigma == pytest.approx(max(deviation, 0.003 * middle))
    gone = data.draw(st.sets(st.sampled_from(sorted(made.values)), max_size=len(values) - 1))
    new = {("new", f"s{index}"): 1000.0 + index for index in range(data.draw(st.integers(0, 3)))}
    after = changed_cohort(made, gone, new)
    again = make_cohort({gpu: value for gpu, value in made.values.items() if gpu not in gone} | new)
    for name in ("values", "middle", "sigma", "low"):
        assert getattr(after, name) == getattr(again, name)
    assert [*after.ordered] == [*again.ordered]
    assert [*after.chances] == [*again.chances]


def test_a_whole_cohort_that_moves_is_no_node() -> None:
    """F-098: a note about a driver, a BIOS or the cooling, once a policy names the approved median."""
    slow = {KEY: cohort([95.0] * 8)}
    assert cohort_drift(slow, {("h100", "hbm"): 100.0}) == (
        "the median hbm of h100 in pool a moved by -5.0 % from the approved 100",
    )
    assert outliers(slow) == ()
    assert cohort_drift({KEY: cohort([98.0] * 8)}, {("h100", "hbm"): 100.0}) == ()


def test_the_tail_of_t5_and_false_discoveries() -> None:
    assert t5_tail(0.0) == pytest.approx(0.5)
    assert t5_tail(2.015) == pytest.approx(0.05, abs=1e-4)
    assert t5_tail(4.032) == pytest.approx(0.005, abs=1e-5)
    assert benjamini_hochberg([0.001, 0.008, 0.039, 0.041, 0.6], 0.05, 5) == 0.008
    assert benjamini_hochberg([0.001, 0.008, 0.039, 0.041], 0.05, 5) == 0.008, "those above the rate may be missing"
    assert benjamini_hochberg([0.5, 0.6], 0.05, 2) == -1.0


def test_drift_needs_chance_and_size() -> None:
    """F-098: a lasting loss of 5 % is found after a few runs; one of 1 % never counts; 20 runs make a baseline."""
    chance = random.Random(3)  # noqa: S311 (a test)
    past = [100 * (1 + chance.gauss(0, 0.01)) for _ in range(50)]
    baseline = drift_baseline(past)
    assert baseline is not None
    assert drift_baseline(past[:19]) is None

    def run(loss: float) -> int:
        state = DriftState()
        for count in range(1, 200):
            state = follow_drift(state, 100 * (1 - loss) * (1 + chance.gauss(0, 0.01)), baseline)
            if state.is_alarm(baseline):
                return count
        return 0

    assert 1 <= run(0.05) <= 6
    assert run(0.01) == 0
    assert run(0.0) == 0
    state = DriftState()
    for _ in range(40):
        state = follow_drift(state, 90.0, baseline)
    assert state.ewma == pytest.approx(90.0, abs=0.1)
    assert state.may_propose(baseline)
    quick = 0
    while state.cusum:
        state, quick = follow_drift(state, 101.0, baseline), quick + 1
    assert quick < 20, "a repair is believed sooner than the loss lasted"


def test_the_incomplete_gamma_function() -> None:
    assert gamma_above(1.0, 1.0, 1.0) == pytest.approx(0.3678794)
    assert gamma_above(2.0, 3.0, 1.0) == pytest.approx(0.6766764)
    assert gamma_above(10.0, 3.0, 1.0) == pytest.approx(0.0027694, rel=1e-4)
    assert gamma_above(0.0, 3.0, 1.0) == 1.0


def mark(kind: LemonKind, days_ago: float) -> LemonMark:
    return LemonMark(kind=kind, at=100 * DAY - days_ago * DAY)


def test_a_lemon_fails_again_and_again_in_different_ways() -> None:
    """F-098: three events of two kinds within a fleet where one node in two has none."""
    exposure = {**{f"n{index}": 20.0 for index in range(100)}, "bad": 20.0}
    others = {f"n{index}": [mark(LemonKind.FATAL, index % 14)] for index in range(4)}
    lemon = [
        mark(LemonKind.FATAL, 1),
        mark(LemonKind.PREFLIGHT, 2),
        mark(LemonKind.REMEDIATION, 3),
        mark(LemonKind.FATAL, 5),
    ]

    def found(marks: list[LemonMark]) -> list[LemonNode]:
        return [*find_lemons({**others, "bad": marks}, exposure, 100 * DAY)]

    (bad,) = found(lemon)
    assert (bad.node, bad.chance > 0.95) == ("bad", True)
    assert "2 x fatal, 1 x preflight, 1 x remediation within 90 days" in bad.message
    assert found(lemon[:2]) == []
    assert found([mark(LemonKind.FATAL, day) for day in range(4)]) == [], "one kind alone"
    assert found([mark(one.kind, 150) for one in lemon]) == [], "long ago"


def test_exposure_decays_like_the_events() -> None:
    assert exposure_days(100 * DAY, 100 * DAY) == 0.0
    assert exposure_days(99 * DAY, 100 * DAY) == pytest.approx(0.975, abs=0.01)
    assert exposure_days(0.0, 1000 * DAY) == pytest.approx(14 / 0.6931, abs=0.01)


DAY_OF = dt.date(2026, 11, 23)
PRESENT = PresentLimits(warn_name="warnBelow", warn=0.85, fail_name="failBelow", fail=0.75, floor=0.75)


def accepted(low: float = 0.90, product: str = "h100", nodes: int = 5) -> list[AcceptedRun]:
    """Return 300 runs of 100 GPUs, from `low` on."""
    return [
        AcceptedRun(
            product=product,
            node=f"n{index % nodes}",
            slot=f"s{index % 100 // nodes}",
            number=index // 100,
            value=round(low + 0.0001 * index, 4),
        )
        for index in range(300)
    ]


def test_limits_move_in_small_steps_within_a_floor() -> None:
    """F-098: a history of healthy runs gives new limits, a diff that somebody reviews."""
    lesson = learn("hbm.bandwidth", accepted(), PRESENT, source="", day=DAY_OF)
    assert lesson.new == {"warnBelow": 0.869, "failBelow": 0.769}, "the failure keeps its distance"
    assert (lesson.nodes, lesson.gpus, lesson.runs, lesson.changing) == (5, 100, 300, ())
    spec = lesson.over(
        {"mode": "propose", "checks": {"hbm.bandwidth": {"limits": {"failBelow": 0.75, "w": 1}}}}, DAY_OF
    )
    rule = spec["checks"]["hbm.bandwidth"]
    assert rule["limits"] == {"failBelow": 0.769, "w": 1, "warnBelow": 0.869}
    assert rule["source"].startswith("measured on 2026-11-23: 5 nodes, 100 GPUs, 300 runs, sha256:")
    assert spec["mode"] == "propose"
    slow = learn("hbm.bandwidth", accepted(0.60), PRESENT, source="", day=DAY_OF)
    assert slow.new == {"warnBelow": 0.83, "failBelow": 0.75}, "never below the floor"
    assert len(slow.changing) == 0
    near = learn("hbm.bandwidth", accepted(0.8695), PRESENT, source="", day=DAY_OF)
    assert near.new["warnBelow"] == 0.84, "within 95 % of the median"
    same = learn("hbm.bandwidth", [*accepted(), *accepted()], PRESENT, source="", day=DAY_OF)
    assert same == lesson, "a run that two reports tell counts once"


def test_too_little_teaches_nothing_and_says_why() -> None:
    """F-098: few runs, few nodes, one product of two, a week that is not over, limits that fit."""

    def refused(runs: list[AcceptedRun], present: PresentLimits = PRESENT, source: str = "") -> str:
        lesson = learn("hbm.bandwidth", runs, present, source=source, day=DAY_OF)
        assert lesson.new == {}
        return lesson.message

    assert refused([]) == "hbm.bandwidth: no healthy GPU has measured it"
    few = "200 runs on 5 nodes are required"
    assert refused(accepted()[:199]) == f"hbm.bandwidth: 199 runs of healthy GPUs on 5 nodes with h100; {few}"
    assert refused(accepted(nodes=4)) == f"hbm.bandwidth: 300 runs of healthy GPUs on 4 nodes with h100; {few}"
    both = [*accepted(), *accepted(product="l40s")[:20]]
    assert "20 runs of healthy GPUs on 5 nodes with l40s" in refused(both), "a limit for both needs both"
    assert "limits change at most once a week" in refused(accepted(), source="measured on 2026-11-17: 5 nodes")
    assert learn("hbm.bandwidth", accepted(), PRESENT, source="measured on 2026-11-16: 5 nodes", day=DAY_OF).new
    fit = PresentLimits(warn_name="warnBelow", warn=0.869, fail_name="failBelow", fail=0.75, floor=0.75)
    assert "the limits fit" in refused(accepted(), fit)


def test_the_slowest_product_decides() -> None:
    """A limit for all GPUs must suit all of them."""
    both = [*accepted(0.95), *accepted(0.88, product="h200")]
    wide = PresentLimits(warn_name="warnBelow", warn=0.86, fail_name="failBelow", fail=0.75, floor=0.5)
    assert learn("hbm.bandwidth", both, wide, source="", day=DAY_OF).new["warnBelow"] == 0.85
