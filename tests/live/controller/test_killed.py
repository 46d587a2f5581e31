"""A controller that is killed: its passes end with it, and what they began is completed by the next one."""

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest

from tests import sizes
from tests.cluster.server import ApiServer, wait_until
from tests.live.cluster.recorder import Recorder, recorder
from tests.live.controller.process import Running, controller
from tests.live.controller.test_apply_process import Target, children, target

__all__ = ["target"]

_MANY = 60
_LATE_SECONDS = 0.25  # until the recorder, which shares a busy machine, has seen what was sent before the kill
_WATCHED_SECONDS = 1.0  # after which a pass that goes on has written


@pytest.fixture
def recorded(private_server: ApiServer, tmp_path: Path) -> Iterator[Recorder]:
    with recorder(private_server.kubeconfig, tmp_path) as running:
        yield running


@pytest.fixture
def start(target: Target, recorded: Recorder, tmp_path: Path) -> Callable[[], AbstractContextManager[Running]]:
    """Return what starts a controller that applies through the recorder. Its status is a file: only passes write."""
    path = tmp_path / "sources.yaml"
    source = {
        "apiVersion": "gpureconciler.io/v1alpha1",
        "kind": "ConfigSource",
        "metadata": {"name": "fleet"},
        "spec": {"url": target.world.url, "interval": "1s", "mode": "apply"},
    }
    path.write_text(json.dumps(source))
    flags = ("--config", str(path), "--kubeconfig", str(recorded.kubeconfig))
    environ = {"RECONCILER_INVENTORY_NAMESPACE": target.world.namespace}
    return lambda: controller(tmp_path / "c", *flags, environ=environ)


def kill(running: Running) -> tuple[float, float]:
    """Kill a controller. Return when that was, and how many seconds later its passes were gone."""
    passes = children(running)
    running.process.kill()
    running.process.wait()
    killed = time.monotonic()
    wait_until(lambda: not any(map(runs, passes)), "the end of the passes", every=0.002)
    return killed, time.monotonic() - killed


def runs(process: Path) -> bool:
    """Return whether a process still runs: it is there, and does not only wait for the system to remove it."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_pass_that_waits_for_an_answer_ends_with_its_controller(
    start: Callable[[], AbstractContextManager[Running]], recorded: Recorder, target: Target
) -> None:
    """All of its requests wait when the controller is killed: not one follows them."""
    released = threading.Event()
    target.push(**{f"many-{number}": "1" for number in range(_MANY)})
    recorded.before = lambda: len(recorded.writes) > _MANY // 2 and released.wait(60)
    with start() as running:
        wait_until(lambda: len(recorded.writes) > _MANY // 2, "the first objects")
        wait_until(lambda: time.monotonic() > recorded.writes[-1][0] + 1, "requests that all wait")
        before = len(recorded.writes)
        kill(running)
        released.set()
        time.sleep(_WATCHED_SECONDS)
        assert [name for _, name in recorded.writes[before:]] == []


@pytest.mark.parametrize("seed", range(6 if sizes.LARGE else 1))
def test_kills_at_random_moments(
    start: Callable[[], AbstractContextManager[Running]], recorded: Recorder, target: Target, seed: int
) -> None:
    """No write comes after the kill, and the next controller completes the work."""
    chance, count = random.Random(seed), 5  # noqa: S311 - repeatable
    late: list[float] = []
    seconds: list[float] = []
    interrupted = 0
    for number in range(count):
        target.push(**{f"many-{name}": str(number) for name in range(_MANY)})
        recorded.writes.clear()
        moment = chance.randrange(2 * _MANY)  # each object that exists is planned by a dry run, and then written

        def has_come(running: Running, moment: int = moment) -> bool:
            return len(recorded.writes) > moment or bool(running.said("reconciled"))

        with start() as running:
            wait_until(partial(has_come, running), "the moment", every=0.001)
            killed, after = kill(running)
            time.sleep(_WATCHED_SECONDS)
        interrupted += target.data() != {f"many-{name}": str(number) for name in range(_MANY)}
        seconds.append(round(after, 3))
        late.append(round(max(came - killed for came, _ in recorded.writes), 3))
    print(f"{interrupted} of {count} interrupted; last writes {late} s after the kill; passes gone after {seconds} s")  # noqa: T201
    assert interrupted
    assert max(late) < _LATE_SECONDS
    with start() as running:
        wanted = {f"many-{name}": str(count - 1) for name in range(_MANY)}
        wait_until(lambda: target.data() == wanted, "the work of the next controller")
        wait_until(lambda: running.said("reconciled", reason="ReconciliationSucceeded"), "its report")
        assert target.inventory() == target.uids()
        assert running.stop() == 0
