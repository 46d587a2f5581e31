"""`spec.sources` entries that a program builds: a Kustomize overlay or a Helm chart of the repository."""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import later
from reconciler.kube.problems import Violation

ROOT = "."
"""The root of the repository as a source folder: everything that has no other role."""


_NAMED_CLUSTERS = later(r"(?:^|/)(?:kustomization\.yaml#build|Chart\.yaml#[^/@]*)@([^/]+)$")


class Tool(StrEnum):
    """The program that builds a folder."""

    KUSTOMIZE = "kustomize"
    HELM = "helm"


class Build(Struct, frozen=True, kw_only=True):
    """A folder that a program builds, and what the delivery adds: a Flux Kustomization, an Argo CD Application.

    `overrides` are the fields that the delivery adds to an overlay, as a kustomization has them. `variables` are
    substituted in the result as Flux does; None: nothing is. `values` are files, `inline_values` a mapping after them.
    """

    path: str
    tool: Tool
    field: FieldPath = ()  # the place of the entry in `reconciler.yaml`
    delivery: str = ""  # the file with the object of Flux or Argo CD that delivers it, and says what it adds
    version: str = ""  # the pinned version of the program; empty: any
    network: bool = False
    network_waits: bool = False  # the entry allows it, and the base does not yet
    clusters: tuple[str, ...] = ()  # empty: those that select the folder
    overrides: Mapping[str, Any] = {}
    variables: Mapping[str, str] | None = None
    release: str = ""
    namespace: str = ""
    values: tuple[str, ...] = ()
    inline_values: Mapping[str, Any] = {}
    kube_version: str = ""

    @property
    def source(self) -> str:
        """The path that stands for the result among the source files: the file that one opens first."""
        folder = "" if self.path == ROOT else f"{self.path}/"
        of_clusters = f"@{','.join(self.clusters)}" if self.clusters else ""
        if self.tool is Tool.KUSTOMIZE:
            return f"{folder}kustomization.yaml#build{of_clusters}"
        release = f"{self.namespace}.{self.release}" if self.namespace else self.release
        return f"{folder}Chart.yaml#{release}{of_clusters}"


def default_release(folder: str) -> str:
    """Return the name of the release of a chart that nothing installs: that of its folder, at the root Helm's own."""
    return "release-name" if folder == ROOT else posixpath.basename(folder)


def clusters_of(source: str) -> tuple[str, ...]:
    """Return the clusters that the path of a build names (`Build.source`); none for another file, or without any."""
    found = _NAMED_CLUSTERS.search(source)
    return tuple(found[1].split(",")) if found else ()


def source_folders(entries: Sequence[Any]) -> list[str]:
    """Return the folders of `spec.sources` as written, built or not."""
    return [entry if isinstance(entry, str) else entry["path"] for entry in entries]


def parse_builds(spec: Mapping[str, Any], normalize: Callable[[str], str]) -> tuple[Build, ...]:
    """Return the entries of `spec.sources` that are built."""
    versions = spec.get("builds", {})
    return tuple(
        Build(
            path=normalize(entry["path"]),
            tool=Tool(entry["build"]),
            field=("spec", "sources", index),
            delivery=entry.get("delivery", ""),
            version=versions.get(entry["build"], ""),
            network=entry.get("network", False),
            clusters=tuple(entry.get("clusters", ())),
            overrides=entry.get("overrides", {}),
            variables=entry.get("substitute"),
            release=entry.get("release", ""),
            namespace=entry.get("namespace", ""),
            values=tuple(normalize(path) for path in entry.get("values", ())),
            inline_values=entry.get("inlineValues", {}),
            kube_version=entry.get("kubeVersion", ""),
        )
        for index, entry in enumerate(spec.get("sources", ()))
        if isinstance(entry, dict)
    )


def build_violations(builds: tuple[Build, ...]) -> Iterator[Violation]:
    """Yield what a schema cannot say about builds: two with one result, values outside the repository."""
    seen: dict[str, FieldPath] = {}
    for build in builds:
        if build.tool is Tool.HELM and not build.release:
            message, hint = "a chart is built for a release", "add its name: release: my-release"
            yield Violation(rule="config.sources", path=build.field, message=message, hint=hint)
        if build.source in seen:
            message = f"{build.path} is built twice" + (f" for the release {build.release}" if build.release else "")
            hint = "keep one entry, or name another release"
            yield Violation(rule="config.sources", path=build.field, message=message, hint=hint)
        seen[build.source] = build.field
        for position, path in enumerate(build.values):
            if path.startswith(("/", "../")) or "/../" in path:
                message = f"{path!r} is not a file inside the repository"
                at = (*build.field, "values", position)
                yield Violation(rule="config.sources", path=at, message=message, hint="write a path below the root")
