"""Many files compiled at once: forked workers share what the parent has read, and send back compact results."""

import gc
import os
from collections.abc import Callable, Iterator

# Below this a fork costs more than it saves (a worker is up in about 10 ms; a file takes about 0.25 ms).
_WORTH_FORKING = 400
_CHUNK = 64

Work = Callable[[range], list[bytes]]
"""Does the work of these positions, a result for each."""

_work: Work | None = None


def in_parallel(work: Work, count: int, *, processes: int, advance: Callable[[int], None]) -> Iterator[bytes]:
    """Yield the results of `work` for 0 … count - 1 in order. It must be pure: it runs in forked children if that pays.

    An error in a child is raised here; when the caller stops early, or is interrupted, no child is left behind.
    """
    chunks = [range(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    if count < _WORTH_FORKING or processes < 2 or not hasattr(os, "fork"):  # noqa: PLR2004 - one is no help
        for chunk in chunks:
            yield from work(chunk)
            advance(len(chunk))
        return
    import multiprocessing  # noqa: PLC0415 - a warm run forks nothing

    global _work  # noqa: PLW0603 - the forked children find it here; closures cannot be pickled
    _work = work
    gc.freeze()  # children must not copy pages only because the collector touched them
    try:
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            for results in pool.imap(_run_chunk, chunks):
                yield from results
                advance(len(results))
    finally:
        _work = None


def _run_chunk(positions: range) -> list[bytes]:
    if _work is None:
        raise RuntimeError("a worker was started without work")
    gc.disable()
    return _work(positions)


def usable_processors() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
