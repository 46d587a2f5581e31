"""What git is asked before the command line is even read: it looks over the working tree while Python imports."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.adapters import bundle
from reconciler.adapters.cache import DiskCache, cache_folder
from reconciler.adapters.git import GitRepository
from reconciler.errors import ReconcilerError
from reconciler.revision.layout import folders
from reconciler.revision.sides import Side, head_side, read_config

if TYPE_CHECKING:
    from reconciler.core.schemas import Catalogue


class Looked(Struct, frozen=True, kw_only=True):
    """A repository whose git is at work, and the side that it looks at."""

    folder: str
    environ: Mapping[str, str]
    repository: GitRepository
    side: Side


class _Unknown(ReconcilerError):
    """The settings are not remembered, so nobody knows yet where to look."""


_looked: list[Looked] = []  # one at most


def look(folder: str, environ: Mapping[str, str]) -> None:
    """Ask git what a plan of the working tree around `folder` will ask. What goes wrong is met, and told, there."""
    with suppress(Exception):
        repository = GitRepository.open(Path(folder), environ=environ)
        repository.begin()
        side = head_side(repository, "")
        _looked[:] = [Looked(folder=folder, environ=environ, repository=repository, side=side)]
        if side.checked_out is not None:
            cache = DiskCache(cache_folder(environ), stamp=bundle.stamp())
            repository.anticipate(folders(read_config(repository, side, _unknown, cache)), head=side.checked_out.oid)


def _unknown() -> "Catalogue":
    raise _Unknown("not remembered")


def taken_up(folder: str, environ: Mapping[str, str]) -> Looked | None:
    """Return the repository that was asked ahead, once, if it is the one that is wanted now."""
    looked = _looked.pop() if _looked else None
    if looked is not None and (looked.folder, looked.environ) != (folder, environ):
        looked.repository.let_go()
        return None
    return looked


def let_go() -> None:
    """End what nobody has taken up."""
    while _looked:
        _looked.pop().repository.let_go()
