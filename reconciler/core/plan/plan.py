"""The plan: a value that says everything a reviewer needs, and that outputs only show or carry out."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.core.objects import ObjectKey, SourceRef
from reconciler.core.policy.exceptions import ExceptionInForce
from reconciler.core.policy.verdict import Result, Verdict
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Why
from reconciler.core.sizing.summary import SizingSummary


class Operation(StrEnum):
    """What happens to one rendered file."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    MOVE = "move"  # the same object under a new name, namespace or cluster, possibly edited as well


class FieldChange(Struct, frozen=True, kw_only=True):
    """One field that differs. `path` is for people: keyed list items read `containers[name=trainer]`.

    `has_before`/`has_after` tell an absent value from a null. Values are plain JSON; secret ones are already masked.
    """

    path: str
    before: Any = None
    after: Any = None
    has_before: bool = True
    has_after: bool = True
    why: Why | None = None


class Change(Struct, frozen=True, kw_only=True):
    """One object that is created, updated, deleted or moved. `path` is below the repository's root."""

    operation: Operation
    cluster: str
    key: ObjectKey
    path: str
    source: SourceRef | None  # the document that asks for it; of a deletion: none
    fields: tuple[FieldChange, ...] = ()  # of creations and deletions: for the first 500 of a plan
    because: tuple[Why, ...] = ()  # distinct reasons, most weighty first
    moved_from: str = ""  # path before a move
    gpus_before: int = 0
    gpus_after: int = 0
    digest_before: str = ""  # blob ids of the written bytes; empty where there is no file on that side
    digest_after: str = ""
    sizing: SizingSummary | None = None  # how its GPUs were computed


class GpuLine(Struct, frozen=True, kw_only=True):
    """GPUs asked for by running (not suspended) jobs of one queue on one product: before and after."""

    cluster: str
    queue: str  # empty: outside any queue
    product: str  # empty: any
    before: int
    after: int


class QueueLine(Struct, frozen=True, kw_only=True):
    """A queue's guaranteed GPUs before and after, what its jobs ask for, and what the cluster has. None: unlimited."""

    cluster: str
    queue: str
    product: str
    before: float | None
    after: float | None
    limit: float | None
    requested: int
    exists_before: bool = True
    exists_after: bool = True


class CapacityLine(Struct, frozen=True, kw_only=True):
    """GPUs of one product that the evidence knows, and how much of it all queues guarantee: over- and under-commit."""

    cluster: str
    product: str
    capacity: int
    guaranteed: float | None  # None: some queue is unlimited
    requested: int


class JobChange(Struct, frozen=True, kw_only=True):
    """A workload in one word: added, removed, resized, suspended or resumed."""

    word: str
    cluster: str
    key: ObjectKey
    queue: str
    product: str
    gpus_before: int
    gpus_after: int
    source: SourceRef | None = None


class Risk(Struct, frozen=True, kw_only=True):
    """Something a reviewer must see before approving: `rule` is stable (`risk.pvc-data-loss`)."""

    rule: str
    cluster: str
    key: ObjectKey
    message: str
    hint: str = ""
    place: SourceRef | None = None


class Breach(Struct, frozen=True, kw_only=True):
    """A budget that the plan exceeds."""

    budget: str
    message: str
    limit: str
    actual: str


class Revision(Struct, frozen=True, kw_only=True):
    """One side of the comparison: what the user called it, and the ids that pin it."""

    label: str  # `main`, `HEAD`, `working tree`
    commit: str = ""  # empty for the working tree
    tree: str = ""  # digest over the files that matter


class Plan(Struct, frozen=True, kw_only=True):
    """Everything. `digest` binds it to both trees, the evidence, the policies and the engine."""

    engine: str
    base: Revision
    head: Revision
    evidence: str
    policies: str
    changes: tuple[Change, ...] = ()
    unchanged: int = 0
    gpus: tuple[GpuLine, ...] = ()
    queues: tuple[QueueLine, ...] = ()
    capacity: tuple[CapacityLine, ...] = ()
    jobs: tuple[JobChange, ...] = ()
    risks: tuple[Risk, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    exceptions: tuple[ExceptionInForce, ...] = ()
    problems: tuple[Problem, ...] = ()
    held_back: tuple[str, ...] = ()  # rendered paths left untouched: their source has errors or waits for an answer
    breaches: tuple[Breach, ...] = ()
    acknowledged: bool = False
    digest: str = ""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """Problems that stop a commit."""
        return tuple(problem for problem in self.problems if problem.severity is Severity.ERROR)

    @property
    def denials(self) -> tuple[Verdict, ...]:
        """Verdicts that stop a commit."""
        return tuple(verdict for verdict in self.verdicts if verdict.result in (Result.DENY, Result.ERROR))

    @property
    def is_empty(self) -> bool:
        """Nothing to create, update, delete or move."""
        return not self.changes
