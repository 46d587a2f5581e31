"""Changes of the files and branches of a checkout, as the operating system reports them."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue

from watchdog.events import (
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from reconciler.errors import OutsideError
from reconciler.repo.git.command import RepositoryLocation

_SETTLING_SECONDS = 0.01
"""Editors and git write a file in several steps: a change is over when nothing else happened for this long."""

_LONGEST_SECONDS = 1.0
"""A folder in which something changes all the time is reported this often."""

_EVENTS: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    DirDeletedEvent,
    DirMovedEvent,
]


@contextmanager
def watching(location: RepositoryLocation) -> Iterator[Callable[[], tuple[str, ...]]]:
    """Watch a checkout; yield a function that waits for the next change and returns the paths that changed.

    Paths are those of files below the root, and of branches: `.git/HEAD`. Raises `OutsideError` if the system refuses.
    """
    changed: SimpleQueue[str] = SimpleQueue()
    root, git_folders = location.root.resolve(), _git_folders(location)
    folders = {root, *git_folders}
    observer = Observer()
    for folder in folders:
        if not any(folder.is_relative_to(other) for other in folders - {folder}):
            observer.schedule(_Handler(root, git_folders, changed), str(folder), recursive=True, event_filter=_EVENTS)
    try:
        observer.start()
    except OSError as error:
        hint = "raise the limits fs.inotify.max_user_watches and fs.inotify.max_user_instances"
        raise OutsideError(f"cannot watch {location.root}: {error.strerror}", hint=hint) from error
    try:
        yield lambda: _next(changed)
    finally:
        observer.stop()
        observer.join()


def _git_folders(location: RepositoryLocation) -> tuple[Path, ...]:
    """Return the folders of HEAD and of the branches: of a linked working tree, they are two."""
    common = location.git.run("rev-parse", "--path-format=absolute", "--git-common-dir")
    return location.git_dir.resolve(), Path(os.fsdecode(common).rstrip("\n")).resolve()


def _next(changed: SimpleQueue[str]) -> tuple[str, ...]:
    paths = {changed.get()}
    end = time.monotonic() + _LONGEST_SECONDS
    while time.monotonic() < end:
        try:
            paths.add(changed.get(timeout=_SETTLING_SECONDS))
        except Empty:
            break
    return tuple(sorted(paths))


class _Handler(FileSystemEventHandler):
    """Puts the paths that a plan may depend on into a queue."""

    def __init__(self, root: Path, git_folders: tuple[Path, ...], changed: SimpleQueue[str]) -> None:
        self._root, self._git, self._changed = root, git_folders, changed

    def dispatch(self, event: FileSystemEvent) -> None:
        """Name both ends of a move."""
        for path in {event.src_path, event.dest_path} - {"", b""}:
            if name := self._name(Path(os.fsdecode(path))):
                self._changed.put(name)

    def _name(self, path: Path) -> str:
        for folder in self._git:
            if path.is_relative_to(folder):
                inside = path.relative_to(folder)
                is_reference = inside.parts[:1] in (("HEAD",), ("packed-refs",), ("refs",))
                return f".git/{inside}" if is_reference and path.suffix != ".lock" else ""
        return str(path.relative_to(self._root)) if path.is_relative_to(self._root) else ""
