"""Mistakes in a row of the registry that would otherwise show only later, or never."""

from collections.abc import Container, Iterator

from reconciler.kinds.facts import QueueRole
from reconciler.kinds.kind import Kind
from reconciler.kube.values import mapping, text


def mistakes(row: Kind, rules: Container[str]) -> tuple[str, ...]:
    """Return the mistakes in a row, for messages. `rules` are those that may be its `naming.rule`."""
    return (*_contradictions(row), *_definition_mistakes(row), *_unknown_rule(row, rules))


def _contradictions(row: Kind) -> Iterator[str]:
    if row.queueing.role is not QueueRole.NONE and row.relations is None:
        yield "queueing.role needs relations, which read the quotas"
    if row.source.evidence is not None and row.source.refusal is None:
        yield "source.evidence needs source.refusal, for documents among the sources"
    if row.pods.read is not None and row.relations is not None:
        yield "relations are for objects without pods, so pods.read has no effect"


def _definition_mistakes(row: Kind) -> Iterator[str]:
    """Yield the differences between the definition of the kind and its row."""
    if row.source.crd is None:
        return
    spec = mapping(row.source.crd.get("spec"))
    names = mapping(spec.get("names"))
    if (spec.get("group"), names.get("kind")) != (row.group, row.kind):
        yield f"source.crd defines {names.get('kind')} of {spec.get('group')}"
    if not text(names.get("plural")):
        yield "source.crd has no spec.names.plural"
    scope = "Cluster" if row.is_cluster_scoped else "Namespaced"
    if spec.get("scope") != scope:
        yield f"source.crd has the scope {spec.get('scope')}, but is_cluster_scoped says {scope}"


def _unknown_rule(row: Kind, rules: Container[str]) -> Iterator[str]:
    if row.naming.rule and row.naming.rule not in rules:
        yield f"{row.naming.rule} is not a rule, so it cannot be naming.rule"
