"""Workloads that Kueue never admits. `tests/differential/test_never_admitted.py` compares the answers with Kueue."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.kinds.registry import BUILT_IN
from reconciler.policy.verdict import Result, Verdict
from reconciler.queues.admission import AdmissionAnswer, KueueAdmission
from reconciler.queues.flavors import NEWEST, Version
from reconciler.queues.queues import usage_by_cluster
from reconciler.repo.config import Cluster, RuleSetting
from reconciler.sizing.inventory import Inventory, Node, Taint
from tests.plan.plan_cases import KUEUE_QUEUE, Body, cluster_queue, evaluate, flavor, local_queue, plain, pod_spec, rows

RULE, UNKNOWN = "queues.never-admitted", "queues.admission-unknown"
API = "kueue.x-k8s.io/v1beta2"
RACK, HOST = "example.com/rack", "kubernetes.io/hostname"
TOPOLOGY = {"apiVersion": API, "kind": "Topology", "metadata": {"name": "racks"}}
LEVELS = {**TOPOLOGY, "spec": {"levels": [{"nodeLabel": RACK}, {"nodeLabel": HOST}]}}
REQUIRED, PREFERRED = (f"kueue.x-k8s.io/podset-{mode}-topology" for mode in ("required", "preferred"))
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"
SLICE, SIZE = "kueue.x-k8s.io/podset-slice-required-topology", "kueue.x-k8s.io/podset-slice-size"
RACKS = Inventory(
    cluster="main",
    taken_at="2026-01-01T00:00:00Z",
    nodes=tuple(
        Node(name=f"n{number}", gpus=8, product="H100", labels={RACK: f"r{number // 2}"}) for number in range(5)
    ),
)


def queues(*flavors: Body, local: Body | None = None, **spec: Any) -> list[Body]:
    names = {body["metadata"]["name"]: 64 for body in flavors or [flavor("f")]}
    queue = cluster_queue("gpus", names)
    alias = local_queue("team", "gpus")
    return [
        *(flavors or [flavor("f")]),
        {**queue, "spec": {**queue["spec"], **spec}},
        {**alias, "spec": {**alias["spec"], **(local or {})}},
    ]


def made(name: str, **spec: Any) -> Body:
    body = flavor(name)
    return {**body, "spec": spec}


def train(*, annotations: Mapping[str, str] | None = None, pods: int = 2, gpus: int = 8, **spec: Any) -> Body:
    template = {"metadata": {"annotations": dict(annotations or {})}, "spec": pod_spec(gpus, **spec)}
    return queued("batch/v1", "Job", {"parallelism": pods, "completions": pods, "suspend": True, "template": template})


def queued(api: str, kind: str, spec: Any, **metadata: Any) -> Body:
    labels = {KUEUE_QUEUE: "team", **metadata.pop("labels", {})}
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": "train", "namespace": "ml", "labels": labels, **metadata},
        "spec": spec,
    }


def answers(*bodies: Body, version: Version = NEWEST, nodes: Inventory | None = None) -> list[AdmissionAnswer]:
    found = rows(bodies)
    admission = KueueAdmission(usage_by_cluster(found)["main"], nodes, version)
    return [answer for row in found if row.is_workload for answer in admission.answers(row)]


def reasons(*bodies: Body, **options: Any) -> list[str]:
    return [one.message for one in answers(*bodies, **options) if one.is_known]


def verdicts(*bodies: Body, **settings: Any) -> list[Verdict]:
    found = evaluate(BUILT_IN, rows(bodies), Cluster(name="main"), None, {RULE: RuleSetting(**settings)})
    return [verdict for verdict in found if verdict.rule in {RULE, UNKNOWN}]


def test_a_workload_that_can_start() -> None:
    assert not answers(*queues(), train())


# The queue: it admits no workloads, or none of this namespace.


def test_a_queue_without_a_selector_of_namespaces_admits_nothing() -> None:
    (verdict,) = verdicts(*queues(namespaceSelector=None), train())
    assert verdict.result is Result.WARN
    assert verdict.message.startswith("is never admitted: ClusterQueue gpus has no namespaceSelector")
    assert (verdict.field, verdict.key.name, verdict.place.line) == ("spec.namespaceSelector", "train", 2)
    (verdict,) = verdicts(*queues(namespaceSelector=None), train(), action="Deny")
    assert verdict.result is Result.DENY


@pytest.mark.parametrize(
    ("selector", "labels", "never"),
    [
        ({"matchLabels": {"team": "b"}}, {"team": "a"}, True),
        ({"matchLabels": {"team": "a"}}, {"team": "a"}, False),
        ({"matchLabels": {"team": "a"}}, {}, True),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, {"team": "a"}, True),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, {}, False),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, {}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, {"team": "a"}, True),
        ({"matchLabels": {"kubernetes.io/metadata.name": "ml"}}, {}, False),
    ],
)
def test_labels_of_the_namespace(selector: Body, labels: Body, never: bool) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": labels}}
    found = reasons(*queues(namespaceSelector=selector), namespace, train())
    assert [message.partition(":")[0] for message in found] == (
        ["namespaceSelector of ClusterQueue gpus does not match namespace ml"] if never else []
    )


def test_labels_of_a_namespace_that_the_repository_lacks() -> None:
    """Its name is known, whatever else is."""
    (answer,) = answers(*queues(namespaceSelector={"matchLabels": {"team": "a"}}), train())
    assert not answer.is_known
    assert "labels of namespace ml are not in the repository" in answer.message
    name = "kubernetes.io/metadata.name"
    assert not answers(*queues(namespaceSelector={"matchLabels": {name: "ml"}}), train())
    both = {"matchLabels": {name: "other", "team": "a"}}
    assert reasons(*queues(namespaceSelector=both), train())


def test_what_is_unknown_is_said_once() -> None:
    jobs = [train(), train()]
    jobs[1]["metadata"] = {**jobs[1]["metadata"], "name": "second"}
    (verdict,) = verdicts(*queues(namespaceSelector={"matchLabels": {"team": "a"}}), *jobs)
    assert (verdict.rule, verdict.result) == (UNKNOWN, Result.AUDIT)
    assert verdict.message.endswith("(this object and 1 more)")


@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_a_queue_on_hold(policy: str) -> None:
    held = answers(*queues(stopPolicy=policy), train())
    assert [one.message for one in held] == [f"ClusterQueue gpus admits no workloads (stopPolicy: {policy})"]
    assert held[0].cause is not None
    assert held[0].cause.name == "gpus"
    assert reasons(*queues(local={"stopPolicy": policy}), train()) == [
        f"LocalQueue team admits no workloads (stopPolicy: {policy})"
    ]
    assert not answers(*queues(stopPolicy="None", local={"stopPolicy": "None"}), train())


def check(name: str, controller: str) -> Body:
    return {
        "apiVersion": API,
        "kind": "AdmissionCheck",
        "metadata": {"name": name},
        "spec": {"controllerName": f"kueue.x-k8s.io/{controller}"},
    }


@pytest.mark.parametrize(
    ("checks", "problem"),
    [
        ([{"name": "a"}], ""),
        ([{"name": "a"}, {"name": "b"}], "two checks of MultiKueue"),
        ([{"name": "a", "onFlavors": ["f"]}], "a check of MultiKueue for some of its flavors"),
        ([{"name": "a"}, {"name": "p"}], "a check of MultiKueue, and one that provisions nodes"),
    ],
)
def test_checks_that_make_a_queue_inactive(checks: list[Body], problem: str) -> None:
    named = [check("a", "multikueue"), check("b", "multikueue"), check("p", "provisioning-request")]
    found = reasons(*queues(admissionChecksStrategy={"admissionChecks": checks}), *named, train())
    assert found == ([f"ClusterQueue gpus is inactive: it has {problem}"] if problem else [])


# Flavors: labels, taints and topologies.


H100, SPOT = made("h100", nodeLabels={"product": "H100"}), made("spot", nodeLabels={"tier": "spot"})


@pytest.mark.parametrize(("version", "never"), [((0, 16), True), ((0, 17), True), ((0, 18), False), (NEWEST, False)])
def test_a_flavor_is_compared_by_its_own_labels(version: Version, never: bool) -> None:
    """Before 0.18 all labels of the group count: the spot nodes have no product."""
    found = answers(*queues(H100, SPOT), train(gpus=0, nodeSelector={"product": "A100"}), version=version)
    assert bool(found) is never
    if found:
        assert found[0].message == (
            "no flavor of ClusterQueue gpus takes its pods: h100 (the pods require product=A100) and"
            " spot (the pods require product=A100)"
        )
        assert found[0].field == "spec.template.spec.nodeSelector"


def affinity(*terms: list[Body]) -> Body:
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


@pytest.mark.parametrize(
    ("terms", "never"),
    [
        ([[{"key": "product", "operator": "In", "values": ["A100"]}]], True),
        ([[{"key": "product", "operator": "NotIn", "values": ["H100"]}]], True),
        ([[{"key": "product", "operator": "NotIn", "values": ["A100"]}]], False),
        ([[{"key": "product", "operator": "DoesNotExist"}]], True),
        ([[{"key": "product", "operator": "In", "values": ["A100"]}], [{"key": "zone", "operator": "Exists"}]], False),
        ([[{"key": "product", "operator": "In", "values": ["A100"]}, {"key": "zone", "operator": "Exists"}]], True),
        ([[{"key": "zone", "operator": "In", "values": ["b"]}]], False),
    ],
)
def test_node_affinity(terms: list[list[Body]], never: bool) -> None:
    """Terms are alternatives; a term that names no label of the flavor fits."""
    assert bool(answers(*queues(H100), train(gpus=0, affinity=affinity(*terms)))) is never


def test_labels_of_pods_with_gpus_are_for_the_limit_of_the_queue() -> None:
    """One rule says it, and denies."""
    bodies = [*queues(H100), train(nodeSelector={"product": "A100"})]
    found = evaluate(BUILT_IN, rows(bodies), Cluster(name="main"), None, {})
    assert [one.rule for one in found if one.rule in {RULE, "quota.queue-limit"}] == ["quota.queue-limit"]


TAINT = {"key": "spot", "value": "true", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taint", "own", "given", "never"),
    [
        (TAINT, [], [], True),
        ({**TAINT, "effect": "PreferNoSchedule"}, [], [], False),
        ({**TAINT, "effect": "NoExecute"}, [], [], True),
        (TAINT, [{"key": "spot", "operator": "Exists"}], [], False),
        (TAINT, [{"key": "spot", "operator": "Equal", "value": "false"}], [], True),
        (TAINT, [{"key": "spot", "value": "true", "effect": "NoExecute"}], [], True),
        (TAINT, [{"operator": "Exists"}], [], False),
        (TAINT, [], [{"key": "spot", "operator": "Exists"}], False),
    ],
)
def test_taints_of_flavors(taint: Body, own: list[Body], given: list[Body], never: bool) -> None:
    """What a flavor tolerates, Kueue adds to the pods."""
    spot = made("spot", nodeTaints=[taint], tolerations=given)
    found = answers(*queues(spot), train(tolerations=own))
    assert bool(found) is never
    if never:
        assert "spot (taint spot=true:No" in found[0].message
        assert found[0].field == "spec.template.spec.tolerations"
    assert not answers(*queues(spot, flavor("free")), train(tolerations=own))


def racks(*others: Body, **spec: Any) -> list[Body]:
    return [*queues(made("racks", topologyName="racks"), *others, **spec), LEVELS]


@pytest.mark.parametrize(
    ("annotations", "pods", "reason"),
    [
        ({REQUIRED: RACK}, 2, ""),
        (
            {REQUIRED: RACK},
            3,
            "needs room for 3 such pods, but the largest example.com/rack of Topology racks has room for 2",
        ),
        ({PREFERRED: RACK}, 5, ""),
        ({PREFERRED: RACK}, 6, "needs room for 6 such pods, but Topology racks as a whole has room for 5"),
        ({UNCONSTRAINED: "true"}, 6, "needs room for 6 such pods, but Topology racks as a whole has room for 5"),
        ({}, 6, "needs room for 6 such pods, but Topology racks as a whole has room for 5"),
        ({REQUIRED: HOST}, 2, f"needs room for 2 such pods, but the largest {HOST} of Topology racks has room for 1"),
        ({SLICE: RACK, SIZE: "2"}, 4, ""),
        ({SLICE: RACK, SIZE: "2"}, 6, "needs room for 3 slices of 2 pods, but the largest example.com/rack of"),
        (
            {REQUIRED: "example.com/block"},
            2,
            "no flavor of ClusterQueue gpus takes its pods: racks (no level example.com/block in",
        ),
        (
            {UNCONSTRAINED: "false"},
            2,
            "no flavor of ClusterQueue gpus takes its pods: racks (the pods request no level)",
        ),
        ({REQUIRED: HOST, SLICE: RACK, SIZE: "2"}, 2, f"needs room for 1 slice of 2 pods, but the largest {HOST}"),
    ],
)
def test_topologies(annotations: dict[str, str], pods: int, reason: str) -> None:
    """Five nodes, two of them in a rack: five pods of eight GPUs."""
    found = reasons(*racks(), train(annotations=annotations, pods=pods), nodes=RACKS)
    assert len(found) == bool(reason)
    if reason and not annotations.get(SLICE):
        assert found[0].startswith(reason)


def test_the_topology_of_a_flavor() -> None:
    asked = train(annotations={REQUIRED: RACK})
    assert reasons(*queues(), asked) == ["no flavor of ClusterQueue gpus takes its pods: f (no topologyName)"]
    mixed = [*racks(flavor("plain")), train(annotations={REQUIRED: RACK})]
    assert not reasons(*mixed, nodes=RACKS)
    only = "racks (only for pods that request a topology)"
    tainted = made("plain", nodeTaints=[TAINT])
    assert only in reasons(*racks(tainted), train(), nodes=RACKS)[0]


def test_nodes_that_the_pods_cannot_use() -> None:
    taints = (
        Taint(key="spot", effect="NoSchedule"),
        Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule"),
    )
    tainted = replace(RACKS, nodes=tuple(replace(node, taints=taints) for node in RACKS.nodes))
    asked = {REQUIRED: RACK}
    assert reasons(*racks(), train(annotations=asked), nodes=tainted)
    assert not reasons(
        *racks(), train(annotations=asked, tolerations=[{"key": "spot", "operator": "Exists"}]), nodes=tainted
    )
    assert reasons(*racks(), train(annotations=asked, gpus=16), nodes=RACKS)


def test_nodes_that_are_not_measured() -> None:
    asked = train(annotations={REQUIRED: RACK}, pods=9)
    (answer,) = answers(*racks(), asked)
    assert not answer.is_known
    assert "there is no evidence of its nodes" in answer.message
    bare = replace(RACKS, nodes=tuple(replace(node, labels={}) for node in RACKS.nodes))
    (answer,) = answers(*racks(), asked, nodes=bare)
    assert answer.message.endswith(f"no node in the evidence has the label {RACK}")


@pytest.mark.parametrize("controller", ["multikueue", "provisioning-request"])
def test_nodes_that_are_elsewhere_or_come_on_demand(controller: str) -> None:
    bodies = [*racks(admissionChecks=["c"]), check("c", controller), train(annotations={REQUIRED: RACK}, pods=9)]
    assert not answers(*bodies, nodes=RACKS)


def test_nodes_on_demand_do_not_limit_workloads() -> None:
    """The rules about today's nodes do not hold for a queue whose check provisions others."""
    jobs = [*queues(admissionChecks=["c"]), train(pods=64)]
    rules = [
        {one.rule for one in evaluate(BUILT_IN, rows([*jobs, check("c", name)]), Cluster(name="main"), RACKS, {})}
        for name in ("provisioning-request", "other")
    ]
    assert "quota.capacity" not in rules[0]
    assert "quota.capacity" in rules[1]


