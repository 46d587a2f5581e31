"""`GitRepository`: the `Repository` port over git's plumbing."""

import io
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from queue import Empty, SimpleQueue

from msgspec.structs import replace
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

from reconciler.errors import OutsideError, RepositoryError, StalePlan, printable
from reconciler.kube.objects import OversizedContent
from reconciler.kube.patterns import later
from reconciler.kube.values import plural
from reconciler.repo.git.command import (
    Git,
    RepositoryLocation,
    branch_ref,
    locate,
    read_listing,
    without_filters,
    without_merge_drivers,
)
from reconciler.repo.git.commit import Committer
from reconciler.repo.git.objects import (
    blob_oid,
    decode_path,
    parse_changes,
    parse_commit,
    parse_tree,
    parse_unmerged,
    read_blobs,
    read_header,
)
from reconciler.repo.git.worktree import WorkTree
from reconciler.repo.port import Commit, Draft, Entry, Tree

# Changes of the files and branches of a checkout, as the operating system reports them.


_QUIET_SECONDS = 0.01
"""Editors and git write a file in several steps: a change is over when nothing else happened for this long."""

_MAX_SECONDS = 1.0
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
    end = time.monotonic() + _MAX_SECONDS
    while time.monotonic() < end:
        try:
            paths.add(changed.get(timeout=_QUIET_SECONDS))
        except Empty:  # what belongs together was written
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


MAX_FILE_BYTES = 3 << 20  # bytes; as `Limits.file_bytes` of kube/yaml, which reports the error

_OID = later(r"[0-9a-f]{40}|[0-9a-f]{64}")  # SHA-1 or SHA-256

_MAX_CONFLICTS = 10  # in one message

_REMOTE = "refs/remotes/origin/"

_UPSTREAM = (
    "for-each-ref",
    "--format=%(refname) %(symref)",
    *(f"{_REMOTE}{name}" for name in ("HEAD", "main", "master")),
)

_REVISION = later(r"(?!-)[^\s\x00-\x1f\x7f]+")  # git would take one with a dash for an option


