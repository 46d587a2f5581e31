"""Which path of a repository is what: settings, sources, policies, evidence, rendered objects."""

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from reconciler.core.config import Cluster, Config
from reconciler.core.objects import SourceRef
from reconciler.core.problems import Problem, Severity
from reconciler.ports import Entry, Tree
from reconciler.revision.listing import Listing, joined

CONFIG_PATH = "reconciler.yaml"
SUFFIXES = (".yaml", ".yml", ".json")


class Files(Struct, frozen=True, kw_only=True):
    """What a tree holds: what people write, what is `rendered` by path below that folder, and the odd.

    Odd is what cannot be read: what is no regular file, and names that are not printable.
    """

    written: Listing = Listing()
    rendered: Listing = Listing()
    odd: Mapping[str, Entry] = {}

    @classmethod
    def of(cls, tree: Tree, rendered: str) -> "Files":
        """Sort out what lies below the folder `rendered`, and the odd ones, which are rare."""
        odd = {path: entry for path, entry in tree.items() if not _is_plain(path, entry)}
        plain = Listing.of({path: entry.oid for path, entry in tree.items() if path not in odd})
        before, below, after = plain.parted(rendered)
        return cls(written=joined(before, after), rendered=below.relative_to(rendered), odd=odd)

    def changed(self, changes: Mapping[str, Entry | None], rendered: str) -> "Files":
        """Return what is there after these changes; None: nothing is there."""
        odd = {path: entry for path, entry in self.odd.items() if path not in changes}
        odd |= {path: entry for path, entry in changes.items() if entry is not None and not _is_plain(path, entry)}
        plain = {
            path: entry.oid if entry is not None and entry.is_file else None
            for path, entry in changes.items()
            if path.isprintable()
        }
        prefix = f"{rendered}/"
        written = {path: oid for path, oid in plain.items() if not path.startswith(prefix)}
        below = {path.removeprefix(prefix): oid for path, oid in plain.items() if path.startswith(prefix)}
        return Files(written=self.written.replaced(written), rendered=self.rendered.replaced(below), odd=odd)


def _is_plain(path: str, entry: Entry) -> bool:
    return entry.is_file and path.isprintable()


class Layout(Struct, frozen=True, kw_only=True):
    """The files of one revision by their role; `rendered` by path below its folder, all others below the root."""

    settings: Listing
    sources: Listing
    policies: Listing
    evidence: Listing
    rendered: Listing
    problems: tuple[Problem, ...]

    @property
    def written(self) -> tuple[Listing, ...]:
        """All that people write."""
        return self.settings, self.sources, self.policies, self.evidence


def folders(config: Config) -> tuple[str, ...]:
    """Return every path that a plan reads."""
    return (CONFIG_PATH, *config.sources, *config.policies, config.evidence, config.rendered)


def layout(config: Config, files: Files) -> Layout:
    """Sort files by role; symlinks, submodules and unspeakable names become problems."""
    written = files.written
    roles = [_documents(written, roots) for roots in (config.sources, config.policies, (config.evidence,))]
    (sources, policies, evidence), unread = zip(*roles, strict=True)
    return Layout(
        settings=Listing.of({CONFIG_PATH: written[CONFIG_PATH]} if CONFIG_PATH in written else {}),
        sources=sources,
        policies=policies,
        evidence=evidence,
        rendered=files.rendered,
        problems=(
            *_entry_problems(config, files.odd),
            *_empty(config, written),
            *(_misnamed(path) for paths in unread for path in paths if path.lower().endswith(SUFFIXES)),
        ),
    )


def selects(cluster: Cluster, path: str, labels: object) -> bool:
    """Whether `cluster` takes a source document, by its folder and its labels."""
    if cluster.select.folders and not any(path.startswith(f"{folder}/") for folder in cluster.select.folders):
        return False
    if not cluster.select.labels:
        return True
    return isinstance(labels, dict) and all(labels.get(name) == value for name, value in cluster.select.labels)


def _documents(files: Listing, roots: tuple[str, ...]) -> tuple[Listing, list[str]]:
    """Join what lies below the roots, one within another left out; and name what is not read for its suffix."""
    tops = {f"{root}/" for root in roots if not any(root.startswith(f"{other}/") for other in roots)}
    found = joined(*(files.below(top.removesuffix("/")) for top in sorted(tops)))
    if sum(found.text.count(f"{suffix}\t") for suffix in SUFFIXES) == len(found):
        return found, []  # as nearly always
    others = [path for path in found if not path.endswith(SUFFIXES)]
    return found.replaced(dict.fromkeys(others)), others


def _empty(config: Config, files: Listing) -> Iterator[Problem]:
    """Name source folders that are probably misspelt."""
    for folder in config.sources:
        if not files.below(folder):
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


def _misnamed(path: str) -> Problem:
    message = "is not read: as for kubectl, suffixes are in lower case"
    hint = "rename the file to .yaml, .yml or .json"
    return Problem(rule="layout.suffix", place=SourceRef(path=path), message=message, hint=hint)


_KINDS_OF_ENTRY = {
    "120000": ("git.symlink", "is a symbolic link, which is never followed", "commit the file itself"),
    "160000": ("git.submodule", "is a submodule, which is never read", "commit the files themselves"),
}


def _entry_problems(config: Config, odd: Mapping[str, Entry]) -> Iterator[Problem]:
    """Say what is wrong with the paths that a plan reads."""
    roots = tuple(f"{root}/" for root in folders(config)[1:])
    for path, entry in odd.items():
        is_read = path.endswith(SUFFIXES) or path.startswith(f"{config.rendered}/") or not entry.is_file
        if is_read and (path.startswith(roots) or path == CONFIG_PATH or f"{path}/" in roots):
            yield _entry_problem(path, entry)


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


def are_usual(paths: Iterable[str]) -> bool:
    """Whether names are in lower case and can be checked out anywhere: one look at all of them.

    Names that are usual by themselves are so together.
    """
    together = f"/{'/'.join(paths)}/"
    return together.lower() == together and not _WINDOWS_SIGNS.search(together) and not _WINDOWS_NAMES.search(together)


def portability_problems(paths: Iterable[str]) -> Iterator[Problem]:
    """Name files that a colleague's checkout would lose; among usual names there are none.

    What is rendered is not looked at: its names are judged where they are made.
    """
    paths = list(paths)
    yield from _case_collisions(paths)
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
