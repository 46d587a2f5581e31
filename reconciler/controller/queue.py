"""`WorkQueue`: which source is due, one worker for each at a time, as work queues of Kubernetes controllers do."""

import threading
from collections.abc import Callable


class WorkQueue:
    """Keys with the time at which each is due. Safe to use from any thread.

    A key that is taken is handed out again only after `done`; what was asked for meanwhile follows then.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._due: dict[str, float] = {}
        self._taken: set[str] = set()
        self._changed = threading.Condition()
        self._is_closed = False

    def add(self, key: str, delay: float = 0.0) -> None:
        """Make a key due after `delay` seconds, or sooner if it is due sooner already."""
        with self._changed:
            at = self._now() + delay
            self._due[key] = min(at, self._due.get(key, at))
            self._changed.notify_all()

    def forget(self, key: str) -> None:
        """Drop a key."""
        with self._changed:
            self._due.pop(key, None)

    def take(self) -> str | None:
        """Wait for a key that is due and take it; None after `close`."""
        with self._changed:
            while not self._is_closed:
                waiting = [(at, key) for key, at in self._due.items() if key not in self._taken]
                at, key = min(waiting, default=(None, ""))
                if at is not None and at <= self._now():
                    del self._due[key]
                    self._taken.add(key)
                    return key
                self._changed.wait(None if at is None else max(at - self._now(), 0.001))
            return None

    def done(self, key: str) -> None:
        """Hand a key back."""
        with self._changed:
            self._taken.discard(key)
            self._changed.notify_all()

    def depth(self) -> int:
        """Count the keys that are due and not taken."""
        with self._changed:
            now = self._now()
            return sum(1 for key, at in self._due.items() if at <= now and key not in self._taken)

    def close(self) -> None:
        """Let all workers end after what they do now."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
