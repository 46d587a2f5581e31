"""`PassOutcome`: what one pass over a source did, and why it failed if it did."""

import errno
import os
from collections import Counter

from msgspec import Struct

from reconciler.controller.contested import RevertedField
from reconciler.controller.tracing import TraceSpan
from reconciler.controller.use import ClusterUse
from reconciler.errors import (
    ConfigError,
    InvalidInput,
    OutsideError,
    PolicyDenied,
    ReconcilerError,
    RemoteError,
    StalePlan,
    Terminated,
    UnsafePlan,
    one_line,
)
from reconciler.kube.secrets import mask_text
from reconciler.kube.values import plural
from reconciler.nodehealth.exports.fleet_gauges import FleetSamples
from reconciler.plan import Plan
from reconciler.plan.gpus import guarantee_delta, sum_of_trees

_MESSAGE_LENGTH = 1000
_DISK_FULL = os.strerror(errno.ENOSPC)


class PlanSummary(Struct, frozen=True, kw_only=True):
    """The figures of a plan in conditions and metrics, without names of objects."""

    digest: str = ""
    changes: dict[str, int] = {}  # by operation
    results: dict[str, int] = {}  # verdicts, by result
    gpus: dict[str, float] = {}  # guaranteed GPUs, by product: after minus before
    drift: int = 0  # changes on a cluster since the same revision was applied
    breaches: tuple[str, ...] = ()  # budgets that are exceeded without an approval

    @property
    def text(self) -> str:
        """A line such as `2 changes pending (1 create, 1 delete)`."""
        total = sum(self.changes.values())
        if not total:
            return "no changes pending"
        parts = ", ".join(f"{count} {operation}" for operation, count in sorted(self.changes.items()))
        return f"{plural(total, 'change')} pending ({parts})"


NOT_READY = "NotReady"
"""The reason of a pass that did everything, and after which objects are not ready yet."""


class PassFailure(Struct, frozen=True, kw_only=True):
    """The reason of a failed pass. `stalled`: only a change of the input helps, so it waits for the next interval."""

    reason: str
    message: str
    stalled: bool = False
    retry_after: float = 0.0

    @property
    def is_waiting(self) -> bool:
        """True if nothing went wrong, and objects need more time."""
        return self.reason == NOT_READY


class PassOutcome(Struct, frozen=True, kw_only=True):
    """The result of one pass."""

    revision: str = ""  # `main@sha1:<id>`
    commit: str = ""  # the id that was read, or made
    committed_at: str = ""  # time of the commit that was read
    tips: dict[str, str] = {}  # the references of the source after the pass
    plan: PlanSummary | None = None
    pushed: str = ""  # the id of a new commit
    push_result: str = ""  # pushed, unchanged, stale or rejected
    operations: dict[str, int] = {}  # applied objects, by action and result: `created success`
    objects: tuple[str, ...] = ()  # what was done to the first of them, and why
    is_applied: bool = False  # an earlier pass applied the same revision
    conflicts: int = 0
    reverted: tuple[RevertedField, ...] = ()  # drifted fields that were set back
    contested: tuple[RevertedField, ...] | None = None  # drifted fields that stay after a fight; None: not known
    message: str = ""
    failure: PassFailure | None = None
    spans: tuple[TraceSpan, ...] = ()
    gauges: dict[str, FleetSamples] = {}  # of node health, by cluster
    use: dict[str, ClusterUse] | None = None  # of GPUs, by cluster; None: the pass did not get that far


def summarize(plan: Plan) -> PlanSummary:
    """Count what a plan holds."""
    products = sorted({line.product for line in plan.queues if guarantee_delta(line)})
    gpus = {
        product: sum_of_trees([line for line in plan.queues if line.product == product], guarantee_delta)
        for product in products
    }
    return PlanSummary(
        digest=plan.digest,
        changes=dict(Counter(change.operation.value for change in plan.changes)),
        results=dict(Counter(verdict.result.value for verdict in plan.verdicts)),
        gpus={product: change for product, change in gpus.items() if change},
        breaches=tuple(breach.budget for breach in plan.unapproved),
    )


_REASONS: tuple[tuple[type[BaseException], str, bool], ...] = (
    (InvalidInput, "InvalidInput", True),
    (PolicyDenied, "PolicyDenied", True),
    (UnsafePlan, "UnsafePlan", True),
    (StalePlan, "StalePlan", False),
    (ConfigError, "InvalidConfiguration", True),
    (OutsideError, "OutsideFailed", False),
    (Terminated, "Interrupted", False),
    (KeyboardInterrupt, "Interrupted", False),
)
"""The errors, the reason of each, and whether it stalls. The first match counts."""


def failure(error: BaseException) -> PassFailure:
    """Tell an error as conditions do: without secrets, in one line."""
    text = str(error)
    if isinstance(error, InvalidInput) and error.problems:
        more = len(error.problems) - 1
        text = f"{error.problems[0]}" + (f" and {plural(more, 'more error')}" if more else "")
    if isinstance(error, RemoteError):
        reason, stalled = error.reason, not error.retryable
    elif known := next((row for row in _REASONS if isinstance(error, row[0])), None):
        reason, stalled = known[1], known[2]
    else:
        reason, stalled = "InternalError", False
        text = text if isinstance(error, ReconcilerError) else f"{type(error).__name__}: {text}"
    if isinstance(error, OutsideError) and _DISK_FULL in text:
        reason = "DiskFull"
    retry_after = getattr(error, "retry_after", None) or 0.0
    return PassFailure(
        reason=reason,
        message=one_line(mask_text(text), _MESSAGE_LENGTH),
        stalled=stalled,
        retry_after=float(retry_after),
    )
