"""`GitRepository`: the `Repository` port over git's plumbing."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from reconciler.adapters.git.blobs import read_blobs, read_header
from reconciler.adapters.git.command import Git, printable
from reconciler.adapters.git.filters import ask_filters, without_filters
from reconciler.adapters.git.location import Location, branch_ref, locate
from reconciler.adapters.git.objects import blob_oid, parse_changes, parse_commit, parse_tree, parse_unmerged, text_of
from reconciler.adapters.git.running import Running
from reconciler.adapters.git.worktree import WorkTree
from reconciler.errors import RepositoryError
from reconciler.ports import Commit, Draft, Entry, Tree

LARGEST_FILE = 16 << 20  # bytes; far over what the reader takes, so that it is the one to refuse
_OID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REMOTE = "refs/remotes/origin/"
_UPSTREAM = (
    "for-each-ref",
    "--format=%(refname) %(symref)",
    *(f"{_REMOTE}{name}" for name in ("HEAD", "main", "master")),
)
_FILTERS: tuple[tuple[str, ...], bytes] = (("filters",), b"")
_REVISION = re.compile(r"(?!-)[^\s\x00-\x1f\x7f]+")


class GitRepository:
    """A repository on disk. Nothing is kept open between calls; contents of changed files are kept in memory.

    So are listings of commits: what an id names never changes, and both sides of a plan are often the same commit.
    """

    def __init__(self, location: Location, *, largest_file: int = LARGEST_FILE) -> None:
        self._at = location
        self._git = location.git
        self._largest = largest_file
        self._files = WorkTree(top=location.top)
        self._contents: dict[str, bytes] = {}
        self._listings: dict[tuple[str, ...], Tree] = {}
        self._looks: dict[tuple[str, ...], tuple[Running, Running]] = {}
        self._begun: dict[tuple[tuple[str, ...], bytes], Running] = {}

    @classmethod
    def open(cls, folder: Path, *, environ: Mapping[str, str], largest_file: int = LARGEST_FILE) -> "GitRepository":
        """Find the repository around a folder. `environ` is the user's environment."""
        return cls(locate(folder, environ), largest_file=largest_file)

    @property
    def root(self) -> Path:
        """The folder that all paths are below."""
        return self._at.root

    @property
    def object_format(self) -> str:
        """`sha1` or `sha256`."""
        return self._at.object_format

    @property
    def is_shallow(self) -> bool:
        """History is cut."""
        return self._at.is_shallow

    def head_branch(self) -> str | None:
        """Name of the checked-out branch; None with a detached HEAD."""
        name = self._git.ask("symbolic-ref", "--quiet", "HEAD")
        return name.removeprefix("refs/heads/") if name else None

    def branch(self, name: str) -> Commit | None:
        """Return the tip of a local branch."""
        ref = branch_ref(self._git, name)
        known = self._git.ask("rev-parse", "--verify", "--quiet", "--end-of-options", ref)
        return None if known is None else self.resolve(known)

    def resolve(self, revision: str) -> Commit:
        """Find a commit. A name that means two things, or that could be read as an option, is refused."""
        if not _REVISION.fullmatch(revision):
            raise RepositoryError(
                f"{printable(revision)!r} is no revision",
                hint="name a branch, a tag or a commit id, such as HEAD or main",
            )
        output = io.BytesIO(self._answer("cat-file", "--batch", data=_question(revision)))
        oid, kind, size = read_header(output)
        raw = output.read(int(size)) if kind == "commit" else b""
        if kind == "commit":
            self._refuse_ambiguous(revision)
            return parse_commit(oid, raw)
        if kind == "ambiguous":
            raise RepositoryError(f"{printable(revision)!r} is the beginning of several ids", hint="write more of it")
        raise self._unknown(revision)

    def _answer(self, *arguments: str, data: bytes = b"") -> bytes:
        """Return what git prints; it may have begun already."""
        begun = self._begun.pop((arguments, data), None)
        if begun is not None:
            return begun.output()
        return self._git.run(*arguments, data=(data,) if data else ())

    def _unknown(self, revision: str) -> RepositoryError:
        if self._git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
            return RepositoryError(
                "the repository has no commits yet", hint="commit something first: git add -A && git commit"
            )
        hint = (
            "the clone is shallow: `git fetch --unshallow`" if self.is_shallow else "see `git branch -a` and `git tag`"
        )
        return RepositoryError(f"there is no commit {printable(revision)!r}", hint=hint)

    def _refuse_ambiguous(self, revision: str) -> None:
        """Git itself takes the tag where a branch has the same name, with a warning that nobody sees."""
        name = re.split(r"[~^@:]", revision, maxsplit=1)[0]
        if not name or name == "HEAD" or name.startswith("refs/") or _OID.fullmatch(name):
            return
        places = [f"refs/{name}", f"refs/tags/{name}", f"refs/heads/{name}", f"refs/remotes/{name}"]
        found = (
            self._git.run("for-each-ref", "--format=%(refname)", *places).decode("utf-8", "surrogateescape").split("\n")
        )
        meant = [place for place in places if place in found]
        if len(meant) > 1:
            raise RepositoryError(
                f"{printable(name)!r} is both {' and '.join(meant)}", hint=f"write the full name, such as {meant[-1]}"
            )

    def merge_base(self, one: str, other: str) -> str | None:
        """Find the best common ancestor of two commit ids."""
        return self._git.ask("merge-base", _id(one), _id(other))

    def last_change(self, commit: str, path: str) -> str | None:
        """Find the newest commit that changed anything at or below a path."""
        return self._git.ask("rev-list", "--max-count=1", _id(commit), "--", *self._at.outer((path,)))

    def upstream_default(self) -> str | None:
        """`refs/remotes/origin/HEAD`'s target, or else `main`, or else `master` there."""
        refs = dict(line.split(" ", 1) for line in text_of(self._answer(*_UPSTREAM)).splitlines())
        if target := refs.get(f"{_REMOTE}HEAD"):
            return target
        return next((name for name in (f"{_REMOTE}main", f"{_REMOTE}master") if name in refs), None)

    def tree(self, commit: str, paths: Sequence[str] = ()) -> Tree:
        """Files of a commit id."""
        arguments = self._tree_listing(commit, paths)
        if arguments not in self._listings:
            self._listings[arguments] = parse_tree(self._git.run(*arguments), self._at.prefix)
        return self._listings[arguments]

    def _tree_listing(self, commit: str, paths: Sequence[str]) -> tuple[str, ...]:
        return ("ls-tree", "-r", "-z", "--full-tree", _id(commit), "--", *self._at.outer(tuple(paths)))

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
            *self._at.outer(tuple(paths)),
        )
        return parse_changes(listing, self._at.prefix)

    def changed_since(self, commit: str | None, paths: Sequence[str] = ()) -> Mapping[str, Entry | None]:
        """Compare the working tree with a commit. Only files that git finds changed are read."""
        base = self._empty_tree() if commit is None else _id(commit)
        tracked, untracked = (
            self._looks.pop((base, *paths)) if (base, *paths) in self._looks else self._look(base, paths)
        )
        return self._differences(tracked.output(), untracked.output())

    @cached_property
    def _unfiltered(self) -> Git:
        return without_filters(self._git, self._begun.pop(_FILTERS, None))

    def begin(self) -> None:
        """Let git find out, all at once, what every plan of a working tree asks first; each answer serves once."""
        for arguments, data in ((("cat-file", "--batch"), _question("HEAD")), (_UPSTREAM, b"")):
            self._begun[arguments, data] = Running(self._git, *arguments, data=data)
        self._begun[_FILTERS] = ask_filters(self._git)

    def anticipate(self, paths: Sequence[str], *, head: str) -> None:
        """Let git look over the working tree while the caller does something else; `changed_since` asks for it."""
        if (head, *paths) not in self._looks:
            self._looks[(head, *paths)] = self._look(head, paths)

    def let_go(self) -> None:
        """End every git whose answer nobody has asked for."""
        for running in (*self._begun.values(), *(one for look in self._looks.values() for one in look)):
            running.drop()
        self._begun, self._looks = {}, {}

    def _look(self, base: str, paths: Sequence[str]) -> tuple[Running, Running]:
        """Let two gits look at the same time for what differs from a commit, and for what is new."""
        wanted = self._at.outer(tuple(paths))
        git = self._unfiltered
        differing = ("diff-index", "-z", "--raw", "--no-renames", "--ignore-submodules=dirty", base, "--", *wanted)
        new = ("ls-files", "-z", "--others", "--exclude-standard", "--", *wanted)
        return Running(git, *differing, modest=True), Running(git, *new, modest=True)

    def _differences(self, tracked: bytes, untracked: bytes) -> dict[str, Entry | None]:
        prefix = self._at.prefix
        zeros = "0" * len(blob_oid(b"", self.object_format))
        found: dict[str, Entry | None] = {}
        unread = parse_unmerged(tracked)
        for path, (_, after) in parse_changes(tracked, prefix).items():
            found[path] = after
            if after is not None and after.oid == zeros:
                unread.append(prefix + path)
        for path in (*unread, *(path for path in text_of(untracked).split("\0") if path)):
            if path.startswith(prefix):
                found[path[len(prefix) :].rstrip("/")] = self._entry(path.rstrip("/"))
        return found

    def _entry(self, path: str) -> Entry | None:
        """Read a file of the working tree, keep its content, and return its entry."""
        there = self._files.read(path, self._largest + 1)
        if there is None:
            return None
        oid = blob_oid(there.data, self.object_format)
        entry = Entry(there.mode, oid)
        if entry.is_file:
            self._contents[oid] = there.data
        return entry

    def work_file(self, path: str) -> Entry | None:
        """Look at one path of the working tree without asking git."""
        return self._entry(self._at.prefix + path)

    def work_tree(self, paths: Sequence[str] = (), *, head: str | None = None) -> Tree:
        """List the working tree: the commit that is checked out, and what differs from it."""
        head = head or self._git.ask("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
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
        return text_of(self._git.run("hash-object", "-t", "tree", "--stdin")).strip()

    def read(self, oids: Iterable[str]) -> Iterator[bytes]:
        """Contents by id, in order, by one process."""
        wanted = [_id(oid) for oid in oids]
        stored = read_blobs(self._git, [oid for oid in wanted if oid not in self._contents], self._largest + 1)
        for oid in wanted:
            kept = self._contents.get(oid)
            yield next(stored) if kept is None else kept
        for _ in stored:  # lets git end in peace
            raise AssertionError

    def commit(self, draft: Draft) -> str | None:
        """Make one commit; finish first what a crash has interrupted."""
        from reconciler.adapters.git.commit import Committing  # noqa: PLC0415 - who only looks must not wait for it

        return Committing(at=self._at, files=self._files).commit(draft)


def _question(revision: str) -> bytes:
    return f"{revision}^{{commit}}\n".encode("utf-8", "surrogateescape")


def _id(oid: str) -> str:
    """Refuse anything but a whole object id: what reaches git's arguments is never a name."""
    if not _OID.fullmatch(oid):
        raise RepositoryError(f"{printable(oid)!r} is no object id")
    return oid