# LimitRanges and requests.


def limits(kind: str = "Container", **item: Any) -> Body:
    return plain("LimitRange", "limits", spec={"limits": [{"type": kind, **item}]})


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (limits(max={"cpu": "2"}), "requests 4 of cpu, and a container of it at most 2"),
        (limits(max={"cpu": "4"}), ""),
        (
            limits(min={"memory": "65Gi"}, defaultRequest={"memory": "1Gi"}),
            "requests 1Gi of memory, and a container of it",
        ),
        (limits("Pod", max={"nvidia.com/gpu": 4}), "requests 8 of nvidia.com/gpu, and a pod of it at most 4"),
        (limits("Pod", min={"cpu": 8}), "requests 4 of cpu, and a pod of it at least 8"),
        (limits(maxLimitRequestRatio={"cpu": "2"}), ""),
        (limits("PersistentVolumeClaim", max={"storage": "1Gi"}), ""),
        (limits(default={"example.com/slot": 2}, max={"example.com/slot": 1}), "requests 2 of example.com/slot"),
    ],
)
def test_limit_ranges(limit: Body, words: str) -> None:
    found = reasons(*queues(), limit, train())
    assert len(found) == bool(words)
    assert all(words in message and "LimitRange of namespace ml" in message for message in found)


def test_ratios_and_requests_above_limits() -> None:
    job = train()
    container = job["spec"]["template"]["spec"]["containers"][0]
    container["resources"] = {"limits": {"cpu": "8", "nvidia.com/gpu": 8}, "requests": {"cpu": "1"}}
    found = answers(*queues(), limits(maxLimitRequestRatio={"cpu": "4"}), job)
    assert [one.message for one in found] == [
        "a limit of cpu of more than 4 times the request (a LimitRange of namespace ml)"
    ]
    assert found[0].field == "spec.template.spec.containers[0].resources"
    container["resources"]["requests"] = {"cpu": "9"}
    assert reasons(*queues(), job) == ["requests more cpu than its limit"]


