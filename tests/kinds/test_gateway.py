"""Gateway API and its Inference Extension: their schemas ship, and what routes refer to is checked (F-136)."""

from pathlib import Path
from typing import Any

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import summarize
from tests.kinds.kaiwo.kaiwo_cases import documents, invalid

ROUTE = """\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: llm, namespace: serving}
spec:
  parentRefs: [{name: public, namespace: gateways}]
  rules:
    - backendRefs:
        - {group: inference.networking.k8s.io, kind: InferencePool, name: llama}
        - {name: fallback, port: 8000}
"""
POOL = """\
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: llama, namespace: serving}
spec:
  targetPorts: [{number: 8000}]
  selector: {matchLabels: {app: llama}}
  endpointPickerRef: {name: picker, port: {number: 9002}}
"""
OBJECTIVE = """\
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceObjective
metadata: {name: chat, namespace: serving}
spec: {priority: 10, poolRef: {name: llama}}
"""
REWRITE = """\
apiVersion: inference.networking.x-k8s.io/v1alpha2
kind: InferenceModelRewrite
metadata: {name: alias, namespace: serving}
spec: {poolRef: {name: llama}, rules: [{targets: [{modelRewrite: llama-3, weight: 1}]}]}
"""


def references(text: str) -> list[str]:
    (document,) = documents(text)
    body: dict[str, Any] = dict(document.data)
    row = summarize(BUILT_IN, cluster="main", body=body, path="", digest="")
    return [f"{one.field}: {one.kind} {one.namespace}/{one.name}" for one in row.references]


@pytest.mark.parametrize("text", [ROUTE, POOL, OBJECTIVE, REWRITE])
def test_they_are_known(text: str) -> None:
    """F-136: objects as their projects document them are valid, and a field that they do not have is reported."""
    assert invalid(text) == []
    assert invalid(text.replace("spec: {", "spec: {wrong: 1, ").replace("spec:\n", "spec:\n  wrong: 1\n"))


def test_references() -> None:
    """F-136: a route names gateways, pools and Services; a pool its endpoint picker; others their pool."""
    assert references(ROUTE) == [
        "spec.parentRefs[0].name: Gateway gateways/public",
        "spec.rules[0].backendRefs[0].name: InferencePool serving/llama",
        "spec.rules[0].backendRefs[1].name: Service serving/fallback",
    ]
    assert references(POOL) == ["spec.endpointPickerRef.name: Service serving/picker"]
    assert references(OBJECTIVE) == references(REWRITE) == ["spec.poolRef.name: InferencePool serving/llama"]


def test_no_router_is_simulated() -> None:
    """F-136, agentaflow defect 14: the decision is written down, and no server of models is in the package."""
    root = Path(__file__).parents[2]
    assert "There is no server, cache or router of ours" in (root / "docs/adr/0017-no-router.md").read_text()
