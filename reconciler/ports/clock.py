"""The port to time: the date for records, elapsed seconds for deadlines, and pauses."""

import datetime as dt
from typing import Protocol


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
