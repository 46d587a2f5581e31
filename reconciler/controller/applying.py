"""Mode apply: a revision is planned against live clusters and carried out there, one pass after the other."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec.structs import replace

from reconciler.console.access import ClusterFlags
from reconciler.controller.contested import RevertedField, contested_message
from reconciler.controller.outcome import NOT_READY, PassFailure, PassOutcome, failure, summarize
from reconciler.controller.refusing import refuse_in_full
from reconciler.controller.sources.source import ConfigSource
from reconciler.controller.tracing import Trace
from reconciler.controller.use import use_of
from reconciler.errors import one_line
from reconciler.kube.client.port import ClusterError, LiveCluster
from reconciler.kube.secrets import mask_text
from reconciler.kube.values import plural
from reconciler.live.apply import Applied, Work, apply
from reconciler.live.apply.health import unready_objects
from reconciler.live.apply.readiness import State
from reconciler.live.apply.results import Ending, StepResult
from reconciler.live.apply.steps import Verb
from reconciler.live.apply.work import plan_work
from reconciler.live.opening import apply_runs
from reconciler.plan import Drift, Operation, Plan, opening
from reconciler.plan.live.choices import ContestedField
from reconciler.plan.live.clusters import live_choices, open_clusters
from reconciler.plan.live.drift import CONTESTED, TAKEN
from reconciler.plan.replacements import UNKNOWN
from reconciler.repo.config.drift import DriftAction

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
    run: opening.Run,
    access: ClusterFlags,
    *,
    environ: Mapping[str, str],
    base: str,
    accepted: str,
    contested: frozenset[ContestedField],
    wait: bool,
    trace: Trace,
) -> PassOutcome:
    """Plan a revision against its clusters and apply the plan, whose preconditions are those of this moment.

    accepted: the commit that the last successful pass applied; what differs from it on a cluster is drift.
    contested: fields that stay as they are, because somebody keeps changing them back.
    wait: the pass succeeds only when all objects are ready.
    """
    with open_clusters(access, environ, run) as clusters:
        with trace.stage("plan"):
            choices = replace(live_choices(run.settings), contested=contested)
            work = plan_work(run.workspace, clusters, base=base, date=run.settings.date, choices=choices)
        summary = summarize(work.plan)
        drift = sum(summary.changes.values()) if accepted == outcome.commit else 0
        left = _fields(one for one in work.plan.drift if one.action == CONTESTED)
        use = use_of(work.plan, run.workspace.compile())
        outcome = replace(outcome, plan=replace(summary, drift=drift), message=summary.text, contested=left, use=use)
        try:
            refuse_in_full(work.plan, in_part=True)
            with trace.stage("apply"):
                applied = apply(apply_runs(run, clusters, environ), work.plan, work)
            failed = apply_failure(applied, work.refused) or partial_failure(work.plan, applied)
            if failed is None and left:
                failed = PassFailure(reason="ResourceFight", message=_told([contested_message(left)]), stalled=True)
            if failed is None:
                failed = _foreign_objects_failure(work.plan)
            if failed is None and wait:
                with trace.stage("health"):
                    failed = health_failure(work, clusters)
        except Exception as error:  # noqa: BLE001 - told as the failure of this revision
            return replace(outcome, failure=failure(error))
    return _with_results(outcome, work, applied, failed, is_applied=accepted == outcome.commit)


def _with_results(
    outcome: PassOutcome, work: Work, applied: Iterable[Applied], failed: PassFailure | None, *, is_applied: bool
) -> PassOutcome:
    """Add what became of the objects to an outcome. `is_applied`: the revision was applied before."""
    results = [result for one in applied for result in one.results]
    counts = count_operations(results)
    done = sum(
        count for name, count in counts.items() if name.partition(" ")[0] in ("created", "configured", "deleted")
    )
    message = f"applied {plural(done, 'change')}" if done else "as planned: nothing to apply"
    if adoptable := sum(one.action == DriftAction.ADOPT for one in work.plan.drift):
        message += f"; {plural(adoptable, 'drifted field')} to adopt into Git: run `reconciler drift --write`"
    conflicts = sum(1 for result in results if result.ending is Ending.STALE)
    return replace(
        outcome,
        operations=counts,
        objects=tuple(line for one in applied for line in one.record.objects),
        is_applied=is_applied,
        conflicts=conflicts,
        message=message,
        reverted=_reverted(work.plan, results, is_applied=is_applied),
        failure=failed,
    )


def _reverted(plan: Plan, results: Iterable[StepResult], *, is_applied: bool) -> tuple[RevertedField, ...]:
    """Return the fields that were set back: drift, and any change of a revision that was applied before.

    An object that such a revision has to create again was deleted by somebody.
    """
    done = {(one.path.partition("/")[0], one.key) for one in results if one.ending is Ending.DONE}
    drift = [one for one in plan.drift if one.action == DriftAction.REVERT and (one.cluster, one.key) in done]
    known = {(one.cluster, one.key, one.field) for one in drift}
    others = [
        RevertedField(cluster=change.cluster, object=str(change.key), field=field.path)
        for change in plan.changes
        if is_applied and change.operation is Operation.UPDATE and (change.cluster, change.key) in done
        for field in change.fields
        if (change.cluster, change.key, field.path) not in known
    ]
    deleted = [
        RevertedField(cluster=change.cluster, object=str(change.key), field="")
        for change in plan.changes
        if is_applied and change.operation is Operation.CREATE and (change.cluster, change.key) in done
        if (change.cluster, change.key, "") not in known
    ]
    return (*_fields(drift), *others, *deleted)


def _fields(drift: Iterable[Drift]) -> tuple[RevertedField, ...]:
    return tuple(
        RevertedField(
            cluster=one.cluster,
            object=str(one.key),
            field=one.field,
            manager=", ".join(name.partition(" (")[0] for name in one.managers),
        )
        for one in drift
    )


def _foreign_objects_failure(plan: Plan) -> PassFailure | None:
    """Tell of objects that stay as they are because they are not ours any more; the others were applied."""
    taken = [one for one in plan.drift if one.action == TAKEN]
    if not taken:
        return None
    named = [f"{one.key} on {one.cluster}: {one.live}, last written by {one.who}" for one in taken[:_MAX_NAMED]]
    more = [f"{len(taken) - _MAX_NAMED} more"] if len(taken) > _MAX_NAMED else []
    hint = "Remove them from Git, delete them, or adopt them: reconciler plan --live --adopt"
    return PassFailure(reason="ForeignObjects", message=_told([*named, *more, hint]), stalled=True)


def health_failure(work: Work, clusters: Mapping[str, LiveCluster]) -> PassFailure | None:
    """Look once at all objects, and tell which are not ready: they failed, or they need more time."""
    try:
        looked = [
            unready_objects(live, work.kinds, [one for one in work.summaries if one.cluster == name])
            for name, live in clusters.items()
        ]
    except ClusterError as error:  # what was applied is still reported
        return failure(error)
    found = {key: one for unready in looked for key, one in unready.items()}
    bad = {key: one for key, one in found.items() if one.state is State.FAILED}
    if not found:
        return None
    told = bad or found
    named = [f"{key}: {one.message}" for key, one in sorted(told.items())[:_MAX_NAMED]]
    more = [f"{len(told) - _MAX_NAMED} more"] if len(told) > _MAX_NAMED else []
    return PassFailure(reason="HealthCheckFailed" if bad else NOT_READY, message=_told(named + more))


def count_operations(results: Iterable[StepResult]) -> dict[str, int]:
    """Count results by the words of the metric: `created success`."""
    return dict(Counter(f"{_action(one)} {'success' if one.ending.is_success else 'failure'}" for one in results))


def _action(result: StepResult) -> str:
    return _ENDINGS.get(result.ending) or _ACTIONS.get(result.verb, "configured")


def partial_failure(plan: Plan, applied: Iterable[Applied]) -> PassFailure | None:
    """Return what the clusters do not accept, while the rest was applied. Missing answers may come later."""
    if not plan.errors:
        return None
    done = sum(result.ending is Ending.DONE for one in applied for result in one.results)
    skipped = sum(result.ending is Ending.SKIPPED for one in applied for result in one.results)
    named = [f"{problem.place}: {problem.message} [{problem.rule}]" for problem in plan.errors[:_MAX_NAMED]]
    more = [f"{len(plan.errors) - _MAX_NAMED} more"] if len(plan.errors) > _MAX_NAMED else []
    needing = f"; {plural(skipped, 'object')} that need them wait" if skipped else ""
    stalled = all(problem.rule != UNKNOWN for problem in plan.errors)
    message = f"applied {plural(done, 'change')}, and not: {_told(named + more)}{needing}"
    return PassFailure(reason="PartiallyApplied", message=message, stalled=stalled)


def apply_failure(applied: Iterable[Applied], refused: Collection[str] = ()) -> PassFailure | None:
    """Return why a plan was not fully carried out. What is refused waits for a person, the rest is tried again.

    refused: paths of changes that clusters do not accept, of which and of what needs them `partial_failure` tells.
    """
    applied = list(applied)
    if any(one.interruption is not None for one in applied):
        return PassFailure(reason="Interrupted", message="the apply was interrupted; the next pass continues it")
    failed = [result for one in applied for result in one.results if not result.ending.is_success]
    if all(result.path in refused or result.ending is Ending.SKIPPED for result in failed):
        failed = []
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
