"""A draft against its parent: which files really change, and the objects of the new commit."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from reconciler.adapters.git.command import printable
from reconciler.adapters.git.location import Location
from reconciler.adapters.git.objects import blob_oid, parse_tree, text_of
from reconciler.adapters.git.worktree import checked
from reconciler.errors import ConfigError, RepositoryError, UnsafePlan
from reconciler.ports import Draft, Entry

_REF = "refs/reconciler/draft"  # fast-import wants a name; it is reset before the end, so that none is made


class Step(Struct, frozen=True, kw_only=True):
    """One file that a commit changes. The path is below the top of the repository."""

    path: str
    before: Entry | None
    after: Entry | None

    def is_before(self, there: Entry | None) -> bool:
        """Whether a file or an index entry is as it was before the commit."""
        return _same(there, self.before)

    def fits(self, there: Entry | None) -> bool:
        """Whether nothing is lost: as before the commit, or as after it."""
        return _same(there, self.before) or _same(there, self.after)


def _same(one: Entry | None, other: Entry | None) -> bool:
    return (one and one.oid) == (other and other.oid)


def steps_of(at: Location, draft: Draft) -> tuple[Step, ...]:
    """Compare a draft with its parent. Raises `UnsafePlan` where a file would have to make room for a folder."""
    files = {at.prefix + path: data for path, data in draft.files.items()}
    tops = sorted({checked(path)[0] for path in files})
    tree = parse_tree(at.git.run("ls-tree", "-r", "-z", "--full-tree", draft.parent, "--", *tops), "") if tops else {}
    _refuse_replaced_folders(tree, files)
    steps = []
    for path, data in sorted(files.items()):
        before = tree.get(path)
        mode = before.mode if before is not None and before.is_file else "100644"
        after = None if data is None else Entry(mode, blob_oid(data, at.object_format))
        if before != after:
            steps.append(Step(path=path, before=before, after=after))
    return tuple(steps)


def _refuse_replaced_folders(tree: Mapping[str, Entry], files: Mapping[str, bytes | None]) -> None:
    written = {path for path, data in files.items() if data is not None}
    staying = tree.keys() - (files.keys() - written)
    folders = {folder for path in (*staying, *written) for folder in _folders(path)}
    if clash := sorted(folders & (staying | written)):
        raise UnsafePlan(f"{printable(clash[0])} would be both a file and a folder", hint="rename one of them")


def _folders(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def import_commit(at: Location, draft: Draft, steps: tuple[Step, ...]) -> str:
    """Write the commit and all its objects, and return its id. No branch moves."""
    author, committer = _identity(at, "AUTHOR"), _identity(at, "COMMITTER")
    answer = at.git.run(
        "fast-import", "--quiet", "--done", "--date-format=raw", data=_stream(at, draft, steps, author, committer)
    )
    oid = text_of(answer).strip()
    if len(oid) != len(draft.parent):
        raise RepositoryError("git fast-import returned no commit")
    return oid


def _stream(at: Location, draft: Draft, steps: tuple[Step, ...], author: bytes, committer: bytes) -> Iterator[bytes]:
    """Write what fast-import reads: deletions first, so that a folder may take the place of a deleted file."""
    message = draft.message.encode("utf-8", "surrogateescape")
    yield b"commit %s\nmark :1\nauthor %s\ncommitter %s\n" % (_REF.encode(), author, committer)
    yield b"data %d\n%s\nfrom %s\n" % (len(message), message, draft.parent.encode())
    for step in steps:
        if step.after is None:
            yield b"D %s\n" % _quoted(step.path)
    for step in steps:
        data = draft.files[step.path[len(at.prefix) :]]
        if step.after is not None and data is not None:
            yield b"M %s inline %s\ndata %d\n" % (step.after.mode.encode(), _quoted(step.path), len(data))
            yield data
            yield b"\n"
    yield b"\nget-mark :1\nreset %s\n\ndone\n" % _REF.encode()


def _quoted(path: str) -> bytes:
    escaped = path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'.encode("utf-8", "surrogateescape")


def _identity(at: Location, role: str) -> bytes:
    """Who and when, as the user's settings and environment say; nothing is guessed from the machine's name."""
    code, output, errors = at.git.as_user("-c", "user.useConfigOnly=true", "var", f"GIT_{role}_IDENT")
    if code == 0:
        return output.rstrip(b"\n")
    reason = next((line for line in errors.decode("utf-8", "replace").splitlines() if line.startswith("fatal: ")), "")
    hint = "git config --global user.name NAME; git config --global user.email ADDRESS"
    raise ConfigError(f"no {role.lower()} for the commit: {printable(reason.removeprefix('fatal: '))}", hint=hint)
