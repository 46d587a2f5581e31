"""Messages about conditions to Slack, Teams or JSON webhooks, for clusters without an Alertmanager.

A condition is told once when it begins and once when it is over, whatever the passes see in between. One that comes
back within ten minutes is told when these are over, if it still holds. At most twenty messages are sent in ten minutes.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from reconciler.console.logs import Log
from reconciler.controller.outcome import NOT_READY
from reconciler.controller.sources.status import READY, STALLED, SourceStatus
from reconciler.controller.use import ClusterUse
from reconciler.errors import ReconcilerError
from reconciler.kube.secrets import mask_text
from reconciler.messages import Notice, NoticeFormat, Receivers, payload

ReadReceivers = Callable[[], Receivers]

_LEAST_FAILURES = 3  # in a row: one lost connection is no news
_WINDOW_SECONDS, _MOST = 600.0, 20
_ATTEMPTS, _FIRST_PAUSE, _LONGEST_PAUSE = 12, 5.0, 600.0
_LONG_WAIT, _MOSTLY_IDLE = 4 * 3600, 0.5

_log = Log(__name__)


def conditions_of(source: str, status: SourceStatus) -> tuple[Notice, ...]:
    """Return what people are told of a source: it is stalled, or failed three times in a row."""
    ready, stalled = status.condition(READY), status.condition(STALLED)
    if ready is None or ready.status != "False" or ready.reason == NOT_READY:
        return ()
    if (stalled is None or stalled.status != "True") and status.failures < _LEAST_FAILURES:
        return ()
    key = f"source/{source}/{ready.reason}"
    return (Notice(key=key, stage="", title=f"{source}: {ready.reason}", text=ready.message),)


def use_conditions(found: Mapping[str, ClusterUse], now: float) -> Iterator[Notice]:
    """Yield what people are told of the use of clusters, as far as its evidence is fresh: long waits, idle GPUs."""
    for cluster, use in found.items():
        values = {
            (one.name, one.queue or ""): one.value
            for one in use.samples
            if one.taken_at is None or now - one.taken_at <= use.fresh_seconds
        }
        for (name, queue), value in sorted(values.items()):
            where, held = f"{cluster}: queue {queue or '(none)'}", values.get(("gpus_held", queue), 0.0)
            if name == "longest_wait_seconds" and now - value > _LONG_WAIT:
                title = f"{where}: a workload has been waiting for more than {_LONG_WAIT // 3600} hours"
                text = "`reconciler report queues` says for what."
                yield Notice(key=f"wait/{cluster}/{queue}", stage="", title=title, text=text)
            if name == "gpus_idle" and held and value / held > _MOSTLY_IDLE:
                title = f"{where}: more than half of its GPUs do nothing"
                text = "`reconciler report efficiency --by job` names the jobs."
                yield Notice(key=f"idle/{cluster}/{queue}", stage="", title=title, text=text)


class _Unsent(Struct, kw_only=True, eq=False):
    """A message that is not sent yet. served: the receivers that took it."""

    notice: Notice
    due: float
    attempts: int = 0
    served: frozenset[NoticeFormat] = frozenset()


class Notifier:
    """Sends messages in a thread of its own: a webhook that does not answer stops no pass."""

    def __init__(self, receivers: ReadReceivers, now: Callable[[], float] = time.monotonic) -> None:
        self._receivers, self._now = receivers, now
        self._open: dict[str, dict[str, Notice]] = {}
        self._queue: list[_Unsent] = []
        self._told: dict[str, float] = {}  # when each key was told last
        self._sent: deque[float] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name="notifier", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, seconds: float = 5.0) -> None:
        """End the thread. What is not sent is lost; the next process tells what is new then."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(seconds)

    def sync(self, scope: str, found: Iterable[Notice], known: Callable[[], Iterable[Notice]] | None = None) -> None:
        """Take the conditions that hold in a scope now. known: those that people were told of before this process."""
        with self._changed:
            before = self._open.get(scope)
            if before is None:
                before = {one.key: one for one in (known() if known is not None else ())}
            after = {one.key: one for one in found}
            for key in after.keys() - before.keys():
                since = self._told.get(key)
                self._add(after[key], 0.0 if since is None else since + _WINDOW_SECONDS)
            for key in before.keys() - after.keys():
                self._resolve(before[key])
            self._open[scope] = after
            self._changed.notify_all()

    def _add(self, notice: Notice, due: float) -> None:
        self._queue.append(_Unsent(notice=notice, due=max(due, self._now())))

    def _resolve(self, notice: Notice) -> None:
        """Tell that a condition is over, unless nobody was told of it."""
        begun = (one for one in self._queue if one.notice.key == notice.key and not one.notice.is_over)
        waiting = [one for one in begun if not one.served]
        self._queue = [one for one in self._queue if one not in waiting]
        if not waiting:
            over = Notice(key=notice.key, stage="", title=f"resolved: {notice.title}", is_over=True)
            self._add(over, 0.0)

    def _work(self) -> None:
        while (message := self._take()) is not None:
            try:
                self._send(message)
            except Exception as error:  # noqa: BLE001 - a bug must not end the thread
                _log.event("error", "bug in a message", error=type(error).__name__)

    def _take(self) -> _Unsent | None:
        """Wait for a message that may be sent; None at the end."""
        with self._changed:
            while not self._is_closed:
                now = self._now()
                while self._sent and now - self._sent[0] >= _WINDOW_SECONDS:
                    self._sent.popleft()
                first = min(self._queue, key=lambda one: one.due, default=None)
                free = self._sent[0] + _WINDOW_SECONDS if len(self._sent) >= _MOST else now
                if first is not None and max(first.due, free) <= now:
                    self._queue.remove(first)
                    self._sent.append(now)
                    self._told[first.notice.key] = now
                    return first
                self._changed.wait(None if first is None else max(max(first.due, free) - now, 0.01))
            return None

    def _send(self, message: _Unsent) -> None:
        """Send a message to all receivers that do not have it yet; again later to those that did not take it."""
        failed = False
        try:
            receivers = self._receivers()
        except ReconcilerError as error:
            receivers, failed = (), True
            _log.event("warning", "webhooks cannot be read", error=mask_text(str(error)))
        for receiver, form in receivers:
            if form in message.served:
                continue
            try:
                receiver.post(payload(message.notice, form))
                message.served |= {form}
            except ReconcilerError as error:
                failed = True
                _log.event("warning", "a message was not sent", error=mask_text(str(error)))
        notice = message.notice
        with self._changed:
            message.attempts += 1
            is_current = notice.is_over or any(notice.key in found for found in self._open.values())
            if not is_current and not message.served:  # it ended meanwhile, and nobody knows that it began
                self._queue = [one for one in self._queue if one.notice.key != notice.key]
            elif failed and is_current and message.attempts < _ATTEMPTS:
                message.due = self._now() + min(_FIRST_PAUSE * 2 ** (message.attempts - 1), _LONGEST_PAUSE)
                self._queue.append(message)
