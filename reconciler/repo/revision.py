"""The compared revisions: the head and the base as tree references, each with its configuration and its files."""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError, InvalidInput, OutsideError
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem
from reconciler.kube.schemas import Catalogue
from reconciler.kube.yaml import read
from reconciler.repo.builds import Built, build_all, sources_with
from reconciler.repo.builds.inputs import tool_of
from reconciler.repo.config import Backend, Cluster, Config, parse_config
from reconciler.repo.config.builds import Build, Tool, default_release
from reconciler.repo.config.config import CONFIG
from reconciler.repo.files import (
    CONFIG_PATH,
    IGNORE_FILE,
    RevisionFiles,
    TreeFiles,
    apply_changes,
    assign_roles,
    excluded,
    read_paths,
    split_tree,
)
from reconciler.repo.port import Cache, Commit, Entry, Repository
from reconciler.version import __version__

WORK_TREE = "working tree"


class TreeReference(Struct, frozen=True, kw_only=True):
    """A commit, or the working tree with its uncommitted changes (`commit` is None)."""

    label: str
    commit: Commit | None
    checked_out: Commit | None = None  # the commit that the working tree is at; None before the first
    branch_tip: Commit | None = None  # of a base: the commit whose merge base with the head it is
    merged_into: "TreeReference | None" = None  # of the result of a merge: the base; `commit` names no real commit

    @property
    def commit_id(self) -> str:
        """The id of the commit; empty for the working tree and for the result of a merge."""
        return self.commit.oid if self.commit and self.merged_into is None else ""

    @property
    def tip(self) -> Commit | None:
        """The commit itself, or the one that is checked out."""
        return self.commit or self.checked_out


class LoadedRevision(Struct, frozen=True, kw_only=True):
    """A tree, the configuration in force, the files by role, and the listing of the commit that it is or stands on.

    `builds` are the results among the sources that a program made.
    """

    tree: TreeReference
    config: Config
    files: RevisionFiles
    listing: TreeFiles
    builds: tuple[Built, ...] = ()


def resolve_head(repository: Repository, revision: str, *, merge_into: str | None = None) -> TreeReference:
    """Return the tree to plan: a revision, or the working tree where none is named.

    merge_into: the base into which the revision is merged (empty: the upstream's default branch; None: it is not).
    """
    if revision:
        head = TreeReference(label=revision, commit=repository.resolve(revision))
        return head if merge_into is None else _resolve_merge(repository, merge_into, head)
    return TreeReference(label=WORK_TREE, commit=None, checked_out=_checked_out(repository))


def _checked_out(repository: Repository) -> Commit | None:
    """Return the commit that the working tree is at; None before the first."""
    try:
        return repository.resolve("HEAD")
    except OutsideError:
        if repository.is_unborn():
            return None
        raise


def resolve_base(
    repository: Repository, base: str, head: TreeReference, *, or_itself: bool = False
) -> TreeReference | None:
    """Return the tree to compare the head with; None where the repository has no commits yet.

    The result is the merge base of the head and `base`, as for a pull request. `base` defaults to the upstream's
    default branch; without an upstream the result is HEAD, or the commit of the head with `or_itself`.
    """
    if head.merged_into is not None:
        return head.merged_into
    tip = head.tip
    if tip is None:
        if base:
            raise OutsideError("the repository has no commits yet", hint="commit something first: git commit")
        return None
    name = base or repository.upstream_default()
    if not name and or_itself:
        return TreeReference(label=head.label, commit=tip)
    if not name:
        return TreeReference(label="HEAD", commit=head.checked_out or repository.resolve("HEAD"))
    branch_tip = repository.resolve(name)
    merge_base = repository.merge_base(branch_tip.oid, tip.oid)
    label = _short_name(name)
    if merge_base is None:
        hint = "fetch more history: git fetch --unshallow" if repository.is_shallow else "name another base with --base"
        raise OutsideError(f"{label} and {head.label} have no common ancestor", hint=hint)
    commit = branch_tip if branch_tip.oid == merge_base else repository.resolve(merge_base)
    return TreeReference(label=label, commit=commit, branch_tip=branch_tip)


