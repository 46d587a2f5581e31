"""One commit on a branch: objects first, then the branch by compare-and-swap, then the files of the working tree.

A crash before the branch moves leaves nothing but unreachable objects. A crash after it leaves a journal in the Git
folder, and the next commit first updates the working tree and the index. Files that the user has edited meanwhile are
not touched: only files that are unchanged since the parent are replaced.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from msgspec import Struct

from reconciler.errors import ConfigError, ReconcilerError, RepositoryError, StalePlan, UnsafePlan, printable
from reconciler.repo.git.command import RepositoryLocation, branch_ref, without_filters
from reconciler.repo.git.objects import blob_oid, decode_path, parse_changes, parse_tree, parse_unmerged, read_blobs
from reconciler.repo.git.worktree import CheckoutFile, WorkTree, split_path
from reconciler.repo.port import Draft, Entry

# What git leaves in its folder until they end.
_OPERATIONS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_OTHER = Entry("000000", "")  # neither absent nor a file: a conflict, a folder, a link
_DIFF = ("diff-index", "-z", "--raw", "--no-renames", "--ignore-submodules=dirty")
_MAX_NAMES = 5
_REF = "refs/reconciler/draft"  # fast-import requires a name; it is reset before the end, so no reference is created


class FileChange(Struct, frozen=True, kw_only=True):
    """One file that a commit changes. The path is below the top of the repository."""

    path: str
    before: Entry | None
    after: Entry | None

    def is_before(self, current: Entry | None) -> bool:
        """Return whether a file or an index entry is as it was before the commit."""
        return _same_content(current, self.before)

    def is_unedited(self, current: Entry | None) -> bool:
        """Return whether replacing it loses nothing: it is as before the commit, or as after it."""
        return _same_content(current, self.before) or _same_content(current, self.after)


def _same_content(one: Entry | None, other: Entry | None) -> bool:
    return (one and one.oid) == (other and other.oid)


def file_changes(location: RepositoryLocation, draft: Draft) -> tuple[FileChange, ...]:
    """Compare a draft with its parent. Raises `UnsafePlan` if a path would be both a file and a folder."""
    files = {location.prefix + path: data for path, data in draft.files.items()}
    tops = sorted({split_path(path)[0] for path in files})
    tree = (
        parse_tree(location.git.run("ls-tree", "-r", "-z", "--full-tree", draft.parent, "--", *tops), "")
        if tops
        else {}
    )
    _reject_folder_conflicts(tree, files)
    changes = []
    for path, data in sorted(files.items()):
        before = tree.get(path)
        mode = before.mode if before is not None and before.is_file else "100644"
        after = None if data is None else Entry(mode, blob_oid(data, location.object_format))
        if before != after:
            changes.append(FileChange(path=path, before=before, after=after))
    return tuple(changes)


def _reject_folder_conflicts(tree: Mapping[str, Entry], files: Mapping[str, bytes | None]) -> None:
    written = {path for path, data in files.items() if data is not None}
    remaining = tree.keys() - (files.keys() - written)
    folders = {folder for path in (*remaining, *written) for folder in _parents(path)}
    if conflicts := sorted(folders & (remaining | written)):
        raise UnsafePlan(f"{printable(conflicts[0])} would be both a file and a folder", hint="rename one of them")


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def import_commit(location: RepositoryLocation, draft: Draft, changes: tuple[FileChange, ...]) -> str:
    """Write the commit and all its objects and return its id. No branch moves."""
    author, committer = _identity(location, "AUTHOR"), _identity(location, "COMMITTER")
    answer = location.git.run(
        "fast-import",
        "--quiet",
        "--done",
        "--date-format=raw",
        data=_stream(location, draft, changes, author, committer),
    )
    oid = decode_path(answer).strip()
    if len(oid) != len(draft.parent):
        raise RepositoryError("git fast-import returned no commit")
    return oid


def _stream(
    location: RepositoryLocation, draft: Draft, changes: tuple[FileChange, ...], author: bytes, committer: bytes
) -> Iterator[bytes]:
    """Yield the input of fast-import: deletions first, so that a folder may replace a deleted file."""
    message = draft.message.encode("utf-8", "surrogateescape")
    yield b"commit %s\nmark :1\nauthor %s\ncommitter %s\n" % (_REF.encode(), author, committer)
    yield b"data %d\n%s\nfrom %s\n" % (len(message), message, draft.parent.encode())
    for change in changes:
        if change.after is None:
            yield b"D %s\n" % _quote(change.path)
    for change in changes:
        data = draft.files[change.path[len(location.prefix) :]]
        if change.after is not None and data is not None:
            yield b"M %s inline %s\ndata %d\n" % (change.after.mode.encode(), _quote(change.path), len(data))
            yield data
            yield b"\n"
    yield b"\nget-mark :1\nreset %s\n\ndone\n" % _REF.encode()


def _quote(path: str) -> bytes:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'.encode("utf-8", "surrogateescape")


def _identity(location: RepositoryLocation, role: str) -> bytes:
    """Return name, address and time from the user's settings; nothing is derived from the name of the machine."""
    try:
        return location.git.run_as_user("-c", "user.useConfigOnly=true", "var", f"GIT_{role}_IDENT").rstrip(b"\n")
    except RepositoryError as error:
        hint = "git config --global user.name NAME; git config --global user.email ADDRESS"
        raise ConfigError(f"no {role.lower()} for the commit: {error.message.partition(': ')[2]}", hint=hint) from error


