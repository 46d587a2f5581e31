"""The decision log: a file to which every run of `apply` appends lines of JSON."""

import os
from collections.abc import Mapping
from pathlib import Path

from reconciler.errors import OutsideError

_PRIVATE = 0o600


def default_path(environ: Mapping[str, str]) -> Path | None:
    """Return `decisions.jsonl` under `XDG_STATE_HOME`, or under `~/.local/state`; None if there is no home folder."""
    base = Path(environ.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():  # the XDG specification says to ignore relative ones
        home = Path(environ.get("HOME", ""))
        if not home.is_absolute():
            return None
        base = home / ".local" / "state"
    return base / "gpu-reconciler" / "decisions.jsonl"


def append_line(path: Path, line: bytes) -> None:
    """Append a line, and wait until it is on the disk. Raises `OutsideError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, _PRIVATE)
        try:
            written = os.write(descriptor, line)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        hint = "free some disk space, or name another file with --decision-log"
        raise OutsideError(f"the decision log {path} cannot be written: {error.strerror}", hint=hint) from error
    if written != len(line):
        raise OutsideError(f"the decision log {path} cannot be written completely", hint="free some disk space")
