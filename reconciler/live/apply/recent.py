"""Objects that a run has just created, and that admission webhooks may not know yet: they read objects from caches."""

from reconciler.clock import Clock
from reconciler.console.logs import Log
from reconciler.plan.live.probe import missed_names

PATIENCE_SECONDS = 10.0
"""Seconds after its creation in which an object may be unknown to webhooks. No refusal is waited out for longer."""

_PAUSE_SECONDS = 0.2
_log = Log(__name__)


class RecentObjects:
    """Names of objects that a run has created, with the time. Threads may share it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._created: dict[str, float] = {}

    def add(self, name: str) -> None:
        """Note that an object was created."""
        self._created[name] = self._clock.elapsed()

    def are_missed(self, message: str) -> bool:
        """Return, after a pause, whether a webhook refuses an object because it does not know one of them yet."""
        oldest = self._clock.elapsed() - PATIENCE_SECONDS
        missed = [name for name in missed_names(message) if self._created.get(name, oldest) > oldest]
        if missed:
            _log.info("retried, because %s was created a moment ago: %s", missed[0], message)
            self._clock.pause(_PAUSE_SECONDS)
        return bool(missed)
