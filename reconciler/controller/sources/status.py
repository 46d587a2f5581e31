"""`SourceStatus`: what a source's conditions say, as kstatus reads them, and how one pass changes it."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.controller.contested import FieldReverts, note_reverts
from reconciler.controller.outcome import PassFailure, PassOutcome, PlanSummary
from reconciler.controller.sources.source import ConfigSource

_HISTORY = 5
READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"
SUCCEEDED, PROGRESSING, RETRYING = "ReconciliationSucceeded", "Progressing", "ProgressingWithRetry"


class Condition(Struct, frozen=True, kw_only=True, rename="camel"):
    """A condition of the Kubernetes API. `last_transition_time` changes only with `status`."""

    type: str
    status: str
    reason: str
    message: str = ""
    last_transition_time: str = ""
    observed_generation: int = 0


class HistoryEntry(Struct, frozen=True, kw_only=True, rename="camel"):
    """Passes with the same plan and the same result."""

    digest: str
    status: str
    revision: str
    first_reconciled: str
    last_reconciled: str
    total_reconciliations: int = 1


class SourceStatus(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The status of a source. It is all that a replica which takes over needs to know."""

    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    last_handled_reconcile_at: str = ""
    last_attempted_revision: str = ""
    last_revision: str = ""  # of the last successful pass
    last_commit: str = ""  # its id, by which the next plan is judged
    last_pushed: str = ""  # the last commit that was pushed
    last_sync_time: str = ""  # of the last successful pass
    tips: dict[str, str] = {}  # the references after the last pass, by which a change is noticed
    plan: PlanSummary | None = None
    reverts: tuple[FieldReverts, ...] = ()  # drifted fields that were set back lately, by which fights are noticed
    changes: tuple[str, ...] = ()  # the first objects that the last pass with changes changed, and why
    failures: int = 0  # in a row, for the back-off
    history: tuple[HistoryEntry, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        """Return a condition; None if it is absent."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    @property
    def is_ready(self) -> bool:
        """True if the last pass succeeded."""
        ready = self.condition(READY)
        return ready is not None and ready.status == "True"

    def body(self) -> dict[str, object]:
        """Return it as the status of the object."""
        body: dict[str, object] = msgspec.to_builtins(self)
        return body


def parse_status(body: object) -> SourceStatus:
    """Read the status of an object; one that is not ours counts as none."""
    try:
        return msgspec.convert(body or {}, SourceStatus)
    except msgspec.ValidationError:
        return SourceStatus()


def started(status: SourceStatus, source: ConfigSource, now: str) -> SourceStatus:
    """Return the status while a new generation of the source is read for the first time."""
    if status.observed_generation == source.generation:
        return status
    message = "reconciling the new specification"
    changed = {
        READY: ("Unknown", PROGRESSING, message),
        RECONCILING: ("True", PROGRESSING, message),
    }
    return replace(status, conditions=_conditions(status.conditions, changed, source.generation, now))


def finished(status: SourceStatus, source: ConfigSource, outcome: PassOutcome, now: str) -> SourceStatus:
    """Return the status after a pass."""
    failed = outcome.failure
    plan = outcome.plan or status.plan
    common = replace(
        status,
        conditions=_conditions(status.conditions, _changed(failed, outcome), source.generation, now),
        last_handled_reconcile_at=source.requested_at,
        last_attempted_revision=outcome.revision or status.last_attempted_revision,
        last_pushed=outcome.pushed or status.last_pushed,
        tips=outcome.tips,
        plan=plan,
        reverts=_reverts(status, source, outcome, now),
        changes=outcome.objects or status.changes,
        failures=status.failures + 1 if failed else 0,
        history=_history(status.history, outcome, now),
    )
    if failed and not failed.stalled:
        return common
    done = replace(common, observed_generation=source.generation)
    if failed:
        return done
    return replace(done, last_revision=outcome.revision, last_commit=outcome.commit, last_sync_time=now)


def _reverts(status: SourceStatus, source: ConfigSource, outcome: PassOutcome, now: str) -> tuple[FieldReverts, ...]:
    """Return the fields that were set back; a new revision, specification or request starts afresh."""
    is_same = outcome.revision in ("", status.last_attempted_revision)
    asked_again = source.requested_at != status.last_handled_reconcile_at
    is_new = not is_same or asked_again or source.generation != _seen_generation(status)
    known = () if is_new else status.reverts
    return note_reverts(known, outcome.reverted, outcome.contested, now, source.interval)


def _seen_generation(status: SourceStatus) -> int:
    """Return the newest generation that a condition is about."""
    return max((condition.observed_generation for condition in status.conditions), default=0)


def is_news(before: SourceStatus, after: SourceStatus) -> bool:
    """Tell whether a status differs in more than times: an object that is written at every pass wakes its watchers."""

    def content(status: SourceStatus) -> SourceStatus:
        return replace(status, last_sync_time="", history=())

    return content(before) != content(after)


def _changed(failed: PassFailure | None, outcome: PassOutcome) -> dict[str, tuple[str, str, str]]:
    """Return the conditions to have, by type: status, reason and message."""
    if failed is None:
        message = f"{outcome.revision}: {outcome.message}" if outcome.message else outcome.revision
        return {READY: ("True", SUCCEEDED, message)}
    ready = ("False", failed.reason, failed.message)
    if failed.stalled:
        return {READY: ready, STALLED: ("True", failed.reason, failed.message)}
    return {READY: ready, RECONCILING: ("True", RETRYING, failed.message)}


def _conditions(
    before: Sequence[Condition], changed: Mapping[str, tuple[str, str, str]], generation: int, now: str
) -> tuple[Condition, ...]:
    """Return conditions; Reconciling and Stalled exist only while they are true."""
    known = {condition.type: condition for condition in before}
    made = []
    for kind in (READY, RECONCILING, STALLED):
        if kind in changed:
            status, reason, message = changed[kind]
            old = known.get(kind)
            since = old.last_transition_time if old and old.status == status else now
            made.append(
                Condition(
                    type=kind,
                    status=status,
                    reason=reason,
                    message=message,
                    last_transition_time=since,
                    observed_generation=generation,
                )
            )
    return tuple(made)


def _history(before: Sequence[HistoryEntry], outcome: PassOutcome, now: str) -> tuple[HistoryEntry, ...]:
    """Add a pass; the newest comes first. One with the digest and result of another joins it."""
    digest = outcome.plan.digest if outcome.plan else ""
    status = outcome.failure.reason if outcome.failure else SUCCEEDED
    same = next((entry for entry in before if (entry.digest, entry.status) == (digest, status)), None)
    newest = HistoryEntry(
        digest=digest,
        status=status,
        revision=outcome.revision,
        first_reconciled=same.first_reconciled if same else now,
        last_reconciled=now,
        total_reconciliations=same.total_reconciliations + 1 if same else 1,
    )
    return (newest, *(entry for entry in before if entry is not same))[:_HISTORY]
