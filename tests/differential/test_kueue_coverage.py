"""Resources that a ClusterQueue does not cover: our verdicts against what the real Kueue says of the same Jobs."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from reconciler.kinds.registry import BUILT_IN
from reconciler.repo.config import Cluster
from tests.cluster.bed.bed import Bed
from tests.plan.plan_cases import KUEUE_QUEUE, Body, evaluate, plain, rows

_API = "kueue.x-k8s.io/v1beta2"
_UNAVAILABLE = re.compile(r"resource (\S+) unavailable in ClusterQueue")
_OURS = re.compile(r"requests (.+), but (?:ClusterQueue|queue) ")
_RULES = ("quota.not-covered", "quota.queue-limit")
GPU = "nvidia.com/gpu"
_ALL = ("cpu", "memory", GPU)


class Case(NamedTuple):
    """A Job of one pod in a namespace of its own. `missing`: what Kueue may say that the queue does not cover."""

    name: str
    covered: Sequence[str]
    resources: Body
    missing: Sequence[str] = ()
    pod: Body = {}  # noqa: RUF012 - never changed
    limits: Body = {}  # noqa: RUF012 - of the containers of a LimitRange
    pods: int = 1
    cohort: str = ""


INIT = {"name": "i", "image": "a:1"}
CASES = (
    Case("all-covered", _ALL, {"limits": {"cpu": 1, "memory": "1Gi", GPU: 1}}),
    Case("nothing-requested", (GPU,), {}),
    Case("cpu", (GPU,), {"requests": {"cpu": 1}}, ["cpu"]),
    Case("memory", ("cpu", GPU), {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {GPU: 1}}, ["memory"]),
    Case("two", (GPU,), {"requests": {"cpu": 1, "memory": "1Gi"}}, ["cpu", "memory"]),
    Case("gpu", ("cpu",), {"limits": {"cpu": 1, GPU: 1}}, [GPU]),
    Case("other-gpu", _ALL, {"limits": {"cpu": 1, "amd.com/gpu": 1}}, ["amd.com/gpu"]),
    Case("storage", _ALL, {"requests": {"cpu": 1, "ephemeral-storage": "1Gi"}}, ["ephemeral-storage"]),
    Case("network", _ALL, {"limits": {"cpu": 1, "rdma/ib": 1}}, ["rdma/ib"]),
    Case("pages", _ALL, {"limits": {"cpu": 1, "hugepages-2Mi": "64Mi"}}, ["hugepages-2Mi"]),
    Case("limit-only", ("memory",), {"limits": {"cpu": 1}}, ["cpu"]),
    Case("zero", ("memory",), {"requests": {"cpu": 0, "memory": "1Gi"}}),
    Case("zero-below-limit", ("memory",), {"requests": {"cpu": 0, "memory": "1Gi"}, "limits": {"cpu": 1}}),
    Case("little", ("memory",), {"requests": {"cpu": "100u", "memory": "1Gi"}}, ["cpu"]),
    Case("init", _ALL, {}, ["rdma/ib"], {"initContainers": [{**INIT, "resources": {"limits": {"rdma/ib": 1}}}]}),
    Case(
        "sidecar",
        ("memory",),
        {"requests": {"memory": "1Gi"}},
        ["cpu"],
        {"initContainers": [{**INIT, "restartPolicy": "Always", "resources": {"limits": {"cpu": 1}}}]},
    ),
    Case("pod-level", ("memory",), {}, ["cpu"], {"resources": {"requests": {"cpu": 1}}}),
    Case(
        "pod-level-limit", ("memory",), {"requests": {"memory": "1Gi"}}, ["cpu"], {"resources": {"limits": {"cpu": 1}}}
    ),
    Case("overhead", (GPU,), {"limits": {GPU: 1}}, ["cpu"], {"runtimeClassName": "coverage"}),
    Case("default", ("memory",), {"requests": {"memory": "1Gi"}}, ["cpu"], limits={"default": {"cpu": 1}}),
    Case("default-request", ("memory",), {"limits": {"memory": "1Gi"}}, ["cpu"], limits={"defaultRequest": {"cpu": 1}}),
    Case("maximum", ("memory",), {"requests": {"memory": "1Gi"}}, ["cpu"], limits={"max": {"cpu": 1}}),
    Case("minimum", ("memory",), {"requests": {"memory": "1Gi"}}, ["cpu"], limits={"min": {"cpu": 1}}),
    Case("default-covered", _ALL, {}, limits={"default": {"cpu": 1, "memory": "1Gi"}}),
    Case("default-zero", ("memory",), {"requests": {"memory": "1Gi"}}, limits={"default": {"cpu": 0}}),
    Case("stated-zero", ("memory",), {"requests": {"cpu": 0, "memory": "1Gi"}}, limits={"default": {"cpu": 1}}),
    Case("no-groups", (), {"requests": {"cpu": 1}}, ["cpu"]),
    Case("cohort", ("memory",), {"requests": {"cpu": 1}}, ["cpu"], cohort="coverage"),
    Case("no-pods", ("memory",), {"requests": {"cpu": 1}}, pods=0),
)
RUNTIME_CLASS = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "coverage"},
    "handler": "coverage",
    "overhead": {"podFixed": {"cpu": "100m"}},
}


def objects(case: Case) -> list[Body]:
    """Return everything but what all cases share."""
    namespace = f"coverage-{case.name}"
    quotas = [{"name": name, "nominalQuota": "100Gi"} for name in case.covered]
    group = {"coveredResources": [*case.covered], "flavors": [{"name": "coverage", "resources": quotas}]}
    queue: dict[str, Any] = {"namespaceSelector": {}, "resourceGroups": [group] if quotas else []}
    if case.cohort:
        queue["cohortName"] = case.cohort
    container = {"name": "main", "image": "a:1", "resources": case.resources}
    pod = {"restartPolicy": "Never", "containers": [container], **case.pod}
    job = plain("Job", "train", namespace=namespace, api="batch/v1")
    job["metadata"]["labels"] = {KUEUE_QUEUE: "team"}
    job["spec"] = {"parallelism": case.pods, "suspend": True, "template": {"spec": pod}}
    limits = {"limits": [{"type": "Container", **case.limits}]}
    return [
        plain("ClusterQueue", namespace, namespace="", api=_API, spec=queue),
        plain("LocalQueue", "team", namespace=namespace, api=_API, spec={"clusterQueue": namespace}),
        *([plain("LimitRange", "defaults", namespace=namespace, spec=limits)] if case.limits else []),
        job,
    ]


FLAVOR = plain("ResourceFlavor", "coverage", namespace="", api=_API)
LENDER = objects(Case("lender", _ALL, {}, cohort="coverage"))[0]
"""A member of the cohort that covers everything: nobody borrows what he does not cover himself."""


def ours(case: Case) -> set[str]:
    """Return the resources that our rules say the queue does not cover."""
    found = evaluate(BUILT_IN, rows([FLAVOR, LENDER, RUNTIME_CLASS, *objects(case)]), Cluster(name="main"), None, {})
    names = [_OURS.match(verdict.message) for verdict in found if verdict.rule in _RULES]
    return {name for one in names if one for name in re.split(", | and ", one[1])}


def test_the_table_says_what_we_say() -> None:
    """F-047: what a table of Jobs and queues expects of Kueue is our verdict."""
    assert {case.name: ours(case) for case in CASES} == {case.name: {*case.missing} for case in CASES}


@pytest.mark.usefixtures("kueue")
def test_kueue_admits_what_its_queue_covers(bed: Bed) -> None:
    """F-047: Kueue admits the Jobs of the table without a verdict, and names a resource of ours for every other."""
    bed.apply(FLAVOR, RUNTIME_CLASS, LENDER, *(body for case in CASES for body in objects(case)[:-1]))
    bed.apply(*(objects(case)[-1] for case in CASES))
    found: dict[str, str] = {}

    def decided() -> bool:
        for case in CASES:
            found[case.name] = _says(bed, f"coverage-{case.name}")
        return all(found.values())

    bed.wait(decided, "Kueue admitted or refused every Job")
    wrong = [
        f"{case.name}: we say {sorted(ours(case)) or 'covered'}, Kueue says {found[case.name]}"
        for case in CASES
        if not (found[case.name] in ours(case) if ours(case) else found[case.name] == "admitted")
    ]
    assert not wrong, "\n".join(wrong)


def _says(bed: Bed, namespace: str) -> str:
    """Return `admitted`, or the resource that Kueue says is unavailable; empty while it has not decided."""
    for workload in bed.get(f"/apis/{_API}/namespaces/{namespace}/workloads")["items"]:
        for condition in workload.get("status", {}).get("conditions", ()):
            if condition["type"] == "QuotaReserved" and condition["status"] == "True":
                return "admitted"
            if condition["type"] == "QuotaReserved" and (named := _UNAVAILABLE.search(condition["message"])):
                return named[1]
    return ""
