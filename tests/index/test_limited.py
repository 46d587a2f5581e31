"""Tasks in a child with limits: results in order, what exceeds a limit ends the child and nothing else."""

import os
import time
from pathlib import Path

import pytest

from reconciler.index.limited import RESULT_BYTES, run_limited


def _count(position: int) -> bytes:
    return b"%d" % position


def test_results_come_in_order_and_what_was_learned_last() -> None:
    done = run_limited(_count, 100, learned=lambda: b"all" * RESULT_BYTES)
    assert done.results == [b"%d" % position for position in range(100)]
    assert (done.learned, done.exceeded) == (b"all" * RESULT_BYTES, "")
    assert run_limited(_count, 0).results == []


def _forever(_: int) -> bytes:
    while True:
        pass


def _all_memory(_: int) -> bytes:
    return b"".join([b"x" * (1 << 20)] * 1000)


def _no_frame(_: int) -> bytes:
    raise SystemError("error return without exception set")  # what CPython 3.11 says without memory for a frame


def _crash(_: int) -> bytes:
    os.abort()


def _long(_: int) -> bytes:
    return b"x" * (RESULT_BYTES + 1)


@pytest.mark.parametrize(
    ("task", "limit"),
    [
        (_forever, "takes more than 1 s of processor time"),
        (_all_memory, "needs more than 256 MiB of memory"),
        (_no_frame, "needs more than 256 MiB of memory"),
        (_crash, "ends the CEL engine"),
        (_long, "gives more than 32 KiB of messages"),
    ],
)
def test_a_task_over_a_limit_is_the_last_one(task: object, limit: str, capfd: pytest.CaptureFixture[str]) -> None:
    def work(position: int) -> bytes:
        return task(position) if position == 3 else _count(position)  # type: ignore[operator]

    before = _children()
    done = run_limited(work, 10)
    assert done.results == [b"0", b"1", b"2"]
    assert done.exceeded == limit
    assert capfd.readouterr() == ("", "")
    assert _children() <= before


def _children() -> set[str]:
    """Return the child processes of this one, among them servers of other tests."""
    return {child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}


def test_waiting_is_not_working() -> None:
    """A machine that is busy with other work changes no result: the limit is of processor time."""

    def wait(position: int) -> bytes:
        time.sleep(0.7)
        return _count(position)

    assert run_limited(wait, 2).results == [b"0", b"1"]


def test_the_limit_is_that_of_one_task() -> None:
    def work(position: int) -> bytes:
        until = time.process_time() + 0.4
        while time.process_time() < until:
            pass
        return _count(position)

    assert run_limited(work, 4).exceeded == ""


def test_an_error_of_a_task_is_raised_here() -> None:
    def fail(_: int) -> bytes:
        raise KeyError("the reason")

    with pytest.raises(RuntimeError, match="the reason"):
        run_limited(fail, 1)
