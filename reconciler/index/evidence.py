"""The evidence about each cluster, `evidence/<cluster>/*.yaml`: nodes, recorded sizing answers, finished jobs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct

from reconciler.index.parsed import ParsedFile
from reconciler.kinds.agentaflow.gpu_node import GpuNode, with_gpu_nodes
from reconciler.kinds.aspects import EvidenceUse
from reconciler.kinds.kind import Kinds
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem
from reconciler.kube.yaml import Document
from reconciler.nodehealth.fleet.evidence import FleetHealth
from reconciler.repo.config import Cluster, Config
from reconciler.repo.evidence.active_queues import ActiveQueues
from reconciler.repo.evidence.definitions import ClusterDefinitions
from reconciler.repo.evidence.runs import FinishedRuns
from reconciler.repo.evidence.usage import Usage
from reconciler.repo.evidence.utilisation import GpuUtilisation
from reconciler.sizing.answers import Answers
from reconciler.sizing.inventory import Inventory

_Value = TypeVar("_Value")


class Evidence(Struct, frozen=True, kw_only=True):
    """The evidence of each cluster, by kind of evidence; a cluster without a file is not in the mapping."""

    inventories: Mapping[str, Inventory]  # without the nodes that Git keeps out of use
    measured: Mapping[str, Inventory]  # as the files say
    answers: Mapping[str, Answers]
    runs: Mapping[str, FinishedRuns]
    queues: Mapping[str, ActiveQueues]
    health: Mapping[str, FleetHealth]
    definitions: Mapping[str, ClusterDefinitions]
    utilisation: Mapping[str, GpuUtilisation]
    usage: Mapping[str, Usage]
    gpu_nodes: Mapping[str, tuple[GpuNode, ...]]
    problems: tuple[Problem, ...]


def read_evidence(config: Config, clusters: tuple[Cluster, ...], kinds: Kinds, files: Iterable[ParsedFile]) -> Evidence:
    """Read the evidence about the given clusters. Problems are collected, never raised."""
    problems: list[Problem] = []
    values: dict[EvidenceUse, dict[str, Any]] = {use: {} for use in EvidenceUse}
    gpu_nodes: dict[str, tuple[GpuNode, ...]] = {}
    for cluster, document in _by_cluster(config, clusters, files, problems):
        row = kinds.find(document.group, document.kind)
        if row.source.evidence is None:
            kind = f"{document.kind} ({document.api_version})" if document.kind else "a document without a kind"
            problems.append(
                Problem(
                    rule="layout.kind",
                    place=document.source,
                    field="kind",
                    message=f"{kind} is not a kind of evidence, so it is not read",
                    hint="move it to a source folder, or remove it",
                )
            )
            continue
        value, wrong = row.source.evidence.parse(document, cluster)
        problems += wrong
        if isinstance(value, GpuNode):
            gpu_nodes[cluster] = (*gpu_nodes.get(cluster, ()), value)
        elif row.source.evidence.use:
            _add(values[row.source.evidence.use], cluster, value, document, problems)
    return Evidence(
        inventories=with_gpu_nodes(values[EvidenceUse.INVENTORY], gpu_nodes),
        measured=values[EvidenceUse.INVENTORY],
        answers=values[EvidenceUse.ANSWERS],
        runs=values[EvidenceUse.RUNS],
        queues=values[EvidenceUse.QUEUES],
        health=values[EvidenceUse.HEALTH],
        definitions=values[EvidenceUse.DEFINITIONS],
        utilisation=values[EvidenceUse.UTILISATION],
        usage=values[EvidenceUse.USAGE],
        gpu_nodes=gpu_nodes,
        problems=tuple(problems),
    )


def _add(
    known: dict[str, _Value], cluster: str, value: _Value | None, document: Document, problems: list[Problem]
) -> None:
    if value is None:
        return
    if cluster in known:
        message = f"a second {document.kind} for cluster {cluster}"
        problems.append(
            Problem(rule="evidence.duplicate", place=document.source, message=message, hint="keep one of them")
        )
    known.setdefault(cluster, value)


def _by_cluster(
    config: Config, clusters: tuple[Cluster, ...], files: Iterable[ParsedFile], problems: list[Problem]
) -> Iterator[tuple[str, Document]]:
    """Yield valid documents with their cluster; a file outside the folder of any cluster is a problem."""
    chosen = {cluster.name for cluster in clusters}
    known = sorted(cluster.name for cluster in config.clusters)
    for file in files:
        cluster, _, rest = file.path.removeprefix(f"{config.evidence}/").partition("/")
        if not rest or cluster not in known:
            message = (
                f"cluster {cluster!r} does not exist in reconciler.yaml" if rest else "is not in a cluster's folder"
            )
            place = SourceRef(path=file.path)
            hint = f"move the file to {config.evidence}/<cluster>/; clusters: {', '.join(known)}"
            problems.append(Problem(rule="evidence.cluster", place=place, message=message, hint=hint))
        if cluster in chosen:
            problems += file.problems
            yield from ((cluster, document) for document in file.valid)
