"""A real API server and our rows of kinds agree on what can be changed in place.

The updates are written by hand, in `updates.yaml` and `managed-updates.yaml`; `tests/differential/test_updates.py` makes
more of them.
"""

import copy
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler import resources
from reconciler.kinds.immutable import value_of
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.registry import BUILT_IN
from reconciler.kube.objects import ObjectKey, SourceRef, split_api_version
from reconciler.kube.schemas import Catalogue
from reconciler.plan.comparison import compare
from reconciler.plan.replacements import shrinks
from tests.cluster.bed.bed import Bed, applied
from tests.cluster.bed.kueue import cluster_queue, flavor, local_queue
from tests.cluster.server import ApiServer, wait_until

Body = dict[str, Any]
CATALOGUE = Catalogue(resources)
NAMESPACE = "updates"
_STEP = re.compile(r'\[(\d+)\]|\["([^"]+)"\]|([^.\[\]]+)')


def is_refused(before: Body, after: Body) -> bool:
    """Return whether a plan would say that the object must be replaced, or that the change is an error."""
    group, _ = split_api_version(after["apiVersion"])
    metadata = after["metadata"]
    key = ObjectKey(group=group, kind=after["kind"], namespace=metadata.get("namespace", ""), name=metadata["name"])
    manifest = Manifest(cluster="main", key=key, body=after, source=SourceRef(path="a.yaml"))
    comparison = compare(BUILT_IN, CATALOGUE, before, manifest)
    return bool(comparison.frozen) or shrinks(comparison)


def stored(api_server: ApiServer, body: Body, name: str) -> Body:
    """Create an object for real, under its own name in a namespace of these tests."""
    own = copy.deepcopy(body)
    own["metadata"]["name"] = name
    if own["metadata"].get("namespace") or CATALOGUE.is_namespaced(
        split_api_version(own["apiVersion"])[0], own["kind"]
    ):
        own["metadata"]["namespace"] = NAMESPACE
    refused = applied(api_server.client, [own])
    assert not refused, refused
    return own


def under(body: Body, name: str) -> Body:
    return {**body, "metadata": {**body["metadata"], "name": name}}


def written(name: str) -> list[Any]:
    """Return the objects of a file with their updates."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    cases = list(yaml.load_all(text, Loader=yaml.CSafeLoader))
    return [pytest.param(case, id=f"{case['object']['kind']}-{case['object']['metadata']['name']}") for case in cases]


def updates(case: Body, *verdicts: str) -> Iterator[tuple[Body, Body]]:
    """Yield the updates with one of these verdicts, and what each makes of the object."""
    for update in (one for verdict in verdicts for one in case.get(verdict, ())):
        changed = copy.deepcopy(case["object"])
        for path, value in update.items():
            *steps, last = [int(index) if index else quoted or name for index, quoted, name in _STEP.findall(path)]
            node: Any = changed
            for step in steps:
                node = node[step] if isinstance(node, list) else node.setdefault(step, {})
            if value is None:
                del node[last]
            else:
                node[last] = copy.deepcopy(value)
        yield update, changed


PLAIN, MANAGED = written("updates.yaml"), written("managed-updates.yaml")


@pytest.fixture(scope="module")
def queues(bed: Bed) -> None:
    """Make a queue that admits everything, one that holds everything, and priorities."""
    quotas = [{"name": name, "nominalQuota": amount} for name, amount in {"cpu": 1000, "memory": "1000Ti"}.items()]
    everything = cluster_queue("open", 0, flavor="updates-any")
    everything["spec"]["resourceGroups"] = [
        {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "updates-any", "resources": quotas}]}
    ]
    held = local_queue("held", NAMESPACE, "open")
    if not bed.find("/api/v1/nodes/updates"):  # several processes, and a test that runs again, make the same queues
        bed.node("updates", "updates")
    bed.apply(flavor("updates-any"), everything, local_queue("open", NAMESPACE, "open"))
    bed.apply(local_queue("other", NAMESPACE, "open"), {**held, "spec": {**held["spec"], "stopPolicy": "Hold"}})
    for name, value in (("updates-high", 1000), ("updates-low", 10)):
        kind = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "WorkloadPriorityClass"}
        bed.apply({**kind, "metadata": {"name": name}, "value": value})
    # Cases name what stands beside another one, which another process may not have come to yet.
    for body in (body for case in MANAGED for body in case.values[0].get("beside", ())):
        stored(bed.server, body, body["metadata"]["name"])


@pytest.mark.parametrize("case", [*PLAIN, *MANAGED])
def test_a_plan_foresees_what_is_refused(case: Body) -> None:
    """F-062: of the updates that a server refuses, a plan cannot know those that depend on the state of the object."""
    before = case["object"]
    assert [update for update, after in updates(case, "taken", "unforeseen") if is_refused(before, after)] == []
    assert [update for update, after in updates(case, "refused") if not is_refused(before, after)] == []


@pytest.mark.parametrize("case", PLAIN)
def test_the_server_says_so(api_server: ApiServer, case: Body) -> None:
    """F-062: what is written down is what the server answers."""
    assert_answers(api_server, case)


@pytest.mark.usefixtures("kwok", "scheduler", "kueue")
@pytest.mark.parametrize("case", MANAGED)
def test_the_webhooks_say_so(bed: Bed, queues: None, request: pytest.FixtureRequest, case: Body) -> None:
    """F-062: with the webhooks of Kueue, and of the operator of a kind where it has some."""
    del queues
    operator = _OPERATORS.get(split_api_version(case["object"]["apiVersion"])[0])
    if operator:
        request.getfixturevalue(operator)
    assert_answers(bed.server, case)


_OPERATORS = {
    "jobset.x-k8s.io": "jobset",
    "kubeflow.org": "training_operator",
    "trainer.kubeflow.org": "trainer",
    "leaderworkerset.x-k8s.io": "lws",
    "workload.codeflare.dev": "appwrapper",
}


def assert_answers(server: ApiServer, case: Body) -> None:
    """Fail unless a server takes and refuses the updates of an object as they are written down."""
    for body in case.get("beside", ()):
        stored(server, body, body["metadata"]["name"])
    before = stored(server, case["object"], case["object"]["metadata"]["name"])
    path = server.client.path(before)
    assert path is not None
    wrong = []
    try:
        _settle(server, path, case)
        for verdicts, is_taken in ((("taken",), True), (("refused", "unforeseen"), False)):
            made = list(updates({**case, "object": before}, *verdicts))
            for (update, _), result in zip(made, server.apply_dry_run([after for _, after in made]), strict=True):
                wrong += [] if result.ok is is_taken else [f"{update}: {result.message or 'taken'}"]
    finally:
        server.client.request("DELETE", f"{path}?propagationPolicy=Background&gracePeriodSeconds=0")
    assert not wrong, "\n".join(wrong)


def _settle(server: ApiServer, path: str, case: Body) -> None:
    """Write what controllers have found out, and wait for what they do."""
    if "status" in case:
        status = {"status": case["status"]}
        answer = server.client.request("PATCH", f"{path}/status", status, content_type="application/merge-patch+json")
        assert answer.ok, answer.body
    if case["object"]["kind"] == "CustomResourceDefinition":
        wait_until(lambda: "Established" in str(server.client.get(path)["status"]), "the definition is established")
    for field, value in case.get("settled", {}).items():
        wait_until(lambda: value_of(server.client.get(path), field) == value, f"{field} of {path}")  # noqa: B023
