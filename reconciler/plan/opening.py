"""Opens config repositories: the repository, the cache and what ships with the package, as the settings say."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler import resources
from reconciler.console.logs import Log, set_up
from reconciler.console.progress import progress
from reconciler.errors import ConfigError, InvalidInput
from reconciler.index.cache import DiskCache, cache_folder
from reconciler.index.runtime import PlanEngine, RunOptions, Runtime, Shipped
from reconciler.index.workers import WorkerPool, usable_processors
from reconciler.kinds.kind import Kinds
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.schemas import Catalogue
from reconciler.plan import Plan
from reconciler.plan.codec import from_json
from reconciler.plan.outputs.json_report import stream_json
from reconciler.plan.workspace import Workspace
from reconciler.policy.plugins import with_installed_families
from reconciler.repo import checkout_files
from reconciler.repo.checkout_files import read_file, write_file, write_together
from reconciler.repo.config import Config
from reconciler.repo.git import GitConflicts, GitRepository
from reconciler.repo.port import Cache, Conflicts, Repository
from reconciler.repo.revision import (
    TreeReference,
    assumed_config,
    comparing,
    read_config,
    read_defaults,
    resolve_head,
    with_network,
)
from reconciler.settings import Settings, resolve
from reconciler.sizing.tables import SizingTables
from reconciler.version import __version__, engine_version

_log = Log(__name__)


class Run(Struct, frozen=True, kw_only=True, eq=False):
    """An open config repository, and the settings of the run."""

    settings: Settings
    workspace: Workspace


def open_run(
    repo: str,
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    merge: bool = False,
    compiles: bool = False,
    sources: Sequence[str] = (),
) -> Run:
    """Open the config repository around a folder, and its settings.

    merge: the result of merging into the base. compiles: its files will be compiled, so git begins to look for changes.
    sources: the source folders of a repository without `reconciler.yaml`.
    """
    resolve(flags, environ, {})  # a wrong flag is reported before a wrong folder
    if not Path(repo).is_dir():
        raise ConfigError(f"--repo: {repo} is not a folder", hint="name a config repository")
    repository = GitRepository.open(Path(repo), environ=environ)
    return open_repository(repository, flags, environ, merge=merge, compiles=compiles, sources=sources)


def watching(repo: str, environ: Mapping[str, str]) -> AbstractContextManager[Callable[[], tuple[str, ...]]]:
    """Watch the config repository around a folder: a function that waits for the next change of paths."""
    return GitRepository.open(Path(repo), environ=environ).watching()


def open_repository(
    repository: Repository,
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    merge: bool = False,
    compiles: bool = False,
    sources: Sequence[str] = (),
) -> Run:
    """Open a config repository, and its settings."""
    early = resolve(flags, environ, {})
    tree = resolve_head(repository, early.revision, merge_into=early.base if merge else None)
    store = _cache(early, environ)
    config = _assumed(repository, tree, sources) if sources else read_config(repository, tree, catalogue, store)
    with comparing(repository, tree, config) if compiles else nullcontext():  # while most modules are imported
        schemas = catalogue()
    defaults, unused = read_defaults(repository, tree, config, base=early.base, catalogue=lambda: schemas, cache=store)
    settings = resolve(flags, environ, defaults)
    set_up(level=settings.log_level, form=settings.log_format)
    for name in unused:
        text = f"reconciler.yaml: spec.defaults.{name} is not used until the base has the same value"
        sys.stderr.write(f"warning: {text}\n")
    if settings.cache != early.cache:
        store = _cache(settings, environ)
    _log.debug("repository %s at %s", repository.root, tree.commit.oid if tree.commit else "the working tree")
    config = with_network(repository, tree, config, base=settings.base, catalogue=lambda: schemas, cache=store)
    shared = runtime(repository, store, settings, schemas)
    if config.pod_paths:
        registry = shared.engine.kinds
        problems = [*registry.undeclarable(config.pod_paths)]
        if problems:
            raise InvalidInput(problems)
        shared = replace(shared, engine=replace(shared.engine, kinds=registry.with_pods(config.pod_paths)))
    workspace = Workspace(runtime=shared, tree=tree, config=config)
    return Run(settings=settings, workspace=workspace)


def _assumed(repository: Repository, tree: TreeReference, sources: Sequence[str]) -> Config:
    """Return the settings for a repository without `reconciler.yaml`, and say them."""
    config = assumed_config(repository, tree, sources)
    folders = ", ".join(
        f"{path} ({built.tool})" if (built := next((one for one in config.builds if one.path == path), None)) else path
        for path in config.sources
    )
    sys.stderr.write(
        f"note: there is no reconciler.yaml: assumed one cluster `main` without a queue backend, and the sources "
        f"{folders}; write one with `reconciler init --existing`\n"
    )
    return config


def runtime(repository: Repository, store: Cache, settings: Settings, schemas: Catalogue | None = None) -> Runtime:
    """Combine a repository and a store with what ships with the package."""
    return Runtime(
        repository=repository,
        cache=store,
        engine=plan_engine(store, schemas or catalogue()),
        workers=WorkerPool(
            processes=settings.processes or usable_processors(),
            progress=lambda title, total: progress(title, total=total),
        ),
        options=RunOptions(cluster=settings.cluster, inventory_namespace=settings.inventory_namespace),
    )


def plan_engine(store: Cache, schemas: Catalogue) -> PlanEngine:
    """Return what ships with the package, and installed kind families."""
    policies, registry = rule_paths(), kinds()
    digest = engine_digest(registry, policies)
    shipped = Shipped(
        store,
        engine=engine_version(digest),
        paths=policies,
        read=_read_bundle,
        kinds=registry,
        catalogue=schemas,
    )
    return PlanEngine(kinds=registry, catalogue=schemas, tables=sizing_tables(), shipped=shipped, digest=digest)


def resolve_settings(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Resolve the settings of a command that needs no repository."""
    return resolve(flags, environ, {})


