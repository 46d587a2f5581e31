"""The two sides of a plan: what is compared, and with what."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from reconciler.core.config import Config, parse_config
from reconciler.core.objects import SourceRef
from reconciler.core.problems import Problem
from reconciler.errors import ConfigError, InvalidInput, OutsideError
from reconciler.ports import Cache, Commit, Entry, Repository
from reconciler.revision.layout import CONFIG_PATH, Files, Layout, folders, layout
from reconciler.revision.listing import Listing
from reconciler.version import __version__

if TYPE_CHECKING:
    from reconciler.core.schemas import Catalogue

WORK_TREE = "working tree"


class Side(Struct, frozen=True, kw_only=True):
    """A revision, or the working tree with its uncommitted changes (`commit` None)."""

    label: str
    commit: Commit | None
    checked_out: Commit | None = None  # of the working tree: the commit it stands on; None before the first

    @property
    def tip(self) -> Commit | None:
        """The commit that this side is, or stands on."""
        return self.commit or self.checked_out

    def file(self, repository: Repository, path: str) -> Entry | None:
        """Look at one file."""
        if self.commit is None:
            return repository.work_file(path)
        return repository.tree(self.commit.oid, (path,)).get(path)


class Layouts:
    """What revisions hold, by role. The files of a commit are remembered; of the next one only what differs is listed.

    `slot` keeps apart what is asked for again and again: a head and its base.
    """

    def __init__(self, repository: Repository, config: Config, memory: Cache) -> None:
        self._repository = repository
        self._config = config
        self._memory = memory
        self._paths = folders(config)
        self._files: dict[str, Files] = {}

    def of(self, side: Side, slot: str) -> Layout:
        """Sort the files of a side by role."""
        tip = side.tip
        if tip is None:
            files = Files.of(self._repository.work_tree(self._paths), self._config.rendered)
        else:
            if tip.tree not in self._files:
                self._files[tip.tree] = self._of_commit(tip, slot)
            files = self._files[tip.tree]
            if side.commit is None:
                changes = self._repository.changed_since(tip.oid, self._paths)
                files = files.changed(changes, self._config.rendered)
        return layout(self._config, files)

    def _of_commit(self, commit: Commit, slot: str) -> Files:
        key = f"listing:{slot}:{self._repository.root}:{self._paths}"
        known = _remembered(self._memory.get(key))
        if known is not None and known.tree == commit.tree:
            return known.files
        files = self._since(known, commit)
        if files is None:
            files = Files.of(self._repository.tree(commit.oid, self._paths), self._config.rendered)
        remembered = _Listed(commit.oid, commit.tree, files.written.text, files.rendered.text, {**files.odd})
        with suppress(UnicodeEncodeError):  # a name that is not UTF-8: such a tree is listed each time
            self._memory.put(key, msgspec.msgpack.encode(remembered))
        return files

    def _since(self, known: "_Listed | None", commit: Commit) -> Files | None:
        """Bring a listing up to another commit; None where git no longer has the commit it is of."""
        if known is None:
            return None
        try:
            changes = self._repository.changed(known.commit, commit.oid, self._paths)
        except OutsideError:
            return None
        return known.files.changed({path: after for path, (_, after) in changes.items()}, self._config.rendered)


class _Listed(Struct, frozen=True, array_like=True):
    commit: str
    tree: str
    written: str
    rendered: str
    odd: dict[str, Entry]

    @property
    def files(self) -> Files:
        return Files(written=Listing(self.written), rendered=Listing(self.rendered), odd=self.odd)


_listed = msgspec.msgpack.Decoder(_Listed)


def _remembered(raw: bytes | None) -> _Listed | None:
    try:
        return _listed.decode(raw) if raw else None
    except msgspec.MsgspecError:
        return None


def head_side(repository: Repository, revision: str) -> Side:
    """Return the side that is planned: a revision, or the working tree where none is named."""
    if revision:
        return Side(label=revision, commit=repository.resolve(revision))
    try:
        return Side(label=WORK_TREE, commit=None, checked_out=repository.resolve("HEAD"))
    except OutsideError:
        return Side(label=WORK_TREE, commit=None)


def base_side(repository: Repository, base: str, head: Side) -> Side | None:
    """Return the side to compare with; None where the repository has no commit yet.

    A named base is met at its merge base with the head, as a pull request's diff is. Without a name it is the merge
    base with the upstream's default branch, or else HEAD.
    """
    tip = head.tip
    if tip is None:
        if base:
            raise OutsideError("the repository has no commits yet", hint="commit something first: git commit")
        return None
    name = base or repository.upstream_default()
    if not name:
        return Side(label="HEAD", commit=head.checked_out or repository.resolve("HEAD"))
    found = repository.merge_base(repository.resolve(name).oid, tip.oid)
    shown = name.removeprefix("refs/remotes/").removeprefix("refs/heads/")
    if found is None:
        hint = "fetch more history: git fetch --unshallow" if repository.is_shallow else "name another base with --base"
        raise OutsideError(f"{shown} and {head.label} have no common ancestor", hint=hint)
    return Side(label=shown, commit=repository.resolve(found))


def read_config(repository: Repository, side: Side, catalogue: Callable[[], "Catalogue"], memory: Cache) -> Config:
    """Read `reconciler.yaml`. Raises `ConfigError` where there is none, `InvalidInput` where it is wrong.

    Remembered by its blob id, so that a run knows its folders before it has imported what parses YAML.
    """
    entry = side.file(repository, CONFIG_PATH)
    if entry is not None and not entry.is_file:
        raise ConfigError(f"{CONFIG_PATH} in {repository.root} is no regular file", hint="commit the file itself")
    if entry is None:
        raise ConfigError(
            f"there is no {CONFIG_PATH} in {repository.root}",
            hint="run inside a config repository, name one with --repo DIR, or make one: reconciler init DIR",
        )
    key = f"config:{__version__}:{entry.oid}"
    if (known := memory.get(key)) is not None:
        with suppress(msgspec.MsgspecError):
            return msgspec.msgpack.decode(known, type=Config)
    config = _parsed(repository, entry, catalogue())
    with suppress(OverflowError, ValueError):  # numbers beyond 64 bits
        memory.put(key, msgspec.msgpack.encode(config))
    return config


def _parsed(repository: Repository, entry: Entry, catalogue: "Catalogue") -> Config:
    from reconciler.core.documents import read  # noqa: PLC0415 - not where the settings are remembered

    (raw,) = repository.read([entry.oid])
    reading = read(CONFIG_PATH, raw)
    problems = list(reading.problems)
    for document in reading.documents:
        problems += catalogue.validate(document)
    configs = [document for document in reading.documents if document.kind == "ReconcilerConfig"]
    if problems or len(configs) != 1 or len(reading.documents) != 1:
        raise InvalidInput(problems or [_misplaced(len(configs))])
    config, found = parse_config(configs[0])
    if config is None:
        raise InvalidInput(found)
    return config


def _misplaced(count: int) -> Problem:
    message = f"contains {count} documents of kind ReconcilerConfig"
    place = SourceRef(path=CONFIG_PATH)
    return Problem(rule="config.count", place=place, message=message, hint="keep exactly one document")
