"""Progress bars on the error stream, if it is a terminal, for work that takes longer than a second."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

DELAY_SECONDS = 1.0
"""Work that ends sooner shows no bar."""

Advance = Callable[[int], None]


class Bar:
    """A counter of finished work that becomes visible after `DELAY_SECONDS`.

    rich is imported only then, because the import takes a third of the time of a short run.
    """

    def __init__(
        self, title: str, *, total: int | None, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.done = 0
        self._title, self._total, self._stream, self._clock = title, total, stream, clock
        self._is_terminal = stream.isatty()
        self._started = clock()
        self._shown: tuple[Progress, TaskID] | None = None

    def advance(self, count: int = 1) -> None:
        """Count `count` more units of work as done."""
        self.done += count
        if not self._is_terminal:
            return
        if self._shown is None and self._clock() - self._started >= DELAY_SECONDS:
            self._shown = self._start()
        if self._shown is not None:
            progress, task = self._shown
            progress.update(task, completed=self.done)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._shown is not None:
            self._shown[0].stop()
            self._shown = None

    def _start(self) -> "tuple[Progress, TaskID]":
        from rich.console import Console  # noqa: PLC0415 - only for work that takes long
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

        console = Console(file=self._stream, force_terminal=True)
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        progress = Progress(*columns, console=console, transient=True)
        progress.start()
        return progress, progress.add_task(self._title, total=self._total, completed=self.done)


@contextmanager
def progress(title: str, *, total: int | None = None, stream: TextIO | None = None) -> Iterator[Advance]:
    """Yield a function that counts finished work. Without a total, the bar shows only that work is going on."""
    bar = Bar(title, total=total, stream=sys.stderr if stream is None else stream)
    try:
        yield bar.advance
    finally:
        bar.close()
