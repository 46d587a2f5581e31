"""The clock as a port, and the clock of the system."""

import datetime as dt
import time
from typing import Protocol

# The port to time: the date for records, elapsed seconds for deadlines, and pauses.


class Clock(Protocol):
    """Time, as use cases see it."""

    def now(self) -> dt.datetime:
        """Return the date and time in UTC. It may jump: deadlines use `elapsed`."""
        ...

    def elapsed(self) -> float:
        """Return seconds that only ever grow."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """Time as the operating system tells it; the date is that of the machine, the elapsed seconds never jump."""

    def now(self) -> dt.datetime:
        """Return the date and time in UTC."""
        return dt.datetime.now(dt.UTC)

    def elapsed(self) -> float:
        """Return seconds that only ever grow."""
        return time.monotonic()

    def pause(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
