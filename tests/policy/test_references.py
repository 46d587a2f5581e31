"""Cross-document rules: identities, and everything that is named exists."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.kinds.aspects import Naming, Queueing
from reconciler.kinds.facts import QueueRole, Quota, Relations
from reconciler.kinds.kind import Kind
from reconciler.kinds.registry import BUILT_IN
from reconciler.kinds.summary import ObjectSummary
from reconciler.policy.references import RULES
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config import Backend, Cluster, RuleSetting
from reconciler.sizing.inventory import Inventory, Node, Taint
from tests.plan.plan_cases import (
    KUEUE_QUEUE,
    Body,
    as_row,
    claim,
    cluster_queue,
    evaluate,
    flavor,
    inventory,
    job,
    kai_queue,
    local_queue,
    plain,
    pod_spec,
    rows,
)

MAIN = Cluster(name="main")


OFF = RuleSetting(enabled=False)
"""Most tests put workloads into one queue without a parent; the rule about that has tests of its own."""


def found(
    bodies: Iterable[Body],
    *,
    cluster: Cluster = MAIN,
    nodes: Inventory | None = inventory(64),  # noqa: B008 - an immutable value
    **settings: RuleSetting,
) -> tuple[Verdict, ...]:
    named = {name.replace("__", ".").replace("_", "-"): setting for name, setting in settings.items()}
    return evaluate(BUILT_IN, rows(bodies), cluster, nodes, {"quota.leaf-queue": OFF, "quota.root-queue": OFF} | named)


def rules(bodies: Iterable[Body], **keywords: Any) -> list[tuple[str, str]]:
    return [(verdict.rule, verdict.result.value) for verdict in found(bodies, **keywords)]


def pod(**spec: Any) -> Body:
    return plain("Pod", "x", spec=pod_spec(None, **spec))


def mounts(name: str) -> Body:
    return pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": name}}])


def test_a_repository_that_fits_has_no_verdict() -> None:
    assert (
        found([kai_queue("root", -1), kai_queue("team-a", 16, parent="root"), job(), claim("data"), mounts("data")])
        == ()
    )


BROKEN: dict[str, tuple[list[Body], str, str]] = {
    "KAI queue": ([job(queue="nope")], "reference.queue", "deny"),
    "LocalQueue": ([job(queue="nope", label=KUEUE_QUEUE)], "reference.queue", "deny"),
    "LocalQueue elsewhere": (
        [cluster_queue("c", {}), local_queue("l", "c", namespace="other"), job(queue="l", label=KUEUE_QUEUE)],
        "reference.queue",
        "deny",
    ),
    "parent": ([kai_queue("a", parent="nope")], "reference.parent", "deny"),
    "ClusterQueue": ([local_queue("l", "nope")], "reference.cluster-queue", "deny"),
    "ResourceFlavor": ([cluster_queue("c", {"nope": 1})], "reference.resource-flavor", "deny"),
    "Topology": (
        [plain("ResourceFlavor", "f", namespace="", api="kueue.x-k8s.io/v1beta2", spec={"topologyName": "t"})],
        "reference.topology",
        "deny",
    ),
    "claim": ([mounts("nope")], "reference.pvc", "deny"),
    "ConfigMap": ([pod(volumes=[{"name": "v", "configMap": {"name": "nope"}}])], "reference.config-map", "deny"),
    "Secret": ([pod(imagePullSecrets=[{"name": "nope"}])], "reference.secret", "warn"),
    "service account": ([pod(serviceAccountName="nope")], "reference.service-account", "warn"),
    "priority class": ([pod(priorityClassName="nope")], "reference.priority-class", "deny"),
    "storage class": (
        [plain("PersistentVolumeClaim", "c", spec={"storageClassName": "nope"})],
        "reference.storage-class",
        "warn",
    ),
    "namespace": ([plain("Namespace", "other", namespace=""), pod()], "reference.namespace", "warn"),
}


@pytest.mark.parametrize(("bodies", "rule", "result"), BROKEN.values(), ids=BROKEN)
def test_what_is_named_exists(bodies: list[Body], rule: str, result: str) -> None:
    assert rules(bodies) == [(rule, result)]


@pytest.mark.parametrize(
    "external",
    [("Queue/nope",), ("Queue",), ("Secret", "Queue/nope")],
)
def test_external_objects_are_known(external: tuple[str, ...]) -> None:
    assert rules([job(queue="nope")], cluster=Cluster(name="main", external=external)) == []


def test_an_external_object_of_one_namespace_is_known_there_only() -> None:
    here, elsewhere = ("PersistentVolumeClaim/ml/data",), ("PersistentVolumeClaim/other/data",)
    assert rules([mounts("data")], cluster=Cluster(name="main", external=here)) == []
    assert rules([mounts("data")], cluster=Cluster(name="main", external=elsewhere)) == [("reference.pvc", "deny")]


def test_what_every_cluster_has_is_known() -> None:
    spec = pod_spec(
        None,
        serviceAccountName="default",
        priorityClassName="system-node-critical",
        volumes=[{"name": "v", "configMap": {"name": "kube-root-ca.crt"}}],
    )
    assert rules([plain("Pod", "x", spec=spec)]) == []
    trains = [pod(priorityClassName="train")]
    assert rules(trains) == []
    assert rules(trains, cluster=Cluster(name="main", backend=Backend.KUEUE)) == [("reference.priority-class", "deny")]


def test_a_volcano_queue_is_no_kai_queue() -> None:
    volcano = plain("Queue", "team-a", namespace="", api="scheduling.volcano.sh/v1beta1")
    assert rules([volcano, job()]) == [("reference.queue", "deny")]


def test_a_verdict_tells_place_field_and_what_was_meant() -> None:
    (verdict,) = found([kai_queue("team-alpha"), job(queue="team-alhpa")])
    assert str(verdict.place) == "jobs/a.yaml:2:1"
    assert verdict.field == 'metadata.labels["kai.scheduler/queue"]'
    assert "did you mean 'team-alpha'?" in verdict.hint
    assert "Queue/team-alhpa to spec.clusters[].external" in verdict.hint


def test_a_claim_of_another_namespace_is_pointed_out() -> None:
    elsewhere = claim("data")
    elsewhere["metadata"]["namespace"] = "other"
    (verdict,) = found([elsewhere, mounts("data")])
    assert "namespace other has one of this name" in verdict.hint


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (RuleSetting(enabled=False), []),
        (RuleSetting(action="warn"), [("reference.queue", "warn")]),
        (RuleSetting(action="audit"), [("reference.queue", "audit")]),
        (RuleSetting(action="Deny"), [("reference.queue", "deny")]),
    ],
)
def test_settings_switch_rules(setting: RuleSetting, expected: list[tuple[str, str]]) -> None:
    assert rules([job(queue="nope")], reference__queue=setting) == expected


def test_a_ring_of_parents_is_told_once() -> None:
    ring = [
        kai_queue("a", parent="c"),
        kai_queue("b", parent="a"),
        kai_queue("c", parent="b"),
        kai_queue("d", parent="a"),
    ]
    verdicts = [one for one in found(ring) if one.rule == "reference.parent-cycle"]
    assert [one.message for one in verdicts] == ["is its own ancestor: a < c < b < a"]
    assert verdicts[0].key.name == "a"


def test_a_queue_above_itself() -> None:
    assert ("reference.parent-cycle", "deny") in rules([kai_queue("a", parent="a")])


def test_two_documents_with_one_identity() -> None:
    bodies = [kai_queue("team-a"), job(), job(pods=4)]
    (verdict,) = found(bodies, identity__duplicate=RuleSetting(enabled=False, action="audit"))
    assert (verdict.rule, verdict.result) == ("identity.duplicate", Result.DENY)
    assert str(verdict.place) == "jobs/a.yaml:3:1"
    assert "jobs/a.yaml:2:1" in verdict.message


def test_the_same_identity_in_two_clusters_is_none() -> None:
    both = [as_row(kai_queue("a")), as_row(kai_queue("a"), cluster="west")]
    assert (
        evaluate(BUILT_IN, [both[0]], MAIN, None, {})
        == evaluate(BUILT_IN, [both[1]], Cluster(name="west"), None, {})
        == ()
    )


def test_two_kinds_that_share_a_file() -> None:
    one = plain("Widget", "x", api="example.com/v1")
    other = plain("Widget", "x", api="example.org/v1")
    assert rules([one, other]) == [("identity.path-collision", "deny")]


def test_a_job_of_volcano_does_not_share_the_file_of_a_job() -> None:
    bodies = [plain("Job", "x", api="batch/v1"), plain("Job", "x", api="batch.volcano.sh/v1alpha1")]
    assert rules(bodies) == []
    assert [row.path for row in rows(bodies)] == ["main/ml/job-x.yaml", "main/ml/job.batch.volcano.sh-x.yaml"]


def test_paths_that_differ_in_case_only() -> None:
    role = (
        plain("Role", "Admin", api="rbac.authorization.k8s.io/v1"),
        plain("Role", "admin", api="rbac.authorization.k8s.io/v1"),
    )
    assert rules(role) == [("identity.path-collision", "deny")]


@pytest.mark.parametrize(("namespace", "name"), [("con", "x"), ("aux", "x"), ("ml", "n" * 250)])
def test_names_that_no_checkout_takes(namespace: str, name: str) -> None:
    assert rules([plain("ConfigMap", name, namespace=namespace)]) == [("identity.path-reserved", "deny")]


def test_without_evidence_nothing_passes_for_known() -> None:
    """Unknown is not fine: no inventory gives one warning a cluster, not a pass."""
    bodies = [kai_queue("team-a"), job("a"), job("b", suspend=True)]
    (verdict,) = found(bodies, nodes=None)
    assert (verdict.rule, verdict.result) == ("quota.no-evidence", Result.WARN)
    assert "there is no evidence for cluster main (this object and 1 more)" in verdict.message
    assert found([plain("ConfigMap", "x")], nodes=None) == ()


def test_slices_that_the_evidence_does_not_count() -> None:
    spec = pod_spec(None)
    spec["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] = 1
    (verdict,) = found([plain("Pod", "x", spec=spec)])
    assert (verdict.rule, verdict.result) == ("quota.no-evidence", Result.WARN)
    assert "nvidia.com/mig-1g.10gb" in verdict.message


def test_a_daemon_set_takes_gpus_that_no_sum_holds() -> None:
    body = plain("DaemonSet", "x", api="apps/v1", spec={"template": {"spec": pod_spec(1)}})
    assert rules([body]) == [("quota.daemon-set", "warn")]


H100, A100 = {"pool": "h100"}, {"pool": "a100"}
GPU_ONLY = Taint(key="nvidia.com/gpu", value="true", effect="NoSchedule")
FLEET = Inventory(
    cluster="main",
    taken_at="",
    nodes=(
        Node(name="a", labels=H100, gpus=8),
        Node(name="b", labels=H100, gpus=8, taints=(GPU_ONLY,)),
        Node(name="c", labels=A100, gpus=4, unschedulable=True),
        Node(name="d", labels=A100, gpus=8, quarantined=True),
        Node(name="e"),
        Node(name="f", taints=(Taint(key="soft", effect="PreferNoSchedule"),)),
        Node(name="g", taints=(Taint(key="node.kubernetes.io/not-ready", effect="NoExecute"),)),
        Node(name="h", taints=(Taint(key="node.kubernetes.io/not-ready", effect="NoSchedule"),)),
    ),
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {},
            "takes 1 GPU on each of 2 nodes, 2 GPUs that no queue counts; its pods wait on 3 nodes with fewer GPUs",
        ),
        ({"nodeSelector": H100}, "takes 1 GPU on 1 node, 1 GPU that no queue counts"),
        (
            {"nodeSelector": H100, "tolerations": [{"operator": "Exists"}]},
            "takes 1 GPU on each of 2 nodes, 2 GPUs that no queue counts",
        ),
        (
            {"nodeSelector": H100, "tolerations": [{"key": "nvidia.com/gpu", "value": "true"}]},
            "takes 1 GPU on each of 2 nodes, 2 GPUs that no queue counts",
        ),
        (
            {"nodeSelector": H100, "tolerations": [{"key": "nvidia.com/gpu", "value": "false"}]},
            "takes 1 GPU on 1 node, 1 GPU that no queue counts",
        ),
        (
            {
                "nodeSelector": H100,
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}],
            },
            "takes 1 GPU on 1 node, 1 GPU that no queue counts",
        ),
    ],
)
def test_a_daemon_set_is_counted_on_the_nodes_of_the_evidence(spec: Body, expected: str) -> None:
    """Cordons do not keep its pods away; taints do that it does not tolerate, and quarantines."""
    body = plain("DaemonSet", "x", api="apps/v1", spec={"template": {"spec": pod_spec(1) | spec}})
    (verdict,) = found([body], nodes=FLEET)
    assert (verdict.rule, verdict.message) == ("quota.daemon-set", expected)
    elsewhere = plain(
        "DaemonSet", "x", api="apps/v1", spec={"template": {"spec": pod_spec(1, nodeSelector={"a": "b"})}}
    )
    both = (*found([body], nodes=None), *found([elsewhere], nodes=FLEET))
    unknown = [one.message for one in both if one.rule == "quota.daemon-set"]
    assert unknown == ["takes 1 GPU on every node that it matches, and no queue counts them"] * 2


QUEUE = kai_queue("team-a", -1)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (job(pods=4, gpus=8), []),
        (job(pods=4, gpus=8, product="H100"), []),
        (job(pods=1, gpus=8, product="H1000"), [("quota.product", "deny")]),
        (job(pods=5, gpus=8), [("quota.capacity", "deny")]),
        (job(pods=5, gpus=8, suspend=True), [("quota.capacity", "deny")]),
        (job(pods=1, gpus=16), [("quota.node-shape", "deny")]),
        (job(pods=4, gpus=5), []),
        (job(pods=5, gpus=5), [("quota.capacity", "deny")]),
        (flavor("f", "A100"), [("quota.product", "deny")]),
        (flavor("f", "H100"), []),
        (flavor("f"), []),
    ],
)
def test_workloads_fit_the_cluster(body: Body, expected: list[tuple[str, str]]) -> None:
    assert rules([QUEUE, body], nodes=inventory(4)) == expected


def test_cordoned_nodes_only_delay() -> None:
    nodes = inventory(4)
    nodes = replace(nodes, nodes=(replace(nodes.nodes[0], unschedulable=True), *nodes.nodes[1:]))
    assert rules([QUEUE, job(pods=4)], nodes=nodes) == [("quota.cordoned", "warn")]
    assert rules([QUEUE, job(pods=3)], nodes=nodes) == []


def test_products_go_by_every_label_of_a_node() -> None:
    node = Node(name="n", product="NVIDIA-H100-80GB-HBM3", gpus=8, labels={"gpu.nvidia.com/class": "H100_SXM"})
    nodes = Inventory(cluster="main", taken_at="", nodes=(node,))
    body = job(pods=1, nodeSelector={"gpu.nvidia.com/class": "H100_SXM"})
    assert rules([QUEUE, body], nodes=nodes) == []
    (verdict,) = found([QUEUE, job(pods=1, product="NVIDIA-H100-80GB-HBM2")], nodes=nodes)
    assert verdict.hint == "did you mean 'NVIDIA-H100-80GB-HBM3'?"


def test_a_cluster_without_gpus() -> None:
    assert rules([QUEUE, job(pods=1)], nodes=Inventory(cluster="main", taken_at="")) == [("quota.node-shape", "deny")]


def test_children_within_their_parent() -> None:
    tree = [kai_queue("root", 16), kai_queue("a", 8, parent="root"), kai_queue("b", 8, parent="root")]
    assert rules(tree) == []
    (verdict,) = found([*tree, kai_queue("c", 1, parent="root")])
    assert (verdict.rule, verdict.key.name) == ("quota.children", "root")
    assert verdict.message == "has a quota of 16 GPUs, but those of its children are 17 (a 8, b 8, c 1)"


def test_a_child_without_end_below_a_parent_with_one() -> None:
    assert rules([kai_queue("root", 16), kai_queue("a", -1, parent="root")]) == [("quota.children", "warn")]
    assert rules([kai_queue("root", -1), kai_queue("a", -1, parent="root")]) == []


def test_workloads_are_at_the_bottom_of_kai_s_tree() -> None:
    """F-040: KAI starts nothing in a queue without a parent, and shares nothing with workloads beside children."""
    leaf = RuleSetting()
    root, team = kai_queue("root", -1), kai_queue("team-a", 16, parent="root")
    assert rules([root, team, job()], quota__leaf_queue=leaf) == []
    assert (
        rules([job(queue="elsewhere")], cluster=replace(MAIN, external=("Queue/elsewhere",)), quota__leaf_queue=leaf)
        == []
    )
    (alone,) = found([kai_queue("team-a"), job("a"), job("b")], quota__root_queue=leaf)
    assert (alone.rule, alone.result, alone.key.name) == ("quota.root-queue", Result.DENY, "a")
    assert alone.message == "is in queue team-a, which has no parent, so KAI schedules nothing from it; so is 1 more"
    below = kai_queue("below", 8, parent="team-a")
    (beside,) = found([root, team, below, job()], quota__leaf_queue=leaf, quota__root_queue=leaf)
    assert (beside.rule, beside.result) == ("quota.leaf-queue", Result.WARN)
    assert beside.message == "is in queue team-a, which has children (below)"


POOLS = Kind(
    group="acme.example.com",
    kind="Pool",
    is_cluster_scoped=True,
    relations=lambda body: Relations(
        parent_kind=("acme.example.com", "Pool"),
        parent=body["spec"].get("parent", ""),
        quotas=(Quota("", float(body["spec"]["gpus"]), 1.0),),
    ),
    queueing=Queueing(role=QueueRole.TREE, quota_fields=("spec.gpus", "spec.most")),
    naming=Naming(labels=("acme.example.com/pool",)),
)


def pools(*specs: Body, kind: Kind = POOLS) -> list[tuple[str, str, str]]:
    """Return rule, field and hint of the verdicts about pools of these specs, and a job in the first."""
    kinds = BUILT_IN.extend((kind,))
    bodies = [
        {"apiVersion": "acme.example.com/v1", "kind": "Pool", "metadata": {"name": f"p{index}"}, "spec": spec}
        for index, spec in enumerate(specs)
    ]
    summaries = [as_row(body, kinds=kinds) for body in (*bodies, job(queue="p0", label="acme.example.com/pool"))]
    verdicts = evaluate(kinds, summaries, MAIN, inventory(64), {"quota.queue-limit": OFF})
    return [(verdict.rule, verdict.field, verdict.hint) for verdict in verdicts]


def test_rules_of_kai_are_not_those_of_other_trees() -> None:
    """A tree of queues of another scheduler may run workloads at its root."""
    kai = replace(POOLS, queueing=replace(POOLS.queueing, follows_kai=True))
    assert pools({"gpus": 1}) == []
    assert [rule for rule, _, _ in pools({"gpus": 1}, kind=kai)] == ["quota.root-queue"]


def test_messages_name_the_fields_of_the_kind_of_queue() -> None:
    short = ("quota.children", "spec.gpus", "raise gpus to at least 2, or lower the children's")
    assert pools({"gpus": 1}, {"gpus": 1, "parent": "p0"}, {"gpus": 1, "parent": "p0"}) == [short]
    limit = ("quota.limit-below-quota", "spec.most", "raise most, or lower the quota")
    assert pools({"gpus": 4}) == [limit]
    assert pools({"gpus": 4}, kind=replace(POOLS, queueing=Queueing(role=QueueRole.TREE))) == [
        ("quota.limit-below-quota", "", "raise the limit, or lower the quota")
    ]


@pytest.mark.parametrize("quotas", [(), (Quota("A", 1.0, 1.0),), (Quota("", 1.0, 1.0), Quota("A", 1.0, 1.0))])
def test_a_queue_in_a_tree_has_one_quota(quotas: tuple[Quota, ...]) -> None:
    """Totals count one quota per queue of a tree: with several, they would be wrong."""
    with pytest.raises(ValueError, match=r"the relations of Pool \(acme\.example\.com\) need one quota"):
        pools({"gpus": 1}, kind=replace(POOLS, relations=lambda _: Relations(quotas=quotas)))


def test_a_cluster_queue_is_no_parent_of_a_cohort_of_its_name() -> None:
    """F-040: what is a parent under KAI only adds its quota under Kueue."""
    parent, child = cluster_queue("dept", {"h100": 8}, cohort="all"), cluster_queue("a", {"h100": 8}, cohort="dept")
    (verdict,) = found([parent, child, flavor("h100", "H100")])
    assert (verdict.rule, verdict.result, verdict.key.name) == ("quota.cohort", Result.WARN, "dept")
    assert verdict.message.startswith("is in cohort all, not in cohort dept with a")
    inside = cluster_queue("dept", {"h100": 8}, cohort="dept")
    assert rules([inside, child, flavor("h100", "H100")]) == []


def test_gpus_of_another_vendor_do_not_count() -> None:
    """F-035: an AMD pod never runs on an NVIDIA node, so the evidence of one is none of the other."""
    amd = pod()
    amd["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"] = 8
    (verdict,) = found([amd], nodes=inventory(4, product="NVIDIA-H100-80GB-HBM3"))
    assert verdict.rule == "quota.product"
    assert verdict.message == "requests amd.com/gpu, but no node in the evidence for main has it"
    assert rules([amd], nodes=inventory(4, product="AMD-Instinct-MI300X-OAM")) == []
    assert rules([amd], nodes=inventory(4, product="whatever")) == []
    mixed = (*inventory(1, product="H100").nodes, *inventory(1, 4, product="MI300X").nodes)
    assert rules([amd], nodes=replace(inventory(), nodes=mixed)) == [("quota.node-shape", "deny")]


def test_equal_flavors_of_several_queues_are_one() -> None:
    """Every queue of the same nodes asks for their flavor; flavors of one name that differ are an error."""
    assert rules([flavor("h100", "H100"), flavor("h100", "H100")]) == []
    assert ("identity.duplicate", "deny") in rules([flavor("h100", "H100"), flavor("h100", "A100")])


def test_a_cohort_adds_and_never_bounds() -> None:
    cohort = cluster_queue("all", {"h100": 4}) | {"kind": "Cohort"}
    members = [cluster_queue("a", {"h100": 8}, cohort="all"), cluster_queue("b", {"h100": 8}, cohort="all")]
    assert rules([cohort, *members, flavor("h100", "H100")]) == []


@pytest.mark.parametrize(("pods", "expected"), [(10, []), (11, [("quota.queue-limit", "deny")])])
def test_shares_of_gpus_fit_into_a_limit(pods: int, expected: list[tuple[str, str]]) -> None:
    """F-155: ten halves are five GPUs, and eleven are more."""
    shared = job(pods=pods, gpus=None)
    shared["spec"]["template"]["metadata"] = {"annotations": {"gpu-fraction": "0.5"}}
    assert rules([kai_queue("team-a", 5, limit=5), shared]) == expected


@pytest.mark.parametrize(
    ("bodies", "expected"),
    [
        ([kai_queue("team-a", 8, limit=16), job(pods=2)], []),
        ([kai_queue("team-a", 8, limit=15), job(pods=2)], [("quota.queue-limit", "deny")]),
        (
            [kai_queue("root", 8, limit=8), kai_queue("team-a", 8, limit=-1, parent="root"), job(pods=2)],
            [("quota.queue-limit", "deny")],
        ),
        (
            [
                flavor("h100", "H100"),
                cluster_queue("c", {"h100": 8}),
                local_queue("l", "c"),
                job(queue="l", label=KUEUE_QUEUE),
            ],
            [("quota.queue-limit", "deny")],
        ),
        (
            [
                flavor("h100", "H100"),
                cluster_queue("c", {"h100": 8}, cohort="all"),
                local_queue("l", "c"),
                job(queue="l", label=KUEUE_QUEUE),
            ],
            [("quota.queue-limit", "deny")],
        ),
        (
            [
                flavor("h100", "H100"),
                *(cluster_queue(name, {"h100": 8}, cohort="all") for name in "cd"),
                local_queue("l", "c"),
                job(queue="l", label=KUEUE_QUEUE),
            ],
            [],
        ),
        (
            [
                *(flavor("h100", "H100"), flavor("a100", "A100")),
                cluster_queue("c", {"h100": 8, "a100": 64}),
                local_queue("l", "c"),
                job(queue="l", label=KUEUE_QUEUE, product="H100"),
            ],
            [("quota.queue-limit", "deny")],
        ),
        (
            [
                *(flavor("h100", "H100"), flavor("a100", "A100")),
                cluster_queue("c", {"h100": 8, "a100": 8}),  # its pods take one flavor
                local_queue("l", "c"),
                job(queue="l", label=KUEUE_QUEUE),
            ],
            [("quota.queue-limit", "deny")],
        ),
    ],
)
def test_workloads_fit_their_queue(bodies: list[Body], expected: list[tuple[str, str]]) -> None:
    both = Inventory(cluster="main", taken_at="", nodes=(*inventory(8).nodes, *inventory(8, product="A100").nodes))
    assert rules(bodies, nodes=both) == expected


def maximum(**parameters: Any) -> RuleSetting:
    return RuleSetting(parameters=parameters)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (maximum(max=32), []),
        (maximum(max=31), ["deny"]),
        (maximum(max="31"), ["deny"]),
        (maximum(max=8, overrides={"ml": 32}), []),
        (maximum(overrides={"ml": 8}), ["deny"]),
        (maximum(overrides={"other": 8}), []),
        (RuleSetting(enabled=False, parameters={"max": 1}), []),
        (RuleSetting(action="warn", parameters={"max": 1}), ["warn"]),
        (maximum(max="many"), ["error"]),
        (maximum(max=-1), ["error"]),
        (maximum(max=True), ["error"]),
        (maximum(max=8, overrides=[1]), ["error"]),
        (maximum(), []),
    ],
)
def test_most_gpus_of_a_namespace(setting: RuleSetting, expected: list[str]) -> None:
    bodies = [QUEUE, job("a"), job("b"), job("c", suspend=True)]
    verdicts = found(bodies, quota__max_gpus_per_namespace=setting)
    assert [one.result.value for one in verdicts] == expected
    assert {one.rule for one in verdicts} <= {"quota.max-gpus-per-namespace"}


def test_most_gpus_of_a_queue() -> None:
    bodies = [
        QUEUE,
        kai_queue("team-b", -1),
        job("a"),
        job("b", pods=3),
        job("c", pods=9, queue="team-b"),
        job("d", queue=""),
    ]
    setting = maximum(max=39, overrides={"team-b": 100})
    (verdict,) = found(bodies, quota__max_gpus_per_queue=setting)
    assert verdict.key.name == "team-a"
    assert verdict.message == "its workloads request 40 GPUs, but the maximum is 39; the largest is Job/b (24)"


def test_every_verdict_is_of_a_rule_in_the_catalogue() -> None:
    for bodies, rule, _ in BROKEN.values():
        assert {one.rule for one in found(bodies)} <= set(RULES)
        assert rule in RULES


def test_the_order_of_rows_has_no_influence() -> None:
    bodies = [*(body for broken, _, _ in BROKEN.values() for body in broken), job("z", pods=100)]
    one = rows(bodies)
    assert evaluate(BUILT_IN, one, MAIN, None, {}) == evaluate(BUILT_IN, one[::-1], MAIN, None, {})


texts = st.sampled_from(["", "a", "b", "ml", "con", "H100", "nvidia.com/gpu", "Queue", "é/.."])
any_row = st.builds(
    lambda kind, values, gpus, flag: _row(kind, values, gpus, flag=flag),
    st.sampled_from(["Queue", "Job", "ClusterQueue", "LocalQueue", "ResourceFlavor", "Cohort"]),
    st.tuples(*[texts] * 6),
    st.integers(0, 9),
    st.booleans(),
)


def _row(kind: str, values: tuple[str, ...], gpus: int, *, flag: bool) -> ObjectSummary:
    name, namespace, queue, parent, product, path = values
    bodies = {
        "Queue": kai_queue(name, gpus - 1, limit=gpus, parent=parent),
        "Job": job(
            name, pods=gpus, gpus=gpus, queue=queue, label=KUEUE_QUEUE if flag else "runai/queue", product=product
        ),
        "ClusterQueue": cluster_queue(name, {product: gpus}, cohort=parent),
        "Cohort": cluster_queue(name, {product: gpus}, cohort=parent) | {"kind": "Cohort"},
        "LocalQueue": local_queue(name, parent, namespace=namespace),
        "ResourceFlavor": flavor(name, product),
    }
    return msgspec.structs.replace(as_row(bodies[kind]), path=path)


@given(st.lists(any_row, max_size=12), st.booleans())
def test_no_rows_make_it_fail(any_rows: list[ObjectSummary], counted: bool) -> None:
    settings = {"quota.max-gpus-per-namespace": maximum(max=3), "quota.max-gpus-per-queue": maximum(max=3)}
    verdicts = evaluate(BUILT_IN, any_rows, MAIN, inventory(2) if counted else None, settings)
    assert {one.rule for one in verdicts} <= set(RULES)
