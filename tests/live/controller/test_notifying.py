"""Messages about conditions: to a webhook of the test, over HTTP."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest

from reconciler.controller.notifying import Notifier, conditions_of, use_conditions
from reconciler.controller.sources.status import Condition, SourceStatus
from reconciler.controller.use import ClusterUse, UseSample
from reconciler.messages import Notice, receivers_in

SECRET = "T0000/B0000/unguessable"
BROKEN = Notice(key="source/a/Stalled", stage="", title="a: PolicyDenied", text="no limits")


class Hook(BaseHTTPRequestHandler):
    """Takes messages; the first answers are those of `answers`."""

    bodies: ClassVar[list[dict[str, Any]]] = []
    answers: ClassVar[list[int]] = []

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.answers.pop(0) if self.answers else 200
        text = f"cannot post to {self.path}".encode()
        if status == 200:
            self.bodies.append(body)
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class Clock:
    """A time that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def notifier(
    tmp_path: Path, *answers: int, key: str = "webhook-url"
) -> Iterator[tuple[Notifier, list[dict[str, Any]], Clock]]:
    """Run a notifier whose Secret names a webhook of this test."""
    bodies: list[dict[str, Any]] = []
    handler = type("Hook", (Hook,), {"bodies": bodies, "answers": [*answers]})
    clock = Clock()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        (tmp_path / key).write_text(f"http://127.0.0.1:{server.server_port}/services/{SECRET}\n")
        found = Notifier(lambda: receivers_in(str(tmp_path)), now=clock)
        found.start()
        try:
            yield found, bodies, clock
        finally:
            found.stop()
            server.shutdown()


def until(check: Callable[[], bool]) -> None:
    """Wait until a condition holds, at most ten seconds."""
    end = time.monotonic() + 10
    while not check() and time.monotonic() < end:
        time.sleep(0.01)
    assert check()


def pass_time(found: Notifier, clock: Clock, seconds: float) -> None:
    with found._changed:
        clock.now += seconds
        found._changed.notify_all()


def test_an_alert_that_fires_five_times_is_one_message(tmp_path: Path) -> None:
    """AF-22, F-127: one message when it begins, one when it is over, in Slack's blocks."""
    with notifier(tmp_path) as (found, bodies, _):
        for _ in range(5):
            found.sync("source/a", [BROKEN])
        until(lambda: len(bodies) == 1)
        for _ in range(3):
            found.sync("source/a", [])
        until(lambda: len(bodies) == 2)
        time.sleep(0.2)
    assert [body["text"] for body in bodies] == ["a: PolicyDenied", "resolved: a: PolicyDenied"]
    header, section = bodies[0]["blocks"]
    assert header == {"type": "header", "text": {"type": "plain_text", "text": "a: PolicyDenied"}}
    assert section["text"]["text"] == "no limits"


def test_a_condition_that_flaps_is_told_once_in_ten_minutes(tmp_path: Path) -> None:
    """AF-22, F-127: it begins and ends five times; what lasts is told when the ten minutes are over."""
    with notifier(tmp_path) as (found, bodies, clock):
        for _ in range(5):
            found.sync("source/a", [BROKEN])
            until(lambda: bool(bodies))
            found.sync("source/a", [])
        until(lambda: len(bodies) == 2)
        found.sync("source/a", [BROKEN])
        pass_time(found, clock, 590)
        time.sleep(0.1)
        assert len(bodies) == 2
        pass_time(found, clock, 20)
        until(lambda: len(bodies) == 3)


def test_a_webhook_that_fails_is_asked_again_and_its_url_is_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """AF-22, F-127: 429 and 500 are retried with a pause that grows, and the message arrives once."""
    caplog.set_level(logging.DEBUG)
    with notifier(tmp_path, 429, 500) as (found, bodies, clock):
        found.sync("source/a", [BROKEN])
        for number, seconds in enumerate((5.0, 10.0), start=1):
            until(lambda n=number: len(caplog.records) == n)  # type: ignore[misc]
            until(lambda: bool(found._queue))
            pass_time(found, clock, seconds - 1)
            time.sleep(0.05)
            assert bodies == []
            pass_time(found, clock, 1)
        until(lambda: len(bodies) == 1)
    logged = " ".join(f"{record.getMessage()} {getattr(record, 'fields', '')}" for record in caplog.records)
    assert "429" in logged
    assert "500" in logged
    assert SECRET not in logged
    assert "unguessable" not in logged


