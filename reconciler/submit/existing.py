"""`reconciler init --existing`: from a repository as it is to one `reconciler.yaml`, and a report of what was found.

In: the files of the working tree. What a controller delivers becomes a source with the build that it uses; so do
overlays and charts that nothing delivers, and folders of manifests. No file besides `reconciler.yaml` is written.
"""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError
from reconciler.kinds.facts import QueueRole
from reconciler.kinds.kind import Kinds
from reconciler.kinds.kueue.labels import NAMED_BY_LABELS, QUEUE_LABEL
from reconciler.kube.yaml import Document, Reading, read
from reconciler.kube.yaml.writer import write
from reconciler.repo.builds.delivery import Delivery, deliveries, is_delivery, is_same_repository
from reconciler.repo.builds.inputs import KUSTOMIZATIONS, generated_resources, inputs_of, joined, parents, tool_of
from reconciler.repo.config import Backend
from reconciler.repo.config.builds import ROOT, Build, Tool, default_release
from reconciler.repo.files import CONFIG_PATH, SUFFIXES
from reconciler.repo.others import not_a_manifest
from reconciler.repo.port import Repository

_QUEUE_RULE = "reference.queue"
_RESERVED = ("policies", "evidence", "approvals", "rendered")
_MAX_BYTES = 4 << 20  # of one file that is looked at


class FoundSource(Struct, frozen=True, kw_only=True):
    """A source that was found: the folder, how it is built, and why it is one."""

    path: str
    reason: str
    tool: Tool | None = None
    clusters: tuple[str, ...] = ()
    delivery: Delivery | None = None
    variables: Mapping[str, str] | None = None


class Survey(Struct, frozen=True, kw_only=True):
    """The contents of a repository: sources, clusters with their backends, and what was left out, with reasons."""

    entries: tuple[FoundSource, ...]
    clusters: Mapping[str, str]  # backends by name
    left_out: tuple[tuple[str, str], ...]
    excluded: tuple[str, ...] = ()
    external: tuple[str, ...] = ()  # kinds of objects that the clusters have and the repository lacks


def survey(repository: Repository, kinds: Kinds, urls: Iterable[str] = ()) -> Survey:
    """Read the working tree and find its sources.

    urls: those of the repository, by which deliveries of others are known; without any, none is.
    """
    return _Surveyor(repository, kinds, urls).survey()