def _resolve_merge(repository: Repository, base: str, head: TreeReference) -> TreeReference:
    """Return the tree that merging a commit into the tip of `base` (empty: the upstream's default branch) gives."""
    name = base or repository.upstream_default()
    if not name or head.commit is None:
        raise ConfigError("there is no base to merge into", hint="name it with --base, such as --base main")
    tip = repository.resolve(name)
    into = TreeReference(label=_short_name(name), commit=tip, branch_tip=tip)
    tree = repository.merge(tip.oid, head.commit.oid)
    return TreeReference(
        label=f"merge of {head.label} into {into.label}",
        commit=replace(head.commit, oid=tree, tree=tree, parents=(tip.oid, head.commit.oid)),
        merged_into=into,
    )


def _short_name(name: str) -> str:
    return name.removeprefix("refs/remotes/").removeprefix("refs/heads/")


def comparing(repository: Repository, tree: TreeReference, config: Config) -> AbstractContextManager[None]:
    """Return a context in which changes of the working tree are looked for, so that `read_revision` finds them."""
    if tree.commit is not None or tree.checked_out is None:
        return nullcontext()
    return repository.comparing(tree.checked_out.oid, read_paths(config))


def read_revision(
    repository: Repository, tree: TreeReference, config: Config, catalogue: "Catalogue", cache: Cache
) -> LoadedRevision:
    """List the files of the head by role, with its builds."""
    paths = read_paths(config)
    if tree.tip is None:
        files = listing = split_tree(repository.work_tree(paths), config.rendered)
    else:
        files = listing = _list_commit(repository, tree.tip, config, cache)
        if tree.commit is None:
            files = apply_changes(listing, repository.changed_since(tree.tip.oid, paths), config.rendered)
    roles, builds = _roles(repository, config, files, catalogue, cache)
    return LoadedRevision(tree=tree, config=config, files=roles, listing=listing, builds=builds)


def _roles(
    repository: Repository, config: Config, files: TreeFiles, catalogue: "Catalogue", cache: Cache | None
) -> tuple[RevisionFiles, tuple[Built, ...]]:
    """Return the files by role, with the results of builds among the sources, and the builds."""
    roles = _without_excluded(repository, config, files, assign_roles(config, files))
    if not config.builds:
        return roles, ()
    builds = tuple(build_all(config.builds, files, repository, cache, catalogue.is_namespaced))
    return replace(
        roles,
        sources=sources_with(builds, roles.sources, config.plain_sources),
        problems=(*roles.problems, *(problem for built in builds for problem in built.problems)),
    ), builds


def _without_excluded(repository: Repository, config: Config, files: TreeFiles, roles: RevisionFiles) -> RevisionFiles:
    paths = [path for path in files.written if path.endswith(IGNORE_FILE)]
    if not (paths or config.exclude):
        return roles
    contents = repository.read([files.written[path] for path in paths])
    names = (*roles.sources, *files.irregular)
    left_out = excluded(config, names, dict(zip(paths, contents, strict=True)))
    return replace(
        roles,
        sources={path: oid for path, oid in roles.sources.items() if path not in left_out},
        problems=tuple(problem for problem in roles.problems if problem.place.path not in left_out),
    )


def read_base(
    repository: Repository,
    tree: TreeReference | None,
    head: LoadedRevision,
    catalogue: Callable[[], Catalogue],
    cache: Cache,
) -> LoadedRevision:
    """List the files of the base by role, under its own configuration; None is an empty tree.

    A base whose configuration is missing or wrong has that of the head.
    """
    config = head.config
    if tree is None or tree.tip is None:
        empty = TreeReference(label="nothing", commit=None)
        return LoadedRevision(tree=empty, config=config, files=assign_roles(config, TreeFiles()), listing=TreeFiles())
    is_same = head.tree.tip is not None and head.tree.tip.tree == tree.tip.tree
    listing = head.listing if is_same else _list_commit(repository, tree.tip, config, cache)
    oid = listing.written.get(CONFIG_PATH, "")
    if oid and oid != head.files.settings.get(CONFIG_PATH):
        with suppress(ConfigError, InvalidInput):  # a base with a broken configuration is read with that of the head
            config = _load_config(repository, oid, catalogue, cache)
        if read_paths(config) != read_paths(head.config):
            listing = _list_commit(repository, tree.tip, config, cache)
    roles, builds = _roles(repository, config, listing, catalogue(), cache)
    return LoadedRevision(tree=tree, config=config, files=roles, listing=listing, builds=builds)


