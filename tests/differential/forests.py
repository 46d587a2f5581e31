"""Random forests of Kueue's queues with workloads: cohorts, lending and borrowing limits, flavors, resource groups."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Body = dict[str, Any]

_API = "kueue.x-k8s.io/v1beta2"
PRODUCT, POOL = "nvidia.com/gpu.product", "example.com/pool"
SLICE = "nvidia.com/mig-1g.10gb"
_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", SLICE)
_LABELS: Sequence[Body] = (
    {},
    {PRODUCT: "H100"},
    {PRODUCT: "A100"},
    {POOL: "a"},
    {POOL: "b"},
    {PRODUCT: "H100", POOL: "a"},
    {PRODUCT: "A100", POOL: "b"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Queues and what they are asked for: each workload is a JobSet with the name of its ClusterQueue."""

    flavors: list[Body]
    cohorts: list[Body]
    cluster_queues: list[Body]
    workloads: list[tuple[str, Body]]

    @property
    def question(self) -> Body:
        """The forest as the program around Kueue's code reads it."""
        asked = [{"clusterQueue": queue, "podSets": list(_pod_sets(body))} for queue, body in self.workloads]
        queues = {"flavors": self.flavors, "cohorts": self.cohorts, "clusterQueues": self.cluster_queues}
        return {**queues, "workloads": asked}

    @property
    def objects(self) -> list[Body]:
        """The forest as objects of a repository, with a LocalQueue for each ClusterQueue."""
        local = [_local_queue(body["metadata"]["name"]) for body in self.cluster_queues]
        jobs = [body for _, body in self.workloads]
        return [*self.flavors, *self.cohorts, *self.cluster_queues, *local, *jobs]


def forest(seed: int) -> Forest:
    """Return the forest of a seed."""
    random = Random(seed)  # noqa: S311 - no secret
    flavors = [
        _object("ResourceFlavor", f"f{number}", {"nodeLabels": dict(random.choice(_LABELS))})
        for number in range(random.randint(1, 4))
    ]
    names = [body["metadata"]["name"] for body in flavors]
    cohorts: list[Body] = []
    for number in range(random.choice((0, 0, 1, 2, 3, 6))):
        parent = random.choice([*(body["metadata"]["name"] for body in cohorts), "elsewhere", ""])
        groups = _groups(random, names, bounded=bool(parent)) if random.random() < 0.5 else []
        spec = {"resourceGroups": groups, **({"parentName": parent} if parent else {})}
        cohorts.append(_object("Cohort", f"c{number}", spec))
    known = [*(body["metadata"]["name"] for body in cohorts), "elsewhere", "implicit", ""]
    queues: list[Body] = []
    for number in range(random.randint(1, 6)):
        cohort = random.choice(known)
        spec = {"resourceGroups": _groups(random, names, bounded=bool(cohort))}
        queues.append(_object("ClusterQueue", f"q{number}", {**spec, **({"cohortName": cohort} if cohort else {})}))
    workloads = []
    for number in range(4):
        queue = random.choice(queues)["metadata"]["name"]
        workloads.append((queue, _job_set(random, f"w{number}", queue)))
    return Forest(flavors=flavors, cohorts=cohorts, cluster_queues=queues, workloads=workloads)


def _groups(random: Random, flavors: Sequence[str], *, bounded: bool) -> list[Body]:
    """Return resource groups: no resource and no flavor is in two of them."""
    resources = random.sample(_RESOURCES, random.randint(1, len(_RESOURCES)))
    names = random.sample(flavors, random.randint(1, len(flavors)))
    count = random.randint(1, min(len(resources), len(names), 2))
    return [_group(random, names[number::count], resources[number::count], bounded=bounded) for number in range(count)]


def _group(random: Random, flavors: Iterable[str], resources: Sequence[str], *, bounded: bool) -> Body:
    return {
        "coveredResources": list(resources),
        "flavors": [
            {"name": name, "resources": [_quota(random, resource, bounded=bounded) for resource in resources]}
            for name in flavors
        ],
    }


def _quota(random: Random, resource: str, *, bounded: bool) -> Body:
    nominal = random.choice((0, 8, 16, 32, 64, 64, "2500m"))
    quota: Body = {"name": resource, "nominalQuota": nominal}
    if bounded and random.random() < 0.5:
        quota["borrowingLimit"] = random.choice((0, 2, 8, 64))
    if bounded and random.random() < 0.5:
        quota["lendingLimit"] = random.choice((0, nominal // 2, nominal)) if isinstance(nominal, int) else 0
    return quota


def _job_set(random: Random, name: str, queue: str) -> Body:
    jobs = []
    for number in range(random.choice((1, 1, 2, 3))):
        resource, gpus = random.choice((*_RESOURCES[:1] * 3, *_RESOURCES)), random.choice((1, 2, 4, 8))
        amounts = {resource: gpus}
        if random.random() < 0.1:
            amounts[random.choice(_RESOURCES)] = 1
        container = {"name": "main", "image": "train:1", "resources": {"requests": amounts, "limits": amounts}}
        pod: Body = {"restartPolicy": "Never", "containers": [container], **_placement(random)}
        spec = {"parallelism": random.choice((1, 2, 4)), "completions": 4, "template": {"spec": pod}}
        jobs.append({"name": f"r{number}", "replicas": 1, "template": {"spec": spec}})
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "ml", "labels": {"kueue.x-k8s.io/queue-name": queue}},
        "spec": {"replicatedJobs": jobs},
    }


def _placement(random: Random) -> Body:
    """Return a node selector, a required affinity, or neither."""
    labels = dict(random.choice((*_LABELS, {}, {}, {"example.com/other": "x"})))
    if random.random() < 0.3:
        values = random.sample(("H100", "A100", "MI300X"), random.randint(1, 2))
        terms = [{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": values}]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        return {"affinity": {"nodeAffinity": required}}
    return {"nodeSelector": labels} if labels else {}


def _pod_sets(job_set: Body) -> Iterable[Body]:
    for job in job_set["spec"]["replicatedJobs"]:
        spec = job["template"]["spec"]
        yield {"name": job["name"], "count": spec["parallelism"], "template": spec["template"]}


def _object(kind: str, name: str, spec: Body) -> Body:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _local_queue(name: str) -> Body:
    return {**_object("LocalQueue", name, {"clusterQueue": name}), "metadata": {"name": name, "namespace": "ml"}}
