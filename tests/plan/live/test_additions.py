"""What others added to a live object beside our fields, by its managers."""

from typing import Any

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.plan.live.additions import find_additions, read_names, removal, without_additions


def live(**by: dict[str, Any]) -> dict[str, Any]:
    """Return an object with the fields that each manager owns."""
    entries = [
        {"manager": name.replace("_", "-"), "operation": "Update", "fieldsV1": fields} for name, fields in by.items()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {
            "name": "one",
            "resourceVersion": "7",
            "labels": {"ours": "1", "theirs": "2", "priorityClassName": "high"},
            "annotations": {"note": "x", "kueue.x-k8s.io/job-min-parallelism": "1", "gpureconciler.io/keep": "true"},
            "managedFields": entries,
        },
        "spec": {"a": 1, "b": 2, "c": {"d": 3, "e": 4}, "list": [{"name": "y", "v": 2}, {"name": "x", "v": 1}]},
    }


_DESIRED = {
    "metadata": {"name": "one", "labels": {"ours": "1"}},
    "spec": {"a": 1, "list": [{"name": "x", "v": 1}]},
}
_PRIORITY = ("metadata", "labels", "priorityClassName")
_SIDECAR: dict[str, Any] = {"f:spec": {"f:list": {'k:{"name":"y"}': {".": {}, "f:name": {}, "f:v": {}}}}}


@pytest.mark.parametrize(
    ("managers", "expected"),
    [
        ({"kubectl_edit": {"f:spec": {"f:b": {}}}}, [("spec", "b")]),
        ({"kubectl_edit": {"f:spec": {"f:a": {}}}}, []),
        ({"kubectl_edit": {"f:spec": {"f:c": {".": {}, "f:d": {}}}}}, [("spec", "c")]),
        (
            {
                "kubectl_edit": {"f:spec": {"f:c": {".": {}, "f:d": {}}}},
                "kube_controller_manager": {"f:spec": {"f:c": {"f:e": {}}}},
            },
            [("spec", "c", "d")],
        ),
        ({"kubectl_edit": _SIDECAR}, [("spec", "list", 0)]),
        ({"sidecar_injector": _SIDECAR}, []),
        ({"reconciler": _SIDECAR}, []),
        ({"kubectl_label": {"f:metadata": {"f:labels": {"f:theirs": {}}}}}, []),
        ({"kubectl_label": {"f:metadata": {"f:labels": {"f:priorityClassName": {}}}}}, [_PRIORITY]),
        (
            {
                "kubectl_annotate": {
                    "f:metadata": {
                        "f:annotations": {
                            ".": {},
                            "f:note": {},
                            "f:kueue.x-k8s.io/job-min-parallelism": {},
                            "f:gpureconciler.io/keep": {},
                        }
                    }
                }
            },
            [("metadata", "annotations", "kueue.x-k8s.io/job-min-parallelism")],
        ),
    ],
)
def test_what_counts_as_added(managers: dict[str, dict[str, Any]], expected: list[Any]) -> None:
    """F-143: what people own alone and Git does not have; not notes, nor what a program or our own apply set."""
    found = find_additions(read_names(BUILT_IN), _DESIRED, live(**managers), ())
    assert list(found) == expected


def test_what_belongs_to_a_controller_is_never_an_addition() -> None:
    found = find_additions((), _DESIRED, live(kubectl={"f:spec": {"f:c": {"f:d": {}}}}), [("spec", "c")])
    assert found == ()


def test_items_are_removed_from_the_end_and_found_at_another_position() -> None:
    body = live(kubectl=_SIDECAR)
    body["spec"]["list"].append({"name": "z"})
    paths = find_additions((), _DESIRED, live(kubectl=_SIDECAR), ())
    assert removal(body, paths)[1:] == [{"op": "remove", "path": "/spec/list/0"}]
    moved = {"spec": {"list": [{"name": "x", "v": 1}, {"name": "y", "v": 2}]}}
    assert without_additions(moved, body, paths) == {"spec": {"list": [{"name": "x", "v": 1}]}}