def read_earlier_files(repository: Repository, commit: str, config: Config, catalogue: "Catalogue") -> RevisionFiles:
    """List the files of an older commit by role, without `rendered/`. Its builds are not kept: few plans need them."""
    paths = [path for path in read_paths(config) if path != config.rendered]
    files = split_tree(repository.tree(commit, paths), config.rendered)
    return _roles(repository, config, files, catalogue, None)[0]


def _list_commit(repository: Repository, commit: Commit, config: Config, cache: Cache) -> TreeFiles:
    """List a commit. The last few listings are cached by tree id: two of three plans ask for the same commit."""
    paths = read_paths(config)
    key = f"listing:{repository.root}:{paths}"
    known = _load_listings(cache, key)
    if commit.tree in known:
        return known[commit.tree]
    files = split_tree(repository.tree(commit.oid, paths), config.rendered)
    kept = [*known.items()][-(_KEPT_LISTINGS - 1) :]
    with suppress(UnicodeEncodeError):  # a file name that is not UTF-8: list such a tree each time
        cache.put(key, msgspec.msgpack.encode({**dict(kept), commit.tree: files}))
    return files


_KEPT_LISTINGS = 2  # the head's and the base's
_listings = msgspec.msgpack.Decoder(dict[str, TreeFiles])


def _load_listings(cache: Cache, key: str) -> dict[str, TreeFiles]:
    raw = cache.get(key)
    try:
        return _listings.decode(raw) if raw else {}
    except (msgspec.MsgspecError, UnicodeDecodeError):  # the trees are listed again
        return {}


def read_config(
    repository: Repository, tree: TreeReference, catalogue: Callable[[], Catalogue], cache: Cache
) -> Config:
    """Read `reconciler.yaml`. Raises `ConfigError` if it does not exist, `InvalidInput` if it is wrong.

    The parsed file is cached by blob id, because reading YAML and schemas takes longer than the rest of a small verb.
    """
    return _load_config(repository, _config_entry(repository, tree).oid, catalogue, cache)


def assumed_config(repository: Repository, tree: TreeReference, sources: Sequence[str]) -> Config:
    """Return the settings for a repository without `reconciler.yaml`: one cluster, nothing rendered, these sources.

    A folder with a kustomization or a chart is built. Raises `ConfigError` if there are settings, or no such folder.
    """
    commit = None if tree.commit is None else tree.commit.oid

    def has(path: str) -> bool:
        if commit is None:
            return repository.work_file(path) is not None
        return path in repository.tree(commit, (path,))

    if has(CONFIG_PATH):
        hint = f"change spec.sources of {CONFIG_PATH} instead"
        raise ConfigError(f"--sources is for a repository without {CONFIG_PATH}", hint=hint)
    folders, builds = [], []
    for written in sources:
        folder = posixpath.normpath(written)
        if folder.startswith(("/", "..")):
            raise ConfigError(f"--sources: {written} is not inside the repository", hint="name a path below its root")
        folders.append(folder)
        tool = tool_of(folder, has)
        if tool is not None:
            release = default_release(folder) if tool is Tool.HELM else ""
            builds.append(Build(path=folder, tool=tool, release=release))
    return Config(
        clusters=(Cluster(name="main", backend=Backend.NONE),),
        sources=tuple(folders),
        builds=tuple(builds),
        is_rendered=False,
    )


