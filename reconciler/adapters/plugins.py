"""Kind families from installed packages: the entry points of the group `gpu_reconciler.kinds`.

An entry point names a tuple of `core.kinds.kind.Kind`, as `KINDS` of a built-in family is.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.adapters.packages import GROUP, installed_metadata, registers_kinds
from reconciler.core.kinds.kind import Kind, Kinds
from reconciler.errors import OutsideError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def with_installed_families(kinds: Kinds) -> Kinds:
    """Return a registry with the families of installed packages added, in the order of their names.

    Raises `OutsideError` if a package cannot be loaded or registers a kind that exists.
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
    return family


def _package(entry: "EntryPoint") -> tuple[str, str]:
    return (entry.dist.name, entry.dist.version) if entry.dist is not None else (entry.name, "unknown")


def _may_register_kinds() -> bool:
    """Look for the name of the group in the metadata of installed packages; takes 1 ms for 50 packages."""
    return any(registers_kinds(Path(path)) for folder in sys.path for path in installed_metadata(folder or "."))
