"""The files that the launch line of a job may name."""

from reconciler.core.documents import Document
from reconciler.core.launch import FileReader, resolve_file
from reconciler.core.training import Container
from reconciler.core.training.config_maps import FindConfigMap, mounted_file


class JobFiles:
    """Files of the repository, and the ConfigMaps of it that a container mounts."""

    def __init__(self, document: Document, paths: tuple[str, ...], file: FileReader, find: FindConfigMap) -> None:
        self._document, self._paths, self._file, self._find = document, paths, file, find

    def exact(self, path: str) -> bytes | None:
        """Return the file of the repository with exactly this path."""
        return self._file(path) if path in self._paths else None

    def named(self, container: Container) -> FileReader:
        """Return a reader of files by the paths at which a container sees them."""

        def read(written: str) -> bytes | None:
            is_mounted, content = mounted_file(self._document.data, container.path, written, self._find)
            if is_mounted:
                return content
            path = resolve_file(written, self._paths, self._document.source.path) if self._paths else None
            return self._file(path) if path else None

        return read
