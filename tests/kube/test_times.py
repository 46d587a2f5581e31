"""Times of Kubernetes and of evidence, in seconds."""

import pytest

from reconciler.kube.times import is_too_old, timestamp, unix_time

NOON = 1796040000.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-11-30T12:00:00Z", NOON),
        ("2026-11-30t12:00:00.5z", NOON + 0.5),
        ("2026-11-30T13:00:00+01:00", NOON),
        ("2026-11-30T12:59:60Z", NOON + 3599),
        ("2026-02-30T00:00:00Z", 0.0),
        ("yesterday", 0.0),
        ("", 0.0),
        (None, 0.0),
    ],
)
def test_a_time_is_seconds_and_what_is_none_is_zero(text: str | None, seconds: float) -> None:
    """Of what a cluster or a file says: RFC 3339 with leap seconds and small letters; nothing else fails."""
    assert unix_time(text) == seconds


def test_times_are_written_as_they_are_read() -> None:
    assert unix_time(timestamp(NOON)) == NOON


def test_the_age_of_evidence_is_within_its_limit_or_not() -> None:
    """What is from the future is too old; without an age or a limit nothing is."""
    assert [is_too_old(days, 7) for days in (-1, 0, 7, 8, None)] == [True, False, False, True, False]
    assert not is_too_old(400, None)
