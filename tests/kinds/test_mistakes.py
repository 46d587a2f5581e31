"""Rows that contradict themselves."""

from typing import Any

import pytest

from reconciler.kinds.facts import QueueRole, Relations
from reconciler.kinds.kind import EvidenceReader, Kind, Role
from reconciler.kinds.mistakes import mistakes
from reconciler.kinds.registry import BUILT_IN
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
        ({"queue_role": QueueRole.TREE}, "queue_role needs relations, which read the quotas"),
        ({"role": Role.EVIDENCE}, "role=Role.EVIDENCE and evidence need each other"),
        (
            {"evidence": EvidenceReader(parse=lambda *_: (None, ()))},
            "role=Role.EVIDENCE and evidence need each other",
        ),
        (
            {"relations": lambda _: Relations(), "pods": lambda *_: ()},
            "relations are for objects without pods, so pods has no effect",
        ),
        ({"crd": definition(group="acme.org")}, "crd defines Pool of acme.org"),
        ({"crd": definition(names={"kind": "Pool"})}, "crd has no spec.names.plural"),
        (
            {"crd": DEFINITION, "is_cluster_scoped": True},
            "crd has the scope Namespaced, but is_cluster_scoped says Cluster",
        ),
        ({"reference_rule": "reference.pool"}, "reference.pool is not a rule, so it cannot be the reference_rule"),
    ],
)
def test_a_mistake_is_named(attributes: dict[str, Any], message: str) -> None:
    assert found(**attributes) == (message,)


def test_a_row_without_mistakes() -> None:
    assert found(crd=DEFINITION, reference_rule="reference.queue") == ()
