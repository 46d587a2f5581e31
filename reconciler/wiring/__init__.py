"""Composition root: picks adapters from the settings, and hands them to use cases."""

# ruff: noqa: PLC0415 - adapters are imported when they are used: each command pays only for its own

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.adapters import bundle
from reconciler.core.sizing.tables import SizingTables
from reconciler.errors import ConfigError, InvalidInput
from reconciler.outputs.terminal.logs import Log, set_up
from reconciler.settings import Settings, resolve
from reconciler.version import __version__, engine_version

if TYPE_CHECKING:
    from reconciler.adapters.cache import DiskCache
    from reconciler.adapters.checkout import InitResult
    from reconciler.app.rules.examples import ExampleReport
    from reconciler.app.size.files import InputFile
    from reconciler.app.workspace import Workspace
    from reconciler.core.config import Config
    from reconciler.core.kinds.kind import Kinds
    from reconciler.core.plan import Plan
    from reconciler.core.schemas import Catalogue
    from reconciler.core.sizing.training import Architecture
    from reconciler.index.build import Runtime
    from reconciler.ports import Cache, Conflicts, Repository

_log = Log(__name__)


class Run(Struct, frozen=True, kw_only=True, eq=False):
    """An open config repository, and the settings of the run."""

    settings: Settings
    workspace: "Workspace"


def open_run(
    repo: str, flags: Mapping[str, Any], environ: Mapping[str, str], *, merge: bool = False, compiles: bool = False
) -> Run:
    """Open the config repository around a folder, and its settings.

    merge: the result of merging into the base. compiles: its files will be compiled, so git begins to look for changes.
    """
    from reconciler.adapters.git import GitRepository

    resolve(flags, environ, {})  # a wrong flag is reported before a wrong folder
    if not Path(repo).is_dir():
        raise ConfigError(f"--repo: {repo} is not a folder", hint="name a config repository")
    repository = GitRepository.open(Path(repo), environ=environ)
    return open_repository(repository, flags, environ, merge=merge, compiles=compiles)


def watching(repo: str, environ: Mapping[str, str]) -> AbstractContextManager[Callable[[], tuple[str, ...]]]:
    """Watch the config repository around a folder: a function that waits for the next change of paths."""
    from reconciler.adapters.git import GitRepository

    return GitRepository.open(Path(repo), environ=environ).watching()


def open_repository(
    repository: "Repository",
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    *,
    merge: bool = False,
    compiles: bool = False,
) -> Run:
    """Open a config repository, and its settings."""
    from reconciler.revision.revision import comparing, read_config, read_defaults, resolve_head

    early = resolve(flags, environ, {})
    tree = resolve_head(repository, early.revision, merge_into=early.base if merge else None)
    store = _cache(early, environ)
    config = read_config(repository, tree, catalogue, store)
    with comparing(repository, tree, config) if compiles else nullcontext():  # while most modules are imported
        from reconciler.app.workspace import Workspace

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
    shared = runtime(repository, store, settings, schemas)
    if config.pod_paths:
        problems = [*shared.kinds.undeclarable(config.pod_paths)]
        if problems:
            raise InvalidInput(problems)
        shared = replace(shared, kinds=shared.kinds.with_pods(config.pod_paths))
    workspace = Workspace(runtime=shared, tree=tree, config=config)
    return Run(settings=settings, workspace=workspace)


def runtime(
    repository: "Repository", store: "Cache", settings: Settings, schemas: "Catalogue | None" = None
) -> "Runtime":
    """Combine a repository and a store with what ships with the package."""
    from reconciler.index.build import Runtime
    from reconciler.index.shipped import Shipped
    from reconciler.index.workers import usable_processors
    from reconciler.outputs.terminal.progress import progress

    policies, registry, schemas = _policies(), kinds(), schemas or catalogue()
    digest = _engine_digest(registry, policies)
    return Runtime(
        repository=repository,
        cache=store,
        kinds=registry,
        catalogue=schemas,
        tables=sizing_tables(),
        shipped=Shipped(
            store,
            engine=engine_version(digest),
            paths=policies,
            read=_read_bundle,
            kinds=registry,
            catalogue=schemas,
        ),
        bundle_digest=digest,
        processes=settings.processes or usable_processors(),
        cluster=settings.cluster,
        inventory_namespace=settings.inventory_namespace,
        progress=lambda title, total: progress(title, total=total),
    )


