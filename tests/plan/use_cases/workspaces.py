"""Workspaces over a config repository in memory: use cases run on them without Git, disk or command line."""

from pathlib import Path

from reconciler import resources
from reconciler.plan import opening
from reconciler.plan.workspace import Workspace
from reconciler.repo.revision import read_config, resolve_head
from reconciler.settings import Settings
from tests.fakes.cache import MemoryCache
from tests.fakes.repository import MemoryRepository

TEMPLATE = "gitops-repo-template/"


def template_repository() -> MemoryRepository:
    """Return a repository with one commit: the template of a config repository."""
    repository = MemoryRepository()
    repository.save(
        {path.removeprefix(TEMPLATE): resources.read(path) for path in resources.walk(TEMPLATE.rstrip("/"))}
    )
    return repository


def open_workspace(repository: MemoryRepository, revision: str = "", *, cache: MemoryCache | None = None) -> Workspace:
    """Open a repository in memory at a revision (empty: the working tree)."""
    cache = cache or MemoryCache()
    tree = resolve_head(repository, revision)
    config = read_config(repository, tree, opening.catalogue, cache)
    runtime = opening.runtime(repository, cache, Settings(processes=1))
    return Workspace(runtime=runtime, tree=tree, config=config)


def edit(repository: MemoryRepository, path: str, old: str, new: str) -> None:
    """Replace text in a file of the working tree."""
    text = repository.work[path].decode()
    assert old in text, f"{old!r} is not in {Path(path)}"
    repository.work[path] = text.replace(old, new).encode()
