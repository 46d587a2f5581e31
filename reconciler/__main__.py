"""`python -m reconciler` and the `reconciler` command: sets up the process and ends it."""

import gc
import io
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

from reconciler.errors import INTERRUPTED, TERMINATED, Terminated

FRAMES = 5_000
"""How deeply functions may call each other: enough for the expressions of policies, which nest 250 levels deep."""

_RARELY = 10_000
"""New objects between two garbage collections of a process that plans again; Python's default is 700."""


def main() -> None:
    """Run the command line and exit with its documented code."""
    _start(_reconciler)


def gpu_scheduler() -> None:
    """Run the command line of AgentaFlow's scheduler, `k8s-gpu-scheduler`, and exit as `reconciler` does."""
    _start(_gpu_scheduler)


def _reconciler(arguments: list[str]) -> int:
    from reconciler.cli.main import run  # noqa: PLC0415 - a signal during the import must not print a traceback

    return run(arguments)


def _gpu_scheduler(arguments: list[str]) -> int:
    from reconciler.cli.gpu_scheduler import run  # noqa: PLC0415 - as above

    return run(arguments, os.environ)


def _start(run: Callable[[list[str]], int]) -> None:
    # A run is short and keeps nearly everything it allocates: garbage collection during the imports alone
    # takes a tenth of their time and frees nothing.
    if "--watch" in sys.argv:  # plans again and again
        gc.set_threshold(_RARELY)
    elif sys.argv[1:2] != ["controller"]:  # which runs for long
        gc.disable()
    sys.setrecursionlimit(FRAMES)  # children inherit it
    signal.signal(signal.SIGTERM, _terminate)
    _set_up_output()
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # during the import; `run` reports all others
        code = _report("interrupted", INTERRUPTED)
    except Terminated:
        code = _report("terminated", TERMINATED)
    _exit(code)


def _terminate(*_: object) -> None:
    raise Terminated


def _report(message: str, code: int) -> int:
    with suppress(OSError, ValueError, AttributeError):  # standard error is closed
        sys.stderr.write(f"{message}\n")
    return code


def _exit(code: int) -> None:
    """Exit without freeing objects one by one: for a large repository that would take longer than a warm plan."""
    with suppress(OSError, ValueError):  # standard output is closed: `run` has chosen the exit code already
        sys.stdout.flush()
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    os._exit(code)


def _set_up_output() -> None:
    """Replace a closed output with the null device, and buffer an unbuffered one.

    With PYTHONUNBUFFERED, Python does not report a write that a full disk or a closed pipe cuts short.
    """
    out = sys.stdout
    if sys.stderr is None:
        sys.stderr = io.TextIOWrapper(io.FileIO(os.devnull, "w"), encoding="utf-8")
    if out is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(os.devnull, "w"), encoding="utf-8")
    elif isinstance(raw := getattr(out, "buffer", None), io.RawIOBase):
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding=out.encoding, errors=out.errors)


if __name__ == "__main__":
    main()