def resolve_settings(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Resolve the settings of a command that needs no repository."""
    return resolve(flags, environ, {})


def _cache(settings: Settings, environ: Mapping[str, str]) -> "DiskCache":
    from reconciler.adapters.cache import DiskCache, cache_folder

    if settings.cache == "off":
        return DiskCache(None)
    folder = Path(settings.cache_dir).absolute() if settings.cache_dir else cache_folder(environ)
    return DiskCache(folder, stamp=bundle.stamp())


# What ships with the package.


def catalogue() -> "Catalogue":
    """Return the schemas of all known kinds: those that ship with the package, and those of installed families."""
    definitions = [kind.crd for kind in kinds().values() if kind.crd is not None]
    return _shipped_kinds().with_definitions(definitions) if definitions else _shipped_kinds()


@cache
def _shipped_kinds() -> "Catalogue":
    from reconciler.core.schemas import Catalogue

    return Catalogue(bundle)


def sizing_tables() -> SizingTables:
    """Return the tables of models and GPUs, which are read when they are first used."""
    return SizingTables(bundle.read)


@cache
def _policies() -> tuple[str, ...]:
    # policies/<rule>/rule.yaml: the examples of a rule are deeper
    return tuple(path for path in bundle.walk("policies") if path.endswith(".yaml") and path.count("/") == 2)  # noqa: PLR2004


def _read_bundle(paths: list[str]) -> Iterator[bytes]:
    return map(bundle.read, paths)


def kinds() -> "Kinds":
    """Return the registry of kinds: the built-in families, and those of installed packages."""
    return _kinds_of(tuple(sys.path))


@cache
def _kinds_of(_: tuple[str, ...]) -> "Kinds":
    """Return the registry of kinds with the packages that this path finds. They are searched once."""
    from reconciler.adapters.plugins import with_installed_families
    from reconciler.core.kinds.registry import BUILT_IN

    return with_installed_families(BUILT_IN)


def failed_package(error: BaseException) -> str:
    """Return the installed package whose kinds ran into an error, with the place; empty if the error is our own."""
    from reconciler.adapters.plugins import failed_package as find

    return find(error)


def _engine_digest(registry: "Kinds", policies: tuple[str, ...]) -> str:
    """Return the digest of everything besides our own code that determines a plan: schemas, policies, plugins."""
    return _shipped_digest(repr(registry.versions) if registry.versions else "", policies)


@cache
def _shipped_digest(plugins: str, policies: tuple[str, ...]) -> str:
    from hashlib import sha256

    digest = sha256(plugins.encode())
    for path in ("schemas/kubernetes/versions.json", *(p for p in bundle.walk("schemas") if "/v1" in p)):
        digest.update(bundle.read(path))
    for path in policies:
        digest.update(path.encode() + bundle.read(path))
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of the engine, of its schemas, and of packages that add kinds."""
    from reconciler.app.version import versions as all_versions

    return all_versions(bundle.read("schemas/kubernetes/versions.json"), kinds())


# Files of the user.


def init(folder: Path, source: str) -> "InitResult":
    """Create a config repository in a folder, with its first commit. Its pipelines install this version from `source`.

    An empty `source` is where this installation came from, if that is known, else the package index.
    """
    from reconciler.adapters import checkout, files
    from reconciler.app.init import repository_files
    from reconciler.app.requirements import PACKAGE, installed_source, requirements

    origin = None if source else bundle.direct_url(PACKAGE)
    pinned = requirements(__version__, source := source or installed_source(origin))
    prefix = "gitops-repo-template/"
    template = {path.removeprefix(prefix): bundle.read(path) for path in bundle.walk(prefix.rstrip("/"))}
    registry = kinds()
    contents = repository_files(template, registry, catalogue(), pinned)
    files.write_folder(folder, contents)
    engine = engine_version(_engine_digest(registry, _policies()))
    made = checkout.commit_new_folder(folder, files=len(contents), engine=engine)
    return replace(made, unpublished=f"{PACKAGE}=={__version__}") if origin and not source else made


def save_plan(plan: "Plan", path: Path) -> None:
    """Write a plan to a file as JSON, completely or not at all. A link stays: the file behind it is written."""
    from reconciler.adapters.files import write_file
    from reconciler.outputs.json_report import stream_json

    write_file(path, stream_json(plan), follows_links=True)


def load_plan(path: Path) -> "Plan":
    """Load a plan that `save_plan` wrote; `ConfigError` if the file holds something else."""
    from reconciler.adapters.files import read_file
    from reconciler.core.plan.codec import from_json

    return from_json(read_file(path))


def write_folder(contents: Mapping[str, bytes], folder: Path) -> None:
    """Write files to an empty or absent folder."""
    from reconciler.adapters import files

    files.write_folder(folder, contents)


def write_sources(contents: Mapping[Path, bytes], *, overwrite: bool) -> int:
    """Write files, and return how many are new or changed. None is written if a file exists with another content."""
    from reconciler.adapters.files import read_file, write_together

    changed = {path: content for path, content in contents.items() if not path.exists() or read_file(path) != content}
    existing = [str(path) for path in changed if path.exists()]
    if existing and not overwrite:
        raise ConfigError(
            f"{', '.join(existing)} {'exists' if len(existing) == 1 else 'exist'} with another content",
            hint="nothing was written; choose another folder, or --overwrite",
        )
    write_together(changed)
    return len(changed)


def conflicts(repo: str, environ: Mapping[str, str]) -> "Conflicts":
    """Open the checkout around a folder for `resolve`."""
    from reconciler.adapters.git import GitConflicts

    return GitConflicts.open(Path(repo), environ=environ)


def write_new(path: str, content: bytes, run: Run) -> None:
    """Write a new file below the root of the repository; `ConfigError` if it exists."""
    from reconciler.adapters import files

    files.write_new(run.workspace.runtime.repository.root, path, content)


def write_edits(contents: Mapping[str, bytes], run: Run | None) -> None:
    """Write files in place: paths are below the root of the repository if there is one."""
    from reconciler.adapters.files import write_file

    root = run.workspace.runtime.repository.root if run else Path()
    for path, content in contents.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, content)