def _cache(settings: Settings, environ: Mapping[str, str]) -> DiskCache:
    if settings.cache == "off":
        return DiskCache(None)
    folder = Path(settings.cache_dir).absolute() if settings.cache_dir else cache_folder(environ)
    return DiskCache(folder, stamp=resources.stamp())


# What ships with the package.


def catalogue() -> Catalogue:
    """Return the schemas of all known kinds: those that ship with the package, and those of installed families."""
    definitions = [kind.source.crd for kind in kinds().values() if kind.source.crd is not None]
    return _shipped_kinds().with_definitions(definitions) if definitions else _shipped_kinds()


@cache
def _shipped_kinds() -> Catalogue:
    return Catalogue(resources)


def sizing_tables() -> SizingTables:
    """Return the tables of models and GPUs, which are read when they are first used."""
    return SizingTables(resources.read)


@cache
def rule_paths() -> tuple[str, ...]:
    """Return the paths of the shipped rules."""
    # policies/<rule>/rule.yaml: the examples of a rule are deeper
    return tuple(path for path in resources.walk("policies") if path.endswith(".yaml") and path.count("/") == 2)  # noqa: PLR2004


def _read_bundle(paths: list[str]) -> Iterator[bytes]:
    return map(resources.read, paths)


def kinds() -> Kinds:
    """Return the registry of kinds: the built-in families, and those of installed packages."""
    return _kinds_of(tuple(sys.path))


@cache
def _kinds_of(_: tuple[str, ...]) -> Kinds:
    """Return the registry of kinds with the packages that this path finds. They are searched once."""
    return with_installed_families(BUILT_IN)


def engine_digest(registry: Kinds, policies: tuple[str, ...]) -> str:
    """Return the digest of everything besides our own code that determines a plan: schemas, policies, plugins."""
    return _shipped_digest(repr(registry.versions) if registry.versions else "", policies)


@cache
def _shipped_digest(plugins: str, policies: tuple[str, ...]) -> str:
    digest = sha256(plugins.encode())
    for path in ("schemas/kubernetes/versions.json", *(p for p in resources.walk("schemas") if "/v1" in p)):
        digest.update(resources.read(path))
    for path in policies:
        digest.update(path.encode() + resources.read(path))
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of the engine, of its schemas, and of packages that add kinds."""
    shipped: dict[str, str] = json.loads(resources.read("schemas/kubernetes/versions.json"))
    return {"reconciler": __version__, **shipped, **dict(kinds().versions)}


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan to a file as JSON, completely or not at all. A link stays: the file behind it is written."""
    write_file(path, stream_json(plan), follows_links=True)


def load_plan(path: Path) -> Plan:
    """Load a plan that `save_plan` wrote; `ConfigError` if the file holds something else."""
    return from_json(read_file(path))


def write_folder(contents: Mapping[str, bytes], folder: Path) -> None:
    """Write files to an empty or absent folder."""
    checkout_files.write_folder(folder, contents)


def write_sources(contents: Mapping[Path, bytes], *, overwrite: bool) -> int:
    """Write files, and return how many are new or changed. None is written if a file exists with another content."""
    changed = {path: content for path, content in contents.items() if not path.exists() or read_file(path) != content}
    existing = [str(path) for path in changed if path.exists()]
    if existing and not overwrite:
        raise ConfigError(
            f"{', '.join(existing)} {'exists' if len(existing) == 1 else 'exist'} with another content",
            hint="nothing was written; choose another folder, or --overwrite",
        )
    write_together(changed)
    return len(changed)


def conflicts(repo: str, environ: Mapping[str, str]) -> Conflicts:
    """Open the checkout around a folder for `resolve`."""
    return GitConflicts.open(Path(repo), environ=environ)


def write_new(path: str, content: bytes, run: Run) -> None:
    """Write a new file below the root of the repository; `ConfigError` if it exists."""
    checkout_files.write_new(run.workspace.repository.root, path, content)


def write_edits(contents: Mapping[str, bytes], run: Run | None) -> None:
    """Write files in place: paths are below the root of the repository if there is one."""
    root = run.workspace.repository.root if run else Path()
    for path, content in contents.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, content)


def read_input(path: Path) -> bytes:
    """Read a file, or standard input for `-`."""
    return sys.stdin.buffer.read() if str(path) == "-" else read_file(path)
