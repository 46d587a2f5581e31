"""Gateway API and its Inference Extension: how requests reach models. What they refer to is checked.

The gateway of the cluster and its endpoint picker route, batch and balance: ADR 17.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Naming
from reconciler.kinds.facts import Body, Reference, Relations
from reconciler.kinds.kind import Kind
from reconciler.kube.values import mapping, metadata_text, sequence, text

GATEWAY = ("gateway.networking.k8s.io", "Gateway")
POOL = ("inference.networking.k8s.io", "InferencePool")
_SERVICE = ("", "Service")
_ALPHA = "inference.networking.x-k8s.io"
_RULE = "reference.route"


def _reference(body: Body, written: Mapping[str, Any], field: str, default: tuple[str, str]) -> Iterator[Reference]:
    """Yield the object that a field names: its group, kind and namespace have defaults."""
    name = text(written.get("name"))
    if name:
        group, kind = written.get("group", default[0]), text(written.get("kind")) or default[1]
        namespace = text(written.get("namespace")) or metadata_text(body, "namespace")
        yield Reference(text(group), kind, namespace, name, f"{field}.name")


def _route(body: Body) -> Relations:
    spec = mapping(body.get("spec"))
    found: list[Reference] = []
    for index, parent in enumerate(map(mapping, sequence(spec.get("parentRefs")))):
        found += _reference(body, parent, f"spec.parentRefs[{index}]", GATEWAY)
    for index, rule in enumerate(map(mapping, sequence(spec.get("rules")))):
        for position, backend in enumerate(map(mapping, sequence(rule.get("backendRefs")))):
            found += _reference(body, backend, f"spec.rules[{index}].backendRefs[{position}]", _SERVICE)
    return Relations(references=tuple(found))


def _pool(body: Body) -> Relations:
    picker = mapping(mapping(body.get("spec")).get("endpointPickerRef"))
    return Relations(references=tuple(_reference(body, picker, "spec.endpointPickerRef", _SERVICE)))


def _in_pool(body: Body) -> Relations:
    pool = mapping(mapping(body.get("spec")).get("poolRef"))
    return Relations(references=tuple(_reference(body, pool, "spec.poolRef", POOL)))


KINDS = (
    Kind(group=GATEWAY[0], kind="GatewayClass", is_cluster_scoped=True),
    Kind(group=GATEWAY[0], kind=GATEWAY[1], naming=Naming(rule=_RULE)),
    Kind(group=GATEWAY[0], kind="HTTPRoute", relations=_route),
    Kind(group=GATEWAY[0], kind="GRPCRoute", relations=_route),
    Kind(group=POOL[0], kind=POOL[1], relations=_pool, naming=Naming(rule=_RULE)),
    Kind(group=_ALPHA, kind="InferenceObjective", relations=_in_pool),
    Kind(group=_ALPHA, kind="InferenceModelRewrite", relations=_in_pool),
)