def _load_config(repository: Repository, oid: str, catalogue: Callable[[], Catalogue], cache: Cache) -> Config:
    key = f"config:{__version__}:{oid}"
    if (known := cache.get(key)) is not None:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # it is parsed again
            return msgspec.msgpack.decode(known, type=Config)
    (raw,) = repository.read([oid])
    config = config_of(raw, catalogue())
    with suppress(OverflowError, ValueError):  # numbers over 64 bits
        cache.put(key, msgspec.msgpack.encode(config))
    return config


def with_network(
    repository: Repository,
    head: TreeReference,
    config: Config,
    *,
    base: str,
    catalogue: Callable[[], Catalogue],
    cache: Cache,
) -> Config:
    """Return the head's settings with the network only for those builds that may use it in the base, too.

    So a change cannot let its own review fetch something. Without a readable base no build may.
    """
    if not any(one.network for one in config.builds):
        return config
    before: Sequence[Build] = ()
    with suppress(OutsideError, ConfigError, InvalidInput):
        tree = resolve_base(repository, base, head)
        if tree is not None:
            before = read_config(repository, tree, catalogue, cache).builds
    allowed = {(one.path, one.tool) for one in before if one.network}
    builds = (
        replace(one, network=False, network_waits=True) if one.network and (one.path, one.tool) not in allowed else one
        for one in config.builds
    )
    return replace(config, builds=tuple(builds))


_JUDGING = ("base", "cluster", "date")


def read_defaults(
    repository: Repository,
    head: TreeReference,
    config: Config,
    *,
    base: str,
    catalogue: Callable[[], Catalogue],
    cache: Cache,
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the `spec.defaults` in force, and the names of those of the head that are not.

    The defaults that decide what is judged come from the base, so that a change cannot narrow its own review. Without a
    readable base they are not set, which judges everything. `base` is the revision that the user named.
    """
    own = {name: value for name, value in config.defaults.items() if name in _JUDGING}
    if not own or head.tip is None:
        return dict(config.defaults), ()
    before: Mapping[str, str] = {}
    with suppress(OutsideError, ConfigError, InvalidInput):
        tree = resolve_base(repository, base, head)
        if tree is not None:
            before = read_config(repository, tree, catalogue, cache).defaults
    kept = {name: value for name, value in config.defaults.items() if name not in _JUDGING}
    kept |= {name: value for name, value in before.items() if name in _JUDGING}
    return kept, tuple(sorted(name for name, value in own.items() if before.get(name) != value))


def _config_entry(repository: Repository, tree: TreeReference) -> Entry:
    if tree.commit is None:
        entry = repository.work_file(CONFIG_PATH)
    else:
        entry = repository.tree(tree.commit.oid, (CONFIG_PATH,)).get(CONFIG_PATH)
    if entry is None:
        raise ConfigError(
            f"{CONFIG_PATH} not found in {repository.root}",
            hint="run this in a config repository, name one with --repo DIR, or create one: reconciler init DIR",
        )
    if not entry.is_file:
        raise ConfigError(f"{CONFIG_PATH} in {repository.root} is not a regular file", hint="commit the file itself")
    return entry


def config_of(raw: bytes, catalogue: Catalogue) -> Config:
    """Return what `reconciler.yaml` says. Raises `InvalidInput`."""
    reading = read(CONFIG_PATH, raw)
    problems: list[Problem] = list(reading.problems)
    for document in reading.documents:
        problems += catalogue.validate(document)
    configs = [document for document in reading.documents if (document.group, document.kind) == CONFIG]
    if problems:
        raise InvalidInput(problems)
    if len(configs) != 1 or len(reading.documents) != 1:
        message = f"contains {len(configs)} documents of kind ReconcilerConfig"
        place, hint = SourceRef(path=CONFIG_PATH), "keep exactly one document"
        raise InvalidInput([Problem(rule="config.count", place=place, message=message, hint=hint)])
    config, problems_found = parse_config(configs[0])
    if config is None:
        raise InvalidInput(problems_found)
    return config
