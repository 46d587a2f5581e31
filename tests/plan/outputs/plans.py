"""Plans built by hand, as realistic as a reviewer's week: what every output is tried on."""

from msgspec.structs import replace

from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Why
from reconciler.plan import (
    Approval,
    Breach,
    CapacityLine,
    Change,
    ClaimChange,
    EvidenceChange,
    ExceptionInForce,
    FieldChange,
    GpuLine,
    Harm,
    JobChange,
    KeptSpec,
    Operation,
    Plan,
    QuarantineLine,
    QueueLine,
    Revision,
    Risk,
)
from reconciler.plan.health.effect import NodeVerdict, PolicyEffect
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config.changes import SettingChange
from reconciler.sizing.summary import CandidateSummary, SizingSummary

H100 = "NVIDIA-H100-80GB-HBM3"
H200 = "NVIDIA-H200"
MI300 = "AMD-MI300X"
DIGEST = "sha256:3f9a1c52e7b04d6689f1a0c4d2e85b7790ab13cd54ef2761b8a9c0d1e2f30415"


def key(kind: str, namespace: str, name: str, group: str = "batch") -> ObjectKey:
    return ObjectKey(group=group, kind=kind, namespace=namespace, name=name)


def place(path: str, line: int = 0, column: int = 0) -> SourceRef:
    return SourceRef(path=path, line=line, column=column)


def why(rule: str, text: str, *places: tuple[str, int, int, str]) -> Why:
    return Why(
        rule=rule,
        text=text,
        places=tuple(place(path, line, column) for path, line, column, _ in places),
        fields=tuple(field for *_, field in places),
    )


NODES = why(
    "torchrun.nodes",
    "32 GPUs / 8 per node = 4 nodes",
    ("jobs/pretrain/gpt-35b.yaml", 14, 10, "spec.gpus"),
    ("queues/h100.yaml", 8, 5, "spec.nodeResources.gpus"),
)
SCRIPT = why("source", "", ("jobs/pretrain/gpt-35b.yaml", 21, 3, "spec.setupCommand"))
QUOTA = why("source", "", ("queues/h200.yaml", 11, 12, "spec.resources.gpu.quota"))
IMAGE = why("source", "", ("jobs/pretrain/gpt-35b.yaml", 9, 10, "spec.image"))
TRAINER = "spec.template.spec.containers[name=trainer]"

BEFORE_SCRIPT = """set -eu
pip install -r requirements.txt
export NCCL_DEBUG=WARN
export NCCL_IB_HCA=mlx5
python -m tools.warm_cache --shards 64
echo ready
"""
AFTER_SCRIPT = """set -eu
pip install --require-hashes -r requirements.lock
export NCCL_DEBUG=WARN
export NCCL_IB_HCA=mlx5
export NCCL_NVLS_ENABLE=1
python -m tools.warm_cache --shards 64
echo ready
"""

