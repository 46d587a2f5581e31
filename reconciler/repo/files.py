"""The files of one revision by role: settings, sources, policies, evidence, approvals, rendered objects."""

import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from reconciler.kube.objects import SourceRef
from reconciler.kube.patterns import later
from reconciler.kube.problems import Problem, Severity
from reconciler.repo.config import Cluster, Config
from reconciler.repo.config.builds import ROOT, clusters_of
from reconciler.repo.port import Entry, Tree

CONFIG_PATH = "reconciler.yaml"
IGNORE_FILE = ".sourceignore"
"""The file of Flux with patterns of files that it does not read."""
SUFFIXES = (".yaml", ".yml", ".json")
FOLDER_SUFFIX = ".files"
"""The end of the names of folders whose files are no sources: source documents beside them carry them to their pods."""

BlobIds = Mapping[str, str]
"""Git blob ids by path, in the order of the paths."""


class TreeFiles(Struct, frozen=True, array_like=True):
    """The files that a plan reads of one tree. `rendered` is keyed by path below the rendered folder.

    `irregular` holds what cannot be read: symlinks, submodules, and files whose names are not printable.
    """

    written: dict[str, str] = {}
    rendered: dict[str, str] = {}
    irregular: dict[str, Entry] = {}


class RevisionFiles(Struct, frozen=True, kw_only=True):
    """Blob ids by path and role. Paths of `rendered` are below its folder, all others below the root."""

    settings: BlobIds
    sources: BlobIds
    policies: BlobIds
    evidence: BlobIds
    approvals: BlobIds
    rendered: BlobIds
    carried: BlobIds = {}  # in folders that source documents carry (`FOLDER_SUFFIX`), of any name
    problems: tuple[Problem, ...] = ()

    @property
    def written(self) -> tuple[BlobIds, ...]:
        """Everything that people write, except approvals: a plan is the same before and after its approval."""
        sources = dict(sorted({**self.sources, **self.carried}.items())) if self.carried else self.sources
        return self.settings, sources, self.policies, self.evidence


def split_tree(tree: Tree, folder: str) -> TreeFiles:
    """Separate rendered objects, which are below `folder`, from what people write."""
    return _change(TreeFiles(), tree, folder)


def apply_changes(files: TreeFiles, changes: Mapping[str, Entry | None], folder: str) -> TreeFiles:
    """Return the files after these changes; None deletes a path."""
    return _change(files, changes, folder) if changes else files


def _change(files: TreeFiles, changes: Mapping[str, Entry | None], folder: str) -> TreeFiles:
    written: dict[str, str | None] = {}
    rendered: dict[str, str | None] = {}
    irregular = {path: entry for path, entry in files.irregular.items() if path not in changes}
    prefix = f"{folder}/"
    for path, entry in changes.items():
        is_regular = entry is not None and entry.is_file and path.isprintable()
        group, key = (rendered, path[len(prefix) :]) if path.startswith(prefix) else (written, path)
        group[key] = entry.oid if entry is not None and is_regular else None
        if entry is not None and not is_regular:
            irregular[path] = entry
    return TreeFiles(_merge(files.written, written), _merge(files.rendered, rendered), irregular)


