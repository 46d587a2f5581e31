"""Limits that are learned from what healthy GPUs measured."""

import datetime as dt

from reconciler.nodehealth.learning import AcceptedRun, PresentLimits, learn

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