class CheckoutState(Struct, frozen=True, kw_only=True):
    """The working tree and the index at each path of a commit; only the ids of files are compared."""

    files: Mapping[str, Entry | None]
    index: Mapping[str, Entry | None]


class Committer(Struct, frozen=True, kw_only=True):
    """Makes commits in one repository, one at a time."""

    location: RepositoryLocation
    files: WorkTree

    def commit(self, draft: Draft) -> str | None:
        """Make one commit; None if it would change nothing. Raises the errors of `Repository.commit`."""
        with self._locked():
            self._recover()
            head = self.location.git.query("symbolic-ref", "--quiet", "HEAD") or "HEAD"
            ref = head if draft.branch is None else branch_ref(self.location.git, draft.branch)
            if ref == head:
                return self._on_checked_out_branch(draft, ref)
            return self._on_other_branch(draft, ref)

    def _on_checked_out_branch(self, draft: Draft, ref: str) -> str | None:
        tip = self._oid(ref)
        if tip != draft.parent:
            raise StalePlan(f"{ref} is at {tip or 'no commit'}, not at {draft.parent}", hint="plan again")
        changes = file_changes(self.location, draft)
        if not changes:
            return None
        self._reject_running_operation()
        self._reject_lost_edits(draft.parent, changes)
        oid = import_commit(self.location, draft, changes)
        self._journal.write(ref, draft.parent, oid)
        try:
            self._move(ref, oid, draft.parent)
        except ReconcilerError:
            self._recover()
            raise
        try:
            self._recover()
        except RepositoryError as error:
            hint = "the next commit finishes it; until then git shows the old files as changes"
            raise RepositoryError(
                f"committed {oid}, but its files are not all in place: {error.message}", hint=hint
            ) from error
        return oid

    def _on_other_branch(self, draft: Draft, ref: str) -> str | None:
        if folder := self.location.git.query("for-each-ref", "--format=%(worktreepath)", ref):
            raise UnsafePlan(
                f"{ref} is checked out at {printable(folder)}", hint="commit there, or name another branch"
            )
        tip = self._oid(ref)
        if tip != draft.replaces:
            raise StalePlan(
                f"{ref} is at {tip or 'no commit'}, not at {draft.replaces or 'no commit'}", hint="plan again"
            )
        changes = file_changes(self.location, draft)
        if not changes:
            return None
        oid = import_commit(self.location, draft, changes)
        if tip and self._tree_and_parents(tip) == self._tree_and_parents(oid):
            return None
        self._move(ref, oid, tip)
        return oid

    def _tree_and_parents(self, commit: str) -> list[str | None]:
        """Return tree and parents: two commits with the same ones differ in message and dates alone."""
        return [
            self.location.git.query("rev-parse", "--verify", "--quiet", commit + part)
            for part in ("^{tree}", "^1", "^2")
        ]

    def _oid(self, ref: str) -> str | None:
        return self.location.git.query("rev-parse", "--verify", "--quiet", "--end-of-options", ref + "^{commit}")

    def _move(self, ref: str, new: str, old: str | None) -> None:
        """Move the branch from `old` to `new`. Raises `StalePlan` if it is no longer at `old`."""
        expected = old or "0" * len(new)
        try:
            self.location.git.run("update-ref", "--no-deref", "-m", "reconciler: commit", ref, new, expected)
        except RepositoryError as error:
            if "but expected" in error.message or "reference already exists" in error.message:
                raise StalePlan(f"{ref} moved during the commit", hint="plan again") from error
            raise

    # -- the working tree and the index ------------------------------------------------------------------------------

    def _reject_running_operation(self) -> None:
        for name in _OPERATIONS:
            if (self.location.git_dir / name).exists():
                raise UnsafePlan(
                    f"a merge or rebase is in progress ({name})",
                    hint="finish or abort it first; `reconciler resolve` renders the merge",
                )
        if (self.location.git_dir / "index.lock").exists():
            hint = "another git command is running; wait for it, or remove the lock if it is left from a crash"
            raise RepositoryError("the index is locked", hint=hint)

    def _reject_lost_edits(self, parent: str, changes: tuple[FileChange, ...]) -> None:
        state = self._checkout_state(parent, changes)
        removed = {change.path for change in changes if change.after is None}

        @cache
        def blocked(folder: str) -> bool:
            return self.files.blocked(f"{folder}/any", removed)

        lost = [
            change.path
            for change in changes
            if not change.is_unedited(state.files[change.path])
            or not change.is_unedited(state.index[change.path])
            or (change.after is not None and "/" in change.path and blocked(change.path.rpartition("/")[0]))
        ]
        if lost:
            names = ", ".join(printable(path) for path in lost[:_MAX_NAMES])
            more = f" and {len(lost) - _MAX_NAMES} more" if len(lost) > _MAX_NAMES else ""
            hint = "commit or stash them, or undo them with `git restore --staged --worktree -- PATH`"
            raise UnsafePlan(f"uncommitted edits would be lost: {names}{more}", hint=hint)

    def _checkout_state(self, commit: str, changes: tuple[FileChange, ...]) -> CheckoutState:
        """Return the state of every path. Files that git knows to be unchanged are not read."""
        git = without_filters(self.location.git)
        tops = sorted({change.path.partition("/")[0] for change in changes})
        staged, unstaged = (git.run(*_DIFF, *option, commit, "--", *tops) for option in (("--cached",), ()))
        index = {path: after for path, (_, after) in parse_changes(staged, "").items()}
        index |= dict.fromkeys(parse_unmerged(staged), _OTHER)
        modified = {*parse_changes(unstaged, ""), *parse_unmerged(unstaged), *index}
        unknown = [change.path for change in changes if change.before is None or change.path in modified]
        states = {path: self._entry(file) for path, file in zip(unknown, self.files.read_all(unknown), strict=True)}
        return CheckoutState(
            files={
                change.path: states.get(change.path) if change.path in states else change.before for change in changes
            },
            index={change.path: index.get(change.path, change.before) for change in changes},
        )

    def _entry(self, file: CheckoutFile | None) -> Entry | None:
        if file is None:
            return None
        entry = Entry(file.mode, blob_oid(file.data, self.location.object_format))
        return entry if entry.is_file else _OTHER

    def _recover(self) -> None:
        """Update files and index to the commit in the journal, if the branch reached it and is still there."""
        interrupted = self._journal.read()
        if interrupted is None:
            return
        ref, before, after = interrupted
        if self._oid(before) and self._oid(after):  # git may have collected them in the meantime
            listing = self.location.git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", before, after, "--")
            entries = parse_changes(listing, "").items()
            changes = tuple(FileChange(path=path, before=old, after=new) for path, (old, new) in entries)
            for folder in sorted({change.path.rpartition("/")[0] for change in changes}):
                self.files.sweep(folder)
            head = self.location.git.query("symbolic-ref", "--quiet", "HEAD") or "HEAD"
            if head == ref and self._oid(ref) == after:
                self._update_checkout(before, changes)
        self._journal.remove()

    def _update_checkout(self, before: str, changes: tuple[FileChange, ...]) -> None:
        state = self._checkout_state(before, changes)
        pending = [change for change in changes if change.is_before(state.files[change.path])]
        for change in pending:
            if change.after is None:
                self.files.remove(change.path)
        written = [(change.path, change.after.oid) for change in pending if change.after is not None]
        contents = read_blobs(self.location.git, [oid for _, oid in written])
        self.files.write_all(zip([path for path, _ in written], contents, strict=True))
        self._stage([change for change in changes if change.is_before(state.index[change.path])])

    def _stage(self, changes: list[FileChange]) -> None:
        """Set these entries of the index, then refresh the file times in it, which keeps later git commands fast.

        Not quietly: with `-q` git does not say either that the index is locked.
        """
        zeros = "0" * len(blob_oid(b"", self.location.object_format))
        lines = [
            f"{change.after.mode} {change.after.oid}\t{change.path}\0"
            if change.after
            else f"0 {zeros}\t{change.path}\0"
            for change in changes
        ]
        git = without_filters(self.location.git)
        git.run("update-index", "-z", "--index-info", data=(line.encode("utf-8", "surrogateescape") for line in lines))
        git.run("update-index", "--refresh", accept=(0, 1))

    # -- lock and journal --------------------------------------------------------------------------------------------

    @property
    def _journal(self) -> "CommitJournal":
        return CommitJournal(folder=self.location.git_dir / "reconciler")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of this working tree. The system releases it when the process ends, even by a crash."""
        folder = self._journal.folder
        try:
            folder.mkdir(exist_ok=True)
            lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise RepositoryError(f"{folder} cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise RepositoryError(
                "another reconciler is committing to this repository", hint="wait for it to finish"
            ) from error
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # also for processes that were forked meanwhile: they share it
            os.close(lock)


class CommitJournal(Struct, frozen=True, kw_only=True):
    """The move of a branch: written before it moves, removed when the working tree is updated."""

    folder: Path

    @property
    def path(self) -> Path:
        """The file; it exists only while a commit is in progress or was interrupted."""
        return self.folder / "commit"

    def write(self, ref: str, before: str, after: str) -> None:
        """Write the entry so that it is complete or absent after a loss of power."""
        temporary = self.folder / "commit.new"
        with temporary.open("wb") as file:
            file.write(f"{before} {after} {ref}\n".encode("utf-8", "surrogateescape"))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path)

    def read(self) -> tuple[str, str, str] | None:
        """Return (ref, before, after); None if no commit was interrupted."""
        try:
            before, after, ref = self.path.read_text("utf-8", "surrogateescape").rstrip("\n").split(" ", 2)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise RepositoryError(f"{self.path} is damaged", hint="remove it, and check `git status`") from error
        return ref, before, after

    def remove(self) -> None:
        """Remove the entry."""
        self.path.unlink(missing_ok=True)