# What the webhooks of Kueue refuse, and its Workloads cannot hold.


def job_set(count: int, **annotations: str) -> Body:
    template = {"metadata": {"annotations": annotations}, "spec": pod_spec(1)}
    jobs = [{"name": f"j{number}", "template": {"spec": {"template": template}}} for number in range(count)]
    return queued("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": jobs})


@pytest.mark.parametrize(
    ("count", "version", "most"),
    [
        (8, (0, 16), 0),
        (9, (0, 16), 8),
        (9, (0, 17), 8),
        (9, (0, 18), 0),
        (11, (0, 18), 10),
        (18, NEWEST, 0),
        (19, NEWEST, 18),
    ],
)
def test_the_number_of_pod_sets(count: int, version: Version, most: int) -> None:
    found = reasons(*queues(), job_set(count), version=version)
    expected = f"has {count} templates of pods, and a workload of Kueue 0.{version[1]} at most {most}"
    assert found == ([expected] if most else [])


def ray_job(**spec: Any) -> Body:
    template = {"spec": {"containers": [{"name": "ray", "image": "ray:1"}]}}
    cluster = {
        "headGroupSpec": {"template": template},
        "workerGroupSpecs": [{"groupName": "gpu", "replicas": 1, "template": template}],
    }
    return queued("ray.io/v1", "RayJob", {"shutdownAfterJobFinishes": True, "rayClusterSpec": cluster, **spec})


