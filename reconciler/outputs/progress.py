"""Work that takes long in, a bar on a terminal's error stream out; silence everywhere else."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_SECONDS = 1.0
"""Work that ends before this shows nothing."""

Advance = Callable[[int], None]


class Bar:
    """A count of finished work that shows itself once it has taken a second on a terminal.

    `rich` is imported only then: it costs a third of a short run.
    """

    def __init__(
        self, title: str, *, total: int | None, stream: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.done = 0
        self._title, self._total, self._stream, self._clock = title, total, stream, clock
        self._is_terminal = stream.isatty()
        self._begun = clock()
        self._shown: tuple[Progress, TaskID] | None = None

    def advance(self, count: int = 1) -> None:
        """Say that `count` more pieces of work are done."""
        self.done += count
        if not self._is_terminal:
            return
        if self._shown is None and self._clock() - self._begun >= PATIENCE_SECONDS:
            self._shown = self._start()
        if self._shown is not None:
            progress, task = self._shown
            progress.update(task, completed=self.done)

    def close(self) -> None:
        """Take the bar off the terminal, and leave no trace of it."""
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
    """Give a function that counts finished work; without `total` the bar only shows that something goes on."""
    bar = Bar(title, total=total, stream=sys.stderr if stream is None else stream)
    try:
        yield bar.advance
    finally:
        bar.close()
