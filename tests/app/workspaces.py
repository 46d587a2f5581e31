"""Workspaces over a config repository in memory: use cases run on them without Git, disk or command line."""

from pathlib import Path

from reconciler import wiring
from reconciler.adapters import bundle
from reconciler.app.workspace import Workspace
from reconciler.revision.sides import head_side, read_config
from reconciler.settings import Settings
from tests.fakes.cache import MemoryCache
from tests.fakes.repository import MemoryRepository

TEMPLATE = "gitops-repo-template/"


def template_repository() -> MemoryRepository:
    """Return a repository with one commit: the template of a config repository."""
    repository = MemoryRepository()
    repository.save({path.removeprefix(TEMPLATE): bundle.read(path) for path in bundle.walk(TEMPLATE.rstrip("/"))})
    return repository


def open_workspace(repository: MemoryRepository, revision: str = "", *, cache: MemoryCache | None = None) -> Workspace:
    """Open a repository in memory at a revision (empty: the working tree)."""
    cache = cache or MemoryCache()
    side = head_side(repository, revision)
    config = read_config(repository, side, wiring.catalogue, cache)
    tools = wiring.tools(repository, cache, Settings(processes=1))
    return Workspace(tools=tools, side=side, config=config)


def edit(repository: MemoryRepository, path: str, old: str, new: str) -> None:
    """Replace text in a file of the working tree."""
    text = repository.work[path].decode()
    assert old in text, f"{old!r} is not in {Path(path)}"
    repository.work[path] = text.replace(old, new).encode()
