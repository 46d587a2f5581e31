"""The state of a fleet: facts about its nodes, and what the evaluator keeps between two rounds."""

from collections.abc import Iterator, Mapping
from enum import StrEnum

from msgspec import Struct, field

from reconciler.nodehealth.findings import FindingSeverity, ProbeProfile, RepairAction
from reconciler.nodehealth.policy import Lane


class HealthPhase(StrEnum):
    """The lifecycle of a node. The label `gpureconciler.io/health` has these values."""

    HEALTHY = "healthy"
    SUSPECT = "suspect"
    QUARANTINED = "quarantined"
    DRAINING = "draining"
    REMEDIATING = "remediating"
    VALIDATING = "validating"
    PROBATION = "probation"
    RETIRED = "retired"

    @property
    def is_out(self) -> bool:
        """True if we keep new work off the node."""
        return self in _OUT


_OUT = frozenset(
    {
        HealthPhase.QUARANTINED,
        HealthPhase.DRAINING,
        HealthPhase.REMEDIATING,
        HealthPhase.VALIDATING,
        HealthPhase.RETIRED,
    }
)


class FleetNode(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node in Kubernetes. `cordoned` and `tainted` are the work of others, never ours.

    owner: another system that repairs this node, such as `nvsentinel` or `karpenter`; we only observe then.
    unfenced: a person took our taint off. drained: no pod with GPUs is left, asked only while the node is drained.
    jobs: jobs that ended well since its probation began.
    """

    name: str
    uid: str = ""
    pool: str = ""
    product: str = ""
    gpus: int = 0
    labels: Mapping[str, str] = {}
    ready: bool = True
    cordoned: bool = False
    tainted: bool = False
    owner: str = ""
    unfenced: bool = False
    drained: bool = False
    jobs: int = 0
    boot_id: str = ""

    @property
    def is_available(self) -> bool:
        """True if Kubernetes would place work here, apart from what we do."""
        return self.ready and not self.cordoned and not self.tainted


class CheckFailure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A failed check of a node or a slot, until an equal or heavier pass ends it.

    What was seen: `message`, `codes` of Xids, `seen` and `advised` (severity and action), `is_warning`; `recent`: the
    newest results, newest last, at most N of them; `passing_since`: the first of the passes since, 0: none; `agreed`:
    enough reports did so once. What the policy of today makes of it: `severity`, `action`, `lane`, `enforced`, `acts`
    (no shadow), and `cause`, which the breaker counts by.
    """

    check: str
    slot: str = ""
    uuid: str = ""
    message: str = ""
    codes: tuple[int, ...] = ()
    seen: FindingSeverity = FindingSeverity.INFO
    advised: RepairAction = RepairAction.NONE
    is_warning: bool = False
    severity: FindingSeverity = FindingSeverity.INFO
    action: RepairAction = RepairAction.NONE
    profile: ProbeProfile = ProbeProfile.LIGHT
    lane: Lane = Lane.REVIEWED
    enforced: bool = False
    acts: bool = False
    cause: str = ""
    boot_id: str = ""
    first: float = 0.0
    last: float = 0.0
    recent: tuple[bool, ...] = (True,)
    passing_since: float = 0.0
    agreed: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """Check and slot."""
        return self.check, self.slot

    @property
    def text(self) -> str:
        """The codes as a report names them, else the message."""
        return f"Xid {', '.join(map(str, self.codes))}" if self.codes else self.message

    @property
    def is_strong(self) -> bool:
        """True if one report is enough."""
        return self.severity is FindingSeverity.FATAL

    def is_confirmed(self, confirmations: int) -> bool:
        """Say whether enough reports agree."""
        return self.is_strong or sum(self.recent) >= confirmations

    @property
    def is_failing(self) -> bool:
        """True if it has not passed since."""
        return not self.passing_since

    @property
    def is_fast(self) -> bool:
        """True if the policy of today lets the fast lane act on it."""
        return self.enforced and self.lane is Lane.FAST


class NodeState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of one node. Times are in seconds since the epoch.

    ours: the fast lane put our taint on it, for `cause`. until: when that ends, if the check passes by then. renewals:
    how often it was prolonged because the check still failed. returns: when the node went back into use after a
    quarantine. flaps: when checks began to fail. excused: the failures that a person overrode; empty is all.
    unbound: a quarantine without a UID that was for an earlier node of this name. proposed_at: of the open proposal;
    `renewals` then count its days. waits: it came back too often to do so again before a person has decided.
    """

    phase: HealthPhase = HealthPhase.HEALTHY
    since: float = 0.0
    uid: str = ""
    boot_id: str = ""
    measured_at: float = 0.0
    received_at: float = 0.0
    gpus: Mapping[str, str] = {}  # UUID by slot
    failures: tuple[CheckFailure, ...] = ()
    validated_at: float = 0.0  # the last deep pass without failures
    ours: bool = False
    cause: str = ""
    merged: bool = False
    until: float = 0.0
    renewals: int = 0
    returns: tuple[float, ...] = ()
    flaps: Mapping[str, tuple[float, ...]] = {}
    override_until: float = 0.0
    excused: tuple[tuple[str, str], ...] = ()
    unbound: str = ""
    proposed_at: float = 0.0
    waits: bool = False

    def is_excused(self, failure: CheckFailure, now: float) -> bool:
        """Say whether a person decided that this failure leads to nothing for now."""
        return self.override_until > now and (not self.excused or failure.key in self.excused)

    def returned(self, now: float, window: float) -> int:
        """Return how often the node came back within a time."""
        return sum(now - one < window for one in self.returns)


class Admission(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One quarantine that the breaker let through. is_planned: the node was cordoned already, so it costs nothing."""

    at: float
    node: str
    pool: str = ""
    product: str = ""
    cause: str = ""
    is_planned: bool = False


class Onset(Struct, frozen=True, kw_only=True):
    """A cause that began on a node."""

    at: float
    check: str
    node: str


class BreakerState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The memory of the breaker.

    tripped: the reason why nothing is admitted at all. frozen: the reasons by cause, pool or both; `frozen_at` those of
    them that stay until they thaw, with their times.
    """

    generation: int = 0
    tripped: str = ""
    tripped_at: float = 0.0
    frozen: Mapping[str, str] = {}
    frozen_at: Mapping[str, float] = {}
    admitted: tuple[Admission, ...] = ()
    onsets: tuple[Onset, ...] = ()


class FleetState(Struct, frozen=True, kw_only=True):
    """Everything that is kept between two rounds. It can be written as JSON and read again."""

    nodes: Mapping[str, NodeState] = field(default_factory=dict)
    breaker: BreakerState = BreakerState()


def confirmed(state: NodeState, confirmations: int) -> Iterator[CheckFailure]:
    """Yield the failures that enough reports agree on and a policy acts on, fatal ones first."""
    ranked = sorted(state.failures, key=lambda one: (not one.is_strong, one.first, one.key))
    return (one for one in ranked if one.acts and one.is_failing and one.is_confirmed(confirmations))