SIZED = SizingSummary(
    read="llama3.1-8b (8.03 B), lora r 8, 4096 tokens, batch 4 x 8 = 32, bf16, adamw_torch, fsdp-full, checkpointing, "
    "flash-attn-2; optimizer, attention by default of fms-hf-tuning",
    chosen="4 GPUs: peak 58.3 of 80.0 GiB (54.2 to 62.9): logits 26.4, activations 14.1, transients 3.0 "
    "(NVIDIA-A100-SXM4-80GB, confidence high)",
    rejected="2 x NVIDIA-A100-SXM4-80GB needs 101.4 of 80.0 GiB: logits 52.7, activations 28.2, weights 7.5",
    places=(SourceRef(path="jobs/vision/vit.yaml", line=14, column=1),),
    candidates=(
        CandidateSummary(
            gpus=2,
            workers=1,
            product="NVIDIA-A100-SXM4-80GB",
            memory_gib=80.0,
            fits=False,
            chosen=False,
            text="needs 101.4 of 80.0 GiB: logits 52.7, activations 28.2, weights 7.5",
            peak_gib=101.4,
            low_gib=94.3,
            high_gib=109.5,
        ),
        CandidateSummary(
            gpus=3,
            workers=1,
            product="NVIDIA-A100-SXM4-80GB",
            memory_gib=80.0,
            fits=False,
            chosen=False,
            text="an effective batch of 32 (4 a GPU x 8) does not divide among 3 GPUs",
        ),
        CandidateSummary(
            gpus=4,
            workers=1,
            product="NVIDIA-A100-SXM4-80GB",
            memory_gib=80.0,
            fits=True,
            chosen=True,
            text="needs 58.3 of 80.0 GiB (54.2 to 62.9): logits 26.4, activations 14.1, transients 3.0",
            peak_gib=58.3,
            low_gib=54.2,
            high_gib=62.9,
        ),
    ),
)
RESIZED = Change(
    operation=Operation.UPDATE,
    cluster="main",
    key=key("Job", "research", "gpt-35b-pretrain"),
    path="rendered/main/research/job-gpt-35b-pretrain.yaml",
    source=place("jobs/pretrain/gpt-35b.yaml", 1, 1),
    sizing=SIZED,
    gpus_before=8,
    gpus_after=32,
    because=(NODES, SCRIPT),
    fields=(
        FieldChange(path="spec.completions", before=1, after=4, why=NODES),
        FieldChange(path="spec.parallelism", before=1, after=4, why=NODES),
        FieldChange(path=f"{TRAINER}.env[name=NNODES].value", before="1", after="4", why=NODES),
        FieldChange(
            path=f"{TRAINER}.image",
            before="nvcr.io/nvidia/pytorch:24.08-py3",
            after="nvcr.io/nvidia/pytorch@sha256:8b2c1d0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a3b2c",
            why=IMAGE,
        ),
        FieldChange(path=f"{TRAINER}.command[2]", before=BEFORE_SCRIPT, after=AFTER_SCRIPT, why=SCRIPT),
        FieldChange(
            path="spec.template.spec.volumes[name=dshm]",
            has_before=False,
            after={"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            why=why("torchrun.shm", "8Gi x 8 GPUs = 64Gi", ("queues/h100.yaml", 19, 5, "spec.shmSizePerGPU")),
        ),
    ),
)
GROWN = Change(
    operation=Operation.UPDATE,
    cluster="main",
    key=key("Queue", "", "h200-research", "scheduling.run.ai"),
    path="rendered/main/_cluster/queue.scheduling.run.ai-h200-research.yaml",
    source=place("queues/h200.yaml", 1, 1),
    because=(QUOTA,),
    fields=(
        FieldChange(path="spec.resources.gpu.quota", before=32, after=48, why=QUOTA),
        FieldChange(
            path="spec.resources.gpu.limit",
            before=32,
            after=64,
            why=why("source", "", ("queues/h200.yaml", 12, 12, "spec.resources.gpu.limit")),
        ),
    ),
)
ADDED_SOURCE = "jobs/finetune/llama-70b-sft.yaml"
ADDED_WHY = why("source", "", (ADDED_SOURCE, 1, 1, ""))
ADDED = Change(
    operation=Operation.CREATE,
    cluster="main",
    key=key("Job", "research", "llama-70b-sft"),
    path="rendered/main/research/job-llama-70b-sft.yaml",
    source=place(ADDED_SOURCE, 1, 1),
    gpus_after=16,
    because=(ADDED_WHY,),
    fields=tuple(
        FieldChange(path=path, after=value, has_before=False, why=ADDED_WHY)
        for path, value in {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata.name": "llama-70b-sft",
            'metadata.labels["kai.scheduler/queue"]': "h200-research",
            "spec.completions": 2,
            "spec.parallelism": 2,
            "spec.template.spec.schedulerName": "kai-scheduler",
            f"{TRAINER}.image": "ghcr.io/lab/llama-sft:2026.11.1",
            f'{TRAINER}.resources.limits["nvidia.com/gpu"]': 8,
            f'{TRAINER}.resources.requests["nvidia.com/gpu"]': 8,
        }.items()
    ),
)
ADDED_SERVICE = Change(
    operation=Operation.CREATE,
    cluster="main",
    key=key("Service", "research", "llama-70b-sft", ""),
    path="rendered/main/research/service-llama-70b-sft.yaml",
    source=place(ADDED_SOURCE, 1, 1),
    because=(
        why(
            "torchrun.rendezvous",
            "c10d over 2 nodes meets at a headless Service",
            (ADDED_SOURCE, 17, 5, "spec.rendezvous.backend"),
        ),
    ),
    fields=(
        FieldChange(path="spec.clusterIP", after="None", has_before=False, why=ADDED_WHY),
        FieldChange(path="spec.ports[name=rendezvous].port", after=29500, has_before=False, why=ADDED_WHY),
    ),
)
ADDED_PVC = Change(
    operation=Operation.CREATE,
    cluster="main",
    key=key("PersistentVolumeClaim", "research", "llama-70b-sft-checkpoints", ""),
    path="rendered/main/research/persistentvolumeclaim-llama-70b-sft-checkpoints.yaml",
    source=place(ADDED_SOURCE, 1, 1),
    because=(
        why(
            "torchrun.checkpoints",
            "persist: true keeps the claim when the job goes",
            (ADDED_SOURCE, 22, 5, "spec.checkpoints.persist"),
        ),
    ),
    fields=(
        FieldChange(path="spec.resources.requests.storage", after="500Gi", has_before=False, why=ADDED_WHY),
        FieldChange(path="spec.accessModes[0]", after="ReadWriteMany", has_before=False, why=ADDED_WHY),
        FieldChange(path="spec.storageClassName", after="weka-fast", has_before=False, why=ADDED_WHY),
    ),
)
SUSPENDED = Change(
    operation=Operation.UPDATE,
    cluster="main",
    key=key("Job", "vision", "vit-sweep"),
    path="rendered/main/vision/job-vit-sweep.yaml",
    source=place("jobs/vision/vit-sweep.yaml", 1, 1),
    gpus_before=16,
    gpus_after=0,
    fields=(
        FieldChange(
            path="spec.suspend",
            before=False,
            after=True,
            why=why("source", "", ("jobs/vision/vit-sweep.yaml", 12, 12, "spec.suspend")),
        ),
    ),
)
MOVED_WHY = why("source", "", ("jobs/vision/sam-eval.yaml", 5, 14, "metadata.namespace"))
MOVED = Change(
    operation=Operation.MOVE,
    cluster="edge",
    key=key("Job", "vision-eval", "sam-eval"),
    path="rendered/edge/vision-eval/job-sam-eval.yaml",
    moved_from="rendered/edge/default/job-sam-eval.yaml",
    source=place("jobs/vision/sam-eval.yaml", 1, 1),
    gpus_before=2,
    gpus_after=2,
    because=(MOVED_WHY,),
    fields=(FieldChange(path="metadata.namespace", before="default", after="vision-eval", why=MOVED_WHY),),
)
DELETED = Change(
    operation=Operation.DELETE,
    cluster="main",
    key=key("PersistentVolumeClaim", "research", "old-run-workspace", ""),
    path="rendered/main/research/persistentvolumeclaim-old-run-workspace.yaml",
    source=None,
    because=(why("source.removed", "no source asks for it any more: jobs/old-run.yaml is gone"),),
    fields=(FieldChange(path="spec.resources.requests.storage", before="2Ti", has_after=False),),
)


def bumped(name: str) -> Change:
    """One of many objects that change alike."""
    source = f"jobs/eval/{name}.yaml"
    reason = why("engine.label", "the engine writes its version", (source, 1, 1, ""))
    return Change(
        operation=Operation.UPDATE,
        cluster="main",
        key=key("CronJob", "eval", name),
        path=f"rendered/main/eval/cronjob-{name}.yaml",
        source=place(source, 1, 1),
        because=(reason,),
        fields=(
            FieldChange(path="spec.timeZone", before="Etc/UTC", after="Europe/Zurich", why=reason),
            FieldChange(path="spec.successfulJobsHistoryLimit", before=3, has_after=False, why=reason),
        ),
    )


def everything() -> Plan:
    """Build a research team's pull request in which everything happens at once."""
    return Plan(
        engine="0.1.0",
        base=Revision(label="main", commit="9f31c0de8a4b5c6d7e8f90112233445566778899", tree="a" * 64),
        head=Revision(label="working tree", tree="b" * 64),
        evidence="c" * 64,
        policies="d" * 64,
        changes=(
            GROWN,
            RESIZED,
            SUSPENDED,
            *(bumped(name) for name in ("mmlu-nightly", "hellaswag-nightly", "gsm8k-nightly", "humaneval-nightly")),
            ADDED,
            ADDED_SERVICE,
            ADDED_PVC,
            MOVED,
            DELETED,
        ),
        unchanged=41,
        gpus=(
            GpuLine(cluster="edge", queue="edge-eval", product=MI300, before=2, after=2),
            GpuLine(cluster="main", queue="h100-training", product=H100, before=8, after=32, most=64),
            GpuLine(cluster="main", queue="h200-research", product=H200, before=40, after=56),
            GpuLine(cluster="main", queue="vision", product=H100, before=16, after=0),
        ),
        queues=(
            QueueLine(cluster="edge", queue="edge-eval", product="", before=4, after=4, limit=8, requested=2),
            QueueLine(cluster="main", queue="h100-training", product="", before=64, after=64, limit=64, requested=32),
            QueueLine(cluster="main", queue="h200-research", product="", before=32, after=48, limit=64, requested=56),
            QueueLine(cluster="main", queue="vision", product="", before=16, after=16, limit=None, requested=0),
        ),
        capacity=(
            CapacityLine(cluster="edge", product=MI300, before=8, capacity=8, guaranteed=4, requested=2),
            CapacityLine(cluster="main", product=H100, before=96, capacity=96, guaranteed=80, requested=32),
            CapacityLine(cluster="main", product=H200, before=40, capacity=40, guaranteed=48, requested=56),
        ),
        claims=(
            ClaimChange(
                cluster="main",
                key=ADDED_PVC.key,
                storage_class="weka-fast",
                before=0,
                after=500 << 30,
                currency="USD",
                per_month_before=0.0,
                per_month_after=85.0,
                source=ADDED_PVC.source,
            ),
            ClaimChange(
                cluster="main",
                key=DELETED.key,
                storage_class="",
                before=2 << 40,
                after=0,
                currency="USD",
                per_month_before=None,
                per_month_after=0.0,
            ),
        ),
        jobs=(
            JobChange(
                word="added",
                cluster="main",
                key=ADDED.key,
                queue="h200-research",
                product=H200,
                gpus_before=0,
                gpus_after=16,
                source=ADDED.source,
            ),
            JobChange(
                word="resized",
                cluster="main",
                key=RESIZED.key,
                queue="h100-training",
                product=H100,
                gpus_before=8,
                gpus_after=32,
                range_after=(8, 64),
                source=RESIZED.source,
            ),
            JobChange(
                word="suspended",
                cluster="main",
                key=SUSPENDED.key,
                queue="vision",
                product=H100,
                gpus_before=16,
                gpus_after=0,
                source=SUSPENDED.source,
            ),
        ),
        risks=(
            Risk(
                rule="risk.pvc-data-loss",
                cluster="main",
                key=DELETED.key,
                message="deleting the claim deletes 2Ti of data unless its volume is retained",
                hint="copy what is needed, or set persist: true and keep the job file",
                harm=Harm.DATA_LOSS,
            ),
            Risk(
                rule="risk.immutable-field",
                cluster="main",
                key=RESIZED.key,
                message="spec.completions and spec.template cannot change in place: the Job is recreated and its pods restart",
                hint="let the run reach a checkpoint first",
                harm=Harm.DISRUPTION,
                place=RESIZED.source,
            ),
        ),
        verdicts=(
            Verdict(
                rule="max-gpus-per-job",
                result=Result.DENY,
                cluster="main",
                key=RESIZED.key,
                place=place("jobs/pretrain/gpt-35b.yaml", 14, 10),
                field="spec.gpus",
                message="asks for 32 GPUs, at most 24 are allowed for a job in research",
                hint="ask for 24 or fewer, or add an exception below policies/exceptions",
            ),
            Verdict(
                rule="pinned-images",
                result=Result.WARN,
                cluster="main",
                key=ADDED.key,
                place=place(ADDED_SOURCE, 9, 10),
                field="spec.image",
                message="ghcr.io/lab/llama-sft:2026.11.1 is a tag, and tags move",
                hint="pin it by digest: image@sha256:…",
            ),
            Verdict(
                rule="ownership-labels",
                result=Result.WARN,
                cluster="main",
                key=ADDED.key,
                place=place(ADDED_SOURCE, 4, 3),
                field="metadata.labels",
                message="the label team is missing",
            ),
            Verdict(
                rule="host-network",
                result=Result.EXCEPTED,
                cluster="edge",
                key=MOVED.key,
                place=place("jobs/vision/sam-eval.yaml", 15, 3),
                message="uses the host's network",
            ),
        ),
        exceptions=(
            ExceptionInForce(
                rule="host-network",
                target="Job/vision-eval/sam-eval",
                reason="RDMA without SR-IOV until the new switches are in",
                owner="vision-infra",
                expires="2027-01-31",
                place=place("policies/exceptions/sam-eval.yaml", 1, 1),
            ),
            ExceptionInForce(
                rule="max-gpus-per-job",
                target="Job/research/old-run",
                reason="the spring run",
                owner="research",
                expires="2026-12-31",
                place=place("policies/exceptions/old-run.yaml", 1, 1),
                used=False,
            ),
        ),
        breaches=(
            Breach(
                budget="gpu-quota.count",
                message="GPU quotas change by 16 in total; the budget allows 8",
                limit="8",
                actual="16",
            ),
        ),
        digest=DIGEST,
    )


def approved() -> Plan:
    """Build the same pull request once its budgets may be exceeded, with an approval of an earlier version of it."""
    plan = everything()
    used = Approval(
        place=place("approvals/3f9c21ab04d2.yaml", 2, 1), plan=DIGEST, reason="the partner leaves", expires="2026-11-30"
    )
    void = Approval(
        place=place("approvals/77aa21ab04d2.yaml", 2, 1),
        plan=DIGEST,
        reason="the partner leaves soon",
        expires="2026-11-30",
        budgets=("gpu-quota",),
        ignored="approves sha256:77aa21ab04d2, but the approval digest of this plan is sha256:3f9c21ab04d2",
    )
    return replace(
        plan, approvals=(used, void), breaches=tuple(replace(breach, approved=True) for breach in plan.breaches)
    )


def gated() -> Plan:
    """Build a pull request about gates: replaced, refused and kept objects, settings, evidence, approvals, a note."""
    replaced = replace(
        RESIZED,
        operation=Operation.REPLACE,
        key=key("Job", "research", "gpt-35b-pretrain-g1f0c2ab9"),
        path="rendered/main/research/job-gpt-35b-pretrain-g1f0c2ab9.yaml",
        moved_from=RESIZED.path,
    )
    refused = replace(bumped("mmlu-nightly"), operation=Operation.REPLACE)
    return replace(
        approved(),
        changes=(replaced, refused),
        jobs=(
            JobChange(
                word="replaced",
                cluster="main",
                key=replaced.key,
                key_before=RESIZED.key,
                queue="h100-training",
                product=H100,
                gpus_before=8,
                gpus_after=32,
                source=RESIZED.source,
            ),
            JobChange(
                word="refused",
                cluster="main",
                key=refused.key,
                queue="vision",
                product=H100,
                gpus_before=1,
                gpus_after=1,
                source=refused.source,
            ),
        ),
        capacity=(
            CapacityLine(
                cluster="main", product=H100, before=96, capacity=48, guaranteed=80, requested=32, evidence_days=12
            ),
        ),
        evidence_changes=(
            EvidenceChange(
                cluster="main",
                nodes_before=12,
                nodes_after=6,
                taken_before="2026-11-01T06:00:00Z",
                taken_after="2026-11-13T06:00:00Z",
            ),
        ),
        quarantines=(
            QuarantineLine(
                cluster="main",
                key=key("NodeQuarantine", "", "gpu-17", "gpureconciler.io"),
                node="gpu-17",
                word="begins",
                check="hbm.bandwidth",
                reason="GPU 3 reads 3,310 GB/s; the median of 128 GPUs is 4,290",
                effect="NoSchedule",
                slots=("0000:9b:00.0",),
                until="2026-12-01T00:00:00Z",
                product=H100,
                gpus=-8,
                jobs=3,
                requested=24,
                is_known=True,
                place=place("quarantines/gpu-17.yaml", 1, 1),
            ),
            QuarantineLine(
                cluster="main",
                key=key("NodeQuarantine", "", "gpu-4", "gpureconciler.io"),
                node="gpu-4",
                word="ends",
                check="xid.79",
                reason="GPU 0 was lost",
                effect="NoSchedule",
                slots=(),
                until="",
                product="",
                gpus=0,
                jobs=0,
                requested=0,
                is_known=False,
            ),
        ),
        health_policies=(
            PolicyEffect(
                cluster="main",
                key=key("HealthPolicy", "", "base", "gpureconciler.io"),
                basis="reports",
                reports=1600,
                nodes=200,
                first="2026-11-01",
                last="2026-11-08",
                before=0.0,
                after=1.0,
                changed=1,
                verdicts=(NodeVerdict(node="gpu-9", before="healthy", after="quarantined, tainted"),),
                refused=("takes nodes out of use that the current policy leaves alone: gpu-9",),
                unknown=("2 nodes without a report",),
                place=place("queues/health.yaml", 1, 1),
            ),
            PolicyEffect(
                cluster="west",
                key=key("HealthPolicy", "", "base", "gpureconciler.io"),
                unknown=("the effect: neither evidence/west/reports/ nor evidence/west/health.yaml has records",),
                place=place("queues/health.yaml", 1, 1),
            ),
        ),
        settings=(
            SettingChange(
                setting="budgets.deletes.count",
                before="10",
                after="1000",
                weakens=True,
                effect="the base's limit counts for this plan",
                place=place("reconciler.yaml", 21, 14),
            ),
            SettingChange(
                setting="rules.pinned-images",
                before="warn",
                after="deny",
                effect="refuses a commit",
                place=place("reconciler.yaml", 30, 5),
            ),
        ),
        kept_specs=(
            KeptSpec(
                cluster="main",
                key=SUSPENDED.key,
                path=SUSPENDED.path,
                fields=("spec.template",),
                source=place("jobs/vision/vit-sweep.yaml", 1, 1),
            ),
            KeptSpec(
                cluster="main",
                key=key("PersistentVolumeClaim", "vision", "vit-sweep-checkpoints", ""),
                path="rendered/main/vision/persistentvolumeclaim-vit-sweep-checkpoints.yaml",
                fields=("spec.resources.requests.storage",),
                source=place("jobs/vision/vit-sweep.yaml", 1, 1),
                has_spare=True,
            ),
        ),
        problems=(
            Problem(
                rule="immutable.refused",
                place=place("queues/vision.yaml", 9, 10),
                field="spec.image",
                message="1 object must be replaced, because the API server accepts spec.template only on a new object: "
                "CronJob/eval/mmlu-nightly",
                hint="undo the change, or choose with onImmutableChange",
            ),
            Problem(
                rule="source.referenced",
                place=place("queues/h200.yaml", 4, 2),
                message="needed by 2 objects in 2 other files: jobs/a.yaml, jobs/b.yaml",
                hint="their objects are left unchanged until this file is valid",
                severity=Severity.NOTE,
            ),
        ),
        approvals=(
            *approved().approvals,
            Approval(
                place=place("approvals/0a1b2c3d4e5f.yaml", 2, 1),
                plan=DIGEST,
                reason="last month",
                expires="2026-10-30",
                ignored="approves sha256:0a1b2c3d4e5f, but the approval digest of this plan is sha256:3f9c21ab04d2",
                is_merged=True,
            ),
        ),
    )


def quiet() -> Plan:
    """Nothing to do and nothing to say."""
    return Plan(
        engine="0.1.0",
        base=Revision(label="main", commit="9f31c0de8a4b5c6d7e8f90112233445566778899", tree="a" * 64),
        head=Revision(label="HEAD", commit="9f31c0de8a4b5c6d7e8f90112233445566778899", tree="a" * 64),
        evidence="c" * 64,
        policies="d" * 64,
        unchanged=52,
        gpus=(GpuLine(cluster="main", queue="h100-training", product=H100, before=8, after=8),),
        queues=(
            QueueLine(cluster="main", queue="h100-training", product="", before=64, after=64, limit=64, requested=8),
        ),
        digest=DIGEST,
    )


def changed(path: str, before: object, after: object, reason: Why | None = None) -> FieldChange:
    return FieldChange(path=path, before=before, after=after, why=reason)


def with_fields(fields: tuple[FieldChange, ...]) -> Plan:
    """Return a plan that updates these fields of one object."""
    change = replace(bumped("job"), fields=fields)
    return replace(small(), changes=(change,), gpus=(), jobs=(), risks=())


def small() -> Plan:
    """Build the commonest pull request: one job gets more GPUs, and nothing is wrong."""
    return Plan(
        engine="0.1.0",
        base=Revision(label="main", commit="9f31c0de8a4b5c6d7e8f90112233445566778899", tree="a" * 64),
        head=Revision(label="gpt-more-gpus", commit="1122334455667788990011223344556677889900", tree="b" * 64),
        evidence="c" * 64,
        policies="d" * 64,
        changes=(RESIZED,),
        unchanged=41,
        gpus=(
            GpuLine(cluster="main", queue="h100-training", product=H100, before=8, after=32),
            GpuLine(cluster="main", queue="vision", product=H100, before=16, after=16),
        ),
        queues=(
            QueueLine(cluster="main", queue="h100-training", product="", before=64, after=64, limit=64, requested=32),
        ),
        capacity=(CapacityLine(cluster="main", product=H100, before=96, capacity=96, guaranteed=80, requested=48),),
        jobs=(
            JobChange(
                word="resized",
                cluster="main",
                key=RESIZED.key,
                queue="h100-training",
                product=H100,
                gpus_before=8,
                gpus_after=32,
                source=RESIZED.source,
            ),
        ),
        digest=DIGEST,
    )


def broken() -> Plan:
    """Build what `lint` finds in a repository with errors: nothing is compared."""
    return Plan(
        engine="0.1.0",
        base=Revision(label="HEAD"),
        head=Revision(label="working tree"),
        evidence="c" * 64,
        policies="d" * 64,
        problems=(
            Problem(
                rule="yaml.ambiguous-scalar",
                place=place("jobs/eval/mmlu.yaml", 12, 14),
                field="spec.env.SEED",
                message="1e3 is a number to some readers and a string to others",
                hint='write "1e3"',
            ),
            Problem(
                rule="schema.unknown-field",
                place=place("jobs/eval/mmlu.yaml", 15, 3),
                field="spec.gpu",
                message="TorchrunJob has no such field",
                hint="did you mean gpus?",
            ),
            Problem(
                rule="source.deprecated",
                place=place("queues/h100.yaml", 3, 1),
                message="the old group is read, but no longer written",
                severity=Severity.WARNING,
            ),
        ),
        verdicts=(
            Verdict(
                rule="queue-exists",
                result=Result.DENY,
                cluster="main",
                key=key("Job", "vision", "vit-sweep"),
                place=place("jobs/vision/vit-sweep.yaml", 8, 10),
                field="spec.queue",
                message="no queue is called vison on main",
                hint="did you mean vision?",
            ),
        ),
        held_back=("rendered/main/eval/job-mmlu.yaml",),
    )


EVIL = (
    "@everyone <img src=x onerror=alert(1)> [x](javascript:alert(1)) `code` ``` #123 GH-7 ::error::boom "
    "##[group] https://evil.example | </details> \x1b[31mred\x1b[0m \u202egnp\u2066 \u200bz\r\n::stop-commands::t\n/merge"
)


def hostile() -> Plan:
    """Names, values and messages that mean harm wherever they are shown."""
    reason = Why(rule=EVIL, text=EVIL, places=(place(EVIL, 3, 4),), fields=(EVIL,))
    who = key("Job", EVIL, EVIL)
    change = Change(
        operation=Operation.UPDATE,
        cluster=EVIL,
        key=who,
        path=EVIL,
        source=place(EVIL, 1, 1),
        because=(reason,),
        gpus_before=1,
        gpus_after=2,
        fields=(
            FieldChange(path=EVIL, before=EVIL, after=f"{EVIL}\n```\n````\n</details>\n", why=reason),
            FieldChange(path="spec.x", before=1, after=EVIL.replace("\n", " "), why=reason),
            FieldChange(path="spec.wide", before="漢字" * 40, after="e\u0301\u0301\u0301\u0301\u0301", why=None),
        ),
    )
    return Plan(
        engine=EVIL,
        base=Revision(label=EVIL, commit=EVIL),
        head=Revision(label=EVIL),
        evidence="",
        policies="",
        changes=(
            change,
            Change(
                operation=Operation.CREATE,
                cluster=EVIL,
                key=who,
                path=EVIL,
                source=None,
                fields=change.fields,
                because=(reason,),
            ),
            Change(operation=Operation.MOVE, cluster=EVIL, key=who, path=EVIL, source=None, moved_from=EVIL),
        ),
        unchanged=1,
        gpus=(GpuLine(cluster=EVIL, queue=EVIL, product=EVIL, before=0, after=8),),
        queues=(QueueLine(cluster=EVIL, queue=EVIL, product=EVIL, before=None, after=0.5, limit=1.0, requested=8),),
        capacity=(CapacityLine(cluster=EVIL, product=EVIL, before=0, capacity=0, guaranteed=None, requested=8),),
        jobs=(
            JobChange(
                word="added",
                cluster=EVIL,
                key=who,
                queue="",
                product="",
                gpus_before=0,
                gpus_after=1,
                source=place(EVIL),
            ),
        ),
        risks=(Risk(rule=EVIL, cluster=EVIL, key=who, message=EVIL, hint=EVIL),),
        verdicts=(
            Verdict(
                rule=EVIL,
                result=Result.ERROR,
                cluster=EVIL,
                key=who,
                place=place(EVIL, 2, 2),
                message=EVIL,
                hint=EVIL,
                field=EVIL,
            ),
        ),
        exceptions=(
            ExceptionInForce(rule=EVIL, target=EVIL, reason=EVIL, owner=EVIL, expires=EVIL, place=place(EVIL)),
        ),
        problems=(Problem(rule=EVIL, place=place(EVIL, 1, 1), message=EVIL, field=EVIL, hint=EVIL),),
        held_back=(EVIL,),
        breaches=(Breach(budget=EVIL, message=EVIL, limit=EVIL, actual=EVIL),),
        digest=DIGEST,
    )
