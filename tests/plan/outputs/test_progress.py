"""The bar: on a terminal, after a second, and gone at the end; otherwise not one byte."""

import io
import subprocess
import sys

import pytest

from reconciler.console.progress import DELAY_SECONDS, Bar, progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_short_work_shows_nothing() -> None:
    clock, stream = Clock(), Terminal()
    bar = Bar("compiling", total=10, stream=stream, clock=clock)
    clock.now += DELAY_SECONDS * 0.9
    bar.advance(10)
    bar.close()
    assert stream.getvalue() == ""


def test_long_work_shows_a_bar_and_takes_it_away() -> None:
    clock, stream = Clock(), Terminal()
    bar = Bar("compiling [x]", total=10, stream=stream, clock=clock)
    bar.advance(3)
    clock.now += DELAY_SECONDS
    bar.advance(2)
    bar.close()
    shown = stream.getvalue()
    assert "compiling [x]" in shown
    assert "5/10" in shown
    assert shown.rstrip().endswith("\x1b[2K") or "\x1b[1A" in shown


def test_what_is_no_terminal_gets_nothing() -> None:
    clock, stream = Clock(), io.StringIO()
    bar = Bar("compiling", total=None, stream=stream, clock=clock)
    clock.now += 60
    bar.advance(1)
    bar.close()
    assert stream.getvalue() == ""
    assert bar.done == 1


def test_a_failure_takes_the_bar_away_too() -> None:
    stream, steps = io.StringIO(), {"known": 1}
    with pytest.raises(KeyError), progress("compiling", stream=stream) as advance:
        advance(steps["missing"])
    assert stream.getvalue() == ""


def test_rich_is_not_imported_before_it_is_needed() -> None:
    code = (
        "import sys; from reconciler.console.progress import progress\n"
        "with progress('x') as advance: advance(1)\n"
        "sys.exit('rich' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
