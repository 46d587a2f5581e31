"""Many files compiled in parallel: forked workers share what the parent has read, and send back compact results."""

import gc
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from msgspec import Struct

# Below this a fork costs more than it saves (a worker is up in about 10 ms; a file takes about 0.25 ms).
_WORTH_FORKING = 400
_CHUNK = 64

Work = Callable[[range], list[bytes]]
"""Does the work of these positions, a result for each."""

Advance = Callable[[int], None]
Progress = Callable[[str, int], AbstractContextManager[Advance]]
"""Takes a title and a total, and returns what counts the finished work."""


@contextmanager
def no_progress(_: str, __: int) -> Iterator[Advance]:
    """Show nothing."""
    yield lambda _: None


class WorkerPool(Struct, frozen=True, kw_only=True, eq=False):
    """The number of worker processes, and what shows their progress."""

    processes: int = 1
    progress: Progress = no_progress

    def run(self, title: str, work: Work, count: int, *, starts_here: bool = False) -> Iterator[bytes]:
        """Yield the results of `work` in order, as `in_parallel` does, and show under a title how far it is."""
        with self.progress(title, count) as advance:
            yield from in_parallel(work, count, processes=self.processes, advance=advance, starts_here=starts_here)


_work: Work | None = None


def in_parallel(
    work: Work, count: int, *, processes: int, advance: Callable[[int], None], starts_here: bool = False
) -> Iterator[bytes]:
    """Yield the results of `work` for 0 … count - 1 in order. It must be pure: it runs in forked children if that pays.

    starts_here: do the first part before any child is forked, so that the children inherit what it makes ready, such
    as expressions, schemas and modules, instead of each making it again.
    An error in a child is raised here; when the caller stops early, or is interrupted, no child is left behind.
    """
    chunks = [range(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    if count < _WORTH_FORKING or processes < 2 or not hasattr(os, "fork"):  # noqa: PLR2004 - one worker does not help
        for chunk in chunks:
            yield from work(chunk)
            advance(len(chunk))
        return
    import multiprocessing  # noqa: PLC0415 - a warm run forks nothing

    if starts_here:
        first, *chunks = chunks
        yield from work(first)
        advance(len(first))
    global _work  # noqa: PLW0603 - the forked children find it here; closures cannot be pickled
    _work = work
    gc.freeze()  # children must not copy pages only because the collector touched them
    try:
        with signals_held():
            pool = multiprocessing.get_context("fork").Pool(processes, start_worker)
        with pool:
            for results in pool.imap(_run_chunk, chunks):
                yield from results
                advance(len(results))
    finally:
        _work = None


@contextmanager
def signals_held() -> Iterator[None]:
    """Let no signal meet a child before it has its own answer to it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def start_worker() -> None:
    """Leave Ctrl-C, which reaches the whole group, to the parent; end without a word when the parent says so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


def _run_chunk(positions: range) -> list[bytes]:
    if _work is None:
        raise RuntimeError("a worker was started without work")
    gc.disable()
    return _work(positions)


def usable_processors() -> int:
    """Return the number of processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
