"""Workloads that are never admitted: our answers against the real Kueue, with its webhooks, on random queues."""

import os
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.repo.config import Cluster
from reconciler.sizing.inventory import Inventory, Node
from tests.cluster.bed.bed import Bed, node
from tests.differential.worlds import Body, World, topologies, world
from tests.plan.plan_cases import evaluate, rows

WORLDS = int(os.environ.get("RECONCILER_TEST_WORLDS", "54"))
_NEVER = {"queues.never-admitted", "quota.queue-limit", "quota.not-covered"}
_UNKNOWN = "queues.admission-unknown"
_SECONDS = 180.0  # until Kueue has looked at all of them
_SETTLED = 3.0  # without a change
_ALL = "/apis/kueue.x-k8s.io/v1beta2/workloads"
_WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/{}/workloads"
Case = tuple[str, str]
"""Namespace and name of a workload."""


@pytest.mark.usefixtures("kueue", "kwok")
def test_what_is_never_admitted(bed: Bed) -> None:
    """F-047, F-157: what we say is never admitted, Kueue refuses or keeps waiting, and it admits everything else."""
    prefix = f"never-{os.urandom(2).hex()}"
    worlds = [world(prefix, seed) for seed in range(WORLDS)]
    ours = {case: answer for one in worlds for case, answer in answers(one, prefix).items()}
    places = [(name, {**labels, prefix: ""}) for one in worlds for name, labels in one.nodes]
    bed.apply(*topologies(prefix))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: bed.create("/api/v1/nodes", node(one[0], labels=one[1])), places))
        bed.wait(lambda: ready_nodes(bed, prefix) == len(places), "ready nodes")
        list(pool.map(lambda one: bed.apply(one.namespace, *one.queues), worlds))
        refused = dict(entry for found in pool.map(lambda one: create(bed, one), worlds) for entry in found)
    on_nodes = (one for one in worlds if one.has_topology)
    paths = {(one.name, body["metadata"]["name"]): path(body) for one in on_nodes for body in one.workloads}
    expected = {case for case, words in ours.items() if not words and case not in refused}
    seen = decided(bed, prefix, expected, paths)
    told = {**states(bed, prefix), **refused}
    for one in worlds:
        bed.delete(f"/api/v1/namespaces/{one.name}")
    wrong = [
        f"{case}: we say {words or 'it starts'!r}, Kueue {'admits it' if case in seen else 'does not'}: {told.get(case)}"
        for case, words in sorted(ours.items())
        if words != _UNKNOWN and bool(words) is (case in seen)
    ]
    counts = Counter("unknown" if words == _UNKNOWN else "never" if words else "starts" for words in ours.values())
    print(f"{len(ours)} workloads: {dict(counts)}, {len(refused)} refused, {len(wrong)} contradictions")  # noqa: T201 - the figures of a run
    assert not wrong, f"{len(wrong)} contradictions:\n" + "\n".join(wrong[:30])
    assert counts["unknown"] * 20 < len(ours), "few are unknown"
    assert min(counts["never"], counts["starts"]) * 4 > len(ours), "the worlds are worth it"


def answers(one: World, prefix: str) -> dict[Case, str]:
    """Return why each workload of a world is never admitted; empty if it is, and the name of a rule if it is unknown."""
    measured = tuple(Node(name=name, gpus=8, labels=labels, cpus=96) for name, labels in one.nodes)
    inventory = Inventory(cluster="main", taken_at="2026-01-01T00:00:00Z", nodes=measured)
    found = rows([*topologies(prefix), *one.objects])
    said: dict[Case, str] = {(one.name, body["metadata"]["name"]): "" for body in one.workloads}
    verdicts = evaluate(BUILT_IN, found, Cluster(name="main"), inventory, {})
    for verdict in verdicts:
        case = (one.name, verdict.key.name)
        if verdict.rule in _NEVER and case in said:
            said[case] = verdict.message
    missing = any(verdict.rule == _UNKNOWN for verdict in verdicts)
    return {case: words or (_UNKNOWN if missing and not one.has_namespace else "") for case, words in said.items()}


def ready_nodes(bed: Bed, label: str) -> int:
    """Return how many nodes with a label take pods."""
    nodes = bed.get(f"/api/v1/nodes?labelSelector={label}")["items"]
    return sum(1 for one in nodes if not one["spec"].get("taints"))


def create(bed: Bed, one: World) -> list[tuple[Case, str]]:
    """Create the workloads of a world, and return what is said of those that are refused."""
    results = [(body, bed.server.client.apply([body])[0]) for body in one.workloads]
    return [((one.name, body["metadata"]["name"]), result.message) for body, result in results if not result.ok]


def decided(bed: Bed, prefix: str, expected: set[Case], paths: Mapping[Case, str]) -> set[Case]:
    """Return the workloads that Kueue admits: all that it should, or those of a while in which nothing changes.

    Those with a path are deleted then, so that their nodes are free for others.
    """
    seen: set[Case] = set()
    changed = start = time.monotonic()
    while time.monotonic() < start + _SECONDS:
        found = {case: name for case, (name, told) in states(bed, prefix).items() if _is_admitted(told)}
        for case in found.keys() & paths.keys():
            for one in (paths[case], f"{_WORKLOADS.format(case[0])}/{found[case]}"):
                bed.server.client.request("DELETE", one, {"propagationPolicy": "Background"})
        if not found.keys() <= seen:
            seen, changed = seen | found.keys(), time.monotonic()
        elif time.monotonic() > changed + (_SETTLED if expected <= seen else 10 * _SETTLED):
            break
        time.sleep(0.5)
    return seen


def path(body: Body) -> str:
    """Return the path of a workload."""
    version, metadata = body["apiVersion"], body["metadata"]
    return f"/apis/{version}/namespaces/{metadata['namespace']}/{body['kind'].lower()}s/{metadata['name']}"


def states(bed: Bed, prefix: str) -> dict[Case, tuple[str, dict[str, str]]]:
    """Return the Workload of each owner: its name, and its conditions by type, with status and message."""
    found = {}
    for item in bed.get(_ALL)["items"]:
        metadata = item["metadata"]
        told = {
            one["type"]: f"{one['status']} {one.get('message', '')}"
            for one in item.get("status", {}).get("conditions", ())
        }
        for owner in metadata.get("ownerReferences", ()) if metadata["namespace"].startswith(prefix) else ():
            found[metadata["namespace"], owner["name"]] = metadata["name"], told
    return found


def _is_admitted(conditions: Mapping[str, str]) -> bool:
    return conditions.get("Admitted", "").startswith("True")
