"""The two sides of a plan: what is compared, and with what."""

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from reconciler.core.intents.config import Config, parse_config
from reconciler.errors import ConfigError, InvalidInput, OutsideError
from reconciler.pipeline.layout import CONFIG_PATH
from reconciler.ports import Cache, Commit, Entry, Repository, Tree

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

    def tree(self, repository: Repository, paths: tuple[str, ...]) -> Tree:
        """List the files at and below `paths`."""
        if self.commit is None:
            return repository.work_tree(paths, head=self.checked_out.oid if self.checked_out else None)
        return repository.tree(self.commit.oid, paths)

    def file(self, repository: Repository, path: str) -> Entry | None:
        """Look at one file."""
        if self.commit is None:
            return repository.work_file(path)
        return repository.tree(self.commit.oid, (path,)).get(path)


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


def read_config(
    repository: Repository, side: Side, catalogue: Callable[[], "Catalogue"], memory: Cache, engine: str
) -> Config:
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
    key = f"config:{engine}:{entry.oid}"
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


def _misplaced(count: int) -> str:
    return f"{CONFIG_PATH}: holds {count} documents of kind ReconcilerConfig; keep exactly one document [config.count]"
