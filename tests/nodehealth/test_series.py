"""Values of passing measurements in reports: kept over light sweeps, small, and no reason for a write."""

import random

import msgspec
import pytest
from msgspec.structs import replace

from reconciler.nodehealth.catalogue import BY_ID, RECORDED
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile, Threshold, ThresholdSource
from reconciler.nodehealth.merging import is_worth_writing, merged
from reconciler.nodehealth.published import MAX_BYTES, body_of, report_of
from reconciler.nodehealth.report import NodeReport
from tests.nodehealth.reports import NOW, PASS, gpus, result, slot, worst

HBM = "hbm.bandwidth"


def run(value: float, number: int = 0, status: CheckStatus = PASS, check: str = HBM) -> HealthFinding:
    """Return what a heavy run says about the memory of one GPU."""
    return HealthFinding(
        check=check,
        status=status,
        message="",
        slot=slot(number),
        uuid=gpus(16)[number].uuid,
        observed=value,
        unit="GB/s",
        threshold=Threshold(value=2849.2, source=ThresholdSource.SPEC),
        profile=BY_ID[check].profile,
        scale=3352.0,
    )


def after(*values: float, before: NodeReport | None = None, **sweep: object) -> NodeReport:
    """Return the report after one heavy run for each value."""
    report = before
    for value in values:
        at = NOW if report is None else report.measured_at + 3600
        report = merged(report, result(run(value), profile=ProbeProfile.PREFLIGHT, at=at, **sweep))
    assert report is not None
    return report


def test_a_passing_measurement_stays_in_the_report() -> None:
    """F-098: the newest three values, what the agent warned below, and the peak; light sweeps change nothing."""
    report = after(3012.34, 3020.0, 3005.0, 2999.99)
    light = merged(report, result(at=report.measured_at + 60))
    assert light.measured is report.measured
    assert report_of(body_of(light)) == light
    (series,) = light.measured[HBM].values()
    assert (series.newest, series.runs) == ((3020.0, 3005.0, 3000.0), 4)
    assert (series.limit, series.scale) == (2849.0, 3352.0)


def test_what_is_no_measurement_is_not_kept() -> None:
    odd = [
        run(0.0, status=CheckStatus.UNKNOWN),
        replace(run(1.0), observed="slow"),
        replace(run(1.0), profile=ProbeProfile.LIGHT),
        replace(run(1.0), slot=""),
        replace(run(1.0), check="cuda.usable"),
    ]
    for one in odd:
        assert merged(None, result(one, profile=ProbeProfile.PREFLIGHT)).measured == {}
    assert "cuda.usable" not in RECORDED
    assert {BY_ID[check].profile.weight > 0 for check in RECORDED} == {True}


def test_another_gpu_driver_or_link_begins_anew() -> None:
    report = after(3012.0, 3020.0, 3005.0)
    swapped = tuple(replace(gpu, uuid=f"new-{gpu.uuid}") for gpu in gpus(2))
    at = report.measured_at + 60
    assert merged(report, result(at=at, gpus=swapped)).measured == {}
    known = replace(report, driver="570.1")
    assert merged(known, result(at=at, driver="580.2")).measured == {}
    assert merged(known, result(at=at, driver="")).measured == report.measured, "no driver answers: nothing is known"
    slower_link = replace(run(1500.0), scale=1676.0)
    again = merged(report, result(slower_link, profile=ProbeProfile.PREFLIGHT, at=at))
    assert again.measured[HBM][slot(0)].newest == (1500.0,)


def full(count: int) -> NodeReport:
    """Return a report with a series of every check on every GPU, at its largest."""
    chance = random.Random(count)  # noqa: S311 (a test)
    report: NodeReport | None = None
    for number in range(4):
        rows = [run(3000 * (1 + chance.gauss(0, 0.01)), gpu, check=check) for check in RECORDED for gpu in range(count)]
        report = merged(
            report, result(*rows, profile=ProbeProfile.DEEP, at=NOW + 3600 * number, gpus=gpus(count), driver="570.1")
        )
    assert report is not None
    return report


@pytest.mark.parametrize(("count", "most"), [(8, 5_000), (16, 10_000)])
def test_the_values_of_a_node_are_small(count: int, most: int) -> None:
    """F-095: 8 and 16 GPUs, every check measured."""
    report = full(count)
    size = len(msgspec.json.encode(body_of(report)))
    assert size < most
    assert report_of(body_of(report)) == report


def test_findings_are_worth_more_than_series() -> None:
    """F-095: a report that is too large loses its series before it loses a finding, and stays under the limit."""
    report = replace(worst(16, 18), measured=full(16).measured)
    body = body_of(report)
    assert len(msgspec.json.encode(body["status"])) <= MAX_BYTES
    read = report_of(body)
    assert read is not None
    assert read.omitted == 0
    assert read.measured == {}


def test_noise_of_measurements_is_no_reason_for_a_write() -> None:
    """F-095: a report whose series alone differ says nothing new before its heartbeat."""
    report = after(3012.0, 3020.0)
    noisy = replace(report, measured_at=report.measured_at + 10, measured=after(3013.0, 3021.0).measured)
    assert noisy.measured != report.measured
    assert not is_worth_writing(report, noisy)
    assert is_worth_writing(report, replace(noisy, measured_at=report.measured_at + 200))
