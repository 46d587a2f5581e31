"""A report follows the one before it: failures stay until they are disproved, noise is not worth a write."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.merging import REQUIRED, finished, is_worth_writing, merged, with_run
from reconciler.nodehealth.published import body_of, report_of
from reconciler.nodehealth.readings import NodeReading, ReadError, ReadingId
from reconciler.nodehealth.report import NodeReport, ProfileRun
from tests.nodehealth.reports import FAIL, NOW, PASS, SKIP, UNKNOWN, WARN, finding, gpus, result, slot

LIGHT, DEEP = ProbeProfile.LIGHT, ProbeProfile.DEEP


def status_after(old: HealthFinding, new: HealthFinding | None, profile: ProbeProfile = LIGHT) -> CheckStatus | None:
    before = merged(None, result(old, profile=old.profile))
    after = merged(before, result(*([new] if new else []), profile=profile, at=NOW + 60))
    return next((one.status for one in after.findings if one.key == old.key), None)


@pytest.mark.parametrize(
    ("old", "old_profile", "new", "new_profile", "expected"),
    [
        (FAIL, LIGHT, PASS, LIGHT, None),
        (FAIL, DEEP, PASS, LIGHT, FAIL),
        (FAIL, DEEP, WARN, LIGHT, FAIL),
        (FAIL, DEEP, PASS, DEEP, None),
        (FAIL, DEEP, WARN, DEEP, WARN),
        (FAIL, LIGHT, PASS, DEEP, None),
        (WARN, DEEP, PASS, LIGHT, WARN),
        (WARN, LIGHT, FAIL, LIGHT, FAIL),
        (FAIL, LIGHT, UNKNOWN, LIGHT, FAIL),
        (FAIL, LIGHT, SKIP, LIGHT, FAIL),
        (WARN, LIGHT, UNKNOWN, LIGHT, UNKNOWN),
        (WARN, LIGHT, SKIP, LIGHT, None),
        (UNKNOWN, LIGHT, PASS, LIGHT, None),
        (UNKNOWN, LIGHT, FAIL, LIGHT, FAIL),
        (UNKNOWN, DEEP, PASS, LIGHT, UNKNOWN),
        (FAIL, LIGHT, None, LIGHT, None),  # the check was switched off
        (FAIL, DEEP, None, LIGHT, FAIL),  # it is no part of light sweeps
    ],
)
def test_what_a_sweep_does_to_an_earlier_finding(
    old: CheckStatus,
    old_profile: ProbeProfile,
    new: CheckStatus | None,
    new_profile: ProbeProfile,
    expected: CheckStatus,
) -> None:
    """F-090: a light pass never ends the failure of a heavy test, and not knowing never ends a failure."""
    later = None if new is None else finding("hbm", new, slot=slot(0), profile=new_profile)
    assert status_after(finding("hbm", old, slot=slot(0), profile=old_profile), later, new_profile) is expected


def test_the_time_of_a_status_is_that_of_its_first_sweep() -> None:
    first = merged(None, result(finding("a", WARN)))
    second = merged(first, result(finding("a", WARN), at=NOW + 60))
    third = merged(second, result(finding("a", FAIL), at=NOW + 120))
    assert [report.findings[0].since for report in (first, second, third)] == [NOW, NOW, NOW + 120]


def test_a_replaced_gpu_inherits_nothing() -> None:
    old = finding("remap.failure", FAIL, slot=slot(0), uuid=gpus(1)[0].uuid, profile=DEEP)
    before = merged(None, result(old, profile=DEEP))
    new = replace(gpus(1)[0], uuid="GPU-new")
    assert merged(before, result(gpus=(new, gpus(2)[1]))).findings == ()
    assert merged(before, result(gpus=gpus(2))).findings[0].status is FAIL


def test_a_replaced_node_inherits_nothing() -> None:
    before = merged(None, result(finding("a", FAIL, profile=DEEP), profile=DEEP), node_uid="one")
    assert merged(before, result(), node_uid="two").findings == ()
    assert len(merged(before, result(), node_uid="one").findings) == 1
    assert len(merged(before, result()).findings) == 1


def test_a_reboot_ends_failures_that_no_longer_can_be_measured() -> None:
    before = merged(None, result(finding("a", FAIL), finding("b", FAIL, profile=DEEP)))
    after = merged(before, result(finding("a", SKIP), finding("b", SKIP), boot_id="boot-2"))
    assert [one.check for one in after.findings] == ["b"]


def test_silent_gpus_are_not_gone() -> None:
    before = merged(None, result(finding("a", PASS)))
    assert merged(before, result(finding("nvml.init", UNKNOWN), gpus=())).gpus == gpus(2)
    assert merged(before, result(finding("nvml.init", UNKNOWN), gpus=(), boot_id="boot-2")).gpus == ()


def test_passes_and_skips_are_listed_by_check() -> None:
    report = merged(
        None,
        result(
            finding("mixed", PASS, slot=slot(0)),
            finding("mixed", WARN, slot=slot(1)),
            finding("partly", PASS, slot=slot(0)),
            finding("partly", SKIP, slot=slot(1)),
            finding("none", SKIP),
            finding("failing", FAIL),
        ),
    )
    assert (report.passed, report.skipped) == (("mixed", "partly"), ("none",))
    assert [one.check for one in report.findings] == ["failing", "mixed"]


def test_a_heavy_pass_is_remembered_while_the_gpus_are_the_same() -> None:
    heavy = [finding(name, PASS, profile=DEEP) for name in ("hbm", "a")]
    deep = merged(None, result(*heavy, finding("b", PASS), profile=DEEP))
    assert deep.passed_by == {"a": DEEP, "hbm": DEEP}, "a light check of a deep run is a light pass"
    light = merged(deep, result(finding("a", PASS), finding("b", PASS), at=NOW + 60))
    assert (light.passed, light.passed_by) == (("a", "b", "hbm"), deep.passed_by)
    assert merged(light, result(finding("hbm", FAIL), profile=DEEP, at=NOW + 90)).passed_by == {"a": DEEP}
    other = (gpus(2)[0], replace(gpus(2)[1], uuid="GPU-new"))
    assert merged(light, result(finding("a", PASS), gpus=other, at=NOW + 90)).passed_by == {}


XID = {"slot": slot(0), "codes": (48,), "message": "Xid 48"}


def test_a_silent_log_ends_no_failure() -> None:
    """F-081: the ring has wrapped and the agent was restarted: only a reset, a restart or another GPU ends an Xid."""
    before = merged(None, result(finding("gpu.xid", FAIL, **XID), finding("a", PASS)))
    later = NOW + 86_400
    silent = finding("gpu.xid", PASS, slot=slot(0))
    for new in (
        silent,
        replace(silent, status=UNKNOWN, since=later - 60),
        finding("gpu.xid", WARN, slot=slot(0), codes=(13,)),
    ):
        (kept,) = merged(before, result(new, at=later)).findings
        assert (kept.status, kept.message) == (FAIL, "Xid 48")
    calmed = finding("gpu.xid", WARN, slot=slot(0), codes=(13, 48))
    assert merged(before, result(calmed, at=later)).findings[0].status is WARN, "the same events, judged anew"
    assert not merged(before, result(replace(silent, since=later - 60), at=later)).findings, "reset since"
    assert not merged(before, result(silent, at=later, boot_id="boot-2")).findings


def test_a_log_that_begins_before_the_last_report_is_whole() -> None:
    """F-081: what the agent saw before its restart, the report still knows."""
    before = merged(None, result(finding("gpu.xid", PASS, slot=slot(0)), finding("gpu.xid", PASS, slot=slot(1))))
    late = [finding("gpu.xid", UNKNOWN, slot=slot(gpu), since=NOW - 100) for gpu in (0, 1)]
    after = merged(before, result(*late, at=NOW + 60))
    assert (after.findings, after.passed) == ((), ("gpu.xid",))
    gap = [replace(one, since=NOW + 10) for one in late]
    assert {one.status for one in merged(before, result(*gap, at=NOW + 60)).findings} == {UNKNOWN}


# Order, duplicates, writes.


def test_an_older_measurement_changes_nothing() -> None:
    """F-095: two agents of one node during a roll-out, or a report that was held up."""
    newer = merged(None, result(finding("a", FAIL), at=NOW))
    assert merged(newer, result(finding("a", PASS), at=NOW - 30)) is newer


def test_a_heavy_run_is_not_late() -> None:
    """A deep run takes minutes, while light sweeps go on: its own checks count, its light ones are outdated."""
    light = merged(None, result(finding("temp", WARN), finding("a", PASS), at=NOW + 300))
    found = (finding("temp", PASS), finding("hbm", FAIL, profile=DEEP))
    after = merged(light, result(*found, profile=DEEP, at=NOW))
    assert {one.check: one.status for one in after.findings} == {"temp": WARN, "hbm": FAIL}
    assert (after.passed, after.measured_at) == (("a",), NOW + 300)


def test_a_report_from_a_wrong_clock_does_not_last() -> None:
    ahead = merged(None, result(finding("a", FAIL), at=NOW + 86400))
    assert merged(ahead, result(finding("a", PASS), at=NOW)).findings == ()


findings = st.lists(
    st.builds(
        finding,
        st.sampled_from(["a", "b"]),
        st.sampled_from(list(CheckStatus)),
        slot=st.sampled_from(["", slot(0)]),
        profile=st.sampled_from([LIGHT, DEEP]),
    ),
    max_size=4,
    unique_by=lambda one: one.key,
)


@settings(deadline=None)
@given(findings, findings, st.sampled_from([LIGHT, DEEP]))
def test_the_same_sweep_twice_is_the_same_report(
    first: list[HealthFinding], second: list[HealthFinding], profile: ProbeProfile
) -> None:
    """F-095: duplicates."""
    before = merged(None, result(*first, profile=DEEP))
    once = merged(before, result(*second, profile=profile, at=NOW + 1))
    assert merged(once, result(*second, profile=profile, at=NOW + 1)) == once
    again = merged(once, result(*second, profile=profile, at=NOW + 2))
    assert is_worth_writing(once, again) == any(one.status is FAIL for one in again.findings)


def test_noise_is_not_written_before_the_heartbeat() -> None:
    """F-095: nothing is written when nothing changed, except the heartbeat."""
    first = merged(None, result(finding("temp.core", WARN, observed=88.0, message="88 °C")))
    hotter = merged(first, result(finding("temp.core", WARN, observed=89.0, message="89 °C"), at=NOW + 60))
    assert is_worth_writing(None, first)
    assert not is_worth_writing(first, hotter)
    assert is_worth_writing(first, replace(hotter, measured_at=NOW + first.heartbeat_seconds))
    assert is_worth_writing(first, replace(hotter, measured_at=NOW - 1))  # the clock was set back


def test_a_young_failure_is_written_with_every_sweep() -> None:
    """A reader that wants to see a failure twice must not wait for the heartbeat."""
    first = merged(None, result(finding("a", FAIL)))
    again = merged(first, result(finding("a", FAIL), at=NOW + 10))
    assert is_worth_writing(first, again)
    late = merged(again, result(finding("a", FAIL), at=NOW + 200))
    later = merged(late, result(finding("a", FAIL), at=NOW + 260))
    assert not is_worth_writing(late, later)


@pytest.mark.parametrize(
    "change",
    [
        {"findings": (finding("temp.core", FAIL),)},
        {"findings": (finding("temp.core", WARN), finding("b", WARN))},
        {"passed": ("b",)},
        {"driver": "580"},
        {"boot_id": "boot-2"},
        {"gpus": gpus(1)},
        {"runs": (ProfileRun(profile=DEEP, requested_at=NOW),)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_change_is_written(change: dict[str, object]) -> None:
    first = merged(None, result(finding("temp.core", WARN)))
    assert is_worth_writing(first, replace(first, **change))


# Runs of heavier profiles.


def test_a_run_that_died_ends_at_its_deadline() -> None:
    """F-089: TESTING never sticks."""
    run = ProfileRun(profile=DEEP, started_at=NOW, deadline=NOW + 900)
    assert run.is_running(NOW + 899)
    assert not run.is_running(NOW + 900)
    assert not finished(run, [finding("a", PASS)], NOW + 10).is_running(NOW + 11)
    assert not ProfileRun(profile=DEEP, requested_at=NOW).is_running(NOW)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ((PASS,), PASS),
        ((PASS, SKIP), PASS),
        ((PASS, WARN), WARN),
        ((WARN, UNKNOWN), UNKNOWN),
        ((UNKNOWN, FAIL), FAIL),
        ((SKIP,), UNKNOWN),
        ((), UNKNOWN),
    ],
)
def test_the_outcome_of_a_run(statuses: tuple[CheckStatus, ...], expected: CheckStatus) -> None:
    """F-083: a run that measured nothing is not a pass."""
    found = [finding(f"c{number}", status, profile=DEEP) for number, status in enumerate(statuses)]
    required = [finding(check, PASS, profile=DEEP) for check in REQUIRED]
    run = ProfileRun(profile=DEEP)
    is_tested = bool({PASS, WARN, FAIL, UNKNOWN} & set(statuses))
    assert finished(run, [*required, *found], NOW).status is (expected if is_tested else PASS)
    assert finished(run, [finding("light", PASS), *found], NOW).status is (FAIL if FAIL in statuses else UNKNOWN)


def test_a_run_tests_every_gpu() -> None:
    """F-083: a GPU that was skipped was not tested, whatever the others say."""
    tested = [finding(check, PASS, slot=slot(gpu), profile=DEEP) for check in REQUIRED for gpu in (0, 1)]
    assert finished(ProfileRun(profile=DEEP), tested, NOW).status is PASS
    skipped = [*tested[:-1], replace(tested[-1], status=SKIP)]
    assert finished(ProfileRun(profile=DEEP), skipped, NOW).status is UNKNOWN


def test_a_run_knows_the_level_of_dcgm_that_gave_a_result() -> None:
    """F-083, F-091: a level that ended without a result does not count."""
    found = [finding("dcgm.level2", PASS, profile=DEEP), finding("dcgm.level3", UNKNOWN, profile=DEEP)]
    assert finished(ProfileRun(profile=DEEP), found, NOW).level == 2
    odd = finding("dcgm.level3", WARN, message="failed: software", profile=DEEP)
    assert finished(ProfileRun(profile=DEEP), [odd], NOW).failed == ("dcgm.level3",)
    assert finished(ProfileRun(profile=DEEP), [finding("hbm", PASS)], NOW).level == 0


def test_a_report_keeps_the_last_run_of_each_profile() -> None:
    report = merged(None, result(finding("a", PASS)))
    first, second = (ProfileRun(profile=DEEP, started_at=at) for at in (NOW, NOW + 1))
    report = with_run(with_run(with_run(report, ProfileRun(profile=ProbeProfile.RMA)), first), second)
    assert [run.profile for run in report.runs] == [DEEP, ProbeProfile.RMA]
    assert report.run(DEEP) == second
    assert merged(report, result(finding("a", PASS), at=NOW + 60)).runs == report.runs
    assert isinstance(report, NodeReport)


def test_the_load_of_gpus_is_told_and_is_no_news() -> None:
    """F-101: in percent by slot, only where the driver tells it; another load alone is no reason to write."""
    busy = NodeReading(name=ReadingId("nvml.utilization"), slot=slot(0), value={"gpu": 97, "memory": 3})
    hidden = NodeReading(name=ReadingId("nvml.utilization"), slot=slot(1), error=ReadError.NOT_SUPPORTED)
    report = merged(None, result(finding("a", PASS), readings=(busy, hidden)))
    assert report.utilization == {slot(0): 97.0}
    later = merged(report, result(finding("a", PASS), at=NOW + 1))
    assert later.utilization == {}
    assert not is_worth_writing(report, later)
    assert report_of(body_of(report)) == report
