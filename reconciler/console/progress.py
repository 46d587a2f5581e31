"""Progress bars on the error stream, if it is a terminal, for work that takes longer than a second."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

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
        self._show: Advance | None = None  # of the visible bar
        self._hide: Callable[[], None] = lambda: None

    def advance(self, count: int = 1) -> None:
        """Count `count` more units of work as done."""
        self.done += count
        if not self._is_terminal:
            return
        if self._show is None and self._clock() - self._started >= DELAY_SECONDS:
            self._show = self._start()
        if self._show is not None:
            self._show(self.done)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        self._hide()

    def _start(self) -> Advance:
        """Show the bar, and return what sets the count of finished work."""
        from rich import console, progress  # noqa: PLC0415 - only for work that takes long: see above

        columns = (
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
        )
        terminal = console.Console(file=self._stream, force_terminal=True)
        bar = progress.Progress(*columns, console=terminal, transient=True)
        task = bar.add_task(self._title, total=self._total, completed=self.done)
        bar.start()
        self._hide = bar.stop
        return lambda done: bar.update(task, completed=done)


@contextmanager
def progress(title: str, *, total: int | None = None, stream: TextIO | None = None) -> Iterator[Advance]:
    """Yield a function that counts finished work. Without a total, the bar shows only that work is going on."""
    bar = Bar(title, total=total, stream=sys.stderr if stream is None else stream)
    try:
        yield bar.advance
    finally:
        bar.close()
