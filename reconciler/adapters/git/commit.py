"""One commit on a branch: objects first, then the branch by compare-and-swap, then the files of the working tree.

A crash before the branch moves leaves nothing but unreachable objects. A crash after it leaves a journal in the
repository's own folder, and the next commit brings the working tree and the index up to date before anything else.
What a user has edited meanwhile is left as it is: only files that still are as they were committed are replaced.
"""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from msgspec import Struct

from reconciler.adapters.git.blobs import read_blobs
from reconciler.adapters.git.command import printable
from reconciler.adapters.git.drafting import Step, import_commit, steps_of
from reconciler.adapters.git.filters import without_filters
from reconciler.adapters.git.location import Location, branch_ref
from reconciler.adapters.git.objects import blob_oid, parse_changes, parse_unmerged
from reconciler.adapters.git.worktree import Found, WorkTree
from reconciler.errors import ReconcilerError, RepositoryError, StalePlan, UnsafePlan
from reconciler.ports import Draft, Entry

_UNDER_WAY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
_OTHER = Entry("000000", "")  # neither absent nor a file: a conflict, a folder, a link
_DIFF = ("diff-index", "-z", "--raw", "--no-renames", "--ignore-submodules=dirty")
_SHOWN = 5


class Standing(Struct, frozen=True, kw_only=True):
    """What the working tree and the index hold at each path of a commit; only the ids of files are compared."""

    files: Mapping[str, Entry | None]
    index: Mapping[str, Entry | None]


