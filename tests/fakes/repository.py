"""A repository in memory that behaves like the real one: for tests that need no git."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from reconciler.errors import RepositoryError, StalePlan, UnsafePlan
from reconciler.kube.values import plural
from reconciler.repo.port import Commit, Draft, Entry, Tree


class MemoryRepository:
    """Commits as mappings of contents; `work` is the working tree, free to be edited."""

    root = Path("/memory")
    object_format = "sha1"
    is_shallow = False

    def __init__(self) -> None:
        self.work: dict[str, bytes] = {}
        self.branches: dict[str, str] = {}
        self.current: str | None = "main"
        self.detached = ""
        self._commits: dict[str, Commit] = {}
        self._trees: dict[str, dict[str, bytes]] = {}
        self._blobs: dict[str, bytes] = {}
        self._compared: dict[tuple[str | None, ...], Mapping[str, Entry | None]] = {}

    def save(self, files: Mapping[str, bytes | None], message: str = "change") -> str:
        """Edit the working tree and commit all of it."""
        for path, data in files.items():
            if data is None:
                del self.work[path]
            else:
                self.work[path] = data
        head = self._head()
        oid = self._add(dict(self.work), (head,) if head else (), message)
        self._move(oid)
        return oid

    def head_branch(self) -> str | None:
        """Name of the checked-out branch."""
        return self.current

    def is_unborn(self) -> bool:
        """Tell whether nothing was committed on the current branch."""
        return not self._head()

    def branch(self, name: str) -> Commit | None:
        """Return the tip of a branch."""
        oid = self.branches.get(name)
        return self._commits[oid] if oid else None

    def resolve(self, revision: str) -> Commit:
        """Know HEAD, branches by short and full name, and ids."""
        oid = self._head() if revision == "HEAD" else self.branches.get(revision.removeprefix("refs/heads/"), revision)
        if oid not in self._commits:
            raise RepositoryError(f"there is no commit {revision!r}", hint="see `git branch -a`")
        return self._commits[oid]

    def merge_base(self, one: str, other: str) -> str | None:
        """Find the nearest common ancestor."""
        known = set(self._ancestors(one))
        return next((oid for oid in self._ancestors(other) if oid in known), None)

    def merge(self, one: str, other: str) -> str:
        """Merge file by file: a file that both sides edit is a conflict."""
        start = self._trees[self.merge_base(one, other) or ""]
        ours, theirs = self._trees[one], self._trees[other]
        merged = dict(ours)
        conflicts = []
        for path in sorted({*start, *ours, *theirs}):
            if theirs.get(path) == start.get(path) or theirs.get(path) == ours.get(path):
                continue
            if ours.get(path) != start.get(path):
                conflicts.append(path)
            merged[path] = theirs.get(path, b"")
            if path not in theirs:
                del merged[path]
        if conflicts:
            raise StalePlan(f"the merge has conflicts in {plural(len(conflicts), 'file')}: {', '.join(conflicts)}")
        tree = hashlib.sha1(repr(sorted(merged.items())).encode(), usedforsecurity=False).hexdigest()
        self._trees[tree] = merged
        return tree

    def last_change(self, commit: str, path: str) -> str | None:
        """Compare each commit with its first parent."""
        for oid in self._ancestors(commit):
            before = self.tree(parents[0], (path,)) if (parents := self._commits[oid].parents) else {}
            if self.tree(oid, (path,)) != before:
                return oid
        return None

    def identity(self, commit: str) -> str:
        """Follow the first parents."""
        while parents := self._commits[commit].parents:
            commit = parents[0]
        return commit

    @property
    def prefix(self) -> str:
        """Be at the top."""
        return ""

    def whole(self) -> "MemoryRepository":
        """Be at the top."""
        return self

    def upstream_default(self) -> str | None:
        """Know no upstream."""
        return None

    def tree(self, commit: str, paths: Sequence[str] = ()) -> Tree:
        """List a commit."""
        return self._list(self._trees[commit], paths)

    def work_file(self, path: str) -> Entry | None:
        """Look at one path of the working tree."""
        return self.work_tree((path,)).get(path)

    def work_tree(self, paths: Sequence[str] = (), *, head: str | None = None) -> Tree:  # noqa: ARG002 - the port's
        """List the working tree."""
        return self._list(self.work, paths)

    def changed(
        self, before: str, after: str, paths: Sequence[str] = ()
    ) -> Mapping[str, tuple[Entry | None, Entry | None]]:
        """Compare two commits."""
        return _compare(self.tree(before, paths), self.tree(after, paths))

    def changed_since(self, commit: str | None, paths: Sequence[str] = ()) -> Mapping[str, Entry | None]:
        """Compare the working tree with a commit."""
        found = self._compared.pop((commit, *paths), None)
        return self._changed_since(commit, paths) if found is None else found

    def _changed_since(self, commit: str | None, paths: Sequence[str]) -> Mapping[str, Entry | None]:
        before = self.tree(commit, paths) if commit else {}
        return {path: after for path, (_, after) in _compare(before, self.work_tree(paths)).items()}

    @contextmanager
    def comparing(self, commit: str | None, paths: Sequence[str] = ()) -> Iterator[None]:
        """Compare the working tree at the end of the context."""
        yield
        self._compared[commit, *paths] = self._changed_since(commit, paths)

    def read(self, oids: Iterable[str]) -> Iterator[bytes]:
        """Return contents by id."""
        for oid in oids:
            if oid not in self._blobs:
                raise RepositoryError(f"object {oid} is missing or damaged")
            yield self._blobs[oid]

    def hold(self, content: bytes) -> str:
        """Keep a content beside the commits."""
        oid = hashlib.sha1(b"blob %d\0%s" % (len(content), content), usedforsecurity=False).hexdigest()
        self._blobs[oid] = content
        return oid
        return self._blob(content)

    def commit(self, draft: Draft) -> str | None:
        """Make one commit."""
        in_place = draft.branch is None or draft.branch == self.current
        now = self._head() if in_place else self.branches.get(draft.branch or "")
        if now != (draft.parent if in_place else draft.replaces):
            raise StalePlan("the branch has moved", hint="plan again")
        before = self._trees[draft.parent]
        changes = {path: data for path, data in draft.files.items() if before.get(path) != data}
        if not changes:
            return None
        if in_place and any(self.work.get(path) not in (before.get(path), data) for path, data in changes.items()):
            raise UnsafePlan("uncommitted edits would be lost")
        after = {path: data for path, data in (before | changes).items() if data is not None}
        if not in_place and now and self._trees[now] == after and self._commits[now].parents == (draft.parent,):
            return None
        oid = self._add(after, (draft.parent,), draft.message)
        if not in_place:
            self.branches[draft.branch or ""] = oid
            return oid
        self._move(oid)
        work = {path: data for path, data in (self.work | changes).items() if data is not None}
        self.work.clear()
        self.work.update(work)
        return oid

    def _head(self) -> str:
        return self.detached if self.current is None else self.branches.get(self.current, "")

    def _move(self, oid: str) -> None:
        if self.current is None:
            self.detached = oid
        else:
            self.branches[self.current] = oid

    def _add(self, files: dict[str, bytes], parents: tuple[str, ...], message: str) -> str:
        tree = hashlib.sha1(repr(sorted(files.items())).encode(), usedforsecurity=False).hexdigest()
        oid = hashlib.sha1(repr((tree, parents, message)).encode(), usedforsecurity=False).hexdigest()
        self._trees[oid] = files
        self._commits[oid] = Commit(
            oid=oid,
            tree=tree,
            committed_at="2025-06-15T17:06:40+02:00",
            subject=message.partition("\n")[0],
            message=message,
            parents=parents,
        )
        return oid

    def _ancestors(self, oid: str) -> Iterator[str]:
        waiting = [oid]
        while waiting:
            yield (now := waiting.pop(0))
            waiting += self._commits[now].parents

    def _list(self, files: Mapping[str, bytes], paths: Sequence[str]) -> dict[str, Entry]:
        wanted = [
            path for path in files if not paths or any(path == top or path.startswith(f"{top}/") for top in paths)
        ]
        listed = {}
        for path in wanted:
            data = files[path]
            oid = hashlib.sha1(b"blob %d\0%s" % (len(data), data), usedforsecurity=False).hexdigest()
            self._blobs[oid] = data
            listed[path] = Entry("100644", oid)
        return listed


def _compare(before: Tree, after: Tree) -> dict[str, tuple[Entry | None, Entry | None]]:
    return {
        path: (before.get(path), after.get(path)) for path in {*before, *after} if before.get(path) != after.get(path)
    }
