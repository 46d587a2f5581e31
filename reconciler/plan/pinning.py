"""Pins: the nodes that a forecast chose, written into the sources of jobs as required node affinity.

A pin is an edit of Git that people review, like any other. Nothing is pinned without evidence that is recent enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.index.build import CompiledRevision, read_files
from reconciler.index.compile import compile_document
from reconciler.index.sized.splice import edit_source
from reconciler.kinds.kind import Kinds
from reconciler.kube.objects import FieldPath
from reconciler.kube.values import mapping, sequence, value_at, with_value
from reconciler.kube.yaml import Document, read
from reconciler.placement.jobs import HOSTNAME
from reconciler.plan.plan import PlacedWorkload, PlacementLine
from reconciler.repo.port import Repository

ASSIGNED_NODE = "agentaflow.gpu/assigned-node"
"""Annotation that names the nodes, with `spec.placement.annotate`."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class PinnedFile(Struct, frozen=True, kw_only=True):
    """A source file before and after its jobs are pinned."""

    path: str
    before: bytes
    after: bytes


class Pins(Struct, frozen=True, kw_only=True):
    """The files that change, and why jobs are not pinned."""

    files: tuple[PinnedFile, ...] = ()
    notes: tuple[str, ...] = ()


def pin_jobs(
    repository: Repository, index: CompiledRevision, lines: Sequence[PlacementLine], *, annotate: bool
) -> Pins:
    """Return the edits that pin the jobs of a plan to the nodes of its forecast."""
    notes = [f"{line.cluster}: nothing is pinned: {line.unknown}" for line in lines if line.unknown]
    chosen: dict[str, list[tuple[str, PlacedWorkload]]] = {}
    for line in lines:
        for one in line.workloads:
            if one.word == "starts" and one.source is not None:
                chosen.setdefault(one.source.path, []).append((line.cluster, one))
    files = []
    for path, raw in read_files(repository, index.revision.files.sources, sorted(chosen)):
        changes = []
        for cluster, one in chosen[path]:
            found = next((each for each in read(path, raw).documents if _renders(index, cluster, each, one)), None)
            data = None if found is None else pinned(found.data, index.context.kinds, one, annotate=annotate)
            if found is None or data is None:
                notes.append(f"{one.source}: {one.key.kind} {one.key.name} is not pinned: its source has no pods")
            elif data != found.data:
                changes.append((found, data))
        edited = edit_source(raw, changes)
        notes += map(str, edited.problems)
        if edited.content != raw:
            files.append(PinnedFile(path=path, before=raw, after=edited.content))
    return Pins(files=tuple(files), notes=tuple(notes))


def _renders(index: CompiledRevision, cluster: str, document: Document, one: PlacedWorkload) -> bool:
    manifests = (each.manifest for each in compile_document(index.context, document).objects)
    return any(manifest.cluster == cluster and manifest.key == one.key for manifest in manifests)


def pinned(data: Mapping[str, Any], kinds: Kinds, one: PlacedWorkload, *, annotate: bool) -> Any:
    """Return a document whose pods may run on the chosen nodes alone; None if it has no templates of pods."""
    templates = [each.template for each in kinds.pod_sets(data) or ()]
    places = [place for place in _templates(data, ()) if any(value_at(data, place) is each for each in templates)]
    if not places:
        return None
    nodes = sorted(name for name, _ in one.nodes)
    for place in places:
        path = (*place, "spec", "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms")
        terms = [mapping(term) for term in sequence(value_at(data, path))] or [{}]
        data = with_value(data, path, [_with_nodes(term, nodes) for term in terms])
    if annotate:
        data = with_value(data, ("metadata", "annotations", ASSIGNED_NODE), ",".join(nodes))
    return data


def _with_nodes(term: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    others = [one for one in sequence(term.get("matchExpressions")) if mapping(one).get("key") != HOSTNAME]
    return {**term, "matchExpressions": [*others, {"key": HOSTNAME, "operator": "In", "values": [*nodes]}]}


def _templates(node: Any, path: FieldPath) -> Iterator[FieldPath]:
    """Yield the places of all mappings that have a `spec`."""
    if isinstance(node, dict):
        if "spec" in node and path:
            yield path
        for key, value in node.items():
            yield from _templates(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from _templates(value, (*path, index))
