"""The clock of this machine."""

import datetime as dt
import time


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
