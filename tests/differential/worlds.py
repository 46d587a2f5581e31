"""Random queues of Kueue that keep workloads out for other reasons than quota, each with workloads of several kinds."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

Body = dict[str, Any]

_API = "kueue.x-k8s.io/v1beta2"
GPU, POOL, PRODUCT, TIER = "nvidia.com/gpu", "pool", "example.com/product", "example.com/tier"
BLOCK, RACK, HOST = "example.com/block", "example.com/rack", "kubernetes.io/hostname"
_PODSET = "kueue.x-k8s.io/podset-"
_LEVELS = ((BLOCK, RACK, HOST), (RACK, HOST), (BLOCK, RACK))
_TAINT = {"key": "spot", "value": "true"}
WORKLOADS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A namespace with queues, and the workloads in it; `has_namespace`: the repository has the Namespace, too."""

    name: str
    namespace: Body
    queues: list[Body]
    workloads: list[Body]
    has_namespace: bool

    @property
    def has_topology(self) -> bool:
        """True if workloads may take nodes of a topology."""
        return any("topologyName" in body["spec"] for body in self.queues)

    @property
    def nodes(self) -> list[tuple[str, dict[str, str]]]:
        """Names and labels of its nodes, of eight GPUs each: two blocks of racks with one, two and three nodes."""
        return [
            (f"{place}-{number}", {POOL: self.name, BLOCK: f"{self.name}-{block}", RACK: place})
            for block, racks in enumerate(((1, 2), (3,)))
            for rack, count in enumerate(racks)
            for place in [f"{self.name}-{block}-{rack}"]
            for number in range(count)
            if self.has_topology
        ]

    @property
    def objects(self) -> list[Body]:
        """The objects of the repository."""
        return [*([self.namespace] if self.has_namespace else []), *self.queues, *self.workloads]


def topologies(prefix: str) -> list[Body]:
    """Return the Topologies of all worlds."""
    return [
        _object("Topology", f"{prefix}-{number}", {"levels": [{"nodeLabel": level} for level in levels]})
        for number, levels in enumerate(_LEVELS)
    ]


def world(prefix: str, seed: int) -> World:
    """Return the world of a seed."""
    random = Random(seed)  # noqa: S311 - no secret
    name = f"{prefix}-{seed}"
    labels = random.choice(({}, {"team": "a"}, {"team": "a"}, {"team": "b", "env": "prod"}))
    flavors = [_flavor(random, name, number, prefix) for number in range(random.choice((1, 1, 2, 3)))]
    spec: Body = {"resourceGroups": list(_groups(random, [body["metadata"]["name"] for body in flavors]))}
    if random.random() < 0.95:
        spec["namespaceSelector"] = _selector(random, name)
    if random.random() < 0.06:
        spec["stopPolicy"] = random.choice(("Hold", "HoldAndDrain"))
    local: Body = {"clusterQueue": name}
    if random.random() < 0.06:
        local["stopPolicy"] = random.choice(("Hold", "HoldAndDrain", "None"))
    queue = {**_object("LocalQueue", "team", local), "metadata": {"name": "team", "namespace": name}}
    limits = [_limits(random, name)] if random.random() < 0.15 else []
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": dict(labels)}}
    return World(
        name=name,
        namespace=namespace,
        queues=[*flavors, _object("ClusterQueue", name, spec), queue, *limits],
        workloads=[_workload(random, f"w{number}", name) for number in range(WORKLOADS)],
        has_namespace=random.random() < 0.95,
    )


def _selector(random: Random, name: str) -> Body:
    team = {"key": "team", "operator": random.choice(("In", "NotIn")), "values": ["a"]}
    return random.choice(
        (
            *({},) * 14,
            {"matchLabels": {"team": "a"}},
            {"matchLabels": {"kubernetes.io/metadata.name": random.choice((name, "other"))}},
            {"matchExpressions": [team]},
            {"matchExpressions": [{"key": "env", "operator": random.choice(("Exists", "DoesNotExist"))}]},
        )
    )


