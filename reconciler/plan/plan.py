"""`Plan`: what changes, and everything a reviewer needs to know about it. Outputs only show it or apply it."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.kinds.quantities import Gpus
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Why
from reconciler.plan.health.effect import PolicyEffect
from reconciler.policy.approval import Approval
from reconciler.policy.exceptions import ExceptionInForce
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config.changes import SettingChange
from reconciler.sizing.summary import SizingSummary


class Operation(StrEnum):
    """The change of one rendered file."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    MOVE = "move"  # a new name, namespace or cluster, possibly with other changes
    REPLACE = "replace"  # immutable fields change: a new generation of a job (`moved_from`), `recreated`, or refused


class FieldChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """One field that differs. Items of keyed lists appear in its path by their key, as `containers[name=trainer]`.

    `has_before` and `has_after` distinguish an absent value from null. Values are plain JSON; secrets are masked.
    """

    path: str
    before: Any = None
    after: Any = None
    has_before: bool = True
    has_after: bool = True
    why: Why | None = None


class LiveVersion(Struct, frozen=True, kw_only=True, rename="camel"):
    """The live object that a change was planned from. It must not have moved when the change is applied."""

    uid: str
    resource_version: str


class Change(Struct, frozen=True, kw_only=True, rename="camel"):
    """One object that is created, updated, deleted or moved. `path` is relative to the root of the repository."""

    operation: Operation
    cluster: str
    key: ObjectKey
    path: str
    source: SourceRef | None  # the document that defines it; None for a deletion
    fields: tuple[FieldChange, ...] = ()  # of creations and deletions only for the first 500
    because: tuple[Why, ...] = ()  # distinct reasons, the most frequent first
    moved_from: str = ""  # path before a move, and of the generation that is replaced
    declared: bool = False  # an annotation of the source declares the move
    gpus_before: Gpus = 0
    gpus_after: Gpus = 0
    digest_before: str = ""  # blob ids of the rendered file; empty if it does not exist
    digest_after: str = ""
    sizing: SizingSummary | None = None  # how its GPUs were computed
    queue: str = ""  # that its GPUs are counted in; of a queue: its name
    team: str = ""  # its label `team`
    live: LiveVersion | None = None  # what exists, or is moved or replaced; only in a plan against live clusters
    adopts: bool = False  # the live object is not ours, and becomes ours
    recreated: str = ""  # the annotation because of which the object is deleted and created again under its name

    @property
    def is_refused(self) -> bool:
        """True if the API server would refuse it: it needs a new object, and none was asked for."""
        return self.operation is Operation.REPLACE and not self.moved_from and not self.recreated


class GpuLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """GPUs of one product that the running (not suspended) jobs of one queue request, before and after.

    most: what they may request after it, if all autoscalers and elastic jobs grow; None: no more than `after`.
    most_before: the same before it.
    """

    cluster: str
    queue: str  # empty: no queue
    product: str  # empty: any
    before: Gpus
    after: Gpus
    most: Gpus | None = None
    most_before: Gpus | None = None


class UnknownGpus(Struct, frozen=True, kw_only=True, rename="camel"):
    """A changed object that seems to request GPUs, or to run pods, which no figure includes.

    before, after: what is not counted, with its field, as `gpus: 16 at spec.gpus`; empty where the object does not run.
    """

    cluster: str
    key: ObjectKey
    queue: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    source: SourceRef | None = None


class CostLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """The cost of the GPUs of one product in one queue; None: no price, or no known hours on that side.

    Per hour are all running jobs of the queue. GPU hours are those of the jobs in this plan whose whole run is known.
    """

    cluster: str
    queue: str  # empty: no queue
    product: str  # empty: any, whose price is unknown
    currency: str
    price: float | None  # of a GPU hour: the mean, if a commitment is part of it
    source: str  # of the price
    date: str  # of the price, YYYY-MM-DD
    per_hour_before: float | None
    per_hour_after: float | None
    spot: bool = False
    gpu_hours_before: float | None = None
    gpu_hours_after: float | None = None
    money_before: float | None = None  # for those hours
    money_after: float | None = None


class ClaimChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """The storage that a claim requests, in bytes before and after. `per_month` is the price; None: it is unknown.

    storage_class: empty: the default of the cluster. currency: empty where the cluster has no prices.
    """

    cluster: str
    key: ObjectKey
    storage_class: str
    before: int
    after: int
    currency: str = ""
    per_month_before: float | None = None
    per_month_after: float | None = None
    source: SourceRef | None = None


class QueueLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """The GPU quota of a queue before and after, its limit, and what its jobs request. None: unlimited.

    The limit of a queue by flavor is what it gets at most with all that its cohorts lend. Quota and limit of a cohort
    are for what its members request beyond their own.
    """

    cluster: str
    queue: str
    product: str
    before: float | None
    after: float | None
    limit: float | None
    requested: Gpus
    parent: str = ""  # of a queue in a tree, whose GPUs are part of those of its parent
    is_total: bool = False  # sum of the other lines of the queue, because some of its jobs choose no product
    is_cohort: bool = False
    exists_before: bool = True
    exists_after: bool = True


class CapacityLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """GPUs of one product in the inventory of a cluster, with the sums of all quotas and requests."""

    cluster: str
    product: str
    before: int  # GPUs in the inventory of the base
    capacity: int
    guaranteed: float | None  # None: a queue is unlimited
    requested: Gpus
    evidence_days: int | None = None  # age of an inventory older than a day; of any if `spec.evidence.maxAge` is set


class EvidenceChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """The inventory of a cluster that differs from that of the base. Without one there are no nodes and no date."""

    cluster: str
    nodes_before: int
    nodes_after: int
    taken_before: str
    taken_after: str


class QuarantineLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """A node that the plan takes out of use, or gives back. `word` is `begins`, `ends` or `changes`.

    gpus: that come back, or are lost as a negative number. jobs, requested: running jobs that may use such GPUs, and
    theirs. is_known: the evidence lists the node; otherwise the cost is unknown. evicts: the taint begins to stop
    pods that run; `job_names` are then the first of these jobs.
    """

    cluster: str
    key: ObjectKey
    node: str
    word: str
    check: str
    reason: str
    effect: str
    slots: tuple[str, ...]
    until: str
    product: str
    gpus: int
    jobs: int
    requested: Gpus
    is_known: bool
    evicts: bool = False
    job_names: tuple[str, ...] = ()
    place: SourceRef | None = None


class JobChange(Struct, frozen=True, kw_only=True, rename="camel"):
    """A workload that is added, removed, resized, renamed, moved, replaced, suspended, resumed, finished or run again.

    `word` is one of these, `changed` (as many GPUs of another product, or for other GPU hours) or `refused` (it would
    have to be replaced, and `onImmutableChange: refuse` forbids that).

    key_before, cluster_before: what it was, if it is renamed or moved. range_after: the fewest and the most GPUs that
    it may request, if an autoscaler or the job itself changes them.
    """

    word: str
    cluster: str
    key: ObjectKey
    queue: str
    product: str
    gpus_before: Gpus
    gpus_after: Gpus
    range_after: tuple[Gpus, Gpus] | None = None
    source: SourceRef | None = None
    key_before: ObjectKey | None = None
    cluster_before: str = ""
    gpu_hours_before: float | None = None  # of its whole run; None: unknown
    gpu_hours_after: float | None = None
    money_before: float | None = None  # for these hours; None: unknown
    money_after: float | None = None
    currency: str = ""
    length: str = ""  # what says how long it runs: a field, or earlier runs of its name; empty: sizing, or nothing
    spot: bool = False  # on nodes that a cloud may take back
    gpu_hours_most: float | None = None  # nine of ten earlier runs took at most this
    money_most: float | None = None


class OwnerCost(Struct, frozen=True, kw_only=True, rename="camel"):
    """The cost per hour of the GPUs of one team. `unpriced`: products whose price is unknown, which are not in it."""

    cluster: str
    owner: str
    currency: str
    per_hour_before: float
    per_hour_after: float
    unpriced: tuple[str, ...] = ()


class IdleCost(Struct, frozen=True, kw_only=True, rename="camel"):
    """The cost per hour of GPUs of a queue that did nothing, as the evidence of their use says.

    gpus: those that its workloads held. covered: of them, those whose use was measured.
    idle: the share of the window in which a covered GPU was less than 5 % busy.
    """

    cluster: str
    queue: str
    product: str
    currency: str
    gpus: int
    covered: int
    idle: float | None
    per_hour: float | None  # of the covered ones; None: no price, or nothing is covered
    taken_at: str
    window_seconds: int


class CommitmentUse(Struct, frozen=True, kw_only=True, rename="camel"):
    """GPUs that are paid for, and how many of them workloads request."""

    cluster: str
    product: str
    currency: str
    count: int
    used_before: float
    used_after: float
    unused_per_hour: float  # what those cost that stay unused


class Displaced(Struct, frozen=True, kw_only=True, rename="camel"):
    """A running workload that another one preempts: its GPUs, and for how many seconds it had run."""

    key: ObjectKey
    queue: str
    gpus: Gpus
    seconds: int | None  # None: it is not known when it started
    reason: str  # Kueue's own word


class AdmissionLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """The fate of a workload in its queue after the change, as far as the evidence of use says it.

    verdict: `starts`, `waits`, `preempts` (starts once others were preempted), `never`, `unknown`; of a workload that
    the plan does not change `preempted`; of a queue `over` (it uses more than it may, and what runs keeps running).

    cohort: that of the queue. pods: how many of them start, if not all. observed_at, evidence_days: when the evidence
    was recorded, and its age.
    wait_seconds: the 50th and 90th percentile of what others waited in the queue, of `wait_samples` in `wait_window`.
    """

    cluster: str
    key: ObjectKey
    queue: str
    verdict: str
    reason: str
    cohort: str = ""
    flavors: tuple[str, ...] = ()
    pods: int | None = None
    displaces: tuple[Displaced, ...] = ()
    observed_at: str = ""
    evidence_days: int | None = None
    wait_seconds: tuple[int, int] | None = None
    wait_samples: int = 0
    wait_window: str = ""
    source: SourceRef | None = None


class Harm(StrEnum):
    """The worst effect of a risk, the most harmful first."""

    DATA_LOSS = "data loss"
    DISRUPTION = "disruption"  # running pods stop or wait, or a sync fails
    OTHER = "other"


class KeptSpec(Struct, frozen=True, kw_only=True, rename="camel"):
    """An object that stays as it is, although its source changed these fields.

    `onImmutableChange` says so, or it is a claim that is larger, or shared by more pods, than is needed by now.
    """

    cluster: str
    key: ObjectKey
    path: str
    fields: tuple[str, ...]
    source: SourceRef
    has_spare: bool = False  # a claim that has more than is needed


class Risk(Struct, frozen=True, kw_only=True, rename="camel"):
    """An effect that reverting the commit does not undo. `rule` is a stable id, such as `risk.pvc-data-loss`."""

    rule: str
    cluster: str
    key: ObjectKey
    message: str
    hint: str = ""
    place: SourceRef | None = None
    harm: Harm = Harm.OTHER


class Breach(Struct, frozen=True, kw_only=True, rename="camel"):
    """A budget that the plan exceeds."""

    budget: str
    message: str
    limit: str
    actual: str
    approved: bool = False


class Revision(Struct, frozen=True, kw_only=True, rename="camel"):
    """One side of the comparison: its name, and the ids that identify it."""

    label: str  # `main`, `HEAD`, `working tree`
    commit: str = ""  # empty for the working tree
    tree: str = ""  # digest of its relevant files


class Behind(Struct, frozen=True, kw_only=True, rename="camel"):
    """The changes of the base branch since the merge base, which the plan does not contain.

    `rendered` of the `files` are rendered objects. The change itself edits the files `both`, and `more`.
    """

    commit: str  # tip of the base branch
    files: int
    rendered: int
    both: tuple[str, ...] = ()
    more: int = 0


class LiveState(Struct, frozen=True, kw_only=True, rename="camel"):
    """A live cluster that the plan was compared with.

    unchecked: objects that only the apply can check on the server, because the plan creates what they need.
    unknown: objects of kinds that could not be read. Nothing is planned for them. is_blind: it is not known which
        objects are ours.
    """

    cluster: str
    server: str
    version: str
    objects: int  # that exist and are ours
    unchecked: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    is_blind: bool = False


class Drift(Struct, frozen=True, kw_only=True, rename="camel"):
    """A field of a live object that is not what Git says, although no edit of Git explains it.

    managers: who set it, as `name (operation, time)`; empty if somebody removed it, or nobody owns it.
    last_writer: of a removed field, who wrote the object last: objects do not tell who removed something.
    live, git: values; secrets are masked. field: empty for the whole object: deleted, or `live` says whose it is now.
    action: `revert`, or it stays: `adopt` (an edit of the source is proposed), `ignore`, `contested` (somebody keeps
        changing it back), `foreign` (the object is not ours any more). reason, expires: those of the rule that decided.
    """

    cluster: str
    key: ObjectKey
    path: str  # of the rendered file
    field: str
    live: Any = None
    git: Any = None
    has_live: bool = True
    has_git: bool = True
    managers: tuple[str, ...] = ()
    last_writer: str = ""
    source: SourceRef | None = None
    action: str = "revert"
    reason: str = ""
    expires: str = ""

    @property
    def who(self) -> str:
        """The author of a field, or of an object that is not ours any more, in words."""
        if self.managers:
            return ", ".join(self.managers)
        if self.has_live:
            return "somebody unknown" if self.field else "nobody else"
        last = f" (last written by {self.last_writer})" if self.last_writer else ""
        return f"somebody who removed it{last}"


