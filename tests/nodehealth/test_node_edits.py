"""Edits of node objects touch what is ours and nothing else, whatever else a node says."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kube.objects import matches_selector
from reconciler.live.observe.owners import repair_owner
from reconciler.nodehealth.nodes import (
    AUTOSCALER_TAINT,
    KEEP,
    RECORD,
    STATE_LABEL,
    TAINT,
    HealthTaint,
    NodeMark,
    condition_reason,
    node_edits,
    our_taint,
    parse_record,
)

keys = st.sampled_from(["nvidia.com/gpu", "a/b~c", "node.kubernetes.io/unreachable", TAINT, AUTOSCALER_TAINT])
taints = st.lists(st.fixed_dictionaries({"key": keys, "effect": st.sampled_from(["NoSchedule", "NoExecute"])}))
names = st.sampled_from(["x", "a/b", KEEP, STATE_LABEL, RECORD, "remediation"])
texts = st.dictionaries(names, st.sampled_from(["", "true", "{}"]))
ours = st.none() | st.builds(
    HealthTaint,
    reason=st.sampled_from(["xid.79", "!"]),
    case=st.just("c"),
    since=st.just(0.0),
    until=st.just(60.0),
    key=st.sampled_from([TAINT, AUTOSCALER_TAINT]),
    keep=st.booleans(),
)


def patched(body: dict[str, Any], operations: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Apply the few operations that we use, as RFC 6902 says; a `test` that fails is an error."""
    result = copy.deepcopy(body)
    for operation in operations:
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target: Any = result
        for part in path:
            target = target[int(part)] if isinstance(target, list) else target[part]
        index: Any = int(last) if isinstance(target, list) and last != "-" else last
        match operation["op"]:
            case "test":
                assert target[index] == operation["value"]
            case "remove":
                del target[index]
            case "add" if isinstance(target, list):
                target.append(operation["value"])
            case "add":
                target[index] = operation["value"]
    return result


@given(taints, texts, texts, ours, st.sampled_from(["healthy", "quarantined", ""]))
def test_everything_of_others_stays_and_a_second_look_finds_nothing_to_do(
    others: list[dict[str, str]],
    labels: dict[str, str],
    annotations: dict[str, str],
    taint: HealthTaint | None,
    state: str,
) -> None:
    metadata = {"name": "n", "uid": "u", "resourceVersion": "7", "labels": labels, "annotations": annotations}
    body: dict[str, Any] = {"metadata": metadata, "spec": {"unschedulable": True, "taints": others}}
    mark = NodeMark(node="n", uid="u", state=state, is_problem=True, reason="R", message="m", taint=taint)
    after = patched(body, node_edits(body, mark, 0.0).patch)
    is_ours = (TAINT, AUTOSCALER_TAINT)
    assert [row for row in after["spec"]["taints"] if row["key"] not in is_ours] == [
        row for row in others if row["key"] not in is_ours
    ]
    found = our_taint(after)
    assert (found is None) == (taint is None)
    assert sum(row["key"] in is_ours for row in after["spec"]["taints"]) == (taint is not None)
    assert after["spec"]["unschedulable"] is True
    assert {key: value for key, value in after["metadata"]["labels"].items() if key != STATE_LABEL} == {
        key: value for key, value in labels.items() if key != STATE_LABEL
    }
    if KEEP in annotations:
        assert after["metadata"]["annotations"][KEEP] == annotations[KEEP]
    again = node_edits(after, mark, 0.0)
    assert not again.patch
    released = patched(
        after,
        node_edits(after, NodeMark(node="n", uid="u", state="", is_problem=False, reason="R", message="m"), 0.0).patch,
    )
    assert (KEEP in released["metadata"]["annotations"]) == (KEEP in annotations)
    assert RECORD not in released["metadata"]["annotations"]


def test_a_record_of_others_is_none() -> None:
    assert parse_record('{"owner": "else", "case": "c", "reason": "r", "since": "", "until": ""}') is None
    assert parse_record("{") is None


@pytest.mark.parametrize(
    ("check", "reason"), [("gpu.recovery_action", "GpuRecoveryAction"), ("xid.79", "Xid79"), ("hbm", "Hbm")]
)
def test_reasons_of_conditions(check: str, reason: str) -> None:
    assert condition_reason(check) == reason


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "Gt", "values": ["1"]}]}, True),
        ({}, True),
    ],
)
def test_nodes_of_medik8s(selector: dict[str, Any], matches: bool) -> None:
    """F-101: a NodeHealthCheck that selects a node owns its repair."""
    assert matches_selector(selector, {"a": "1"}) is matches
    check = {"metadata": {"name": "gpu"}, "spec": {"selector": selector}}
    assert (repair_owner({"metadata": {"labels": {"a": "1"}}}, [check]) is not None) is matches


@pytest.mark.parametrize(
    ("body", "sign"),
    [
        ({"metadata": {"annotations": {"remediation.medik8s.io/x": ""}}}, "annotation remediation.medik8s.io/x"),
        ({"metadata": {}, "spec": {"taints": [{"key": "medik8s.io/remediation"}]}}, "taint medik8s.io/remediation"),
        (
            {"metadata": {}, "status": {"conditions": [{"type": "AcceleratedHardwareReady"}]}},
            "condition AcceleratedHardwareReady",
        ),
    ],
)
def test_signs_of_others(body: dict[str, Any], sign: str) -> None:
    owner = repair_owner(body)
    assert owner is not None
    assert owner.sign == sign


def test_a_node_that_opted_out_of_nvsentinel_is_ours() -> None:
    labels = {"dgxc.nvidia.com/nvsentinel-state": "", "k8saas.nvidia.com/ManagedByNVSentinel": "false"}
    assert repair_owner({"metadata": {"labels": labels}}) is None
