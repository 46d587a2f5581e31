"""Kind families from installed packages: the entry points of the group `gpu_reconciler.kinds`.

An entry point names a tuple of `core.kinds.kind.Kind`, as `KINDS` of a built-in family is.
"""

import sys
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

from reconciler.adapters.packages import GROUP, installed_metadata, registers_kinds
from reconciler.core.kinds.kind import Kind, Kinds
from reconciler.errors import OutsideError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def with_installed_families(kinds: Kinds) -> Kinds:
    """Return a registry with the families of installed packages added, in the order of their names.

    Raises `OutsideError` if a package cannot be loaded, or registers a kind that exists or whose row is wrong.
    """
    if not _may_register_kinds():
        return kinds
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes 50 ms, and few installations have plugins

    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (_package(entry), entry.name)):
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
    from reconciler.core.kinds.mistakes import mistakes  # noqa: PLC0415 - few installations have plugins
    from reconciler.core.policy.references.rules import RULES  # noqa: PLC0415 - as above

    for row in family:
        if found := mistakes(row, RULES):
            raise ValueError(f"{row.kind} of {entry.value}: {'; '.join(found)}")
    return family


def failed_package(error: BaseException) -> str:
    """Return the name and version of the installed package whose kinds ran into an error, and the place; else empty."""
    if not _may_register_kinds():
        return ""
    from importlib.metadata import entry_points  # noqa: PLC0415 - as above

    packages = {entry.module.partition(".")[0]: _package(entry) for entry in entry_points(group=GROUP)}
    for frame, line in reversed([*walk_tb(error.__traceback__)]):
        module = str(frame.f_globals.get("__name__", ""))
        if found := packages.get(module.partition(".")[0]):
            return f"{' '.join(found)} ({module}, line {line})"
    return ""


def _package(entry: "EntryPoint") -> tuple[str, str]:
    return (entry.dist.name, entry.dist.version) if entry.dist is not None else (entry.name, "unknown")


def _may_register_kinds() -> bool:
    """Look for the name of the group in the metadata of installed packages; takes 1 ms for 50 packages."""
    return any(registers_kinds(Path(path)) for folder in sys.path for path in installed_metadata(folder or "."))
