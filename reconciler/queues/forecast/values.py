"""The values of a forecast: queues with their policies, workloads, and verdicts.

Amounts are integers as Kueue counts them: cpu in thousandths, memory in bytes, all others in units, rounded up.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

Cell = tuple[str, str]
"""A flavor and a resource."""

Amounts = dict[Cell, int]

NEVER, ANY, LOWER, NEWER_EQUAL = "Never", "Any", "LowerPriority", "LowerOrNewerEqualPriority"
TRY_NEXT = "TryNextFlavor"
PREEMPT_FIRST = "PreemptionOverBorrowing"
FINAL_SHARE, INITIAL_SHARE = "LessThanOrEqualToFinalShare", "LessThanInitialShare"


def written(resource: str, amount: int) -> str:
    """Return an amount as people write it."""
    if resource == "cpu":
        return f"{amount / 1000:g}"
    return f"{amount / (1 << 30):.3g}Gi" if resource in ("memory", "ephemeral-storage") else str(amount)


class FitMode(IntEnum):
    """The ways to get an assignment of flavors, from the worst."""

    NO_FIT = 0
    PREEMPT = 1
    FIT = 3


class CellLimits(NamedTuple):
    """The quota of a queue or cohort for a cell; without a limit it borrows and lends all."""

    nominal: int
    borrowing: int | None = None
    lending: int | None = None


class FlavorGroup(NamedTuple):
    """Resources that come from the same flavor, and these flavors in the order of the attempts."""

    resources: frozenset[str]
    flavors: tuple[str, ...]


class AdmissionPolicies(NamedTuple):
    """The policies of a ClusterQueue: `spec.preemption`, `spec.flavorFungibility` and `spec.queueingStrategy`.

    threshold: the greatest priority that is preempted while borrowing; None: any.
    """

    within: str = NEVER
    reclaim: str = NEVER
    borrow: str = NEVER
    threshold: int | None = None
    can_borrow: str = ""
    can_preempt: str = TRY_NEXT
    preference: str = ""
    is_strict: bool = False


class PodSetAsk(NamedTuple):
    """The pods of one template: how many, how few may start, and what each of them requests.

    excluded: the flavors that do not take them, with the reason.
    """

    name: str
    pods: int
    requests: tuple[tuple[str, int], ...]
    least: int = 0
    excluded: tuple[tuple[str, str], ...] = ()


class HeldQuota(NamedTuple):
    """The usage of an admitted workload, and the time at which it got its quota."""

    usage: tuple[tuple[Cell, int], ...]
    since: float


class QueuedWorkload(Struct, frozen=True, kw_only=True):
    """A workload in a queue. `created` and `since` are seconds of one clock; `running` is None while it waits."""

    name: str
    queue: str
    priority: int = 0
    created: float = 0.0
    sets: tuple[PodSetAsk, ...] = ()
    running: HeldQuota | None = None

    @property
    def order(self) -> tuple[int, float, str]:
        """Its place in the queue: the higher priority first, then the older, then the name."""
        return (-self.priority, self.created, self.name)


class QueueNodeSpec(Struct, frozen=True, kw_only=True):
    """A ClusterQueue (with groups) or a cohort. `parent` is the cohort above it; empty if there is none."""

    name: str
    parent: str = ""
    limits: Mapping[Cell, CellLimits]
    groups: tuple[FlavorGroup, ...] = ()
    policies: AdmissionPolicies = AdmissionPolicies()
    weight: float = 1.0
    is_stopped: bool = False


class FairSharing(NamedTuple):
    """The setting `fairSharing` of Kueue: its strategies of preemption."""

    strategies: tuple[str, ...] = (FINAL_SHARE, INITIAL_SHARE)


class PreemptedWorkload(NamedTuple):
    """A workload that is preempted: by which one, and why (Kueue's reason)."""

    by: str
    reason: str


class AdmittedWorkload(NamedTuple):
    """The flavors of an admitted workload, by pod set and resource, and the pods that start."""

    flavors: tuple[Mapping[str, str], ...]
    counts: tuple[int, ...]
    borrows: bool = False


class Shortfall(NamedTuple):
    """A reason that keeps a workload from a flavor. is_final: no quota that others give back ever changes that."""

    text: str
    is_final: bool = False


class ForecastOutcome(Struct, kw_only=True):
    """The result of a forecast. `preempted` are all that lose their quota, even those that get another one later.

    reasons: of those that wait. over: by queue, what it uses beyond its quota and all that it may borrow.
    """

    admitted: dict[str, AdmittedWorkload]
    preempted: dict[str, PreemptedWorkload]
    reasons: dict[str, tuple[Shortfall, ...]]
    over: dict[str, dict[Cell, int]] = {}
