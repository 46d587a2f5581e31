"""Objects, rows and inputs from which the tests of census, rules and plan are built."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from reconciler.kinds.kind import Kinds
from reconciler.kinds.manifests.manifest import Manifest, manifest
from reconciler.kinds.manifests.ownership import is_kept
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import ObjectSummary, summarize
from reconciler.kube.objects import SourceRef
from reconciler.kube.reasons import Reason
from reconciler.plan import Inputs, Plan, Revision, make_plan
from reconciler.policy.references import RuleScope, evaluate_amounts, evaluate_links
from reconciler.policy.verdict import Verdict
from reconciler.queues.flavors import NEWEST, Version
from reconciler.repo.config import Budgets, Cluster, Config, RuleSetting
from reconciler.sizing.inventory import Inventory, Node

Body = dict[str, Any]

KAI_QUEUE = "kai.scheduler/queue"
KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
PRODUCT = "nvidia.com/gpu.product"


def pod_spec(gpus: Any = 8, *, product: str = "", **spec: Any) -> Body:
    resources: Body = {"limits": {"cpu": "4", "memory": "64Gi"}}
    if gpus is not None:
        resources["limits"]["nvidia.com/gpu"] = gpus
    container = {"name": "trainer", "image": "repo/train:1", "resources": resources}
    selector = {"nodeSelector": {PRODUCT: product}} if product else {}
    return {"restartPolicy": "Never", "containers": [container], **selector, **spec}


def job(
    name: str = "train",
    *,
    pods: int = 2,
    gpus: Any = 8,
    queue: str = "team-a",
    label: str = KAI_QUEUE,
    product: str = "",
    namespace: str = "ml",
    suspend: bool = False,
    **spec: Any,
) -> Body:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": {label: queue} if queue else {}},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            **({"suspend": True} if suspend else {}),
            "template": {"spec": pod_spec(gpus, product=product, **spec)},
        },
    }


def kai_queue(name: str, quota: Any = 16, *, limit: Any = -1, parent: str = "") -> Body:
    spec: Body = {"resources": {"gpu": {"quota": quota, "limit": limit, "overQuotaWeight": 1}}}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def cluster_queue(
    name: str,
    flavors: Mapping[str, Any],
    *,
    cohort: str = "",
    borrowing: Any = None,
    others: Sequence[str] = ("cpu", "memory"),
) -> Body:
    def quota(nominal: Any) -> Body:
        found = {"name": "nvidia.com/gpu", "nominalQuota": nominal}
        return {**found, "borrowingLimit": borrowing} if borrowing is not None else found

    unlimited = [{"name": resource, "nominalQuota": "1000000Gi"} for resource in others]
    spec: Body = {
        "namespaceSelector": {},
        "resourceGroups": [
            {
                "coveredResources": ["nvidia.com/gpu", *others],
                "flavors": [
                    {"name": flavor, "resources": [quota(nominal), *unlimited]} for flavor, nominal in flavors.items()
                ],
            }
        ],
    }
    if cohort:
        spec["cohortName"] = cohort
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec}


def local_queue(name: str, owner: str, *, namespace: str = "ml") -> Body:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "LocalQueue",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterQueue": owner},
    }


def flavor(name: str, product: str = "") -> Body:
    labels = {"spec": {"nodeLabels": {PRODUCT: product}}} if product else {"spec": {}}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ResourceFlavor", "metadata": {"name": name}, **labels}


def plain(kind: str, name: str, *, namespace: str = "ml", api: str = "v1", **rest: Any) -> Body:
    metadata: Body = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **rest}


def claim(name: str, size: str = "10Gi", **metadata: Any) -> Body:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    body = plain("PersistentVolumeClaim", name, spec=spec)
    body["metadata"].update(metadata)
    return body


def as_manifest(body: Body, *, cluster: str = "main", path: str = "jobs/a.yaml", line: int = 1) -> Manifest:
    reason = Reason(rule="source", text="written so")
    return manifest(cluster=cluster, tree=body, source=SourceRef(path=path, line=line, column=1), reason=reason)


def as_row(
    body: Body, *, cluster: str = "main", path: str = "jobs/a.yaml", line: int = 1, kinds: Kinds = BUILT_IN
) -> ObjectSummary:
    found = as_manifest(body, cluster=cluster, path=path, line=line)
    digest = hashlib.sha1(msgspec.json.encode(body, order="sorted"), usedforsecurity=False).hexdigest()
    path = kinds.manifest_path(cluster, found.key)
    return summarize(kinds, cluster=cluster, body=body, path=path, digest=digest, source=found.source)


def rows(bodies: Iterable[Body], **keywords: Any) -> list[ObjectSummary]:
    return [as_row(body, line=line, **keywords) for line, body in enumerate(bodies, start=1)]


def inventory(nodes: int = 4, gpus: int = 8, *, product: str = "H100", cluster: str = "main") -> Inventory:
    found = tuple(Node(name=f"{product}-{index}", product=product, gpus=gpus) for index in range(nodes))
    return Inventory(cluster=cluster, taken_at="2026-01-01T00:00:00Z", nodes=found)


def inputs(before: Iterable[Body], after: Iterable[Body], *, budgets: Budgets | None = None, **rest: Any) -> Inputs:
    old = {one.path: (one, body) for body in before for one in [as_row(body)]}
    new = {one.path: (one, body) for body in after for one in [as_row(body)]}
    config = Config(
        clusters=(Cluster(name="main"),),
        budgets=budgets or Budgets(delete_count=None, delete_share=None, gpu_quota_share=None),
    )
    return Inputs(
        **{
            "engine": "1.0",
            "base": Revision(label="main", commit="b" * 40, tree="t1"),
            "head": Revision(label="HEAD", commit="a" * 40, tree="t2"),
            "evidence": "e1",
            "policies": "p1",
            "config": config,
            "kinds": BUILT_IN,
            "desired": {path: one for path, (one, _) in new.items()},
            "existing": {path: one.digest for path, (one, _) in old.items()},
            "existing_rows": {
                path: msgspec.structs.replace(one, source="", line=0, column=0)
                for path, (one, _) in old.items()
                if path not in new or new[path][0].digest != one.digest
            },
            "kept": frozenset(path for path, (_, body) in old.items() if is_kept(body)),
            "manifest": lambda path: as_manifest(new[path][1]),
            "body": lambda path: old[path][1],
            **rest,
        }
    )


def plan(before: Iterable[Body], after: Iterable[Body], **rest: Any) -> Plan:
    return make_plan(inputs(before, after, **rest))


def evaluate(  # noqa: PLR0917 - the parts of a cluster
    kinds: Kinds,
    rows: Sequence[ObjectSummary],
    cluster: Cluster,
    inventory: Inventory | None,
    settings: Mapping[str, RuleSetting],
    kueue: Version = NEWEST,
) -> tuple[Verdict, ...]:
    """Evaluate every rule that `settings` enable over all objects of one cluster, in the order of places."""
    scope = RuleScope(kinds=kinds, cluster=cluster, settings=settings, inventory=inventory, kueue=kueue)
    verdicts = (*evaluate_links(scope, rows), *evaluate_amounts(scope, rows))
    return tuple(sorted(verdicts, key=lambda verdict: verdict.sort_key))