class _Surveyor:
    def __init__(self, repository: Repository, kinds: Kinds, urls: Iterable[str]) -> None:
        self._urls = tuple(urls)
        tree = {path: entry.oid for path, entry in repository.work_tree().items() if entry.is_file}
        self._repository = repository
        self._kinds = kinds
        self._blobs = tree
        self._paths = [path for path in tree if path.endswith(SUFFIXES) and path != CONFIG_PATH]
        self._raw = dict(zip(self._paths, repository.read([tree[path] for path in self._paths]), strict=True))
        self._readings: dict[str, Reading] = {
            path: read(path, raw) if len(raw) <= _MAX_BYTES else Reading() for path, raw in self._raw.items()
        }
        self._left_out: list[tuple[str, str]] = []

    def survey(self) -> Survey:
        folders = sorted({parent for path in self._blobs for parent in parents(path)})
        documents = [one for reading in self._readings.values() for one in reading.documents]
        found: list[FoundSource] = []
        for delivery in deliveries(documents, folders):
            entry = self._delivered(delivery, documents)
            if entry is None:
                continue
            if any(_is_same(entry, other) for other in found):
                self._left_out.append((entry.reason, "another object delivers the folder to the same cluster"))
            else:
                found.append(entry)
        used = set[str]().union(*(self._read_by(entry) for entry in found))
        clusters = sorted({name for entry in found for name in entry.clusters})
        undelivered = [*self._undelivered(used)]
        used = used.union(*(self._read_by(entry) for entry in undelivered))
        plain, others = self._plain(used, clusters)
        found += self._placed((*undelivered, *plain), clusters, others)
        if not found:
            raise ConfigError(
                "no Kubernetes manifest, overlay or chart was found in the repository",
                hint="create a config repository instead: reconciler init DIR",
            )
        return Survey(
            entries=tuple(sorted(found, key=lambda one: (one.path, one.clusters, one.reason))),
            clusters=self._clusters(found, documents),
            external=self._external(documents),
            left_out=tuple(dict.fromkeys(self._left_out)),
            excluded=tuple(others),
        )

    # What controllers deliver.

    def _delivered(self, delivery: Delivery, documents: Sequence[Document]) -> FoundSource | None:
        named = f"{delivery.kind} {delivery.name} ({delivery.place.path})"
        if delivery.left_out:
            self._left_out.append((named, delivery.left_out))
            return None
        is_url = "/" in delivery.repository
        if is_url and self._urls and not any(is_same_repository(delivery.repository, url) for url in self._urls):
            self._left_out.append((named, f"it is in another repository: {delivery.repository}"))
            return None
        tool = tool_of(delivery.path, self._blobs.__contains__)
        is_there = delivery.path == ROOT or any(path.startswith(f"{delivery.path}/") for path in self._blobs)
        if not is_there:
            self._left_out.append((named, f"its path {delivery.path} is not in this repository"))
            return None
        if delivery.skips_missing_values:
            delivery = replace(delivery, values=tuple(path for path in delivery.values if path in self._blobs))
        variables = delivery.substitute
        if delivery.substitute_from:
            variables = {**self._variables(delivery, documents), **(variables or {})}
        if tool is None and (variables is not None or delivery.overrides or delivery.cluster):
            tool = Tool.KUSTOMIZE  # which takes a folder of manifests too, as Flux does
        return FoundSource(
            path=delivery.path,
            reason=f"{delivery.kind} {delivery.name} in {delivery.place}",
            tool=tool,
            clusters=(delivery.cluster,) if delivery.cluster else (),
            delivery=delivery,
            variables=variables,
        )

    def _variables(self, delivery: Delivery, documents: Sequence[Document]) -> dict[str, str]:
        """Return the data of the ConfigMaps that a Flux Kustomization substitutes from."""
        found: dict[str, str] = {}
        for name in delivery.substitute_from:
            of_name = [one for one in documents if one.key.name == name and isinstance(one.data.get("data"), dict)]
            if not of_name:
                reason = f"{delivery.name} substitutes them, but they are not in the repository"
                if name in delivery.optional_from:
                    reason = f"optional in {delivery.name}, and not in the repository: defaults count"
                self._left_out.append((f"the variables of {name}", reason))
            for one in of_name[:1]:
                found.update({key: str(value) for key, value in one.data["data"].items()})
        return found

    # What nothing delivers.

    def _undelivered(self, used: set[str]) -> Iterator[FoundSource]:
        """Yield overlays that no other one uses, and charts, besides those that are delivered."""
        overlays = [path for path in self._blobs if posixpath.basename(path) in KUSTOMIZATIONS and path not in used]
        of_others: set[str] = set()
        for path in overlays:
            folder = posixpath.dirname(path) or ROOT
            read_too = self._read_by(FoundSource(path=folder, reason="", tool=Tool.KUSTOMIZE))
            of_others |= {other for other in read_too if other != path}
        for path in overlays:
            is_component = any(one.kind == "Component" for one in read(path, self._content(path)).documents)
            if path not in of_others and not is_component:
                folder = posixpath.dirname(path) or ROOT
                yield FoundSource(path=folder, reason="an overlay that no other one uses", tool=Tool.KUSTOMIZE)
        charts = [posixpath.dirname(path) or ROOT for path in self._blobs if posixpath.basename(path) == "Chart.yaml"]
        for folder in charts:
            is_part = any(joined(other, "charts") in parents(f"{folder}/x") for other in charts)
            if joined(folder, "Chart.yaml") not in used and not is_part:
                yield FoundSource(path=folder, reason="a chart that nothing in the repository installs", tool=Tool.HELM)

    def _placed(
        self, entries: Iterable[FoundSource], clusters: Sequence[str], others: Sequence[str]
    ) -> Iterator[FoundSource]:
        """Yield what nothing delivers for the one cluster that its folder names, where several are named.

        Otherwise it would count once for each of them. others: files that a build of their folder would refuse.
        """
        for entry in entries:
            named = {*entry.path.split("/")} & {*clusters}
            is_clean = entry.tool is not None or not any(path.startswith(f"{entry.path}/") for path in others)
            if len(clusters) <= 1:
                yield entry
            elif len(named) == 1 and is_clean:
                yield replace(entry, tool=entry.tool or Tool.KUSTOMIZE, clusters=tuple(named))
            else:
                reason = "nothing in the repository delivers it to a cluster; add it to spec.sources if one gets it"
                self._left_out.append((entry.path, reason))

    def _content(self, path: str) -> bytes:
        (raw,) = self._read([path])
        return raw

    def _read_by(self, entry: FoundSource) -> set[str]:
        """Return the files that a source reads."""
        if entry.tool is None:
            return {path for path in generated_resources(entry.path, self._paths) if path in self._blobs}
        values = entry.delivery.values if entry.delivery else ()
        overrides = entry.delivery.overrides if entry.delivery else {}
        build = Build(path=entry.path, tool=entry.tool, values=values, overrides=overrides)
        return {*inputs_of(build, self._blobs, self._read).files}

    def _read(self, paths: list[str]) -> Iterable[bytes]:
        return self._repository.read([self._blobs[path] for path in paths])

    def _plain(self, used: set[str], clusters: Sequence[str]) -> tuple[list[FoundSource], list[str]]:
        """Return the folders whose manifests nothing builds, and the files in them that are none."""
        manifests, others = set[str](), set[str]()
        for path in self._paths:
            if path in used or path.split("/")[0] in _RESERVED:
                continue
            reading = self._readings[path]
            has_type = any(one.api_version and one.kind for one in reading.documents)
            if has_type and all(is_delivery(one) for one in reading.documents):
                self._left_out.append((path, "it says what is delivered, which the sources follow; it is no source"))
            elif not_a_manifest(path, self._raw[path], reading) is None and (has_type or reading.problems):
                manifests.add(path)
            elif reading.documents or reading.problems:
                others.add(path)
        folders: list[str] = []
        for path in sorted(manifests):
            if any(folder == ROOT or path.startswith(f"{folder}/") for folder in folders):
                continue
            choices = [parent for parent in parents(path) if not any(one.startswith(f"{parent}/") for one in used)]
            of_cluster = (folder for folder in choices if posixpath.basename(folder) in clusters)
            folders.append(next(iter((*of_cluster, *choices)), posixpath.dirname(path) or ROOT))
        inside = [path for path in sorted(others) if any(one == ROOT or path.startswith(f"{one}/") for one in folders)]
        for path in sorted(others):
            note = not_a_manifest(path, self._raw[path], self._readings[path])
            if note is not None:
                reason = note.message.removeprefix("is ").removesuffix(", and is not read")
                self._left_out.append((path, reason))
        return [FoundSource(path=folder, reason="manifests that nothing builds") for folder in folders], inside

    def _clusters(self, entries: Iterable[FoundSource], documents: Sequence[Document]) -> dict[str, str]:
        """Return the clusters with their backends: that of the queues which the repository has."""
        names = sorted({name for entry in entries for name in entry.clusters}) or ["main"]
        rows = [self._kinds.find(one.group, one.kind) for one in documents]
        queues = [row for row in rows if row.queueing.role is not QueueRole.NONE and not row.queueing.root]
        backend = Backend.NONE if not queues else Backend.KAI if queues[0].queueing.follows_kai else Backend.KUEUE
        if not queues and any(QUEUE_LABEL.encode() in raw for raw in self._raw.values()):
            backend = Backend.KUEUE
        return dict.fromkeys(names, str(backend))

    def _external(self, documents: Sequence[Document]) -> tuple[str, ...]:
        """Return the kinds of queues that objects name and the repository lacks."""
        has_queues = any(self._kinds.find(one.group, one.kind).naming.rule == _QUEUE_RULE for one in documents)
        is_used = any(QUEUE_LABEL.encode() in raw for raw in self._raw.values())
        return NAMED_BY_LABELS if is_used and not has_queues else ()


