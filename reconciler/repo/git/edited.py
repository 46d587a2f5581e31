"""`EditedRepository`: a repository as it would be with other contents of some files, on top of a commit."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from reconciler.repo.git.command import locate
from reconciler.repo.git.repository import GitRepository
from reconciler.repo.port import Entry


class EditedRepository(GitRepository):
    """A repository whose working tree is the checked-out commit with these files; None removes one.

    The real working tree and the index are not looked at, and nothing is written.
    """

    def __init__(self, folder: Path, files: Mapping[str, bytes | None], environ: Mapping[str, str]) -> None:
        super().__init__(locate(folder, environ))
        self._edits: dict[str, Entry | None] = {
            path: None if content is None else Entry("100644", self.hold(content)) for path, content in files.items()
        }

    def changed_since(self, commit: str | None, paths: Sequence[str] = ()) -> Mapping[str, Entry | None]:
        """Return the edits of files that differ from the commit, which is the checked-out one."""
        before = self.tree(commit, paths) if commit else {}
        return {
            path: entry
            for path, entry in self._edits.items()
            if _is_below(path, paths) and (entry and entry.oid) != (before[path].oid if path in before else None)
        }

    @contextmanager
    def comparing(self, commit: str | None, paths: Sequence[str] = ()) -> Iterator[None]:  # noqa: ARG002 - see the port
        """Compare nothing ahead: the edits are known."""
        yield

    def work_file(self, path: str) -> Entry | None:
        """Return one edited file, or that of the checked-out commit."""
        return self._edits[path] if path in self._edits else self.tree(self.resolve("HEAD").oid, (path,)).get(path)


def _is_below(path: str, folders: Sequence[str]) -> bool:
    return not folders or any(path == folder or path.startswith(f"{folder}/") for folder in folders)