class PlacedWorkload(Struct, frozen=True, kw_only=True, rename="camel"):
    """The nodes that a workload would run on: a forecast, which the scheduler of the cluster may not follow.

    word: `starts`, `waits` (for room), `queued` (for quota, as the forecast of its admission says), or `unknown`;
    before: the same without the plan, for one that waits already.
    nodes: each with the number of pods. racks: how many domains of the topology these are in.
    guaranteed_by: what the cluster is bound by: `nodeAffinity`, `Kueue TAS`, `KAI`, `DRA`, or `forecast only`.
    why: the reason for which it does not start. notes: what speaks against its nodes.
    """

    key: ObjectKey
    word: str
    gpus: Gpus
    strategy: str
    nodes: tuple[tuple[str, int], ...] = ()
    racks: int = 0
    guaranteed_by: str = ""
    why: str = ""
    notes: tuple[str, ...] = ()
    before: str = ""
    source: SourceRef | None = None


class PlacementLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """The placement of a cluster before and after a plan. unknown: why it cannot be told; the rest is then empty.

    gpus: of open nodes. used: in use now. allocated: with what waits and is new. stranded: free GPUs that the typical
    mix of pods cannot use. days: age of the evidence.
    """

    cluster: str
    strategy: str
    observed_at: str = ""
    days: int | None = None
    unknown: str = ""
    gpus: Gpus = 0
    used: Gpus = 0
    allocated_before: Gpus = 0
    allocated_after: Gpus = 0
    stranded_before: Gpus = 0
    stranded_after: Gpus = 0
    racks_before: int = 0
    racks_after: int = 0
    workloads: tuple[PlacedWorkload, ...] = ()
    excluded: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


NEW_FIELDS = frozenset(("admissions",))
"""Fields of a plan that are not written while they are empty, so that plans without them stay as they were."""


class Plan(Struct, frozen=True, kw_only=True, rename="camel"):
    """The whole plan. `digest` identifies both trees, the evidence, the policies and the version of the engine."""

    engine: str
    base: Revision
    head: Revision
    evidence: str
    policies: str
    behind: Behind | None = None
    settings: tuple[SettingChange, ...] = ()  # settings and rules that differ from those of the base
    changes: tuple[Change, ...] = ()
    unchanged: int = 0
    gpus: tuple[GpuLine, ...] = ()
    unknown_gpus: tuple[UnknownGpus, ...] = ()
    queues: tuple[QueueLine, ...] = ()
    capacity: tuple[CapacityLine, ...] = ()
    evidence_changes: tuple[EvidenceChange, ...] = ()
    quarantines: tuple[QuarantineLine, ...] = ()
    health_policies: tuple[PolicyEffect, ...] = ()
    jobs: tuple[JobChange, ...] = ()
    placement: tuple[PlacementLine, ...] = ()  # of clusters with evidence of use, where GPUs change
    admissions: tuple[AdmissionLine, ...] = ()  # only of clusters with evidence of use
    claims: tuple[ClaimChange, ...] = ()  # whose storage is added, removed or resized
    costs: tuple[CostLine, ...] = ()  # only of clusters with prices, as of the next three
    owners: tuple[OwnerCost, ...] = ()
    commitments: tuple[CommitmentUse, ...] = ()
    idle: tuple[IdleCost, ...] = ()
    risks: tuple[Risk, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    exceptions: tuple[ExceptionInForce, ...] = ()
    problems: tuple[Problem, ...] = ()
    edited: tuple[str, ...] = ()  # rendered files of the head that differ from the base and from what it renders
    kept_specs: tuple[KeptSpec, ...] = ()
    held_back: tuple[str, ...] = ()  # rendered files left unchanged: the source has errors or waits for an answer
    breaches: tuple[Breach, ...] = ()
    approvals: tuple[Approval, ...] = ()
    clusters: tuple[LiveState, ...] = ()  # only in a plan against live clusters
    drift: tuple[Drift, ...] = ()
    review: bool = False  # nothing is rendered into the repository: Argo CD or Flux builds the sources
    approval_digest: str = ""  # what an approval names
    digest: str = ""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Problems that prevent a commit."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    @property
    def denials(self) -> tuple[Verdict, ...]:
        """Verdicts that prevent a commit."""
        return tuple(verdict for verdict in self.verdicts if verdict.result in (Result.DENY, Result.ERROR))

    @property
    def is_live(self) -> bool:
        """True if it was compared with live clusters instead of `rendered/`."""
        return bool(self.clusters)

    @property
    def has_changes(self) -> bool:
        """True if objects, settings or evidence change."""
        return bool(self.changes or self.settings or self.evidence_changes)

    @property
    def unapproved(self) -> tuple[Breach, ...]:
        """Exceeded budgets that no approval allows. They prevent a commit."""
        return tuple(breach for breach in self.breaches if not breach.approved)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to create, update, delete or move."""
        return not self.changes
