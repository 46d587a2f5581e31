"""The two sides of a plan: what is compared, and with what."""

from msgspec import Struct

from reconciler.core.documents import read
from reconciler.core.intents.config import Config, parse_config
from reconciler.core.schemas import Catalogue
from reconciler.errors import ConfigError, InvalidInput, OutsideError
from reconciler.pipeline.layout import CONFIG_PATH
from reconciler.ports import Commit, Repository, Tree

WORK_TREE = "working tree"


class Side(Struct, frozen=True, kw_only=True):
    """A revision, or the working tree with its uncommitted changes (`commit` None)."""

    label: str
    commit: Commit | None

    def tree(self, repository: Repository, paths: tuple[str, ...]) -> Tree:
        """List the files at and below `paths`."""
        return repository.tree(self.commit.oid, paths) if self.commit else repository.work_tree(paths)


def head_side(repository: Repository, revision: str) -> Side:
    """Return the side that is planned: a revision, or the working tree where none is named."""
    return Side(label=revision, commit=repository.resolve(revision)) if revision else Side(label=WORK_TREE, commit=None)


def base_side(repository: Repository, base: str, head: Side) -> Side | None:
    """Return the side to compare with; None where the repository has no commit yet.

    A named base is met at its merge base with the head, as a pull request's diff is. Without a name it is the merge
    base with the upstream's default branch, or else HEAD.
    """
    try:
        tip = head.commit or repository.resolve("HEAD")
    except OutsideError:
        if base:
            raise
        return None
    name = base or repository.upstream_default()
    if not name:
        at = repository.resolve("HEAD")
        return Side(label="HEAD", commit=at)
    found = repository.merge_base(repository.resolve(name).oid, tip.oid)
    shown = name.removeprefix("refs/remotes/").removeprefix("refs/heads/")
    if found is None:
        hint = "fetch more history: git fetch --unshallow" if repository.is_shallow else "name another base with --base"
        raise OutsideError(f"{shown} and {head.label} have no common ancestor", hint=hint)
    return Side(label=shown, commit=repository.resolve(found))


def read_config(repository: Repository, tree: Tree, catalogue: Catalogue) -> Config:
    """Read `reconciler.yaml`. Raises `ConfigError` where there is none, `InvalidInput` where it is wrong."""
    entry = tree.get(CONFIG_PATH)
    if entry is not None and not entry.is_file:
        raise ConfigError(f"{CONFIG_PATH} in {repository.root} is no regular file", hint="commit the file itself")
    if entry is None:
        raise ConfigError(
            f"there is no {CONFIG_PATH} in {repository.root}",
            hint="run inside a config repository, name one with --repo DIR, or make one: reconciler init DIR",
        )
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
