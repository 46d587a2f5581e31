"""Many files compiled at once: forked workers share what the parent has read, and send back compact results."""

import gc
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence

# Below this a fork costs more than it saves (a worker is up in about 10 ms; a file takes about 0.25 ms).
_WORTH_FORKING = 400
_CHUNK = 64

Work = Callable[[int], bytes]

_work: Work | None = None


def in_parallel(work: Work, count: int, *, processes: int, advance: Callable[[int], None]) -> Iterator[bytes]:
    """Yield `work(0) … work(count - 1)` in order. `work` must be pure: it runs in forked children when that pays."""
    if count < _WORTH_FORKING or processes < 2 or "fork" not in multiprocessing.get_all_start_methods():  # noqa: PLR2004
        for index in range(count):
            yield work(index)
            advance(1)
        return
    global _work  # noqa: PLW0603 - the forked children find it here; closures cannot be pickled
    _work = work
    gc.freeze()  # children must not copy pages only because the collector touched them
    try:
        with multiprocessing.get_context("fork").Pool(processes) as pool:
            chunks = [range(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
            for results in pool.imap(_run_chunk, chunks):
                yield from results
                advance(len(results))
    finally:
        _work = None


def _run_chunk(indexes: Sequence[int]) -> list[bytes]:
    if _work is None:
        raise RuntimeError("a worker was started without work")
    gc.disable()
    return [_work(index) for index in indexes]


def usable_processors() -> int:
    """How many processors this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
