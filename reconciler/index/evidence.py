"""What was measured and answered, by cluster: `evidence/<cluster>/*.yaml`."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from reconciler.core.config import Cluster, Config
from reconciler.core.documents import Document
from reconciler.core.inventory import Inventory, parse_inventory
from reconciler.core.objects import SourceRef
from reconciler.core.problems import Problem
from reconciler.index.readings import FileReading

if TYPE_CHECKING:
    from reconciler.core.sizing.answers import Answers

_INVENTORY_KIND = "NodeInventory"
_ANSWERS_KIND = "SizingAnswers"
_Value = TypeVar("_Value")


class Evidence(Struct, frozen=True, kw_only=True):
    """Nodes and answers by cluster; a cluster without a file has neither. `problems` are of all files."""

    inventories: Mapping[str, Inventory]
    answers: "Mapping[str, Answers]"
    problems: tuple[Problem, ...]


def read_evidence(config: Config, clusters: tuple[Cluster, ...], files: Iterable[FileReading]) -> Evidence:
    """Read the evidence of the chosen clusters. Problems are collected, never raised."""
    found: list[Problem] = []
    inventories: dict[str, Inventory] = {}
    answers: dict[str, Answers] = {}
    for cluster, document in _of_clusters(config, clusters, files, found):
        if document.kind == _INVENTORY_KIND:
            inventory, problems = parse_inventory(document, cluster)
            found += problems
            _keep(inventories, cluster, inventory, document, found)
        elif document.kind == _ANSWERS_KIND:
            from reconciler.core.sizing.answers import parse_answers  # noqa: PLC0415 - most plans have no such file

            answered, problems = parse_answers(document, cluster)
            found += problems
            _keep(answers, cluster, answered, document, found)
        else:
            message = f"a {document.kind} is no evidence, so nothing reads it"
            place, hint = document.source, "move it among the sources, or remove it"
            found.append(Problem(rule="layout.kind", place=place, field="kind", message=message, hint=hint))
    return Evidence(inventories=inventories, answers=answers, problems=tuple(found))


def _keep(
    known: dict[str, _Value], cluster: str, value: _Value | None, document: Document, found: list[Problem]
) -> None:
    if value is not None and cluster in known:
        message = f"a second {document.kind} of cluster {cluster}"
        found.append(
            Problem(rule="evidence.duplicate", place=document.source, message=message, hint="keep one of them")
        )
    elif value is not None:
        known[cluster] = value


def _of_clusters(
    config: Config, clusters: tuple[Cluster, ...], files: Iterable[FileReading], found: list[Problem]
) -> Iterator[tuple[str, Document]]:
    """Yield sound documents with their cluster; files that lie in no cluster's folder are problems."""
    names = {cluster.name for cluster in clusters}
    known = {cluster.name for cluster in config.clusters}
    for file in files:
        cluster, _, rest = file.path.removeprefix(f"{config.evidence}/").partition("/")
        if not rest or cluster not in known:
            message = f"there is no cluster {cluster!r} in reconciler.yaml" if rest else "lies in no cluster's folder"
            hint = f"move the file to {config.evidence}/<cluster>/; the clusters are: {', '.join(sorted(known))}"
            place = SourceRef(path=file.path)
            found.append(Problem(rule="evidence.cluster", place=place, message=message, hint=hint))
        if cluster in names:
            found += file.problems
            yield from ((cluster, document) for document in file.valid)
