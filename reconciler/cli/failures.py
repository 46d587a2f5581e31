"""The failure of a command: an error for people, and the exit code. Only a run that fails imports this module."""

import errno
import os
import sys
import traceback
from collections.abc import Sequence

import click

from reconciler.console.printing import emit, report_error
from reconciler.errors import INTERRUPTED, TERMINATED, OutsideError, ReconcilerError, Terminated, is_lack_of_memory
from reconciler.kube.secrets import mask_text

_PIPE_CLOSED = 128 + 13
"""Exit code after SIGPIPE: not a success, since the reader may have missed why a plan was refused."""


def report_failure(error: BaseException, arguments: Sequence[str]) -> int:
    """Print what ended a command, and return its exit code. Raises what is no failure of a command."""
    match error:
        case click.ClickException():
            return _report_usage(error)
        case click.Abort() | KeyboardInterrupt():
            emit("interrupted", err=True)
            return INTERRUPTED
        case Terminated():
            emit("terminated", err=True)
            return TERMINATED
        case BrokenPipeError() | SystemExit():
            # click turns a closed pipe (`| head`) into exit code 1, which would mean that changes are pending
            _discard_output()
            return _PIPE_CLOSED
        case OSError():
            _discard_output()
            hint = "free some disk space" if error.errno == errno.ENOSPC else ""
            return report_error(OutsideError(str(error), hint=hint))
    if not isinstance(error, Exception):  # the end of a process that is none of ours to report
        raise error
    if "--debug" in arguments or os.environ.get("RECONCILER_DEBUG"):
        emit(mask_text("".join(traceback.format_exception(error))), err=True, nl=False)
    return _report_bug(error)


def _discard_output() -> None:
    """Send buffered output to the null device: Python would fail again when it closes standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno() if sys.__stdout__ else 1)


def _report_usage(error: click.ClickException) -> int:
    """Print an error of the command line in the form of all other errors."""
    message = error.format_message().rstrip(".")
    emit(f"error: {mask_text(message[:1].lower() + message[1:])}", err=True)
    if isinstance(error, click.UsageError) and error.ctx is not None:
        emit(f"Run `{error.ctx.command_path} --help` for usage.", err=True)
    return 2


def _report_bug(error: BaseException) -> int:
    """Print an error, or name the package with the bug: the kinds of an installed package may raise anything."""
    if is_lack_of_memory(error):
        error = OutsideError("out of memory", hint="allow more")
    if isinstance(error, ReconcilerError):
        return report_error(error)
    from reconciler.policy.plugins import failed_package  # noqa: PLC0415 - imports all kinds, and few errors are bugs

    emit(f"bug: {type(error).__name__}: {mask_text(str(error))}", err=True)
    place = failed_package(error)
    emit(
        f"This is a bug in {f'the package {place}' if place else 'gpu-reconciler'}. Report it with the traceback of"
        " RECONCILER_DEBUG=1.",
        err=True,
    )
    return ReconcilerError.exit_code
