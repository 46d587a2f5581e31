"""Kind families from installed packages: the entry points of the group `gpu_reconciler.kinds`.

An entry point names a tuple of `kinds.kind.Kind`, as `KINDS` of a built-in family is.
"""

import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

from reconciler.errors import OutsideError
from reconciler.kinds.kind import FaultyRowError, Kind, Kinds
from reconciler.kinds.mistakes import mistakes
from reconciler.kube.patterns import later
from reconciler.packages import GROUP, installed_metadata, registers_kinds
from reconciler.policy.references.rules import RULES

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def with_installed_families(kinds: Kinds) -> Kinds:
    """Return a registry with the families of installed packages added, in the order of their names.

    Raises `OutsideError` if a package cannot be loaded, or registers a kind that exists or whose row is wrong.
    """
    for entry in sorted(_entry_points(), key=lambda entry: (_package(entry), entry.name)):
        try:
            kinds = kinds.extend(_load(entry), versions=(_package(entry),))
        except Exception as error:  # a plugin may raise anything while it is imported
            name, version = _package(entry)
            message = f"kinds of package {name} {version} cannot be loaded: {error}"
            raise OutsideError(message, hint=f"upgrade the package, or remove it: pip uninstall {name}") from error
    return kinds


def _load(entry: "EntryPoint") -> tuple[Kind, ...]:
    family = entry.load()
    if not isinstance(family, tuple) or not all(isinstance(row, Kind) for row in family):
        raise TypeError(f"{entry.value} is not a tuple of Kind")

    for row in family:
        if found := mistakes(row, RULES):
            raise ValueError(f"{row.kind} of {entry.value}: {'; '.join(found)}")
    return family


def failed_package(error: BaseException) -> str:
    """Return the name and version of the installed package whose kinds ran into an error, and the place; else empty."""
    entries = _entry_points()
    packages = {entry.module.partition(".")[0]: _package(entry) for entry in entries}
    for module, line in _frames(error):
        if found := packages.get(module.partition(".")[0]):
            return f"{' '.join(found)} ({module}, line {line})"
    if isinstance(error, FaultyRowError):  # its functions have returned, so that no frame is theirs
        for entry in entries:
            if any(row.id == error.kind for row in entry.load()):
                return f"{' '.join(_package(entry))} ({entry.value})"
    return ""


def _frames(error: BaseException) -> Iterator[tuple[str, int]]:
    """Yield module and line of each frame of a traceback, innermost first.

    Of one in a worker process only the text comes back, as the cause of the error.
    """
    modules = {getattr(module, "__file__", None): name for name, module in sys.modules.items()}
    for file, line in reversed(_IN_TEXT.findall(str(error.__cause__ or ""))):
        yield modules.get(file, ""), int(line)
    for frame, number in reversed([*walk_tb(error.__traceback__)]):
        yield str(frame.f_globals.get("__name__", "")), number


_IN_TEXT = later(r'^  File "(.+)", line (\d+), in ', re.MULTILINE)  # a frame of a traceback that became text


def _package(entry: "EntryPoint") -> tuple[str, str]:
    return (entry.dist.name, entry.dist.version) if entry.dist is not None else (entry.name, "unknown")


def _entry_points() -> "Collection[EntryPoint]":
    """Return the entry points of installed packages that may register kinds."""
    if not _may_register_kinds():
        return ()
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes 50 ms, and few installations have plugins

    return entry_points(group=GROUP)


def _may_register_kinds() -> bool:
    """Look for the name of the group in the metadata of installed packages; takes 1 ms for 50 packages."""
    return any(registers_kinds(Path(path)) for folder in sys.path for path in installed_metadata(folder or "."))
