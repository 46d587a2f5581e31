"""What a build reads: the files of an overlay with its bases, or of a chart with its values.

Only these files are given to the program, so nothing else of the repository or of the machine can end up in the result,
and the result is known again by their ids. What a kustomization names and the repository lacks is left to the program,
whose message is the one that people know.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import FieldPath, SourceRef
from reconciler.kube.patterns import later
from reconciler.kube.problems import Problem
from reconciler.kube.values import mapping, sequence
from reconciler.kube.yaml import Document, read
from reconciler.repo.config.builds import ROOT, Build, Tool
from reconciler.repo.files import BlobIds, below
from reconciler.repo.port import Entry

KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
"""The names of a kustomization, as kustomize looks for them."""

FOLLOWED = frozenset({*KUSTOMIZATIONS, "Chart.yaml"})
"""The files that name what a build reads besides them."""

ReadFiles = Callable[[list[str]], Iterable[bytes]]
"""Returns the contents of files by path, in order."""

_FOLDERS = frozenset({"resources", "components", "bases", "generators", "transformers", "validators"})
"""Fields of a kustomization whose entries may be folders with one."""
_FILES = (
    *("resources", "components", "bases", "crds", "configurations", "generators", "transformers", "validators"),
    "patchesStrategicMerge",
)
_NAMING = {
    **dict.fromkeys(("patches", "patchesJson6902", "replacements"), ("path",)),
    **dict.fromkeys(("configMapGenerator", "secretGenerator"), ("files", "envs", "env")),
}
_REMOTE = later(
    r"^(?:[a-z0-9+.-]+://|git@|git::|github\.com[/:]|gitlab\.com[/:]|bitbucket\.org[/:])|\?ref=", re.IGNORECASE
)
"""What kustomize fetches: pkg.go.dev/sigs.k8s.io/kustomize/api/internal/git (repo specs), and URLs of files."""


class BuildInputs(Struct, frozen=True, kw_only=True):
    """The files that a build reads. `is_remote`: it reads something outside the repository, too."""

    files: Mapping[str, str]  # blob ids by path
    is_remote: bool = False
    problems: tuple[Problem, ...] = ()


def inputs_of(
    build: Build, files: BlobIds, read_files: ReadFiles, irregular: Mapping[str, Entry] | None = None
) -> BuildInputs:
    """Return what a build reads of the files of a revision; `irregular` are the links and submodules beside them."""
    if build.tool is Tool.HELM:
        return _Chart(build, files, read_files).inputs()
    return _Overlay(build, files, read_files, irregular or {}).inputs()


class _Overlay:
    """Follows kustomizations from an overlay to its bases."""

    def __init__(self, build: Build, files: BlobIds, read_files: ReadFiles, irregular: Mapping[str, Entry]) -> None:
        self._build = build
        self._files = files
        self._read = read_files
        self._irregular = irregular
        self._found: dict[str, str] = {}
        self._is_remote = False
        self._problems: list[Problem] = []

    def inputs(self) -> BuildInputs:
        components = (joined(".", str(name)) for name in sequence(self._build.overrides.get("components")))
        folders = [self._build.path, *components]
        if not self._kustomizations(self._build.path):
            resources = generated_resources(self._build.path, self._files)
            self._found.update({path: self._files[path] for path in resources if path in self._files})
            folders += [path for path in resources if path not in self._files]
        seen = {*folders}
        while folders:
            paths = [path for folder in folders for path in self._kustomizations(folder)]
            found: list[str] = []
            for path, raw in zip(paths, self._read(paths), strict=True):
                self._found[path] = self._files[path]
                for document in _documents(path, raw):
                    found += self._follow(posixpath.dirname(path), document)
            folders = [folder for folder in dict.fromkeys(found) if folder not in seen]
            seen.update(folders)
        return BuildInputs(files=self._found, is_remote=self._is_remote, problems=tuple(self._problems))

    def _kustomizations(self, folder: str) -> list[str]:
        return [path for name in KUSTOMIZATIONS if (path := joined(folder, name)) in self._files]

    def _follow(self, folder: str, document: Document) -> Iterator[str]:
        """Add the files that a kustomization names, and yield the folders."""
        for path, name in references(document.data):
            if _REMOTE.search(name):
                self._is_remote = True
                if not self._build.network:
                    self._problems.append(_remote_problem(document, path, name, waits=self._build.network_waits))
                continue
            target = joined(folder, name)
            if name.startswith("/") or target.startswith(".."):
                self._problems.append(_outside_problem(document, path, name))
            elif target in self._files:
                self._found[target] = self._files[target]
            elif special := next((one for one in (*parents(target), target) if one in self._irregular), ""):
                self._problems.append(_special_problem(document, path, name, special, self._irregular[special]))
            elif path[0] in _FOLDERS:
                yield target
        for index, chart in enumerate(sequence(document.data.get("helmCharts"))):
            self._problems.append(_chart_problem(document, ("helmCharts", index), mapping(chart)))


@lru_cache(4096)
def _documents(path: str, raw: bytes) -> tuple[Document, ...]:
    """Read a file once: many overlays name the same base."""
    return read(path, raw).documents


def references(data: Mapping[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    """Yield what a kustomization names, each with its place: folders, files, addresses."""
    for name in _FILES:
        for index, entry in enumerate(sequence(data.get(name))):
            if isinstance(entry, str) and "\n" not in entry:  # with lines: a document written in place
                yield (name, index), entry
    for name, fields in _NAMING.items():
        for index, entry in enumerate(sequence(data.get(name))):
            for field in fields:
                named = mapping(entry).get(field)
                for file in [named] if isinstance(named, str) else sequence(named):
                    yield (name, index, field), str(file).rpartition("=")[2]
    if isinstance(path := mapping(data.get("openapi")).get("path"), str):
        yield ("openapi", "path"), path


def generated_resources(folder: str, files: Iterable[str]) -> list[str]:
    """Return the resources of a folder without a kustomization: its manifests at any depth, and overlays in it.

    Flux makes one in this way: github.com/fluxcd/pkg/kustomize (`kustomize_generator.go`).
    """
    prefix = "" if folder == ROOT else f"{folder}/"
    below_it = [path for path in files if path.startswith(prefix)]
    inside = [path for path in below_it if path.endswith((".yaml", ".yml"))]
    overlays = {posixpath.dirname(path) for path in below_it if posixpath.basename(path) in KUSTOMIZATIONS}
    resources: dict[str, None] = {}
    for path in inside:
        above = [parent for parent in parents(path) if parent in overlays]
        resources[min(above, key=len) if above else path] = None
    return list(resources)


def parents(path: str) -> list[str]:
    """Return the folders above a file, the top one first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


