"""A measured GPU: hours, energy and trends."""

import pytest

from reconciler.reports.series import GpuHours, energy, hourly_means, measure, trend

STEP = 300.0


def line(start: float, slope: float, hours: int) -> list[tuple[float, float]]:
    """Return samples each five minutes; `slope` in percent per hour."""
    return [(number * STEP, start + slope * number * STEP / 3600) for number in range(hours * 12)]


def test_a_line_without_noise() -> None:
    """AF-20, F-130: the slope is 2 % per hour and R² is 1, of samples and of their hourly means."""
    points = line(10.0, 2.0, 24)
    for rows in (
        points,
        hourly_means([measure(points, (), STEP)]),
        hourly_means([measure(points[5:-7], (), STEP)] * 3),
    ):
        found = trend(rows)
        assert found is not None
        assert found.slope == pytest.approx(2.0, abs=1e-6)
        assert found.r2 == pytest.approx(1.0, abs=1e-6)


def test_a_constant_series_explains_nothing() -> None:
    """AF-20: R² is 0, and not a division by a variance of 0."""
    found = trend(line(40.0, 0.0, 5))
    assert found is not None
    assert (found.slope, found.r2) == (0.0, 0.0)


def test_one_sample_is_not_enough() -> None:
    """AF-20: there is no line through one point, nor through several at one time."""
    assert trend([]) is trend([(1.0, 5.0)]) is trend([(1.0, 5.0), (1.0, 9.0)]) is None


def test_idle_is_time_below_five_percent_over_covered_time() -> None:
    """F-130, defect 22 of agentaflow: a gap is not covered, so it is neither idle nor a 0 in the mean."""
    gap = [(0.0, 4.9), (300.0, 5.0), (3000.0, 95.0), (3300.0, 0.0)]
    found = measure(gap, (), STEP)
    assert found.covered == pytest.approx(4 * STEP / 3600)
    assert found.idle == pytest.approx(2 * STEP / 3600)
    assert 100 * found.busy / found.covered == pytest.approx((4.9 + 5 + 95) / 4)
    assert found.peak == 95.0
    assert measure([(0.0, 3.0)], (), STEP).covered == pytest.approx(STEP / 3600)
    assert measure((), (), STEP) == GpuHours()


def test_energy_is_a_trapezoid() -> None:
    """F-130: 100 to 300 W over an hour are 0.2 kWh; nothing is drawn over a gap, and one sample says nothing."""
    assert energy([(0.0, 100.0), (3600.0, 300.0)], 3600) == pytest.approx(0.2)
    assert energy([(0.0, 100.0), (300.0, 100.0), (7200.0, 900.0)], STEP) == pytest.approx(100 * 300 / 3.6e6)
    assert energy([(0.0, 100.0)], STEP) is energy([], STEP) is None