class GitRepository:
    """A repository on disk. Nothing stays open between calls.

    The contents of changed files are kept in memory, and so are listings of commits, because the tree of a commit never
    changes and both sides of a plan are often the same commit.
    """

    def __init__(self, location: RepositoryLocation, *, largest_file: int = MAX_FILE_BYTES) -> None:
        self._location = location
        self._git = location.git
        self._largest = largest_file
        self._files = WorkTree(top=location.top)
        self._contents: dict[str, bytes] = {}
        self._listings: dict[tuple[str, ...], Tree] = {}
        self._compared: dict[tuple[str | None, ...], Mapping[str, Entry | None]] = {}

    @classmethod
    def open(cls, folder: Path, *, environ: Mapping[str, str], largest_file: int = MAX_FILE_BYTES) -> "GitRepository":
        """Find the repository around a folder. `environ` is the user's environment."""
        return cls(locate(folder, environ), largest_file=largest_file)

    @property
    def root(self) -> Path:
        """The folder that all paths are below."""
        return self._location.root

    @property
    def prefix(self) -> str:
        """The path of the root below the top."""
        return self._location.prefix

    def whole(self) -> "GitRepository":
        """Keep nothing of what was listed below the root."""
        if not self.prefix:
            return self
        return GitRepository(replace(self._location, prefix=""), largest_file=self._largest)

    @property
    def object_format(self) -> str:
        """`sha1` or `sha256`."""
        return self._location.object_format

    @property
    def is_shallow(self) -> bool:
        """History is cut."""
        return self._location.is_shallow

    def head_branch(self) -> str | None:
        """Name of the checked-out branch; None with a detached HEAD."""
        name = self._git.query("symbolic-ref", "--quiet", "HEAD")
        return name.removeprefix("refs/heads/") if name else None

    def is_unborn(self) -> bool:
        """HEAD names a branch, and no loose or packed reference has its name."""
        name = self._git.query("symbolic-ref", "--quiet", "HEAD")
        if name is None or self._git.query("rev-parse", "--verify", "--quiet", name) is not None:
            return False
        path = self._git.run("rev-parse", "--git-path", name).decode("utf-8", "surrogateescape").rstrip("\n")
        return not os.path.lexists(self._git.folder / path)

    def branch(self, name: str) -> Commit | None:
        """Return the tip of a local branch."""
        ref = branch_ref(self._git, name)
        known = self._git.query("rev-parse", "--verify", "--quiet", "--end-of-options", ref)
        return None if known is None else self.resolve(known)

    def resolve(self, revision: str) -> Commit:
        """Find a commit. A name that is ambiguous, or that git could read as an option, is rejected."""
        if not _REVISION.fullmatch(revision):
            raise RepositoryError(
                f"{printable(revision)!r} is not a revision",
                hint="name a branch, a tag or a commit id, such as HEAD or main",
            )
        output = io.BytesIO(self._git.run("cat-file", "--batch", data=(_batch_name(revision),)))
        oid, kind, size = read_header(output)
        raw = output.read(int(size)) if kind == "commit" else b""
        if kind == "commit":
            self._reject_ambiguous(revision)
            return parse_commit(oid, raw)
        if kind == "ambiguous":
            raise RepositoryError(
                f"{printable(revision)!r} is the prefix of several ids", hint="write more characters of the id"
            )
        raise self._unknown(revision)

    def _unknown(self, revision: str) -> RepositoryError:
        if self.is_unborn():
            return RepositoryError(
                "the repository has no commits yet", hint="commit something first: git add -A && git commit"
            )
        hint = "see `git branch -a` and `git tag`"
        if self._git.query("rev-parse", "--verify", "--quiet", f"{_REMOTE}{revision}^{{commit}}"):
            hint = f"did you mean origin/{revision}?"
        elif self.is_shallow:
            hint = "the clone is shallow: `git fetch --unshallow`"
        return RepositoryError(f"commit {printable(revision)!r} not found", hint=hint)

    def _reject_ambiguous(self, revision: str) -> None:
        """Reject a name of both a branch and a tag. Git itself would use the tag and print a warning."""
        name = re.split(r"[~^@:]", revision, maxsplit=1)[0]
        if not name or name == "HEAD" or name.startswith("refs/") or _OID.fullmatch(name):
            return
        places = [f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}", f"refs/remotes/{name}"]
        existing = (
            self._git.run("for-each-ref", "--format=%(refname)", *places).decode("utf-8", "surrogateescape").split("\n")
        )
        matches = [place for place in places if place in existing]
        if len(matches) > 1:
            raise RepositoryError(
                f"{printable(name)!r} is both {' and '.join(matches)}",
                hint=f"write the full name, such as {matches[-1]}",
            )

    def merge_base(self, one: str, other: str) -> str | None:
        """Find the best common ancestor of two commit ids."""
        return self._git.query("merge-base", _id(one), _id(other))

    def merge(self, one: str, other: str) -> str:
        """Merge two commits by `git merge-tree`, which only adds objects. No driver or filter of the user runs."""
        git = without_merge_drivers(self._git)
        options = ("--write-tree", "-z", "--name-only", "--no-messages")
        listing = decode_path(git.run("merge-tree", *options, _id(one), _id(other), accept=(0, 1)))
        tree, *conflicts = (part for part in listing.split("\0") if part)
        if conflicts:
            shown = ", ".join(map(printable, conflicts[:_MAX_CONFLICTS]))
            more = len(conflicts) - _MAX_CONFLICTS
            raise StalePlan(
                f"the merge has conflicts in {plural(len(conflicts), 'file')}: {shown}"
                + (f" and {more} more" if more > 0 else ""),
                hint="merge the base into the branch, resolve the conflicts, and run `reconciler commit`",
            )
        return tree

    def last_change(self, commit: str, path: str) -> str | None:
        """Find the newest commit that changed anything at or below a path."""
        return self._git.query("rev-list", "--max-count=1", _id(commit), "--", *self._location.to_top((path,)))

    def identity(self, commit: str) -> str:
        """Return the first commit of the main line: of a merge, that of its first parent."""
        if self.is_shallow:
            return ""
        first = self._git.query("rev-list", "--first-parent", "--max-parents=0", "--max-count=1", _id(commit))
        folder = self._location.prefix.rstrip("/")
        return f"{first or ''}{f':{folder}' if folder else ''}"

    def upstream_default(self) -> str | None:
        """`refs/remotes/origin/HEAD`'s target, or else `main`, or else `master` there."""
        refs = dict(line.split(" ", 1) for line in decode_path(self._git.run(*_UPSTREAM)).splitlines())
        if target := refs.get(f"{_REMOTE}HEAD"):
            return target
        return next((name for name in (f"{_REMOTE}main", f"{_REMOTE}master") if name in refs), None)

    def tree(self, commit: str, paths: Sequence[str] = ()) -> Tree:
        """Files of a commit id."""
        arguments = self._tree_listing(commit, paths)
        if arguments not in self._listings:
            self._listings[arguments] = parse_tree(self._git.run(*arguments), self._location.prefix)
        return self._listings[arguments]

    def _tree_listing(self, commit: str, paths: Sequence[str]) -> tuple[str, ...]:
        return ("ls-tree", "-r", "-z", "--full-tree", _id(commit), "--", *self._location.to_top(tuple(paths)))

    def changed(
        self, before: str, after: str, paths: Sequence[str] = ()
    ) -> Mapping[str, tuple[Entry | None, Entry | None]]:
        """Compare two commit ids."""
        listing = self._git.run(
            "diff-tree",
            "-r",
            "-z",
            "--raw",
            "--no-renames",
            _id(before),
            _id(after),
            "--",
            *self._location.to_top(tuple(paths)),
        )
        return parse_changes(listing, self._location.prefix)

    def changed_since(self, commit: str | None, paths: Sequence[str] = ()) -> Mapping[str, Entry | None]:
        """Compare the working tree with a commit. Only files that git reports as changed are read."""
        asked = (commit, *paths)
        if asked not in self._compared:
            with self.comparing(commit, paths):
                pass
        return self._compared.pop(asked)

    @contextmanager
    def comparing(self, commit: str | None, paths: Sequence[str] = ()) -> Iterator[None]:
        """Let git compare the working tree with a commit while the block runs: `changed_since` then has the answer."""
        if (commit, *paths) in self._compared:
            yield
            return
        base = self._empty_tree() if commit is None else _id(commit)
        folders = self._location.to_top(tuple(paths))
        differing = ("diff-index", "-z", "--raw", "--no-renames", "--ignore-submodules=dirty", base, "--", *folders)
        new = ("ls-files", "-z", "--others", "--exclude-standard", "--", *folders)
        git = self._unfiltered
        with git.stream(*differing) as tracked, git.stream(*new) as untracked:  # at the same time
            yield
            self._compared[commit, *paths] = self._differences(read_listing(tracked), read_listing(untracked))

    @cached_property
    def _unfiltered(self) -> Git:
        return without_filters(self._git)

    def _differences(self, tracked: bytes, untracked: bytes) -> dict[str, Entry | None]:
        prefix = self._location.prefix
        zeros = "0" * len(blob_oid(b"", self.object_format))
        changes: dict[str, Entry | None] = {}
        unread = parse_unmerged(tracked)
        before: dict[str, Entry | None] = {}
        for path, (committed, after) in parse_changes(tracked, prefix).items():
            changes[path] = after
            if after is None:
                self._files.read(prefix + path, 0)  # git lists a file in a folder that it cannot open as deleted
            if after is not None and after.oid == zeros:
                unread.append(prefix + path)
                before[path] = committed
        for path in (*unread, *(path for path in decode_path(untracked).split("\0") if path)):
            if path.startswith(prefix):
                changes[path[len(prefix) :].rstrip("/")] = self._entry(path.rstrip("/"))
        # git lists a file whose time alone differs
        return {path: entry for path, entry in changes.items() if path not in before or entry != before[path]}

    def _entry(self, path: str) -> Entry | None:
        """Read a file of the working tree, keep its content, and return its entry."""
        state = self._files.read(path, self._largest + 1)
        if state is None:
            return None
        oid = blob_oid(state.data, self.object_format)
        entry = Entry(state.mode, oid)
        if entry.is_file:
            is_whole = len(state.data) <= self._largest
            self._contents[oid] = state.data if is_whole else OversizedContent.of_size(max(state.size, len(state.data)))
        return entry

    def work_file(self, path: str) -> Entry | None:
        """Return one path of the working tree without calling git."""
        return self._entry(self._location.prefix + path)

    def work_tree(self, paths: Sequence[str] = (), *, head: str | None = None) -> Tree:
        """List the working tree: the checked-out commit, and what differs from it."""
        head = head or self._git.query("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        if head is None:
            return {path: entry for path, entry in self.changed_since(None, paths).items() if entry is not None}
        tree = {**self.tree(head, paths)}
        for path, entry in self.changed_since(head, paths).items():
            if entry is None:
                tree.pop(path, None)
            else:
                tree[path] = entry
        return tree

    def _empty_tree(self) -> str:
        return decode_path(self._git.run("hash-object", "-t", "tree", "--stdin")).strip()

    def watching(self) -> AbstractContextManager[Callable[[], tuple[str, ...]]]:
        """Watch the working tree and the branches; yield a function that waits for the next change of paths."""
        return watching(self._location)

    def read(self, oids: Iterable[str]) -> Iterator[bytes]:
        """Yield contents by id, in order, from one process."""
        ids = [_id(oid) for oid in oids]
        stored = read_blobs(self._git, [oid for oid in ids if oid not in self._contents], self._largest)
        for oid in ids:
            kept = self._contents.get(oid)
            yield next(stored) if kept is None else kept
        for _ in stored:  # lets git exit by itself
            raise AssertionError

    def hold(self, content: bytes) -> str:
        """Keep a content in memory, and return the id that a blob of it has."""
        oid = blob_oid(content, self.object_format)
        self._contents[oid] = content
        return oid

    def commit(self, draft: Draft) -> str | None:
        """Make one commit, after finishing one that a crash interrupted."""
        return Committer(location=self._location, files=self._files).commit(draft)


def _batch_name(revision: str) -> bytes:
    return f"{revision}^{{commit}}\n".encode("utf-8", "surrogateescape")


def _id(oid: str) -> str:
    """Reject anything but a complete object id: names never reach git's arguments."""
    if not _OID.fullmatch(oid):
        raise RepositoryError(f"{printable(oid)!r} is not an object id")
    return oid