def ray_cluster(group: str = "gpu", annotations: Body | None = None, **spec: Any) -> Body:
    template = {"spec": {"containers": [{"name": "ray", "image": "ray:1"}]}}
    workers = [{"groupName": group, "replicas": 1, "template": template}]
    whole = {"headGroupSpec": {"template": template}, "workerGroupSpecs": workers, **spec}
    return queued("ray.io/v1", "RayCluster", whole, annotations=annotations or {})


def annotated(body: Body, **annotations: str) -> Body:
    named = {f"kueue.x-k8s.io/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {**body, "metadata": {**body["metadata"], "annotations": named}}


def labelled(body: Body, **labels: str) -> Body:
    named = {f"kueue.x-k8s.io/{name.replace('_', '-')}": value for name, value in labels.items()}
    return {**body, "metadata": {**body["metadata"], "labels": {**body["metadata"]["labels"], **named}}}


POD = queued("v1", "Pod", pod_spec(1))
JAX = queued("kubeflow.org/v1", "JAXJob", {"jaxReplicaSpecs": {"Worker": {"template": {"spec": pod_spec(1)}}}})
SPARK = {"mode": "cluster", "driver": {}, "executor": {"instances": 1}}
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
REFUSED: list[tuple[Body, str]] = [
    (ray_job(), ""),
    (ray_job(shutdownAfterJobFinishes=False), "spec.shutdownAfterJobFinishes"),
    (ray_job(clusterSelector={"ray.io/cluster": "a"}), "spec.clusterSelector"),
    (ray_job(rayClusterSpec=None), "spec.rayClusterSpec"),
    (ray_job(rayClusterSpec=None, clusterSelector={"ray.io/cluster": "a"}), ""),
    (ray_cluster(), ""),
    (ray_cluster("head"), "spec.workerGroupSpecs[0].groupName"),
    (ray_cluster(enableInTreeAutoscaling=True), "spec.enableInTreeAutoscaling"),
    (ray_cluster(annotations=ELASTIC, enableInTreeAutoscaling=True), ""),
    (
        queued("ray.io/v1", "RayService", {"rayClusterConfig": ray_cluster("head")["spec"]}),
        "spec.rayClusterConfig.workerGroupSpecs[0].groupName",
    ),
    (queued("sparkoperator.k8s.io/v1beta2", "SparkApplication", SPARK), ""),
    (queued("sparkoperator.k8s.io/v1beta2", "SparkApplication", {**SPARK, "mode": "client"}), "spec.mode"),
    (
        queued("sparkoperator.k8s.io/v1beta2", "SparkApplication", {**SPARK, "dynamicAllocation": {"enabled": True}}),
        "spec.dynamicAllocation.enabled",
    ),
    (POD, ""),
    (labelled(POD, pod_group_name="g"), 'metadata.labels["kueue.x-k8s.io/pod-group-name"]'),
    (annotated(POD, pod_group_total_count="2"), 'metadata.annotations["kueue.x-k8s.io/pod-group-total-count"]'),
    (annotated(labelled(POD, pod_group_name="g"), pod_group_total_count="2"), ""),
    (
        annotated(labelled(POD, pod_group_name="g"), pod_group_total_count="0"),
        'metadata.annotations["kueue.x-k8s.io/pod-group-total-count"]',
    ),
    (
        annotated(labelled(POD, pod_group_name="g", prebuilt_workload_name="w"), pod_group_total_count="2"),
        'metadata.labels["kueue.x-k8s.io/prebuilt-workload-name"]',
    ),
    (labelled(POD, managed="no"), 'metadata.labels["kueue.x-k8s.io/managed"]'),
    (annotated(train(), job_min_parallelism="1"), ""),
    (annotated(train(), job_min_parallelism="2"), 'metadata.annotations["kueue.x-k8s.io/job-min-parallelism"]'),
    (annotated(train(), job_min_parallelism="many"), 'metadata.annotations["kueue.x-k8s.io/job-min-parallelism"]'),
    (
        annotated(train(), job_min_parallelism="1", elastic_job="true"),
        'metadata.annotations["kueue.x-k8s.io/job-min-parallelism"]',
    ),
    (
        annotated(train(), job_completions_equal_parallelism="true"),
        'metadata.annotations["kueue.x-k8s.io/job-completions-equal-parallelism"]',
    ),
    (annotated(train(), admission_gated_by="example.com/gate"), ""),
    (annotated(train(), admission_gated_by="gate"), 'metadata.annotations["kueue.x-k8s.io/admission-gated-by"]'),
    (
        annotated(train(annotations={REQUIRED: RACK}), elastic_job="true"),
        f'spec.template.metadata.annotations["{REQUIRED}"]',
    ),
    (annotated(job_set(1), elastic_job="true"), 'metadata.annotations["kueue.x-k8s.io/elastic-job"]'),
    (labelled(train(), max_exec_time_seconds="60"), ""),
    (labelled(train(), max_exec_time_seconds="0"), 'metadata.labels["kueue.x-k8s.io/max-exec-time-seconds"]'),
    (labelled(train(), queue_name="My_Team"), 'metadata.labels["kueue.x-k8s.io/queue-name"]'),
    (labelled(train(), prebuilt_workload_name="ready"), ""),
    (
        labelled(JAX, prebuilt_workload_name="w"),
        'metadata.labels["kueue.x-k8s.io/prebuilt-workload-name"]',
    ),
    (train(annotations={REQUIRED: RACK, PREFERRED: RACK}), f'spec.template.metadata.annotations["{PREFERRED}"]'),
    (train(annotations={REQUIRED: "not a label"}), f'spec.template.metadata.annotations["{REQUIRED}"]'),
    (train(annotations={UNCONSTRAINED: "maybe"}), f'spec.template.metadata.annotations["{UNCONSTRAINED}"]'),
    (train(annotations={SLICE: RACK}), f'spec.template.metadata.annotations["{SLICE}"]'),
    (train(annotations={SIZE: "2"}), f'spec.template.metadata.annotations["{SIZE}"]'),
    (train(annotations={SLICE: RACK, SIZE: "3"}), f'spec.template.metadata.annotations["{SIZE}"]'),
    (
        train(annotations={"kueue.x-k8s.io/podset-group-name": "g"}),
        'spec.template.metadata.annotations["kueue.x-k8s.io/podset-group-name"]',
    ),
    (train(annotations={f"{SLICE}-constraints": "[]"}), f'spec.template.metadata.annotations["{SLICE}-constraints"]'),
    (
        job_set(1, **{REQUIRED: RACK, "kueue.x-k8s.io/podset-group-name": "g"}),
        'spec.replicatedJobs[0].template.spec.template.metadata.annotations["kueue.x-k8s.io/podset-group-name"]',
    ),
    (job_set(2, **{REQUIRED: RACK, "kueue.x-k8s.io/podset-group-name": "g"}), ""),
]


@pytest.mark.parametrize(("body", "field"), REFUSED)
def test_what_webhooks_refuse(body: Body, field: str) -> None:
    """F-047: Every check of Kueue 0.19.1 on a new object, in a queue and with the field that is wrong."""
    found = [one for one in answers(*queues(), body) if one.message.startswith("Kueue refuses it: ")]
    assert [one.field for one in found][:1] == ([field] if field else [])


def test_checks_of_later_versions() -> None:
    """An annotation that an older version does not know refuses nothing there."""
    for body, since in (
        (annotated(job_set(1), elastic_job="true"), 18),
        (annotated(train(), admission_gated_by="gate"), 19),
        (queued("sparkoperator.k8s.io/v1beta2", "SparkApplication", {**SPARK, "mode": "client"}), 17),
    ):
        refused = [
            bool([one for one in reasons(*queues(), body, version=(0, minor)) if "refuses" in one])
            for minor in (since - 1, since)
        ]
        assert refused == [False, True]


@pytest.mark.parametrize(("queue", "counted"), [("team", 16), ("", 0)])
def test_suspended_jobs_of_a_cron_job(queue: str, counted: int) -> None:
    """Kueue resumes them in its queue; nobody does without one."""
    job = train()
    metadata = {"labels": {KUEUE_QUEUE: queue} if queue else {}}
    spec = {"schedule": "@daily", "jobTemplate": {"metadata": metadata, "spec": job["spec"]}}
    usage = usage_by_cluster(rows([*queues(), plain("CronJob", "nightly", api="batch/v1", spec=spec)]))["main"]
    assert sum(usage.requested.values()) == counted


def test_the_jobs_of_a_cron_job() -> None:
    """They are in the queue, so that the fields of their template are refused."""
    job = annotated(train(), job_min_parallelism="9")
    template = {"metadata": job["metadata"], "spec": job["spec"]}
    body = plain("CronJob", "nightly", api="batch/v1", spec={"schedule": "@daily", "jobTemplate": template})
    (answer,) = answers(*queues(), body)
    assert answer.field == 'spec.jobTemplate.metadata.annotations["kueue.x-k8s.io/job-min-parallelism"]'
