"""The cache of built parts: outside the checkout, one folder a content digest, safe for several processes at once."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

Say = Callable[[str], None]


class PartsUnavailableError(Exception):
    """The real parts cannot be had on this machine; the message says what was left out, and why."""


def cache_folder() -> Path:
    """Return (and make) the folder of all built parts, by the XDG convention."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = home / "gpu-reconciler" / "cluster"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(path: Path, say: Say) -> Iterator[None]:
    """Hold the lock beside `path`: the kernel frees it when this process ends, however it ends."""
    with Path(f"{path}.lock").open("a", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another process is making {path.name}, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def made_once(path: Path, make: Callable[[Path], None], say: Say) -> Path:
    """Return the folder `path`; where it is not there, `make` fills a scratch folder that then takes its name."""
    if path.is_dir():
        return path
    with locked(path, say):
        if path.is_dir():
            return path
        scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        try:
            make(scratch)
            scratch.chmod(0o755)
            scratch.rename(path)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    return path


def clock(seconds: float) -> str:
    """Write a duration as minutes and seconds: `2:10`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}:{rest:02}"


class Ticker:
    """Says every few seconds that a long step is still going on, and for how long."""

    def __init__(self, step: str, say: Say, every: float = 15.0) -> None:
        self._step, self._say, self._every = step, say, every
        self._start = self._last = time.monotonic()

    def tick(self) -> None:
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            self._say(f"{self._step} … {clock(now - self._start)}")

    def done(self) -> None:
        self._say(f"{self._step}: done in {clock(time.monotonic() - self._start)}")