def test_what_is_over_before_anybody_was_told_is_not_told(tmp_path: Path) -> None:
    """F-127: neither the beginning nor the end, also when the webhook was down meanwhile."""
    with notifier(tmp_path, 503) as (found, bodies, clock):
        found.sync("source/a", [BROKEN])
        until(lambda: bool(found._queue) and found._queue[0].attempts == 1)
        found.sync("source/a", [])
        pass_time(found, clock, 600)
        time.sleep(0.1)
        assert bodies == []


def test_what_another_process_told_is_not_new(tmp_path: Path) -> None:
    """F-127: a restart and a new leader repeat nothing, and tell the end."""
    with notifier(tmp_path) as (found, bodies, _):
        found.sync("source/a", [BROKEN], known=lambda: [BROKEN])
        found.sync("source/a", [])
        until(lambda: len(bodies) == 1)
    assert bodies[0]["text"].startswith("resolved: ")


def test_at_most_twenty_messages_in_ten_minutes(tmp_path: Path) -> None:
    """F-127: the others wait."""
    many = [Notice(key=f"k{number:02}", stage="", title=f"t{number:02}") for number in range(25)]
    with notifier(tmp_path) as (found, bodies, clock):
        found.sync("x", many)
        until(lambda: len(bodies) == 20)
        time.sleep(0.1)
        assert len(bodies) == 20
        pass_time(found, clock, 601)
        until(lambda: len(bodies) == 25)


def test_teams_gets_an_adaptive_card(tmp_path: Path) -> None:
    """F-127: under the key `teams-url`."""
    with notifier(tmp_path, key="teams-url") as (found, bodies, _):
        found.sync("source/a", [BROKEN])
        until(lambda: len(bodies) == 1)
    (attachment,) = bodies[0]["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert attachment["content"]["body"][0]["text"] == "a: PolicyDenied"


def status(ready: str, reason: str, *, stalled: bool = False, failures: int = 1) -> SourceStatus:
    conditions = [Condition(type="Ready", status=ready, reason=reason, message="m")]
    if stalled:
        conditions.append(Condition(type="Stalled", status="True", reason=reason))
    return SourceStatus(conditions=tuple(conditions), failures=failures)


def test_conditions_of_sources() -> None:
    """F-127: a stalled source at once, one that is retried from its third failure; objects that need time never."""
    assert conditions_of("a", status("True", "ReconciliationSucceeded")) == ()
    assert conditions_of("a", status("False", "OutsideFailed", failures=2)) == ()
    assert conditions_of("a", status("False", "NotReady", failures=9)) == ()
    keys = [
        one.key
        for found in (status("False", "OutsideFailed", failures=3), status("False", "PolicyDenied", stalled=True))
        for one in conditions_of("a", found)
    ]
    assert keys == ["source/a/OutsideFailed", "source/a/PolicyDenied"]


def test_conditions_of_the_use() -> None:
    """F-127, defect 21 of agentaflow: long waits and idle GPUs are conditions of their own, and none hides another."""

    def sample(name: str, value: float, taken: float = 90_000.0) -> UseSample:
        return UseSample(name=name, value=value, taken_at=taken, queue="q")

    samples = (sample("longest_wait_seconds", 70_000.0), sample("gpus_idle", 6.0), sample("gpus_held", 8.0))
    found = [one.key for one in use_conditions({"main": ClusterUse(samples=samples)}, 90_000.0)]
    assert found == ["idle/main/q", "wait/main/q"]
    assert not list(use_conditions({"main": ClusterUse(samples=samples)}, 200_000.0))
    short = (sample("longest_wait_seconds", 89_000.0), sample("gpus_idle", 4.0), sample("gpus_held", 8.0))
    assert not list(use_conditions({"main": ClusterUse(samples=short)}, 90_000.0))