def _merge(blobs: dict[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return blob ids with these changes, sorted by path; None deletes."""
    if not changes:
        return blobs
    merged = {**blobs, **changes}
    return {path: blob for path in sorted(merged) if (blob := merged[path]) is not None}


def digest_files(*groups: BlobIds) -> str:
    """Return the SHA-256 of paths and blob ids."""
    lists = ["\n".join(map("\t".join, group.items())) for group in groups]
    return sha256("\n\n".join(lists).encode()).hexdigest()


def below(files: BlobIds, *folders: str) -> BlobIds:
    """Return the files below any of these folders."""
    paths = list(files)
    return {
        path: files[path] for folder in sorted(folders, key=_prefix) for path in paths[slice(*_range(paths, folder))]
    }


def count_below(files: BlobIds, folder: str) -> int:
    """Count the files below a folder."""
    first, end = _range(list(files), folder)
    return end - first


def _range(paths: list[str], folder: str) -> tuple[int, int]:
    """Return the range of the paths below a folder in sorted paths."""
    if folder == ROOT:
        return 0, len(paths)
    return bisect_left(paths, _prefix(folder)), bisect_left(paths, f"{folder}0")  # "0" follows "/"


def _prefix(folder: str) -> str:
    return f"{folder}/"


def report_files(config: Config, evidence: BlobIds, cluster: str = "") -> BlobIds:
    """Return the stored health reports among evidence: the folders `reports` of one cluster, or of all."""
    folders = [cluster] if cluster else [one.name for one in config.clusters]
    return below(evidence, *(f"{config.evidence}/{name}/reports" for name in folders))


def read_paths(config: Config) -> tuple[str, ...]:
    """Return every path that a plan reads; none means all: a build may read any file."""
    if config.builds or ROOT in config.sources:
        return ()
    return _named_paths(config)


def _named_paths(config: Config) -> tuple[str, ...]:
    return (
        CONFIG_PATH,
        IGNORE_FILE,
        *config.sources,
        *config.policies,
        config.evidence,
        config.approvals,
        config.rendered,
    )


def assign_roles(config: Config, files: TreeFiles) -> RevisionFiles:
    """Assign each file its role; symlinks, submodules and file names that cannot be printed become problems."""
    written = files.written
    folders = (config.sources, config.policies, (config.evidence,), (config.approvals,))
    roles = [below(written, *roots) for roots in folders]
    if ROOT in config.sources:
        others = {CONFIG_PATH}.union(*roles[1:])
        roles[0] = {path: oid for path, oid in written.items() if path not in others}
    carried = {path: oid for path, oid in roles[0].items() if f"{FOLDER_SUFFIX}/" in path}
    if carried:
        roles[0] = {path: oid for path, oid in roles[0].items() if path not in carried}
    unread = [path for role in roles for path in role if not path.endswith(SUFFIXES)]
    sources, policies, evidence, approvals = (
        {path: oid for path, oid in role.items() if path.endswith(SUFFIXES)} if unread else role for role in roles
    )
    return RevisionFiles(
        settings={CONFIG_PATH: written[CONFIG_PATH]} if CONFIG_PATH in written else {},
        sources=sources,
        policies=policies,
        evidence=evidence,
        approvals=approvals,
        rendered=files.rendered,
        carried=carried,
        problems=(
            *_irregular_problems(config, files.irregular),
            *_empty_folders(config, roles[0]),
            *(_upper_case_suffix(path) for path in unread if path.lower().endswith(SUFFIXES)),
        ),
    )


def excluded(config: Config, sources: Iterable[str], ignored: Mapping[str, bytes]) -> frozenset[str]:
    """Return the source files that are not read: `spec.exclude`, and the patterns of `.sourceignore` files by path.

    Both have the form of a .gitignore; those of a file are relative to its folder, and a deeper one decides.
    """
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - takes longer than the rest, and few repositories need it

    names = list(sources)
    found = set(GitIgnoreSpec.from_lines(config.exclude).match_files(names)) if config.exclude else set()
    for path, raw in sorted(ignored.items()):
        folder = path.removesuffix(IGNORE_FILE)
        spec = GitIgnoreSpec.from_lines(raw.decode("utf-8", "replace").splitlines())
        for name in names:
            if name.startswith(folder):
                is_ignored = spec.check_file(name[len(folder) :]).include
                found = found | {name} if is_ignored else found - {name} if is_ignored is False else found
    return frozenset(found)


def selects(cluster: Cluster, path: str, labels: object) -> bool:
    """Return whether `cluster` selects a source document, by its folder and its labels.

    The entry of a build may name its clusters.
    """
    named = clusters_of(path) if "#" in path else ()
    if named and cluster.name not in named:
        return False
    folders = cluster.select.folders
    if folders and ROOT not in folders and not any(path.startswith(f"{folder}/") for folder in folders):
        return False
    if not cluster.select.labels:
        return True
    return isinstance(labels, dict) and all(labels.get(name) == value for name, value in cluster.select.labels)


def _empty_folders(config: Config, sources: BlobIds) -> Iterator[Problem]:
    for folder in config.sources:
        if not count_below(sources, folder):
            yield Problem(
                rule="layout.empty",
                place=SourceRef(path=CONFIG_PATH),
                field="spec.sources",
                message=f"the source folder {folder} is empty or does not exist",
                hint="correct spec.sources, or keep a README in the folder",
                severity=Severity.WARNING,
            )


def _upper_case_suffix(path: str) -> Problem:
    message = "is not read, because the suffix is not in lower case"
    hint = "rename the file to .yaml, .yml or .json"
    return Problem(rule="layout.suffix", place=SourceRef(path=path), message=message, hint=hint)


_IRREGULAR = {
    "120000": ("git.symlink", "is a symbolic link; links are not followed", "commit the file itself"),
    "160000": ("git.submodule", "is a submodule; submodules are not read", "commit the files themselves"),
}


def _irregular_problems(config: Config, irregular: Mapping[str, Entry]) -> Iterator[Problem]:
    """Yield the problems of what cannot be read; a build says itself what it needs of them.

    Where nothing is rendered, a link or a submodule among the sources is a note: Flux ignores both.
    """
    roots = tuple("" if root == ROOT else f"{root}/" for root in _named_paths(config)[2:])
    for path, entry in irregular.items():
        is_read = path.endswith(SUFFIXES) or path.startswith(f"{config.rendered}/") or not entry.is_file
        if is_read and (path.startswith(roots) or path == CONFIG_PATH or f"{path}/" in roots):
            problem = _irregular_problem(path, entry)
            is_built = _is_built(config, path)
            if is_built is None or (config.is_rendered and not is_built):
                yield problem
            elif not is_built:
                yield replace(problem, severity=problem.severity if entry.is_file else Severity.WARNING)


def _is_built(config: Config, path: str) -> bool | None:
    """Return whether a program builds the source folder of a file; None for a file that has another role."""
    others = (*config.policies, config.evidence, config.approvals, config.rendered)
    folders = dict.fromkeys(config.plain_sources, False) | {one.path: True for one in config.builds}
    above = [folder for folder in folders if folder == ROOT or path.startswith(f"{folder}/")]
    if path == CONFIG_PATH or not above or path.startswith(tuple(f"{folder}/" for folder in others)):
        return None
    return folders[max(above, key=lambda folder: 0 if folder == ROOT else len(folder))]


def _irregular_problem(path: str, entry: Entry) -> Problem:
    printable = path if path.isprintable() else path.encode("unicode_escape", "backslashreplace").decode("ascii")
    rule, message, hint = "git.file-name", "the file name contains characters that are not printable", "rename the file"
    if not entry.is_file:
        special = ("git.special-file", "is not a regular file", "remove it from the repository")
        rule, message, hint = _IRREGULAR.get(entry.mode, special)
    return Problem(rule=rule, place=SourceRef(path=printable), message=message, hint=hint)


# Device names and characters: learn.microsoft.com/windows/win32/fileio/naming-a-file.
_WINDOWS_SIGNS = ("<", ">", ":", '"', "|", "?", "*", "\\", "./", " /")
_WINDOWS_NAMES = later(r"/(?:con|prn|aux|nul|com[1-9]|lpt[1-9])[./]")  # devices, which Windows has in every folder


def portability_problems(paths: Iterable[str]) -> Iterator[Problem]:
    """Warn of file names that a checkout on another operating system would lose.

    Rendered files are not looked at: a rule judges their names.
    """
    paths = list(paths)
    together = "".join([f"/{path}/\n" for path in paths])
    if not together.isascii() or together.lower() != together:
        yield from _case_collisions(paths)
    elif not _is_reserved(together):
        return
    for path in paths:
        if _is_reserved(f"/{path.lower()}/"):
            yield Problem(
                rule="git.reserved-name",
                place=SourceRef(path=path),
                message="cannot be checked out on Windows, where this name or character is reserved",
                hint="rename the file or folder",
                severity=Severity.WARNING,
            )


def _is_reserved(text: str) -> bool:
    return any(sign in text for sign in _WINDOWS_SIGNS) or _WINDOWS_NAMES.search(text) is not None


def _folded(path: str) -> str:
    """Return what a file system takes for the name if it ignores case and the form of accents, as macOS does."""
    if path.isascii():
        return path.lower()

    return unicodedata.normalize("NFC", path.casefold())


def _slashes(path: str) -> list[int]:
    return [position for position, sign in enumerate(path) if sign == "/"]


def _case_collisions(paths: Sequence[str]) -> Iterator[Problem]:
    folders = {_folded(path[:end]): path[:end] for path in paths for end in _slashes(path)}
    first: dict[str, str] = {}
    for path in paths:
        key = _folded(path)
        other = folders.get(key) or first.setdefault(key, path)
        if other != path:
            way = "in case" if other.casefold() == path.casefold() else "in its Unicode form"
            message = f"differs from {other} only {way}; a checkout on some file systems loses one of them"
            place = SourceRef(path=path)
            yield Problem(rule="git.case-collision", place=place, message=message, hint="rename one of them")
