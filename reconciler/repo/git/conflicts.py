"""`GitConflicts`: the conflicts of a merge, rebase or cherry-pick that is in progress, and staging their solution."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reconciler.repo.git.command import RepositoryLocation, locate, without_filters
from reconciler.repo.git.objects import decode_path, read_blobs
from reconciler.repo.git.worktree import WorkTree
from reconciler.repo.port import Conflict

_OPERATIONS = (
    ("rebase-merge", "git rebase --continue"),
    ("rebase-apply", "git rebase --continue"),
    ("MERGE_HEAD", "git commit"),
    ("CHERRY_PICK_HEAD", "git cherry-pick --continue"),
    ("REVERT_HEAD", "git revert --continue"),
)
"""What git keeps while an operation is in progress, and the command that finishes it."""


class GitConflicts(Struct, frozen=True, kw_only=True):
    """The checkout of a repository, during an operation that stopped."""

    location: RepositoryLocation

    @classmethod
    def open(cls, folder: Path, *, environ: Mapping[str, str]) -> "GitConflicts":
        """Find the repository around a folder. `environ` is the user's environment."""
        return cls(location=locate(folder, environ))

    def next_command(self) -> str:
        """Return the command that finishes the operation in progress; empty if there is none."""
        present = (command for name, command in _OPERATIONS if (self.location.git_dir / name).exists())
        return next(present, "")

    def conflicts(self) -> dict[str, Conflict]:
        """Return the conflicts below the root, sorted by path."""
        stages: dict[str, dict[str, str]] = {}
        listing = decode_path(self.location.git.run("ls-files", "--unmerged", "-z"))
        for entry in (text for text in listing.split("\0") if text):
            facts, _, path = entry.partition("\t")
            _, oid, stage = facts.split(" ")
            if path.startswith(self.location.prefix):
                stages.setdefault(path[len(self.location.prefix) :], {})[stage] = oid
        return {path: Conflict(ours=oids.get("2"), theirs=oids.get("3")) for path, oids in sorted(stages.items())}

    def unstaged(self) -> list[str]:
        """Return the files below the root with changes that are not staged, new files too, sorted."""
        git = without_filters(self.location.git)
        git.run("update-index", "--refresh", accept=(0, 1))
        listings = (
            git.run("diff-files", "--name-only", "-z", "--ignore-submodules=dirty"),
            git.run("ls-files", "--others", "--exclude-standard", "-z"),
        )
        paths = {path for listing in listings for path in decode_path(listing).split("\0") if path}
        prefix = self.location.prefix
        return sorted(path[len(prefix) :] for path in paths if path.startswith(prefix))

    def stage(self, files: Mapping[str, bytes | None]) -> None:
        """Write files to the working tree and the index; None removes one. What git thinks of as unmerged is solved."""
        paths = {self.location.prefix + path: data for path, data in sorted(files.items())}
        tree = WorkTree(top=self.location.top)
        for path, data in paths.items():
            if data is None:
                tree.remove(path)
        tree.write_all((path, data) for path, data in paths.items() if data is not None)
        names = [f"{path}\0".encode("utf-8", "surrogateescape") for path in paths]
        without_filters(self.location.git).run("update-index", "--add", "--remove", "-z", "--stdin", data=names)

    def stage_versions(self, oids: Mapping[str, str | None]) -> None:
        """Stage one of the versions of conflicting files, by its id; None removes the file."""
        present = {path: oid for path, oid in oids.items() if oid is not None}
        contents = read_blobs(self.location.git, list(present.values()))
        self.stage({**dict.fromkeys(oids), **dict(zip(present, contents, strict=True))})
