"""Random crowds: queues of Kueue with all their policies, and workloads that run and wait in them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

Body = dict[str, Any]

API = "kueue.x-k8s.io/v1beta2"
GPU, CPU = "nvidia.com/gpu", "cpu"
POOL = "example.com/pool"
START = 1_700_000_000
"""When the first workload was created, in seconds."""
_LARGE = 50  # of so many crowds, one is large
_PREEMPTION = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Objects of Kueue. `workloads` are Workloads, as its scheduler sees them; fair: the setting `fairSharing`."""

    flavors: list[Body]
    cohorts: list[Body]
    cluster_queues: list[Body]
    workloads: list[Body] = field(default_factory=list)
    fair: Body | None = None

    @property
    def question(self) -> Body:
        """The crowd as the program around Kueue's scheduler reads it."""
        return {
            "flavors": self.flavors,
            "cohorts": self.cohorts,
            "clusterQueues": self.cluster_queues,
            "localQueues": self.local_queues,
            "workloads": self.workloads,
            "fairSharing": self.fair,
        }

    @property
    def local_queues(self) -> list[Body]:
        """A LocalQueue for each ClusterQueue, of its name."""
        names = [one["metadata"]["name"] for one in self.cluster_queues]
        return [
            {**_object("LocalQueue", name, {"clusterQueue": name}), "metadata": {"name": name, "namespace": "ml"}}
            for name in names
        ]


def crowd(seed: int) -> Crowd:
    """Return the crowd of a seed."""
    random = Random(seed)  # noqa: S311 - no secret
    names = [f"f{number}" for number in range(random.randint(1, 3))]
    flavors = [_object("ResourceFlavor", name, {"nodeLabels": {POOL: name}}) for name in names]
    resources = [GPU] if random.random() < 0.5 else [GPU, CPU]
    fair = random.choice((None, None, {}, {"preemptionStrategies": ["LessThanInitialShare"]}))
    if fair is not None and random.random() < 0.3:
        fair = {"preemptionStrategies": ["LessThanOrEqualToFinalShare"]}
    cohorts: list[Body] = []
    for number in range(random.choice((0, 1, 1, 2, 4))):
        parent = random.choice([*(one["metadata"]["name"] for one in cohorts), ""])
        spec: Body = {"parentName": parent} if parent else {}
        if random.random() < 0.4:
            spec["resourceGroups"] = [_group(random, names, resources, is_bounded=bool(parent))]
        cohorts.append(_object("Cohort", f"c{number}", {**spec, **_weight(random)}))
    known = [*(one["metadata"]["name"] for one in cohorts), "implicit"]
    queues = []
    for number in range(random.randint(1, 6) if seed % _LARGE else 40):
        cohort = random.choice(known) if random.random() < 0.85 else ""
        queues.append(_queue(random, f"q{number}", cohort, names, resources))
    made = Crowd(flavors=flavors, cohorts=cohorts, cluster_queues=queues, fair=fair)
    count = random.choice((4, 8, 12, 24)) if seed % _LARGE else 240
    moments = random.sample(range(10_000), count)
    for number in range(count):
        made.workloads.append(_workload(random, number, moments[number], queues, (names, resources)))
    return made


def _queue(random: Random, name: str, cohort: str, flavors: Sequence[str], resources: Sequence[str]) -> Body:
    reclaim = random.choice(("Never", "LowerPriority", "Any", "Any"))
    borrow: Body = {"policy": "Never"}
    if random.random() < 0.4:
        borrow = {"policy": "LowerPriority"}
        if random.random() < 0.5:
            borrow["maxPriorityThreshold"] = random.choice((0, 100))
    fungibility: Body = {
        "whenCanBorrow": random.choice(("MayStopSearch", "TryNextFlavor")),
        "whenCanPreempt": random.choice(("MayStopSearch", "TryNextFlavor")),
    }
    if random.random() < 0.3:
        fungibility["preference"] = random.choice(("BorrowingOverPreemption", "PreemptionOverBorrowing"))
    spec: Body = {
        "namespaceSelector": {},
        "queueingStrategy": random.choice(("StrictFIFO", "BestEffortFIFO", "BestEffortFIFO")),
        "resourceGroups": [_group(random, flavors, resources, is_bounded=bool(cohort))],
        "preemption": {
            "withinClusterQueue": random.choice(_PREEMPTION),
            "reclaimWithinCohort": reclaim,
            "borrowWithinCohort": borrow if reclaim != "Never" else {"policy": "Never"},
        },
        "flavorFungibility": fungibility,
        **_weight(random),
    }
    if cohort:
        spec["cohortName"] = cohort
    return _object("ClusterQueue", name, spec)