def _flavor(random: Random, world: str, number: int, prefix: str) -> Body:
    labels = random.choice(
        ({}, {}, {PRODUCT: "H100"}, {PRODUCT: "A100"}, {TIER: "spot"}, {PRODUCT: "H100", TIER: "spot"})
    )
    spec: Body = {"nodeLabels": dict(labels)}
    if random.random() < 0.2:
        spec["nodeTaints"] = [{**_TAINT, "effect": random.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))}]
        if random.random() < 0.3:
            spec["tolerations"] = [{"key": "spot", "operator": "Exists"}]
    if random.random() < 0.35:
        spec["topologyName"] = f"{prefix}-{random.randrange(len(_LEVELS))}"
        spec["nodeLabels"] = {POOL: world}
    return _object("ResourceFlavor", f"{world}-{number}", spec)


def _groups(random: Random, flavors: Sequence[str]) -> Iterator[Body]:
    split = len(flavors) > 1 and random.random() < 0.4
    parts = (([GPU], flavors[:1]), (["cpu", "memory"], flavors[1:])) if split else (([GPU, "cpu", "memory"], flavors),)
    for resources, names in parts:
        quotas = [{"name": resource, "nominalQuota": "100Ti"} for resource in resources]
        yield {"coveredResources": resources, "flavors": [{"name": name, "resources": quotas} for name in names]}


