"""Kind families from installed packages: the entry points of the group `gpu_reconciler.kinds`.

An entry point names a tuple of `kinds.kind.Kind`, as `KINDS` of a built-in family is. Mistakes in a row would otherwise
show only later, or never.
"""

import re
import sys
from collections.abc import Collection, Container, Iterator
from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

from reconciler.errors import OutsideError
from reconciler.kinds.facts import QueueRole
from reconciler.kinds.kind import FaultyRowError, Kind, Kinds
from reconciler.kube.patterns import later
from reconciler.kube.values import mapping, text
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


def mistakes(row: Kind, rules: Container[str]) -> tuple[str, ...]:
    """Return the mistakes in a row, for messages. `rules` are those that may be its `naming.rule`."""
    return (*_contradictions(row), *_definition_mistakes(row), *_unknown_rule(row, rules))


def _contradictions(row: Kind) -> Iterator[str]:
    if row.queueing.role is not QueueRole.NONE and row.relations is None:
        yield "queueing.role needs relations, which read the quotas"
    if row.source.evidence is not None and row.source.refusal is None:
        yield "source.evidence needs source.refusal, for documents among the sources"
    if row.pods.read is not None and row.relations is not None:
        yield "relations are for objects without pods, so pods.read has no effect"


def _definition_mistakes(row: Kind) -> Iterator[str]:
    """Yield the differences between the definition of the kind and its row."""
    if row.source.crd is None:
        return
    spec = mapping(row.source.crd.get("spec"))
    names = mapping(spec.get("names"))
    if (spec.get("group"), names.get("kind")) != (row.group, row.kind):
        yield f"source.crd defines {names.get('kind')} of {spec.get('group')}"
    if not text(names.get("plural")):
        yield "source.crd has no spec.names.plural"
    scope = "Cluster" if row.is_cluster_scoped else "Namespaced"
    if spec.get("scope") != scope:
        yield f"source.crd has the scope {spec.get('scope')}, but is_cluster_scoped says {scope}"


def _unknown_rule(row: Kind, rules: Container[str]) -> Iterator[str]:
    if row.naming.rule and row.naming.rule not in rules:
        yield f"{row.naming.rule} is not a rule, so it cannot be naming.rule"
