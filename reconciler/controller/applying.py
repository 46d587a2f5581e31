"""Mode apply: a revision is planned against live clusters and carried out there, one pass after the other."""

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from reconciler import wiring
from reconciler.app.apply import Applied, apply
from reconciler.app.apply.work import plan_work
from reconciler.controller.outcome import PassFailure, PassOutcome, failure, summarize
from reconciler.controller.refusing import refuse_in_full
from reconciler.controller.sources.source import ConfigSource
from reconciler.controller.tracing import Trace
from reconciler.core.apply.results import Ending, StepResult
from reconciler.core.apply.steps import Verb
from reconciler.core.secrets import mask_text
from reconciler.core.values import plural
from reconciler.errors import one_line
from reconciler.wiring.apply import apply_runs
from reconciler.wiring.cluster import ClusterFlags, open_clusters

_MAX_NAMED = 3
_ACTIONS = {Verb.CREATE: "created", Verb.DELETE: "deleted"}
_ENDINGS = {
    Ending.UNCHANGED: "unchanged",
    Ending.EXCLUDED: "skipped",
    Ending.SKIPPED: "skipped",
    Ending.NOT_STARTED: "skipped",
    Ending.UNKNOWN: "unknown",
}


def acting_as(source: ConfigSource, access: ClusterFlags) -> ClusterFlags:
    """Return how to reach the cluster: as the service account of the source, if it names one."""
    if not source.service_account:
        return access
    user = f"system:serviceaccount:{source.namespace}:{source.service_account}"
    return replace(access, user=user, groups=())


def apply_revision(
    outcome: PassOutcome,
    run: wiring.Run,
    access: ClusterFlags,
    *,
    environ: Mapping[str, str],
    base: str,
    accepted: str,
    trace: Trace,
) -> PassOutcome:
    """Plan a revision against its clusters and apply the plan, whose preconditions are those of this moment.

    accepted: the commit that the last successful pass applied; what differs from it on a cluster is drift.
    """
    with open_clusters(access, environ, run) as clusters:
        with trace.stage("plan"):
            work = plan_work(run.workspace, clusters, base=base, date=run.settings.date)
        summary = summarize(work.plan)
        drift = sum(summary.changes.values()) if accepted == outcome.commit else 0
        outcome = replace(outcome, plan=replace(summary, drift=drift), message=summary.text)
        try:
            refuse_in_full(work.plan)
            with trace.stage("apply"):
                runs = apply_runs(run, clusters, environ, wait_seconds=0.0, advance=lambda _: None, tell=lambda _: None)
                applied = apply(runs, work.plan, work)
        except Exception as error:  # noqa: BLE001 - told as the failure of this revision
            return replace(outcome, failure=failure(error))
    results = [result for one in applied for result in one.results]
    counts = count_operations(results)
    done = sum(
        count for name, count in counts.items() if name.partition(" ")[0] in ("created", "configured", "deleted")
    )
    message = f"applied {plural(done, 'change')}" if done else "as planned: nothing to apply"
    conflicts = sum(1 for result in results if result.ending is Ending.STALE)
    return replace(outcome, operations=counts, conflicts=conflicts, message=message, failure=apply_failure(applied))


def count_operations(results: Iterable[StepResult]) -> dict[str, int]:
    """Count results by the words of the metric: `created success`."""
    return dict(Counter(f"{_action(one)} {'success' if one.ending.is_success else 'failure'}" for one in results))


def _action(result: StepResult) -> str:
    return _ENDINGS.get(result.ending) or _ACTIONS.get(result.verb, "configured")


def apply_failure(applied: Iterable[Applied]) -> PassFailure | None:
    """Return why a plan was not carried out completely. What is refused waits for a person, the rest is tried again."""
    applied = list(applied)
    if any(one.interruption is not None for one in applied):
        return PassFailure(reason="Interrupted", message="the apply was interrupted; the next pass goes on")
    failed = [result for one in applied for result in one.results if not result.ending.is_success]
    if not failed:
        notes = [note for one in applied for note in one.notes]
        return PassFailure(reason="RecordIncomplete", message=_told(notes)) if notes else None
    named = [f"{result.key}: {result.message or result.ending}" for result in failed[:_MAX_NAMED]]
    more = [f"{len(failed) - _MAX_NAMED} more"] if len(failed) > _MAX_NAMED else []
    is_refused = all(result.ending is Ending.REFUSED for result in failed)  # a stale object is planned again
    reason = "ApplyRefused" if is_refused else "ApplyFailed"
    return PassFailure(reason=reason, message=_told(named + more), stalled=is_refused)


def _told(parts: Iterable[str]) -> str:
    return one_line(mask_text("; ".join(parts)), 1000)
