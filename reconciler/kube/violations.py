"""The rules that all evidence documents obey: each is about the cluster of its folder, and lists a node once."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kube.problems import Violation


def foreign_cluster(spec: Mapping[str, Any], cluster: str) -> Iterator[Violation]:
    """Yield the violation of a document that names another cluster than its folder does."""
    if spec.get("cluster", cluster) != cluster:
        yield Violation(
            rule="evidence.cluster",
            path=("spec", "cluster"),
            message=f"is {spec['cluster']!r}, but the file is in the folder of cluster {cluster!r}",
            hint="move the file or correct the name",
        )


def repeated_nodes(spec: Mapping[str, Any]) -> Iterator[Violation]:
    """Yield a violation for every node that is listed again."""
    seen: set[str] = set()
    for index, node in enumerate(spec.get("nodes", ())):
        name = node["name"]
        if name in seen:
            yield Violation(
                rule="evidence.duplicate-node",
                path=("spec", "nodes", index, "name"),
                message=f"node {name!r} is listed twice",
                hint="remove one",
            )
        seen.add(name)
