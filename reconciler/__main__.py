"""`python -m reconciler` and the `reconciler` command."""

import gc
import io
import os
import signal
import sys
from contextlib import suppress

from reconciler.cli.ahead import looked_at
from reconciler.errors import INTERRUPTED, TERMINATED, Terminated


def main() -> None:
    """Run the command line and exit with its documented code."""
    gc.disable()  # one short run: to look for garbage among what is imported costs a tenth of the imports

    def terminate(*_: object) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
    _set_up_output()
    _leave(_run(sys.argv[1:]))


def _run(arguments: list[str]) -> int:
    """Let git begin, where it will be asked, and only then import what reads a command line."""
    try:
        folder = looked_at(arguments, os.environ)
        if folder is not None:
            from reconciler.wiring import ahead  # noqa: PLC0415 - `--help` must not wait for it

            ahead.look(folder, dict(os.environ))
        from reconciler.cli.main import run  # noqa: PLC0415 - git works meanwhile

        return run(arguments)
    except KeyboardInterrupt:  # before `run`, which says so itself
        return _end("interrupted", INTERRUPTED)
    except Terminated:
        return _end("terminated", TERMINATED)


def _end(message: str, code: int) -> int:
    with suppress(OSError, ValueError, AttributeError):  # closed, or gone
        sys.stderr.write(f"{message}\n")
    return code


def _leave(code: int) -> None:
    """End at once: to take a hundred thousand remembered objects apart first costs more than a quick plan may."""
    if wiring := sys.modules.get("reconciler.wiring"):
        wiring.let_go()
    with suppress(OSError, ValueError):  # closed, or gone: `run` has judged that
        sys.stdout.flush()
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    os._exit(code)


def _set_up_output() -> None:
    """Where standard output is closed, write to nowhere; where it has no buffer, give it one.

    Without one (PYTHONUNBUFFERED) a write that a full disk or a closed pipe cuts short passes for a whole one.
    """
    out = sys.stdout
    if out is None:
        sys.stdout = io.TextIOWrapper(io.FileIO(os.devnull, "w"), encoding="utf-8")
    elif isinstance(raw := getattr(out, "buffer", None), io.RawIOBase):
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(raw), encoding=out.encoding, errors=out.errors)


if __name__ == "__main__":
    main()