def _weight(random: Random) -> Body:
    return {"fairSharing": {"weight": random.choice(("0", "1", "2", "500m"))}} if random.random() < 0.3 else {}


def _group(random: Random, flavors: Sequence[str], resources: Sequence[str], *, is_bounded: bool) -> Body:
    names = random.sample(flavors, random.randint(1, len(flavors)))
    return {
        "coveredResources": list(resources),
        "flavors": [
            {"name": name, "resources": [_quota(random, resource, is_bounded=is_bounded) for resource in resources]}
            for name in names
        ],
    }


def _quota(random: Random, resource: str, *, is_bounded: bool) -> Body:
    nominal = random.choice((0, 4, 8, 16, 16, 32)) * (8 if resource == CPU else 1)
    quota: Body = {"name": resource, "nominalQuota": str(nominal)}
    if is_bounded and random.random() < 0.4:
        quota["borrowingLimit"] = str(random.choice((0, 4, 16)))
    if is_bounded and random.random() < 0.4:
        quota["lendingLimit"] = str(random.choice((0, nominal // 2, nominal)))
    return quota


def _workload(
    random: Random, number: int, moment: int, queues: Sequence[Body], offered: tuple[Sequence[str], Sequence[str]]
) -> Body:
    flavors, resources = offered
    name, queue = f"w{number:03}", random.choice(queues)
    sets = []
    for index in range(random.choice((1, 1, 1, 2))):
        gpus, count = random.choice((0, 1, 2, 4, 8)), random.choice((1, 1, 2, 4))
        amounts = {GPU: str(gpus)} if gpus else {}
        if CPU in resources:
            amounts[CPU] = random.choice(("4", "500m", "16"))
        elif not gpus:
            amounts[GPU] = "1"
        pod: Body = {"restartPolicy": "Never", "containers": [{"name": "main", "resources": {"requests": amounts}}]}
        if random.random() < 0.15:
            pod["nodeSelector"] = {POOL: random.choice(flavors)}
        one: Body = {"name": f"s{index}", "count": count, "template": {"spec": pod}}
        if count > 1 and index == 0 and random.random() < 0.2:
            one["minCount"] = random.randint(1, count)
        sets.append(one)
    body: Body = {
        "apiVersion": API,
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "ml", "uid": name, "creationTimestamp": stamp(moment)},
        "spec": {
            "queueName": queue["metadata"]["name"],
            "priority": random.choice((0, 0, 100, 200)),
            "active": True,
            "podSets": sets,
        },
    }
    if random.random() < 0.55:
        body["status"] = _admitted(random, body, queue, moment)
    return body


def _admitted(random: Random, body: Body, queue: Body, moment: int) -> Body:
    """Return the status of a workload that was admitted, whether or not all of them fit together."""
    flavors = [one["name"] for one in queue["spec"]["resourceGroups"][0]["flavors"]]
    assignments = []
    for one in body["spec"]["podSets"]:
        one.pop("minCount", None)
        flavor = random.choice(flavors)
        requests = one["template"]["spec"]["containers"][0]["resources"]["requests"]
        assignments.append(
            {
                "name": one["name"],
                "count": one["count"],
                "flavors": dict.fromkeys(requests, flavor),
                "resourceUsage": {
                    name: f"{one['count'] * int(amount.removesuffix('m'))}{'m' * amount.endswith('m')}"
                    for name, amount in requests.items()
                },
            }
        )
    since = stamp(moment + random.randint(1, 3000))
    return {
        "admission": {"clusterQueue": queue["metadata"]["name"], "podSetAssignments": assignments},
        "conditions": [
            {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since}
            for kind in ("QuotaReserved", "Admitted")
        ],
    }


def stamp(moment: int) -> str:
    """Return a moment after the start as text."""
    return datetime.fromtimestamp(START + moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _object(kind: str, name: str, spec: Body) -> Body:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}