def read_input(path: Path) -> bytes:
    """Read a file, or standard input for `-`."""
    from reconciler.adapters.files import read_file

    return sys.stdin.buffer.read() if str(path) == "-" else read_file(path)


def run_policy_tests(paths: Sequence[str]) -> "ExampleReport":
    """Run the tests of policies in files and folders (none: `tests` of the config repository around this folder)."""
    from reconciler.adapters.files import FolderFiles
    from reconciler.app.rules.examples import run_tests
    from reconciler.app.rules.rendering import RenderingTools
    from reconciler.core.documents import read
    from reconciler.revision.files import CONFIG_PATH
    from reconciler.revision.revision import config_of

    here = Path(paths[0]).absolute() if paths else Path().absolute()
    root = next((one for one in (here, *here.parents) if (one / CONFIG_PATH).is_file()), Path().absolute())
    wanted = [os.path.relpath(Path(path).absolute(), root) for path in paths] or ["tests"]
    shipped = [one for path in _policies() for one in read(path, bundle.read(path)).documents]
    files = FolderFiles(root)

    def read_config() -> "Config | None":
        return config_of(files.read(CONFIG_PATH), catalogue()) if files.has(CONFIG_PATH) else None

    tools = RenderingTools(kinds=kinds(), tables=sizing_tables(), read_config=read_config)
    return run_tests(wanted, files, catalogue(), shipped, tools)


# Sizing.

_CONFIG_SUFFIXES = (".json", ".toml", ".yaml", ".yml")
_MAX_CONFIG_BYTES = 1 << 20


def find_run(repo: str, flags: Mapping[str, Any], environ: Mapping[str, str], near: Sequence[Path]) -> Run | None:
    """Open the config repository that holds the first named file, or `repo`; None if there is none."""
    from reconciler.revision.files import CONFIG_PATH

    named = next((path for path in near if str(path) != "-"), None)
    start = Path(repo) if repo != "." or named is None else named.absolute().parent
    folder = start.absolute()
    if repo == "." and not any((parent / CONFIG_PATH).is_file() for parent in (folder, *folder.parents)):
        return None
    return open_run(str(start), flags, environ)


def input_file(path: Path, run: Run | None) -> "InputFile":
    """Read a file that the user names (`-`: standard input)."""
    from reconciler.app.size.files import InputFile

    content = read_input(path)
    if str(path) == "-":
        return InputFile(path="-", content=content)
    folder = path.absolute().parent
    inside = ""
    if run is not None:
        root, resolved = run.workspace.runtime.repository.root.resolve(), path.resolve()
        inside = resolved.relative_to(root).as_posix() if resolved.is_relative_to(root) else ""
    siblings = cache(lambda: configurations(folder))
    return InputFile(path=str(path), content=content, inside=inside, folder=str(folder), siblings=siblings)


def configurations(folder: Path | None = None) -> dict[str, bytes]:
    """Return the configuration files of a folder (None: the current one) by name, without large ones."""
    folder = folder or Path()
    paths = [path for path in sorted(folder.iterdir()) if path.suffix in _CONFIG_SUFFIXES and path.is_file()]
    return {path.name: path.read_bytes() for path in paths if path.stat().st_size <= _MAX_CONFIG_BYTES}


def local_model(model: str) -> "Architecture | None":
    """Read the `config.json` of a model in a folder or file of this machine; None for the name of a model."""
    path = Path(model)
    path = path / "config.json" if path.is_dir() else path
    if path.suffix != ".json" or not path.is_file():
        if model.startswith((".", "/", "~")):  # no model has such a name
            raise ConfigError(f"--model: {model} has no config.json", hint="name the folder of a Hugging Face model")
        return None
    from reconciler.adapters.files import read_file
    from reconciler.app.size.ask import parse_architecture

    name = path.parent.absolute().name if path.name == "config.json" else path.stem
    return parse_architecture(read_file(path)[: _MAX_CONFIG_BYTES + 1], str(path), name)