def _limits(random: Random, namespace: str) -> Body:
    item = random.choice(
        (
            {"type": "Container", "max": {"cpu": "4"}},
            {"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}},
            {"type": "Container", "max": {GPU: "2"}},
            {"type": "Pod", "max": {"memory": "4Gi"}},
            {"type": "Pod", "min": {"cpu": "3"}},
            {"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}},
        )
    )
    metadata = {"name": "limits", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": metadata, "spec": {"limits": [item]}}


def _workload(random: Random, name: str, namespace: str) -> Body:
    kind = random.choice((_job, _job, _job_set, _job_set, _py_torch_job, _ray_cluster, _ray_job))
    api, spec, annotations = kind(random)
    labels = {"kueue.x-k8s.io/queue-name": "team"}
    if random.random() < 0.05:
        labels["kueue.x-k8s.io/max-exec-time-seconds"] = random.choice(("60", "0", "soon"))
    if random.random() < 0.05:
        annotations["kueue.x-k8s.io/elastic-job"] = "true"
    version, _, kind_name = api.rpartition("/")
    metadata = {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}
    return {"apiVersion": version, "kind": kind_name, "metadata": metadata, "spec": spec}


def _job(random: Random) -> tuple[str, Body, dict[str, str]]:
    pods = random.choice((1, 2, 3, 4))
    annotations: dict[str, str] = {}
    if random.random() < 0.15:
        annotations["kueue.x-k8s.io/job-min-parallelism"] = random.choice(("1", "2", "0", "x"))
    spec: Body = {"parallelism": pods, "completions": pods, "suspend": True, "template": _template(random)}
    if random.random() < 0.1:
        spec["completionMode"] = random.choice(("Indexed", "NonIndexed"))
        annotations["kueue.x-k8s.io/job-completions-equal-parallelism"] = random.choice(("true", "yes"))
    return "batch/v1/Job", spec, annotations


def _job_set(random: Random) -> tuple[str, Body, dict[str, str]]:
    count = random.choice((1, 1, 1, 2, 9, 19)) if random.random() < 0.3 else 1
    shared = _template(random)
    jobs = [
        {"name": f"r{number}", "replicas": 1, "template": {"spec": {**_size(random), "template": shared}}}
        for number in range(count)
    ]
    return "jobset.x-k8s.io/v1alpha2/JobSet", {"suspend": True, "replicatedJobs": jobs}, {}


def _size(random: Random) -> Body:
    pods = random.choice((1, 2, 3, 4))
    return {"parallelism": pods, "completions": pods}


def _py_torch_job(random: Random) -> tuple[str, Body, dict[str, str]]:
    template = _template(random)
    template["spec"]["containers"][0]["name"] = "pytorch"
    worker = {"replicas": random.choice((1, 2, 3)), "restartPolicy": "Never", "template": template}
    return "kubeflow.org/v1/PyTorchJob", {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Worker": worker}}, {}


def _ray_spec(random: Random) -> Body:
    pods = random.choice((1, 2, 3))
    group = {
        "groupName": random.choice(("gpu", "gpu", "gpu", "gpu", "head")),
        "replicas": pods,
        "minReplicas": pods,
        "maxReplicas": pods,
        "rayStartParams": {},
        "template": _template(random),
    }
    head: Body = {"rayStartParams": {}, "template": _template(random, plain=True)}
    spec: Body = {"headGroupSpec": head, "workerGroupSpecs": [group]}
    return {**spec, "enableInTreeAutoscaling": True} if random.random() < 0.1 else spec


def _ray_cluster(random: Random) -> tuple[str, Body, dict[str, str]]:
    return "ray.io/v1/RayCluster", {"suspend": True, **_ray_spec(random)}, {}


def _ray_job(random: Random) -> tuple[str, Body, dict[str, str]]:
    spec: Body = {"suspend": True, "shutdownAfterJobFinishes": random.random() < 0.85, "entrypoint": "python a.py"}
    spec["submissionMode"] = "HTTPMode"
    choice = random.random()
    if choice < 0.9:
        spec["rayClusterSpec"] = _ray_spec(random)
    if choice < 0.1:
        spec["clusterSelector"] = {"ray.io/cluster": "other"}
    return "ray.io/v1/RayJob", spec, {}


def _template(random: Random, *, plain: bool = False) -> Body:
    amounts = {"cpu": random.choice(("1", "3", "6")), "memory": random.choice(("1Gi", "8Gi"))}
    gpus = {} if plain or random.random() < 0.2 else {GPU: random.choice((1, 4, 8))}
    limits = {} if random.random() < 0.5 else {"cpu": "6"}
    resources = {"requests": {**amounts, **gpus}, "limits": {**limits, **gpus}}
    spec: Body = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "train:1", "resources": resources}],
    }
    if random.random() < 0.2:
        spec |= _placement(random)
    if random.random() < 0.3:
        spec["tolerations"] = [random.choice(_TOLERATIONS)]
    annotations = _annotations(random) if random.random() < 0.2 and not plain else {}
    return {"metadata": {"annotations": annotations}, "spec": spec}


_TOLERATIONS: Sequence[Body] = (
    {"key": "spot", "operator": "Exists"},
    {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"},
    {"key": "spot", "operator": "Equal", "value": "false"},
    {"operator": "Exists"},
)


def _placement(random: Random) -> Body:
    if random.random() < 0.5:
        return {"nodeSelector": {random.choice((PRODUCT, TIER)): random.choice(("H100", "A100", "spot"))}}
    terms = [
        {"matchExpressions": [_expression(random) for _ in range(random.choice((1, 2)))]}
        for _ in range(random.choice((1, 2)))
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _expression(random: Random) -> Body:
    operator = random.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    values = {"values": random.sample(("H100", "A100", "spot"), random.choice((1, 2)))} if "In" in operator else {}
    return {"key": random.choice((PRODUCT, TIER, "example.com/other")), "operator": operator, **values}


def _annotations(random: Random) -> dict[str, str]:
    mode = random.choice(("required", "required", "preferred", "unconstrained", ""))
    level = random.choice((BLOCK, RACK, RACK, HOST, "example.com/none"))
    found = (
        {f"{_PODSET}{mode}-topology": random.choice(("true", "true", "false")) if mode == "unconstrained" else level}
        if mode
        else {}
    )
    if not mode or random.random() < 0.25:
        found[f"{_PODSET}slice-required-topology"] = random.choice((RACK, HOST, BLOCK))
        if random.random() < 0.9:
            found[f"{_PODSET}slice-size"] = random.choice(("1", "2", "3"))
    if random.random() < 0.08:
        found[f"{_PODSET}preferred-topology"] = random.choice((RACK, "not a label"))
    return found


def _object(kind: str, name: str, spec: Body) -> Body:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": spec}