class _Chart:
    """Finds the files of a chart, of its charts in `file://` dependencies, and of its values."""

    def __init__(self, build: Build, files: BlobIds, read_files: ReadFiles) -> None:
        self._build = build
        self._files = files
        self._read = read_files

    def inputs(self) -> BuildInputs:
        found: dict[str, str] = {}
        is_remote = False
        problems: list[Problem] = []
        folders, seen = [self._build.path], {self._build.path}
        while folders:
            folder = folders.pop()
            found.update(below(self._files, folder))
            path = joined(folder, "Chart.yaml")
            if path not in self._files:
                continue
            (raw,) = self._read([path])
            for document in _documents(path, raw):
                for index, entry in enumerate(sequence(document.data.get("dependencies"))):
                    address = str(mapping(entry).get("repository") or "")
                    if address.startswith("file://"):
                        target = joined(folder, address.removeprefix("file://"))
                        if target.startswith(".."):
                            at: FieldPath = ("dependencies", index, "repository")
                            problems.append(_outside_problem(document, at, address))
                        elif target not in seen:
                            seen.add(target)
                            folders.append(target)
                    elif address and self._build.network_waits:
                        problems.append(_remote_problem(document, ("dependencies", index), address, waits=True))
                    elif address:
                        is_remote = self._build.network
        found.update({path: self._files[path] for path in self._build.values if path in self._files})
        return BuildInputs(files=found, is_remote=is_remote, problems=tuple(problems))


def joined(folder: str, name: str) -> str:
    """Return the path of what a file of a folder names."""
    return posixpath.normpath(posixpath.join(folder, name))


def tool_of(folder: str, has: Callable[[str], bool]) -> Tool | None:
    """Return the program that builds a folder, by the file that it reads there; None if there is no such file."""
    if any(has(joined(folder, name)) for name in KUSTOMIZATIONS):
        return Tool.KUSTOMIZE
    return Tool.HELM if has(joined(folder, "Chart.yaml")) else None


def _remote_problem(document: Document, path: FieldPath, name: str, *, waits: bool = False) -> Problem:
    if waits:
        return Problem(
            rule="build.network",
            place=document.at(path),
            message=f"{name} is outside the repository, and the base does not let this build use the network yet",
            hint="merge network: true of the entry in spec.sources of reconciler.yaml first, then what it fetches",
        )
    return Problem(
        rule="build.remote",
        place=document.at(path),
        message=f"{name} is outside the repository, and this build may not use the network",
        hint="copy it into the repository, or allow it: network: true in spec.sources of reconciler.yaml",
    )


def _outside_problem(document: Document, path: FieldPath, name: str) -> Problem:
    message = f"{name} is not inside the repository"
    return Problem(rule="build.outside", place=document.at(path), message=message, hint="name a path in the repository")


_SPECIAL = {
    "120000": ("a symbolic link, which is not followed", "name the file or folder that it leads to"),
    "160000": ("a submodule, which is not fetched", "copy what the build needs into the repository"),
}


def _special_problem(document: Document, path: FieldPath, name: str, special: str, entry: Entry) -> Problem:
    what, hint = _SPECIAL.get(entry.mode, ("no regular file", "name a file"))
    message = f"{name} cannot be read: {special} is {what}"
    return Problem(rule="build.special", place=document.at(path), message=message, hint=hint)


def _chart_problem(document: Document, path: FieldPath, chart: Mapping[str, Any]) -> Problem:
    return Problem(
        rule="build.chart",
        place=document.at(path),
        message=f"kustomize runs helm for the chart {chart.get('name', '')}, which is not allowed",
        hint="build the chart with an entry of its own in spec.sources of reconciler.yaml: build: helm",
    )


def missing_problem(build: Build) -> Problem:
    """Return the problem of an entry whose folder holds nothing to build."""
    what = "kustomization.yaml" if build.tool is Tool.KUSTOMIZE else "Chart.yaml"
    return Problem(
        rule="build.missing",
        place=SourceRef(path="reconciler.yaml"),
        field=f"spec.sources[{build.field[-1]}].path",
        message=f"{build.path} has no {what}",
        hint="correct the path, or remove the entry",
    )
