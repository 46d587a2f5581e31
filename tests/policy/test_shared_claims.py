"""Claims that several workloads write to."""

from typing import Any

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.repo.config import Cluster
from tests.plan.plan_cases import Body, as_row, claim, evaluate, plain, pod_spec, rows

MAIN = Cluster(name="main")
DATA = claim("data")


def writer(name: str, *, read_only: bool = False, **mount: Any) -> Body:
    """Return a pod that mounts the claim `data`."""
    spec = pod_spec(
        None, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data", "readOnly": read_only}}]
    )
    spec["containers"][0]["volumeMounts"] = [{"name": "v", "mountPath": "/data", **mount}]
    return plain("Pod", name, spec=spec)


def shared(*bodies: Body) -> list[str]:
    """Return what the rule says of these objects, each from a document of its own."""
    verdicts = evaluate(BUILT_IN, rows(bodies), MAIN, None, {})
    return [f"{each.key}: {each.message}" for each in verdicts if each.rule == "reference.shared-claim"]


def test_each_claim_is_reported_once_with_those_that_write_to_it() -> None:
    assert shared(DATA, writer("a"), writer("b")) == ["Pod/ml/a: writes to claim data, and so does Pod/ml/b"]
    assert shared(DATA, *map(writer, "abcdef")) == [
        "Pod/ml/a: writes to claim data, and so do Pod/ml/b, Pod/ml/c, Pod/ml/d and 2 more"
    ]


@pytest.mark.parametrize(
    "other",
    [
        writer("b", read_only=True),
        writer("b", readOnly=True),
        writer("b", subPath="b"),
        writer("b", subPathExpr="$(POD_NAME)"),
        claim("more"),
    ],
    ids=["read-only volume", "read-only mount", "another folder", "a folder for each pod", "no other"],
)
def test_who_reads_or_has_a_folder_of_its_own_shares_nothing(other: Body) -> None:
    assert shared(DATA, writer("a"), other) == []


def test_a_folder_is_shared_like_a_claim() -> None:
    assert shared(DATA, writer("a", subPath="runs"), writer("b", subPath="runs")) == [
        "Pod/ml/a: writes to folder 'runs' of claim data, and so does Pod/ml/b"
    ]


def test_one_container_that_writes_is_enough() -> None:
    both = writer("a", readOnly=True)
    both["spec"]["initContainers"] = [
        {"name": "fetch", "image": "repo/fetch:1", "volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    ]
    assert shared(DATA, both, writer("b")) == ["Pod/ml/a: writes to claim data, and so does Pod/ml/b"]


def test_objects_of_one_document_belong_together() -> None:
    verdicts = evaluate(BUILT_IN, [as_row(DATA), as_row(writer("a")), as_row(writer("b"))], MAIN, None, {})
    assert "reference.shared-claim" not in {verdict.rule for verdict in verdicts}
