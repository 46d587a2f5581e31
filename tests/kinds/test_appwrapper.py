"""AppWrappers: what their webhook refuses to change."""

from typing import Any

import pytest

from reconciler.kinds.kind import MAX_WRAPPERS
from reconciler.kinds.registry import BUILT_IN


def wrapper(*components: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "workload.codeflare.dev/v1beta2",
        "kind": "AppWrapper",
        "metadata": {"name": "w", "namespace": "a"},
        "spec": {"components": list(components), **spec},
    }


def component(image: str = "a:1", **more: Any) -> dict[str, Any]:
    return {"template": {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": image}]}}, **more}


SET = {"path": "template"}


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        (wrapper(component()), wrapper(component()), []),
        (wrapper(component()), wrapper(component(), suspend=True), []),
        (wrapper(component()), wrapper(component("a:2")), ["spec.components[0].template"]),
        (wrapper(component(), suspend=True), wrapper(component("a:2")), ["spec.components[0].template"]),
        (wrapper(component()), wrapper(component(), component()), ["spec.components"]),
        (wrapper(component(podSets=[SET])), wrapper(component(podSets=[SET | {"replicas": 1}])), []),
        (
            wrapper(component(), component(podSets=[SET])),
            wrapper(component(), component(podSets=[SET | {"replicas": 2}])),
            ["spec.components[1].podSets"],
        ),
        (wrapper(component(podSets=[SET])), wrapper(component()), ["spec.components[0].podSets"]),
        (wrapper(component(), managedBy="kueue.x-k8s.io/multikueue"), wrapper(component()), ["spec.managedBy"]),
    ],
)
def test_components_cannot_change(before: dict[str, Any], after: dict[str, Any], fields: list[str]) -> None:
    row = BUILT_IN.find("workload.codeflare.dev", "AppWrapper")
    assert row.life.immutable is not None
    assert [*row.life.immutable(before, after)] == fields


def test_wrappers_within_wrappers_count_up_to_a_limit() -> None:
    for levels, unknown in ((MAX_WRAPPERS, ""), (MAX_WRAPPERS + 1, f"what is more than {MAX_WRAPPERS} wrappers deep")):
        body = wrapper(component())
        for _ in range(levels - 1):
            body = wrapper({"template": body})
        assert [pods.unknown for pods in BUILT_IN.pod_sets(body) or ()] == [unknown]
