"""Mistakes in a row of the registry that would otherwise show only later, or never."""

from collections.abc import Container, Iterator

from reconciler.kinds.facts import QueueRole
from reconciler.kinds.kind import Kind, Role
from reconciler.kube.values import mapping, text


def mistakes(row: Kind, rules: Container[str]) -> tuple[str, ...]:
    """Return the mistakes in a row, for messages. `rules` are those that may be its `reference_rule`."""
    return (*_contradictions(row), *_definition_mistakes(row), *_unknown_rule(row, rules))


def _contradictions(row: Kind) -> Iterator[str]:
    if row.queue_role is not QueueRole.NONE and row.relations is None:
        yield "queue_role needs relations, which read the quotas"
    if (row.role is Role.EVIDENCE) is (row.evidence is None):
        yield "role=Role.EVIDENCE and evidence need each other"
    if row.pods is not None and row.relations is not None:
        yield "relations are for objects without pods, so pods has no effect"


def _definition_mistakes(row: Kind) -> Iterator[str]:
    """Yield the differences between the definition of the kind and its row."""
    if row.crd is None:
        return
    spec = mapping(row.crd.get("spec"))
    names = mapping(spec.get("names"))
    if (spec.get("group"), names.get("kind")) != (row.group, row.kind):
        yield f"crd defines {names.get('kind')} of {spec.get('group')}"
    if not text(names.get("plural")):
        yield "crd has no spec.names.plural"
    scope = "Cluster" if row.is_cluster_scoped else "Namespaced"
    if spec.get("scope") != scope:
        yield f"crd has the scope {spec.get('scope')}, but is_cluster_scoped says {scope}"


def _unknown_rule(row: Kind, rules: Container[str]) -> Iterator[str]:
    if row.reference_rule and row.reference_rule not in rules:
        yield f"{row.reference_rule} is not a rule, so it cannot be the reference_rule"
