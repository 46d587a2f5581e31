"""Rows that contradict themselves."""

from typing import Any

import pytest

from reconciler.kinds.aspects import EvidenceReader, Naming, Pods, Queueing, Source
from reconciler.kinds.facts import QueueRole, Relations
from reconciler.kinds.kind import Kind
from reconciler.kinds.registry import BUILT_IN
from reconciler.policy.plugins import mistakes
from reconciler.policy.references import RULES
from tests.kinds.acme import KINDS

DEFINITION = {
    "spec": {"group": "acme.example.com", "scope": "Namespaced", "names": {"kind": "Pool", "plural": "pools"}}
}


def definition(**changes: Any) -> dict[str, Any]:
    return {"spec": {**DEFINITION["spec"], **changes}}


def found(**attributes: Any) -> tuple[str, ...]:
    return mistakes(Kind(group="acme.example.com", kind="Pool", **attributes), RULES)


@pytest.mark.parametrize("row", [*BUILT_IN.values(), *KINDS], ids=lambda row: f"{row.group}/{row.kind}")
def test_rows_of_the_project_have_none(row: Kind) -> None:
    assert mistakes(row, RULES) == ()


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"queueing": Queueing(role=QueueRole.TREE)}, "queueing.role needs relations, which read the quotas"),
        (
            {"source": Source(evidence=EvidenceReader(parse=lambda *_: (None, ())))},
            "source.evidence needs source.refusal, for documents among the sources",
        ),
        (
            {"relations": lambda _: Relations(), "pods": Pods(lambda *_: ())},
            "relations are for objects without pods, so pods.read has no effect",
        ),
        ({"source": Source(crd=definition(group="acme.org"))}, "source.crd defines Pool of acme.org"),
        ({"source": Source(crd=definition(names={"kind": "Pool"}))}, "source.crd has no spec.names.plural"),
        (
            {"source": Source(crd=DEFINITION), "is_cluster_scoped": True},
            "source.crd has the scope Namespaced, but is_cluster_scoped says Cluster",
        ),
        ({"naming": Naming(rule="reference.pool")}, "reference.pool is not a rule, so it cannot be naming.rule"),
    ],
)
def test_a_mistake_is_named(attributes: dict[str, Any], message: str) -> None:
    assert found(**attributes) == (message,)


def test_a_row_without_mistakes() -> None:
    assert found(source=Source(crd=DEFINITION), naming=Naming(rule="reference.queue")) == ()