class Committing(Struct, frozen=True, kw_only=True):
    """Makes commits in one repository, one at a time."""

    at: Location
    files: WorkTree

    def commit(self, draft: Draft) -> str | None:
        """Make one commit; None where it would change nothing. Errors are those of `Repository.commit`."""
        with self._alone():
            self._recover()
            head = self.at.git.ask("symbolic-ref", "--quiet", "HEAD") or "HEAD"
            ref = head if draft.branch is None else branch_ref(self.at.git, draft.branch)
            if ref == head:
                return self._in_place(draft, ref)
            return self._elsewhere(draft, ref)

    def _in_place(self, draft: Draft, ref: str) -> str | None:
        now = self._oid(ref)
        if now != draft.parent:
            raise StalePlan(f"{ref} is at {now or 'no commit'} and not at {draft.parent}", hint="plan again")
        steps = steps_of(self.at, draft)
        if not steps:
            return None
        self._refuse_while_busy()
        self._refuse_lost_edits(draft.parent, steps)
        oid = import_commit(self.at, draft, steps)
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

    def _elsewhere(self, draft: Draft, ref: str) -> str | None:
        if place := self.at.git.ask("for-each-ref", "--format=%(worktreepath)", ref):
            raise UnsafePlan(f"{ref} is checked out at {printable(place)}", hint="commit there, or name another branch")
        now = self._oid(ref)
        if now != draft.replaces:
            raise StalePlan(
                f"{ref} is at {now or 'no commit'} and not at {draft.replaces or 'no commit'}", hint="plan again"
            )
        steps = steps_of(self.at, draft)
        if not steps:
            return None
        oid = import_commit(self.at, draft, steps)
        if now and self._shape(now) == self._shape(oid):
            return None
        self._move(ref, oid, now)
        return oid

    def _shape(self, commit: str) -> list[str | None]:
        """Tree and first parent: what makes two commits the same but for their words and dates."""
        return [self.at.git.ask("rev-parse", "--verify", "--quiet", commit + part) for part in ("^{tree}", "^1", "^2")]

    def _oid(self, ref: str) -> str | None:
        return self.at.git.ask("rev-parse", "--verify", "--quiet", "--end-of-options", ref + "^{commit}")

    def _move(self, ref: str, new: str, old: str | None) -> None:
        """Move the branch if it is still where it was. Raises `StalePlan` if it is not."""
        expected = old or "0" * len(new)
        try:
            self.at.git.run("update-ref", "--no-deref", "-m", "reconciler: commit", ref, new, expected)
        except RepositoryError as error:
            if "but expected" in error.message or "reference already exists" in error.message:
                raise StalePlan(f"{ref} has moved while the commit was made", hint="plan again") from error
            raise

    # -- the working tree and the index ------------------------------------------------------------------------------

    def _refuse_while_busy(self) -> None:
        for name in _UNDER_WAY:
            if (self.at.git_dir / name).exists():
                raise UnsafePlan(f"a merge or rebase is under way ({name})", hint="finish or abort it first")
        if (self.at.git_dir / "index.lock").exists():
            hint = "another git is at work here; wait for it, or remove the lock if it is left from a crash"
            raise RepositoryError("the index is locked", hint=hint)

    def _refuse_lost_edits(self, parent: str, steps: tuple[Step, ...]) -> None:
        standing = self._standing(parent, steps)
        removed = {step.path for step in steps if step.after is None}

        @cache
        def blocked(folder: str) -> bool:
            return self.files.blocked(f"{folder}/any", removed)

        lost = [
            step.path
            for step in steps
            if not step.fits(standing.files[step.path])
            or not step.fits(standing.index[step.path])
            or (step.after is not None and "/" in step.path and blocked(step.path.rpartition("/")[0]))
        ]
        if lost:
            names = ", ".join(printable(path) for path in lost[:_SHOWN])
            more = f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
            hint = "commit or stash them, or undo them with `git restore --staged --worktree -- PATH`"
            raise UnsafePlan(f"uncommitted edits would be lost: {names}{more}", hint=hint)

    def _standing(self, commit: str, steps: tuple[Step, ...]) -> Standing:
        """Look at every path. Files that git knows to be as committed are not read again."""
        git = without_filters(self.at.git)
        tops = sorted({step.path.partition("/")[0] for step in steps})
        staged, lying = (git.run(*_DIFF, *option, commit, "--", *tops) for option in (("--cached",), ()))
        index = {path: after for path, (_, after) in parse_changes(staged, "").items()}
        index |= dict.fromkeys(parse_unmerged(staged), _OTHER)
        touched = {*parse_changes(lying, ""), *parse_unmerged(lying), *index}
        unsure = [step.path for step in steps if step.before is None or step.path in touched]
        seen = {path: self._entry(found) for path, found in zip(unsure, self.files.read_all(unsure), strict=True)}
        return Standing(
            files={step.path: seen.get(step.path) if step.path in seen else step.before for step in steps},
            index={step.path: index.get(step.path, step.before) for step in steps},
        )

    def _entry(self, found: Found | None) -> Entry | None:
        if found is None:
            return None
        entry = Entry(found.mode, blob_oid(found.data, self.at.object_format))
        return entry if entry.is_file else _OTHER

    def _recover(self) -> None:
        """Bring files and index to a commit that the journal names, if the branch has got there and is still there."""
        entry = self._journal.read()
        if entry is None:
            return
        ref, before, after = entry
        if self._oid(before) and self._oid(after):  # or else so much time has passed that git has thrown them away
            listing = self.at.git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", before, after, "--")
            changes = parse_changes(listing, "").items()
            steps = tuple(Step(path=path, before=old, after=new) for path, (old, new) in changes)
            for folder in sorted({step.path.rpartition("/")[0] for step in steps}):
                self.files.sweep(folder)
            head = self.at.git.ask("symbolic-ref", "--quiet", "HEAD") or "HEAD"
            if head == ref and self._oid(ref) == after:
                self._bring_up(before, steps)
        self._journal.remove()

    def _bring_up(self, before: str, steps: tuple[Step, ...]) -> None:
        standing = self._standing(before, steps)
        due = [step for step in steps if step.is_before(standing.files[step.path])]
        for step in due:
            if step.after is None:
                self.files.remove(step.path)
        written = [(step.path, step.after.oid) for step in due if step.after is not None]
        contents = read_blobs(self.at.git, [oid for _, oid in written])
        self.files.write_all(zip([path for path, _ in written], contents, strict=True))
        self._stage([step for step in steps if step.is_before(standing.index[step.path])])

    def _stage(self, steps: list[Step]) -> None:
        """Set entries of the index and nothing else there; then let git note the files' times, so that it is quick."""
        zeros = "0" * len(blob_oid(b"", self.at.object_format))
        lines = [
            f"{step.after.mode} {step.after.oid}\t{step.path}\0" if step.after else f"0 {zeros}\t{step.path}\0"
            for step in steps
        ]
        git = without_filters(self.at.git)
        git.run("update-index", "-z", "--index-info", data=(line.encode("utf-8", "surrogateescape") for line in lines))
        git.run("update-index", "-q", "--refresh", accept=(0, 1))

    # -- one at a time, and what is left for the next one ------------------------------------------------------------

    @property
    def _journal(self) -> "Journal":
        return Journal(folder=self.at.git_dir / "reconciler")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of this working tree; the system releases it when the process ends, however it ends."""
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
            raise RepositoryError("another reconciler commits here at this moment", hint="wait for it") from error
        finally:
            os.close(lock)


class Journal(Struct, frozen=True, kw_only=True):
    """Where a branch goes: written before it moves, removed when the working tree has followed."""

    folder: Path

    @property
    def path(self) -> Path:
        """The file; it is there only while a commit is under way or was interrupted."""
        return self.folder / "commit"

    def write(self, ref: str, before: str, after: str) -> None:
        """Write it so that it is there whole after a loss of power."""
        aside = self.folder / "commit.new"
        with aside.open("wb") as file:
            file.write(f"{before} {after} {ref}\n".encode("utf-8", "surrogateescape"))
            file.flush()
            os.fsync(file.fileno())
        aside.replace(self.path)

    def read(self) -> tuple[str, str, str] | None:
        """Return (ref, before, after), or None where nothing was interrupted."""
        try:
            before, after, ref = self.path.read_text("utf-8", "surrogateescape").rstrip("\n").split(" ", 2)
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise RepositoryError(f"{self.path} is damaged", hint="remove it, and look at `git status`") from error
        return ref, before, after

    def remove(self) -> None:
        """Say that nothing is under way any more."""
        self.path.unlink(missing_ok=True)