def _is_same(one: FoundSource, other: FoundSource) -> bool:
    """Return whether two sources would be one build."""
    return _identity(one) == _identity(other)


def _identity(entry: FoundSource) -> tuple[object, ...]:
    of_release = entry.delivery if entry.tool is Tool.HELM else None
    release = (of_release.release, of_release.namespace) if of_release else ()
    return entry.path, entry.clusters, entry.tool, release


# The file.


def _extras(entry: FoundSource) -> dict[str, Any]:
    """Return what an entry of `spec.sources` says besides the folder and the program.

    What the delivery adds is read from its object with each plan; only variables of ConfigMaps are copied.
    """
    delivery = entry.delivery
    if delivery is None:
        return {"release": default_release(entry.path)} if entry.tool is Tool.HELM else {}
    extras: dict[str, Any] = {"delivery": delivery.place.path}
    if delivery.substitute_from and entry.variables is not None:
        own = delivery.substitute or {}
        extras["substitute"] = {name: value for name, value in entry.variables.items() if name not in own}
    if entry.tool is Tool.HELM:
        extras["release"] = delivery.release
    if delivery.namespace:
        extras["namespace"] = delivery.namespace
    return extras


def configuration(found: Survey, name: str) -> bytes:
    """Return `reconciler.yaml` for what was found, with a comment for each source."""
    external = f", external: [{', '.join(found.external)}]" if found.external else ""
    lines = [
        *("apiVersion: gpureconciler.io/v1alpha1", "kind: ReconcilerConfig", f"metadata: {{name: {name}}}", "spec:"),
        f"  # {_clusters_comment(found)}",
        "  clusters:",
        *(f"    - {{name: {cluster}, backend: {backend}{external}}}" for cluster, backend in found.clusters.items()),
        "  # Nothing is committed: plans compare what the sources build with what the base builds.",
        "  rendered: none",
        "  sources:",
    ]
    for entry in found.entries:
        first, *rest = _written(entry, is_many=len(found.clusters) > 1)
        lines += [f"    # {entry.reason}", f"    - {first}", *(f"      {line}" for line in rest)]
    if found.excluded:
        lines += ["  # No Kubernetes manifests.", "  exclude:", *(f"    - /{path}" for path in found.excluded)]
    return "\n".join((*lines, "")).encode()


def _written(entry: FoundSource, *, is_many: bool) -> list[str]:
    """Return the lines of an entry of `spec.sources`, the folder first."""
    path = write({"path": entry.path}).decode().rstrip()
    if entry.tool is None:
        return [path.removeprefix("path: ")]
    clusters = {"clusters": [*entry.clusters]} if is_many and entry.clusters else {}
    more = {**clusters, **_extras(entry)}
    return [path, f"build: {entry.tool}", *(write(more).decode().splitlines() if more else ())]


def _clusters_comment(found: Survey) -> str:
    if [*found.clusters] == ["main"]:
        return "No file names a cluster: one is assumed."
    return "From the folders clusters/<name>/ and the destinations of Applications."
