"""Slices of GPUs (MIG): placed on the nodes that offer their resource, apart from whole GPUs."""

from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.placement import PodSite, QueuedJob
from reconciler.repo.evidence.usage import UsedWorkload
from reconciler.sizing.inventory import Node
from tests.placement.fleets import evidence, job, node, nodes_of, place, used

SMALL, LARGE = "nvidia.com/mig-1g.10gb", "nvidia.com/mig-3g.40gb"


def sliced(name: str, slices: Mapping[str, int], **more: Any) -> Node:
    return node(name, gpus=0, slices=slices, **more)


def asks(name: str, resource: str = SMALL, slices: int = 1, pods: int = 1) -> QueuedJob:
    return job(name, slices, pods, site=PodSite(resource=resource, product=resource))


def holds(name: str, places: list[tuple[str, int]], resource: str = SMALL) -> UsedWorkload:
    return used(name, places, gpus=0, requests={resource: "1"})


def test_slices_are_placed_where_nodes_offer_them() -> None:
    """F-020: what runs keeps its slices, and each resource is counted on its own."""
    nodes = [node("whole"), sliced("a", {SMALL: 2, LARGE: 1}), sliced("b", {SMALL: 7})]
    known = evidence(nodes, [holds("old", [("a", 2)])])
    found = place(known, "best_fit", asks("new"), asks("large", LARGE), job("gpus", 8), asks("many", pods=6))
    assert nodes_of(found) == {"new": "b", "large": "a", "gpus": "whole", "many": "b"}
    assert (found.after.gpus, found.before.used, found.after.allocated) == (8, 0, 8), "of whole GPUs"


@pytest.mark.parametrize(
    ("nodes", "running", "asked", "why"),
    [
        ([sliced("a", {SMALL: 1})], [holds("old", [("a", 1)])], asks("new"), f"a pod requests 1 {SMALL}; 0 of those"),
        ([sliced("a", {SMALL: 4})], [], asks("new", slices=5), "no node that it may use has more than 4"),
        ([sliced("a", {SMALL: 4}, unschedulable=True)], [], asks("new"), "1 node cordoned"),
        ([node("a")], [], asks("new"), f"unknown: no node of the evidence offers {SMALL}"),
        ([sliced("a", {LARGE: 4})], [], asks("new"), f"unknown: no node of the evidence offers {SMALL}"),
    ],
    ids=["held", "too many", "cordoned", "not recorded", "another profile"],
)
def test_why_slices_are_not_placed(nodes: list[Node], running: list[UsedWorkload], asked: QueuedJob, why: str) -> None:
    """F-020: what the evidence does not record is unknown, never free."""
    (found,) = place(evidence(nodes, running), "least_utilized", asked).after.jobs
    assert not found.is_placed
    assert why in found.why


def test_slices_that_pods_hold_are_no_whole_gpus() -> None:
    """F-026: on a node with both, its GPUs stay free, and no note says that more are in use than there are."""
    mixed = node("a", gpus=4, slices={SMALL: 28})
    found = place(evidence([mixed], [holds("old", [("a", 28)])]), "fragmentation", job("new", 4))
    assert nodes_of(found) == {"new": "a"}
    assert (found.before.used, found.notes) == (0, ())
