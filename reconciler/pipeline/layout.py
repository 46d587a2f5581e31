"""Which path of a repository is what: settings, sources, policies, evidence, rendered objects."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from reconciler.core.intents.config import Cluster, Config
from reconciler.core.objects import SourceRef
from reconciler.core.problems import Problem, Severity
from reconciler.ports import FILE_MODES, Entry, Tree

CONFIG_PATH = "reconciler.yaml"
SUFFIXES = (".yaml", ".yml", ".json")


class Layout(Struct, frozen=True, kw_only=True):
    """The paths of one revision by their role, sorted."""

    settings: dict[str, Entry]
    sources: dict[str, Entry]
    policies: dict[str, Entry]
    evidence: dict[str, Entry]
    rendered: dict[str, Entry]
    problems: tuple[Problem, ...]


def folders(config: Config) -> tuple[str, ...]:
    """Return every path that a plan reads."""
    return (CONFIG_PATH, *config.sources, *config.policies, config.evidence, config.rendered)


def layout(config: Config, tree: Tree) -> Layout:
    """Sort the paths of `tree` by role; symlinks, submodules and unspeakable names become problems."""
    bad = _entry_problems(config, tree)
    paths = sorted(tree.keys() - bad.keys() if bad else tree)
    sources = _documents(paths, tree, config.sources)
    return Layout(
        settings={CONFIG_PATH: tree[CONFIG_PATH]} if CONFIG_PATH in tree else {},
        sources=sources,
        policies=_documents(paths, tree, config.policies),
        evidence=_documents(paths, tree, (config.evidence,)),
        rendered={path: tree[path] for path in below(paths, config.rendered)},
        problems=(*bad.values(), *_unread(config, paths)),
    )


def selects(cluster: Cluster, path: str, labels: object) -> bool:
    """Whether `cluster` takes a source document, by its folder and its labels."""
    if cluster.select.folders and not any(path.startswith(f"{folder}/") for folder in cluster.select.folders):
        return False
    if not cluster.select.labels:
        return True
    return isinstance(labels, dict) and all(labels.get(name) == value for name, value in cluster.select.labels)


def below(paths: Sequence[str], root: str) -> Sequence[str]:
    """Cut out of sorted paths those below a folder: `0` is the sign after `/`."""
    return paths[bisect_left(paths, f"{root}/") : bisect_left(paths, f"{root}0")]


def _documents(paths: Sequence[str], tree: Tree, roots: tuple[str, ...]) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    for root in sorted(roots, key=lambda root: f"{root}/"):  # so that the whole is sorted
        found.update((path, tree[path]) for path in below(paths, root) if path.endswith(SUFFIXES))
    return found


def _unread(config: Config, paths: Sequence[str]) -> Iterator[Problem]:
    """Name what somebody probably wants read, and is not: misspelt folders, suffixes in capitals."""
    for folder in config.sources:
        if not below(paths, folder):
            message = f"there is nothing in the source folder {folder}"
            hint = "correct spec.sources, or keep a README in the folder"
            place = SourceRef(path=CONFIG_PATH)
            yield Problem(
                rule="layout.empty",
                place=place,
                field="spec.sources",
                message=message,
                hint=hint,
                severity=Severity.WARNING,
            )
    for root in (*config.sources, *config.policies, config.evidence):
        for path in below(paths, root):
            if not path.endswith(SUFFIXES) and path.lower().endswith(SUFFIXES):
                message = "is not read: as for kubectl, suffixes are in lower case"
                hint = "rename the file to .yaml, .yml or .json"
                yield Problem(rule="layout.suffix", place=SourceRef(path=path), message=message, hint=hint)


_KINDS_OF_ENTRY = {
    "120000": ("git.symlink", "is a symbolic link, which is never followed", "commit the file itself"),
    "160000": ("git.submodule", "is a submodule, which is never read", "commit the files themselves"),
}


def _entry_problems(config: Config, tree: Tree) -> dict[str, Problem]:
    """Return what is wrong with the paths that a plan reads."""
    roots = tuple(f"{root}/" for root in folders(config)[1:])
    suspects = [path for path, entry in tree.items() if entry.mode not in FILE_MODES]
    if not "".join(tree).isprintable():  # one look at all names: they nearly always are
        suspects += [path for path in tree if not path.isprintable() and path.endswith(SUFFIXES)]
    return {
        path: _entry_problem(path, tree[path])
        for path in suspects
        if path.startswith(roots) or path == CONFIG_PATH or f"{path}/" in roots
    }


def _entry_problem(path: str, entry: Entry) -> Problem:
    place = SourceRef(path=_shown(path))
    if entry.is_file:
        message = "the name of this file holds bytes that are no printable text"
        return Problem(rule="git.file-name", place=place, message=message, hint="rename the file")
    special = ("git.special-file", "is no regular file", "remove it from the repository")
    rule, message, hint = _KINDS_OF_ENTRY.get(entry.mode, special)
    return Problem(rule=rule, place=place, message=message, hint=hint)


def _shown(path: str) -> str:
    return path if path.isprintable() else path.encode("unicode_escape", "backslashreplace").decode("ascii")


_WINDOWS_SIGNS = re.compile(r'[<>:"|?*\\]|[. ]/')
# Devices: learn.microsoft.com/windows/win32/fileio/naming-a-file.
_WINDOWS_NAMES = re.compile(r"/(?:con|prn|aux|nul|com[1-9]|lpt[1-9])[./]", re.IGNORECASE)


def portability_problems(written: Layout) -> Iterator[Problem]:
    """Name files that a colleague's checkout would lose; usual names, lower case and plain, cost a look at once.

    What is rendered is not looked at: its names are judged where they are made.
    """
    paths = [*written.sources, *written.policies, *written.evidence]
    together = f"/{'/'.join(paths)}/"
    if together.lower() != together:
        yield from _case_collisions(paths)
    if _WINDOWS_SIGNS.search(together) or _WINDOWS_NAMES.search(together):
        for path in paths:
            if _WINDOWS_SIGNS.search(f"{path}/") or _WINDOWS_NAMES.search(f"/{path}/"):
                yield Problem(
                    rule="git.reserved-name",
                    place=SourceRef(path=path),
                    message="cannot be checked out on Windows, which keeps this name or sign for itself",
                    hint="rename the file or folder",
                    severity=Severity.WARNING,
                )


def _case_collisions(paths: Iterable[str]) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for path in paths:
        other = first.setdefault(path.casefold(), path)
        if other != path:
            yield Problem(
                rule="git.case-collision",
                place=SourceRef(path=path),
                message=f"differs from {other} only in case: where case does not count, a checkout loses one of them",
                hint="rename one of them",
            )
