"""How long a source waits after failures."""

import pytest

from reconciler.controller.loop import pause_after
from reconciler.controller.outcome import NOT_READY, PassFailure

FAILED = PassFailure(reason="Unavailable", message="no answer")


@pytest.mark.parametrize(
    ("interval", "failures", "seconds"),
    [
        (3, 1, 2),
        (3, 2, 4),
        (3, 20, 12),  # a source that is read every 3 seconds is tried again soon, however long the fault lasted
        (60, 20, 240),
        (600, 20, 600),
        (3600, 20, 3600),
        (3600, 3, 8),
    ],
)
def test_a_pause_is_a_small_multiple_of_the_interval(interval: float, failures: int, seconds: float) -> None:
    assert pause_after(FAILED, failures, interval, retry=2.0) == seconds


def test_a_server_that_asks_for_time_gets_it() -> None:
    failed = PassFailure(reason="Busy", message="busy", retry_after=90.0)
    assert pause_after(failed, 9, 3.0, retry=2.0) == 90.0


def test_objects_that_are_not_ready_are_looked_at_in_every_interval() -> None:
    assert pause_after(PassFailure(reason=NOT_READY, message="1 of 2 is ready"), 9, 30.0, retry=2.0) == 30.0
