"""Protocols of everything outside: Git repositories, the cache, sizing engines. Adapters implement them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import Struct

FILE_MODES = frozenset({"100644", "100755"})  # neither links nor submodules


class Entry(NamedTuple):
    """An entry at a path: git's mode in octal, and the id of the content.

    Only `is_file` entries may be read. `120000` is a symlink, `160000` a submodule or a repository inside this one,
    `000000` something that Git does not track (a device, a socket, a named pipe); their ids have no meaning.
    """

    mode: str
    oid: str

    @property
    def is_file(self) -> bool:
        """Return whether this is a regular file; only those are read."""
        return self.mode in FILE_MODES


Tree = Mapping[str, Entry]
"""Entries by path below `Repository.root`, with `/`; bytes that are not UTF-8 are surrogates."""


class Commit(Struct, frozen=True, kw_only=True):
    """A commit: its id, the ids of its tree and parents, its time (ISO 8601 with offset) and its message."""

    oid: str
    tree: str
    committed_at: str
    subject: str  # the first line of the message
    message: str
    parents: tuple[str, ...] = ()


class Draft(Struct, frozen=True, kw_only=True):
    """A commit to be made on `parent`: complete contents by path (None deletes), and the message.

    `branch` None means the checked-out branch (or the detached HEAD): these files are updated in the working tree and
    in the index, and nothing else changes there. A name means that branch, created from `parent` or, if it is at
    `replaces`, moved from there; the working tree does not change unless that branch is checked out.
    """

    parent: str
    files: Mapping[str, bytes | None]
    message: str
    branch: str | None = None
    replaces: str | None = None


class Repository(Protocol):
    """A Git repository that is read by object id and written by complete commits.

    Every method may raise `RepositoryError`. Hooks, filters, prompts and the network are never used.
    """

    @property
    def root(self) -> Path:
        """The folder that paths are relative to: that of `reconciler.yaml`, or the top of the repository."""
        ...

    @property
    def prefix(self) -> str:
        """The path of `root` below the top of the repository, with `/` at its end; empty at the top."""
        ...

    def whole(self) -> "Repository":
        """Return the same repository with paths from its top."""
        ...

    @property
    def object_format(self) -> str:
        """`sha1` or `sha256`."""
        ...

    @property
    def is_shallow(self) -> bool:
        """Return whether history is truncated, so that `merge_base` may miss the merge base."""
        ...

    def head_branch(self) -> str | None:
        """Return the name of the checked-out branch, also before its first commit; None for a detached HEAD."""
        ...

    def is_unborn(self) -> bool:
        """Tell whether HEAD names a branch that does not exist yet. A branch that cannot be read exists."""
        ...

    def branch(self, name: str) -> Commit | None:
        """Return the tip of a local branch; None if it does not exist."""
        ...

    def resolve(self, revision: str) -> Commit:
        """Return the commit that a branch, tag, id or expression such as `HEAD~2` names."""
        ...

    def merge_base(self, one: str, other: str) -> str | None:
        """Return the best common ancestor of two commit ids; None if there is none."""
        ...

    def merge(self, one: str, other: str) -> str:
        """Return the id of the tree that a merge of two commit ids has, as `git merge` makes it by default.

        Raises `StalePlan` with the files that conflict. No branch, index or file changes.
        """
        ...

    def last_change(self, commit: str, path: str) -> str | None:
        """Return the newest commit, `commit` itself or an ancestor, that changed anything at or below `path`."""
        ...

    def identity(self, commit: str) -> str:
        """Return what all clones of a repository share: the first commit of a history, and the folder if it is one.

        `<id>` or `<id>:team-a`; empty if the history is cut.
        """
        ...

    def upstream_default(self) -> str | None:
        """Return the full name of the upstream's default branch (`refs/remotes/origin/main`); None if unknown."""
        ...

    def tree(self, commit: str, paths: Sequence[str] = ()) -> Tree:
        """List the files of a commit or tree id: all of them, or those at and below `paths`."""
        ...

    def changed(
        self, before: str, after: str, paths: Sequence[str] = ()
    ) -> Mapping[str, tuple[Entry | None, Entry | None]]:
        """Compare two commit ids: (before, after) by path, None for an absent path."""
        ...

    def changed_since(self, commit: str | None, paths: Sequence[str] = ()) -> Mapping[str, Entry | None]:
        """List how the working tree, with untracked files that are not ignored, differs from a commit."""
        ...

    def comparing(self, commit: str | None, paths: Sequence[str] = ()) -> AbstractContextManager[None]:
        """Begin `changed_since`, which takes longest: a call with the same arguments after the context has its answer.

        The answer is given once; the working tree may change later.
        """
        ...

    def work_file(self, path: str) -> Entry | None:
        """Return one path of the working tree, tracked or not; None if it does not exist."""
        ...

    def work_tree(self, paths: Sequence[str] = (), *, head: str | None = None) -> Tree:
        """List the working tree with uncommitted changes and untracked files that are not ignored.

        `head` is the id of the checked-out commit, if the caller knows it.
        """
        ...

    def read(self, oids: Iterable[str]) -> Iterator[bytes]:
        """Yield contents by id, in order; those of the working tree as they were when it was listed.

        A file over the repository's size limit is not read: its content is an `OversizedContent`, which readers reject.
        """
        ...

    def hold(self, content: bytes) -> str:
        """Keep a content that is in no file, and return the id under which `read` yields it."""
        ...

    def commit(self, draft: Draft) -> str | None:
        """Make one commit and return its id; None if it would change nothing.

        Raises `StalePlan` if the branch is no longer at the parent, `UnsafePlan` if edits of the user would be lost,
        `ConfigError` if no author is configured.
        """
        ...


class Conflict(Struct, frozen=True, kw_only=True):
    """The ids of both versions of a file with conflicts; None if a side deleted it. In a rebase, `ours` is the base."""

    ours: str | None
    theirs: str | None


class Conflicts(Protocol):
    """The checkout during a merge or a rebase that stopped. Every method may raise `RepositoryError`."""

    def next_command(self) -> str:
        """Return the git command that finishes the operation in progress; empty if there is none."""
        ...

    def conflicts(self) -> Mapping[str, Conflict]:
        """Return the files with conflicts, by path below the root of the config repository."""
        ...

    def unstaged(self) -> Sequence[str]:
        """Return the files with changes that are not staged, new files too."""
        ...

    def stage(self, files: Mapping[str, bytes | None]) -> None:
        """Write files to the working tree and the index; None removes one."""
        ...

    def stage_versions(self, oids: Mapping[str, str | None]) -> None:
        """Stage one of the versions of conflicting files; None removes the file."""
        ...


class Cache(Protocol):
    """Bytes by key. They may vanish at any time; a method never fails, and never returns anything but what was put."""

    def get(self, key: str) -> bytes | None:
        """Return the value of a key, or None."""
        ...

    def put(self, key: str, value: bytes) -> None:
        """Store a value if possible."""
        ...
