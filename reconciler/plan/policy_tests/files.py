"""`ExampleFiles`: the files that a run of tests may see."""

from collections.abc import Sequence
from typing import Protocol


class ExampleFiles(Protocol):
    """Reads files below the folder that a run may see; paths are relative to it."""

    def files(self, path: str) -> Sequence[str]:
        """Return a file by itself, or all files below a folder, sorted. Raises `ConfigError` if there is neither."""
        ...

    def has(self, path: str) -> bool:
        """Return whether there is such a file or folder."""
        ...

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        ...
