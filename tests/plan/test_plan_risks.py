"""Risks a reviewer must see, and budgets that a plan may not exceed in silence."""

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.kinds.registry import BUILT_IN
from reconciler.plan import Harm, Operation, Plan
from reconciler.plan import risks as risks_module
from reconciler.plan.risks import RISKS, RiskRule, RiskText
from reconciler.repo.config import Budgets
from tests.plan.plan_cases import (
    KUEUE_QUEUE,
    Body,
    claim,
    flavor,
    job,
    kai_queue,
    local_queue,
    plain,
    plan,
    pod_spec,
)

NONE = Budgets(delete_count=None, delete_share=None, disruption_share=None, gpu_quota_count=None, gpu_quota_share=None)
ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}


def risks(made: Plan) -> list[tuple[str, str]]:
    assert {risk.rule for risk in made.risks} <= {rule.rule for rule in RISKS}
    assert all(risk.message and risk.hint for risk in made.risks)
    return [(risk.rule, risk.key.name) for risk in made.risks]


def test_every_deletion_risk_of_a_kind_is_in_the_table() -> None:
    assert {kind.life.deletion.rule for kind in BUILT_IN.values() if kind.life.deletion} <= {
        rule.rule for rule in RISKS
    }


def test_a_new_risk_is_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row with a check of creations is found, ordered after the others, with its message and hint."""
    large = RiskRule(
        "risk.large-job",
        "A new job requests many GPUs",
        (Operation.CREATE,),
        lambda edit, _: RiskText("the job is large", "ask first") if edit.change.gpus_after > 64 else None,
    )
    monkeypatch.setattr(risks_module, "RISKS", (*RISKS, large))
    made = plan([claim("data")], [job("small"), job("large", pods=16)])
    assert [(risk.rule, risk.key.name) for risk in made.risks] == [
        ("risk.pvc-data-loss", "data"),
        ("risk.large-job", "large"),
    ]
    assert (made.risks[1].message, made.risks[1].hint) == ("the job is large", "ask first")


def with_spec(body: Body, **fields: Any) -> Body:
    changed = copy.deepcopy(body)
    changed["spec"].update(fields)
    return changed


def test_a_deleted_claim_loses_data_and_a_renamed_one_as_well() -> None:
    """F-062: a lasting claim whose job goes is seen as a loss of data before anything happens."""
    assert risks(plan([claim("data")], [])) == [("risk.pvc-data-loss", "data")]
    made = plan([claim("data")], [claim("data2")])
    assert risks(made) == [("risk.pvc-data-loss", "data")]
    assert "renamed, which deletes the old one" in made.risks[0].message


def test_deletes_that_take_more_than_themselves() -> None:
    before = [
        plain("Namespace", "ml", namespace=""),
        kai_queue("team-a"),
        local_queue("lq", "cq"),
        plain("CustomResourceDefinition", "x.example.com", namespace="", api="apiextensions.k8s.io/v1"),
        job("runs"),
        job("sleeps", pods=1, gpus=1, suspend=True),
        plain("ConfigMap", "c"),
    ]
    assert risks(plan(before, [])) == [
        ("risk.namespace-delete", "ml"),
        ("risk.crd-delete", "x.example.com"),
        ("risk.queue-delete", "lq"),
        ("risk.queue-delete", "team-a"),
        ("risk.workload-delete", "runs"),
    ]


def test_a_deleted_queue_tells_who_still_uses_it() -> None:
    made = plan([kai_queue("team-a"), job("a"), job("b")], [job("a"), job("b")])
    assert made.risks[0].message == "the queue is deleted; 2 objects still refer to it"


def torch_job(image: str, *, suspend: bool = False, workers: int = 2, gpus: int = 0) -> Body:
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    template = {"spec": {"containers": [{"name": "pytorch", "image": image, "resources": resources}]}}
    spec = {
        "runPolicy": {"suspend": suspend},
        "pytorchReplicaSpecs": {"Worker": {"replicas": workers, "template": template}},
    }
    return plain("PyTorchJob", "x", api="kubeflow.org/v1", spec=spec)


JOB = job()
STATEFUL = plain("StatefulSet", "x", api="apps/v1", spec={"replicas": 1, "serviceName": "a", "template": {}})
SERVICE = plain("Service", "x", spec={"ports": []})
FROZEN = plain("ConfigMap", "x", immutable=True, data={"a": "1"})
BINDING = plain("RoleBinding", "x", api="rbac.authorization.k8s.io/v1", roleRef={"name": "a"}, subjects=[])
INDEXED = with_spec(JOB, completionMode="Indexed")
JOB_SET = plain("JobSet", "x", api="jobset.x-k8s.io/v1alpha2", spec={"replicatedJobs": [{"name": "a"}]})

QUEUE_PATH = f'metadata.labels["{KUEUE_QUEUE}"]'

RECREATED: dict[str, tuple[Body, Body, str]] = {
    "job template": (JOB, job(hostname="x"), "spec.template"),
    "job completions": (JOB, with_spec(JOB, completions=1), "spec.completions"),
    "job's queue": (job(label=KUEUE_QUEUE), job(label=KUEUE_QUEUE, queue="b"), QUEUE_PATH),
    "job that goes on under Kueue": (job(queue="", suspend=True), job(label=KUEUE_QUEUE), QUEUE_PATH),
    "job selector": (JOB, with_spec(JOB, selector={"matchLabels": {}}), "spec.selector"),
    "claim class": (claim("x"), with_spec(claim("x"), storageClassName="fast"), "spec.storageClassName"),
    "stateful set": (STATEFUL, with_spec(STATEFUL, serviceName="b"), "spec.serviceName"),
    "service": (SERVICE, with_spec(SERVICE, clusterIP="None"), "spec.clusterIP"),
    "frozen map": (FROZEN, FROZEN | {"data": {"a": "2"}}, "data"),
    "binding": (BINDING, BINDING | {"roleRef": {"name": "b"}}, "roleRef"),
    "job set": (JOB_SET, with_spec(JOB_SET, replicatedJobs=[{"name": "b"}]), "spec.replicatedJobs"),
    "pod": (plain("Pod", "x", spec={"hostname": "a"}), plain("Pod", "x", spec={"hostname": "b"}), "spec.hostname"),
    "deployment": (
        plain("Deployment", "x", api="apps/v1", spec={"selector": {"a": "b"}}),
        plain("Deployment", "x", api="apps/v1", spec={"selector": {"a": "c"}}),
        "spec.selector",
    ),
}


@pytest.mark.parametrize(("before", "after", "field"), RECREATED.values(), ids=RECREATED)
def test_fields_that_need_a_new_object(before: Body, after: Body, field: str) -> None:
    made = plan([before], [after])
    (problem,) = made.problems
    assert field in problem.message
    assert problem.rule == ("immutable.claim" if before["kind"] == "PersistentVolumeClaim" else "immutable.refused")
    assert [change.operation for change in made.changes] == [Operation.REPLACE]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (JOB, with_spec(JOB, ttlSecondsAfterFinished=1)),
        (job(overhead={"memory": "1Gi"}), job(overhead={"memory": "1024Mi"})),
        (torch_job("a:1"), torch_job("a:1", suspend=True)),
        (INDEXED, with_spec(INDEXED, completions=4, parallelism=4)),
        (job(suspend=True), job(suspend=True, nodeSelector={"a": "b"})),
        (job(label=KUEUE_QUEUE, suspend=True), job(label=KUEUE_QUEUE, queue="b", suspend=True)),
        (claim("x", "10Gi"), claim("x", "20Gi")),
        (STATEFUL, with_spec(STATEFUL, replicas=2, template={"spec": {}})),
        (SERVICE, with_spec(SERVICE, ports=[{"port": 1}])),
        (flavor("x"), flavor("x", "A100")),
        (BINDING, BINDING | {"subjects": [{"name": "a"}]}),
    ],
)
def test_fields_that_change_in_place(before: Body, after: Body) -> None:
    made = plan([before], [after])
    assert risks(made) == []
    assert made.problems == ()
    assert [change.operation for change in made.changes] == [Operation.UPDATE]


def test_a_template_that_no_running_pod_takes_over() -> None:
    """The training operator compares how many pods there are, not what is in them."""
    made = plan([torch_job("a:1")], [torch_job("a:2")])
    assert risks(made) == [("risk.not-applied", "x")]
    assert made.risks[0].message.startswith("running pods keep the old spec.pytorchReplicaSpecs.Worker.template")
    assert risks(plan([torch_job("a:1", suspend=True)], [torch_job("a:2")])) == []
    assert risks(plan([torch_job("a:1")], [torch_job("a:1", workers=3)])) == []


def test_what_is_kept_is_told_with_the_file_it_lies_in() -> None:
    made = plan([claim("x", annotations={"gpureconciler.io/keep": "true"})], [])
    assert risks(made) == [("risk.kept", "x")]
    assert str(made.risks[0].place) == "rendered/main/ml/persistentvolumeclaim-x.yaml"


def test_a_claim_cannot_shrink() -> None:
    made = plan([claim("x", "20Gi")], [claim("x", "10Gi")])
    assert [problem.rule for problem in made.problems] == ["immutable.claim"]
    assert made.problems[0].message.startswith("a volume cannot shrink: PersistentVolumeClaim/ml/x from 20Gi")
    assert "deleting the old one may destroy its data" in made.problems[0].hint
    assert plan([claim("x", "1Gi")], [claim("x", "1024Mi")]).problems == ()


def test_what_its_owner_made_immutable() -> None:
    before, after = plain("ConfigMap", "x", data={"a": "1"}), plain("ConfigMap", "x", data={"a": "2"})
    for body in (before, after):
        body["metadata"]["annotations"] = {"gpureconciler.io/immutable": "true"}
    made = plan([before], [after])
    assert risks(made) == [("risk.immutable-object", "x")]
    assert "changes in data.a" in made.risks[0].message


def test_suspending_takes_gpus_away() -> None:
    """F-055: suspension is an edit, seen with what it takes away; resuming is no risk."""
    made = plan([job()], [job(suspend=True)])
    assert risks(made) == [("risk.suspend", "train")]
    assert "16 GPUs" in made.risks[0].message
    assert risks(plan([job(suspend=True)], [job()])) == []


def deployment(image: str = "a:1", *, replicas: int = 4, **spec: Any) -> Body:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {**pod_spec(2), "restartPolicy": "Always"}}
    template["spec"]["containers"][0]["image"] = image
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "x"}}, "template": template, **spec}
    return plain("Deployment", "x", api="apps/v1", spec=spec)


def stateful_set(image: str, strategy: str) -> Body:
    spec = {**deployment(image)["spec"], "updateStrategy": {"type": strategy}}
    return plain("StatefulSet", "x", api="apps/v1", spec=spec)


POD = plain("Pod", "x", spec=pod_spec(2))


def with_image(body: Body) -> Body:
    changed = copy.deepcopy(body)
    changed["spec"]["containers"][0]["image"] = "repo/train:2"
    return changed


def without_gpus(body: Body) -> Body:
    changed = copy.deepcopy(body)
    del changed["spec"]["template"]["spec"]["containers"][0]["resources"]
    return changed


def queued(body: Body, **annotations: str) -> Body:
    metadata = {**body["metadata"], "labels": {KUEUE_QUEUE: "team-a"}, "annotations": annotations}
    return {**body, "metadata": metadata}


@pytest.mark.parametrize(
    ("before", "after", "rule", "message"),
    [
        (
            deployment(),
            deployment("a:2"),
            "risk.restart",
            "the running pods are replaced because of spec.template.spec.containers[name=trainer].image; its pods on 8 ",
        ),
        (
            deployment(),
            deployment(replicas=3),
            "risk.scale-down",
            "the workload is scaled down; its pods on 2 GPUs stop",
        ),
        (deployment(), deployment(replicas=0), "risk.scale-down", "its pods on 8 GPUs stop"),
        (deployment(), without_gpus(deployment()), "risk.restart", "its pods on 8 GPUs stop"),
        (POD, with_image(POD), "risk.restart", "its pods on 2 GPUs stop"),
        (stateful_set("a:1", "RollingUpdate"), stateful_set("a:2", "RollingUpdate"), "risk.restart", "8 GPUs stop"),
        (job(pods=4), with_spec(job(pods=4), parallelism=3), "risk.scale-down", "its pods on 8 GPUs stop"),
        (
            queued(with_spec(job(pods=4), parallelism=2)),
            queued(job(pods=4)),
            "risk.restart",
            "admits it again because of spec.parallelism; its pods on 16 GPUs stop",
        ),
        (
            queued(torch_job("a:1", gpus=8)),
            queued(torch_job("a:2", gpus=8)),
            "risk.restart",
            "Kueue stops the workload and admits it again because of spec.pytorchReplicaSpecs.Worker.template.spec.",
        ),
    ],
)
def test_whatever_stops_running_pods_is_a_risk_and_counts(before: Body, after: Body, rule: str, message: str) -> None:
    made = plan([before], [after], budgets=replace(NONE, disruption_gpus=1))
    assert [risk.rule for risk in made.risks] == [rule]
    assert message in made.risks[0].message
    assert made.risks[0].harm is Harm.DISRUPTION
    (breach,) = made.breaches
    assert (breach.budget, f"{breach.actual} GPUs" in made.risks[0].message) == ("disruption.gpus", True)


@pytest.mark.parametrize(
    ("before", "after", "rules"),
    [
        (deployment(), deployment(replicas=5), []),
        (deployment(), deployment(minReadySeconds=5), []),
        (deployment(replicas=0), deployment("a:2", replicas=0), []),
        (queued(POD), queued(POD, note="x"), []),
        (POD, with_spec(POD, activeDeadlineSeconds=60), []),
        (stateful_set("a:1", "OnDelete"), stateful_set("a:2", "OnDelete"), ["risk.not-applied"]),
        (queued(job(pods=2)), queued(job(pods=2), note="x"), []),
        (queued(with_spec(job(pods=4), parallelism=2), **ELASTIC), queued(job(pods=4), **ELASTIC), []),
        (queued(job(pods=4), **ELASTIC), queued(with_spec(job(pods=4), parallelism=2), **ELASTIC), ["risk.scale-down"]),
    ],
)
def test_what_leaves_running_pods_alone_counts_nothing(before: Body, after: Body, rules: list[str]) -> None:
    made = plan([before], [after], budgets=replace(NONE, disruption_gpus=0))
    assert [risk.rule for risk in made.risks] == rules
    assert bool(made.breaches) is (rules == ["risk.scale-down"])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(32, 8, True), (-1, 8, True), (8, 8, False), (8, 12, False), (32, 16, False), (32, -1, False)],
)
def test_a_quota_that_falls_below_what_is_asked(before: int, after: int, expected: bool) -> None:
    made = plan([kai_queue("team-a", before), job()], [kai_queue("team-a", after), job()])
    assert ("risk.quota-below-requests" in {risk.rule for risk in made.risks}) is expected


def test_risks_that_lose_data_come_first() -> None:
    made = plan([kai_queue("team-a", 32), claim("z"), job("a")], [kai_queue("team-a", 8), job("a", suspend=True)])
    assert [rule for rule, _ in risks(made)] == ["risk.pvc-data-loss", "risk.suspend"]


FOUR = [job(name) for name in "abcd"]


def breached(before: list[Body], after: list[Body], budgets: Budgets, **rest: Any) -> list[tuple[str, str, str]]:
    return [(one.budget, one.limit, one.actual) for one in plan(before, after, budgets=budgets, **rest).breaches]


@pytest.mark.parametrize(
    ("budgets", "expected"),
    [
        (NONE, []),
        (replace(NONE, delete_count=2), []),
        (replace(NONE, delete_count=1), [("deletes.count", "1", "2")]),
        (replace(NONE, delete_count=0, delete_share=0.5), [("deletes.count", "0", "2")]),
        (replace(NONE, delete_share=0.4), [("deletes.share", "40%", "50.0%")]),
        (replace(NONE, disruption_share=0.4), [("disruption.share", "40%", "50.0%")]),
        (replace(NONE, disruption_gpus=1), [("disruption.gpus", "1", "32")]),
    ],
)
def test_deletes_have_a_budget(budgets: Budgets, expected: list[Any]) -> None:
    assert breached(FOUR, FOUR[:2], budgets) == expected


def test_what_moves_with_data_or_running_pods_counts_as_a_deletion() -> None:
    budgets = replace(NONE, delete_count=0)
    assert breached([claim("a")], [claim("b")], budgets) == [("deletes.count", "0", "1")]
    assert breached([job("a")], [job("b")], budgets) == [("deletes.count", "0", "1")]
    assert breached([job("a", suspend=True)], [job("b", suspend=True)], budgets) == []
    declared = job("b")
    declared["metadata"]["annotations"] = {"gpureconciler.io/moved-from": "a"}
    assert breached([job("a")], [declared], budgets) == []


@pytest.mark.parametrize(
    ("before", "after", "budgets", "expected"),
    [
        (8, 16, Budgets(gpu_quota_share=0.5), [("gpu-quota.share", "50%", "100.0%")]),
        (16, 8, Budgets(gpu_quota_share=0.5), []),
        (16, 7, Budgets(gpu_quota_share=0.5), [("gpu-quota.share", "50%", "56.2%")]),
        (16, 8, Budgets(gpu_quota_count=7, gpu_quota_share=None), [("gpu-quota.count", "7", "8")]),
        (-1, 8, Budgets(), [("gpu-quota.unlimited", "no change from or to unlimited", "unlimited to 8")]),
        (8, -1, Budgets(), [("gpu-quota.unlimited", "no change from or to unlimited", "8 to unlimited")]),
        (-1, -1, Budgets(), []),
        (-1, 8, NONE, []),
    ],
)
def test_quotas_have_a_budget(before: int, after: int, budgets: Budgets, expected: list[Any]) -> None:
    assert breached([kai_queue("a", before)], [kai_queue("a", after)], budgets) == expected


def test_quotas_are_summed_over_queues() -> None:
    before, after = [kai_queue("a", 8), kai_queue("b", 8)], [kai_queue("a", 4), kai_queue("b", 12)]
    assert breached(before, after, Budgets(gpu_quota_count=7, gpu_quota_share=None)) == [("gpu-quota.count", "7", "8")]


def test_the_first_queues_of_all_are_within_budget() -> None:
    assert breached([], [kai_queue("a", 64), kai_queue("b", -1)], Budgets()) == []


def test_an_unlimited_queue_that_joins_or_leaves_others_exceeds_any_budget() -> None:
    """It may take every GPU of the others, so it cannot pass where a limited one of their size does not."""
    limited, unlimited = kai_queue("a", 64), kai_queue("b", -1)
    joins = [("gpu-quota.unlimited", "no change from or to unlimited", "0 to unlimited")]
    leaves = [("gpu-quota.unlimited", "no change from or to unlimited", "unlimited to 0")]
    assert breached([limited], [limited, unlimited], Budgets()) == joins
    assert breached([limited, unlimited], [limited], replace(Budgets(), delete_share=None)) == leaves
    child = kai_queue("c", 8, parent="b")
    assert breached([limited], [limited, unlimited, child], Budgets()) == [], "a root is as large as its children"


def test_a_source_folder_that_empties() -> None:
    folders = {"jobs": (3, 0), "queues": (1, 1), "new": (0, 0)}
    assert breached([], [], Budgets(), folders=folders) == [("sources.empty", "no source folder becomes empty", "jobs")]
    assert breached([], [], Budgets(empty_sources=True), folders=folders) == []
