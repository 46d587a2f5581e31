"""Carry out a saved plan on a cluster: refuse a stale one, run its steps, and leave a record."""

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.clock import Clock
from reconciler.console.logs import Log
from reconciler.errors import ConfigError, ReconcilerError, StalePlan
from reconciler.kinds.kind import Kinds
from reconciler.kinds.summary import ObjectSummary
from reconciler.kube.client.port import MANAGER, ClusterError, LiveCluster, ObjectText
from reconciler.kube.objects import FieldPath, ObjectKey
from reconciler.kube.values import enumerated, mapping, text
from reconciler.live.apply.deeds import deeds
from reconciler.live.apply.execution import Executed, execute, only_refused
from reconciler.live.apply.order import Ordered, order
from reconciler.live.apply.recent import RecentObjects
from reconciler.live.apply.requests import Rules, Target, carry_out
from reconciler.live.apply.results import Ending, Record, StepResult, count, encode_record, failures
from reconciler.live.apply.steps import Step, Verb, moved_inputs, moved_objects, planned_objects
from reconciler.live.apply.stored import (
    add_record,
    change_inventory,
    forget_elsewhere,
    let_go,
    make_namespace,
    read_records,
)
from reconciler.live.apply.waiting import Waiter, wait_ready, wait_reliable
from reconciler.plan import LiveVersion, Plan
from reconciler.plan.approvals import NO_APPROVALS, Approvals, apply_approvals, approved_changes
from reconciler.plan.gate import refuse
from reconciler.plan.live.baseline import Doubt
from reconciler.plan.live.drift import TAKEN
from reconciler.plan.live.inventory import Claims, Place, claimants, read_claims, read_inventories
from reconciler.plan.live.inventory_record import Member, ObjectInventory, owns
from reconciler.plan.live.proofs import add_proofs, proof
from reconciler.plan.live.reading import at_once, read_now
from reconciler.repo.port import Cache

_log = Log(__name__)
_MAX_NAMED = 5  # objects in one message
_MAX_FAILURES = 20  # in a record
RELIABLE_SECONDS = 120.0
"""Seconds that steps wait for what they need: an established kind, an old gang that stops."""


class ApplyRun(Struct, frozen=True, kw_only=True, eq=False):
    """The cluster and the settings of an apply.

    log: appends a line to the decision log; it raises `OutsideError` if it cannot.
    wait_seconds: how long to wait until objects are ready; None: not to look whether they are.
    tell: is called with each result, and then with the number of objects that are not ready.
    """

    live: LiveCluster
    clock: Clock
    place: Place
    log: Callable[[bytes], None]
    wait_seconds: float | None = 300.0
    advance: Callable[[StepResult], None] = lambda _: None
    tell: Callable[[int], None] = lambda _: None


class Work(Struct, frozen=True, kw_only=True, eq=False):
    """The work of the current plan: its steps, the desired objects, and the versions of live objects.

    body: reads the desired object of a path when it is sent; several threads may call it. text: the same as it is
    written; None if it has to be read. waves: positions that annotations set, by path.
    summaries: all desired objects. keys: the same, by cluster. cache: where later plans look up what is known to be as
    desired. added: what others added to an object, and its update removes. left: paths of objects that keep drifted
    fields, so that they are not as desired for every policy. released: objects that others own now, by cluster.
    refused: changes that servers do not accept now, by path.
    """

    plan: Plan
    summaries: Sequence[ObjectSummary]
    keys: AbstractSet[tuple[str, ObjectKey]]
    folder: str
    kinds: Kinds
    steps: Sequence[Step]
    body: Callable[[str], Mapping[str, Any]]
    sent: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
    text: Callable[[ObjectKey, str], ObjectText | None]
    waves: Mapping[str, tuple[int, int]]
    version_of: Callable[[str, Mapping[str, Any]], str]
    cache: Cache
    added: Callable[[str], Sequence[FieldPath]] = lambda _: ()
    left: AbstractSet[str] = frozenset()
    released: Mapping[str, Sequence[ObjectKey]] = field(default_factory=dict)
    refused: Mapping[str, Doubt] = field(default_factory=dict)
    approvals: Approvals = NO_APPROVALS


class Applied(Struct, frozen=True, kw_only=True):
    """The result of a plan. `not_ready`: reasons by path. `notes`: records that could not be written."""

    record: Record
    results: tuple[StepResult, ...] = ()
    not_ready: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    interruption: BaseException | None = None


def apply(runs: Mapping[str, ApplyRun], saved: Plan, work: Work) -> tuple[Applied, ...]:
    """Carry out what is left of a saved plan, one cluster after the other.

    Raises what forbids the plan, such as `StalePlan`, before anything is changed. Later failures are results, and so is
    an interruption, after which no other cluster is begun.
    """
    records = {name: read_records(run.live, run.place) for name, run in runs.items()}
    begun = {name for name, known in records.items() if _has_begun(saved, known)}
    require_current(saved, work, begun)
    applied: list[Applied] = []
    for name, run in runs.items():
        steps = [step for step in work.steps if step.summary.cluster == name]
        if steps or name in begun or work.released.get(name):
            mine = replace(work, steps=steps)
            applied.append(_apply_to(run, name, saved, mine, is_resumed=name in begun, is_first=not records[name]))
            if applied[-1].interruption is not None:
                break
    return tuple(applied)


def require_current(saved: Plan, work: Work, begun: Collection[str]) -> None:
    """Raise what forbids to carry out a saved plan now: it is stale, or it was refused from the start.

    A plan that was carried out in part may go on on the clusters where it has `begun`: everything that is left is as it
    was planned, and the whole plan was allowed when it began.
    """
    current = work.plan
    if not saved.is_live or not saved.head.commit:
        which = "of the working tree" if saved.is_live else "against rendered/"
        raise ConfigError(f"a plan {which} cannot be applied", hint=f"commit your changes, then: {_NEW_PLAN}")
    before, now = planned_objects(saved, work.folder), planned_objects(current, work.folder)
    _require_servers(saved, current, {one.path.partition("/")[0] for one in before ^ now})
    taken = {one.path.removeprefix(f"{work.folder}/") for one in current.drift if one.action == TAKEN}
    moved = [*moved_inputs(saved, current), *moved_objects(before, now)]
    moved += sorted(taken.intersection(one.path for one in before))
    if moved:
        more = f" and {len(moved) - _MAX_NAMED} more" if len(moved) > _MAX_NAMED else ""
        raise StalePlan(
            f"the plan is stale: {'; '.join(moved[:_MAX_NAMED])}{more}", hint=f"review a new plan: {_NEW_PLAN}"
        )
    if before == now:
        refuse(current, in_part=True)
        return
    refuse(current, budgets=False, in_part=True)
    if not now:  # an earlier run carried out everything
        return
    done = sorted(one.path for one in before - now if one.path.partition("/")[0] not in begun)
    if done:
        what = f"{done[0]} is" if len(done) == 1 else f"{done[0]} and {len(done) - 1} more are"
        raise StalePlan(
            f"the plan is stale: {what} already as planned, and this plan was never started here",
            hint=f"review a new plan: {_NEW_PLAN}",
        )


def _require_servers(saved: Plan, current: Plan, differing: AbstractSet[str]) -> None:
    """Raise `StalePlan` if a saved plan is for other clusters, or for another server.

    Only changes and deletions name the UID of an object there; a creation would succeed anywhere.
    differing: clusters whose changes are others in the two plans.
    """
    servers = {state.cluster: state.server for state in saved.clusters}
    current_servers = {state.cluster: state.server for state in current.clusters}
    if missing := sorted(differing & (servers.keys() ^ current_servers.keys())):
        raise StalePlan(
            f"the plan is for {enumerated([*servers])}, and this run for {enumerated([*current_servers])}: "
            f"the changes of {enumerated(missing)} are in one of them only",
            hint=f"choose the same clusters with --cluster, or review a new plan: {_NEW_PLAN}",
        )
    for name in servers.keys() & current_servers.keys():
        if servers[name] != current_servers[name]:
            raise StalePlan(
                "the plan was made for another server: "
                f"{name} is {servers[name]} in the plan, and {current_servers[name]} now",
                hint=f"choose the one of the plan (--context, --kubeconfig), or review a new plan: {_NEW_PLAN}",
            )


_NEW_PLAN = "reconciler plan --live --revision HEAD --out plan.json"


def _has_begun(saved: Plan, records: Sequence[Record]) -> bool:
    """Return whether the last run of a plan did not carry out all of it."""
    runs = [record for record in records if record.plan == saved.digest]
    return bool(runs) and runs[-1].result != "Applied"


def _apply_to(run: ApplyRun, cluster: str, saved: Plan, work: Work, *, is_resumed: bool, is_first: bool) -> Applied:
    """Carry out the steps of one cluster. Nothing changes unless the decision log and the inventory are written."""
    record = Record(
        cluster=cluster,
        server=run.live.server,
        user=who_am_i(run.live),
        released=tuple(str(key) for key in work.released.get(cluster, ())),
        plan=saved.digest,
        commit=work.plan.head.commit,
        base=work.plan.base.commit,
        started=timestamp(run.clock),
        engine=work.plan.engine,
    )
    ordered = order(work.kinds, work.steps, work.waves)
    results = only_refused(ordered, _refusals(work))
    if results is not None and not record.released:  # every run would leave the same record
        return Applied(record=_ended(run, record, results), results=results)
    run.log(encode_record(record))
    if is_first:
        make_namespace(run.live, run.place)
    approved = _approved(saved, work, is_resumed=is_resumed)  # meanwhile the server notices the new namespace
    add_record(run.live, run.place, record)
    creations = [step.key for step in work.steps if step.verb is Verb.CREATE and step.path not in work.refused]
    inventory = change_inventory(run.live, run.place, begin=creations)
    claims = read_claims(run.live, run.place)
    rules = Rules(
        kinds=work.kinds,
        version_of=work.version_of,
        uids=inventory.uids(),
        claims=claims,
        approved=approved,
        recent=RecentObjects(run.clock),
        wait_gone=lambda step: wait_ready(_waiter(run, work), [replace(step, verb=Verb.DELETE)]).get(step.path, ""),
    )
    return _finish(run, work, record, _execute(run, work, rules, ordered), claims)


def _approved(saved: Plan, work: Work, *, is_resumed: bool) -> frozenset[str]:
    """Return the paths of the changes that an approval covers. The rest of a plan has the approvals of the whole."""
    plan = apply_approvals(saved, work.approvals) if is_resumed else work.plan
    changes = replace(plan, changes=approved_changes(plan, work.approvals))
    return frozenset(one.path for one in planned_objects(changes, work.folder))


def _refusals(work: Work) -> dict[str, StepResult]:
    """Return the results of the steps that servers do not accept, by path.

    Not of an object that is created again: an update of the old one is refused, and the new one has its own dry run.
    """
    endings = {True: Ending.DENIED, False: Ending.FAILED}
    return {
        step.path: StepResult(
            verb=step.verb, key=step.key, path=step.path, ending=endings[doubt.is_refused], message=doubt.message
        )
        for step in work.steps
        if step.verb is not Verb.RECREATE and (doubt := work.refused.get(step.path)) is not None
    }


def _execute(run: ApplyRun, work: Work, rules: Rules, ordered: Ordered) -> Executed:
    refusals = _refusals(work)
    planned = {one.path: one.before for one in planned_objects(work.plan, work.folder)}
    waiter = _waiter(run, work)

    def carry(step: Step) -> StepResult:
        path = step.path
        if path in refusals:
            return refusals[path]
        text = work.text(step.key, path) if step.verb is Verb.CREATE else None
        desired = dict if step.verb is Verb.DELETE else partial(work.body, path)
        sent = partial(work.sent, path)
        target = Target(
            step=step, desired=desired, sent=sent, planned=planned[path], text=text, added=tuple(work.added(path))
        )
        return carry_out(run.live, rules, target)

    return execute(ordered, carry, lambda steps: wait_reliable(waiter, steps), run.advance)


def _waiter(run: ApplyRun, work: Work) -> Waiter:
    return Waiter(live=run.live, kinds=work.kinds, clock=run.clock, seconds=RELIABLE_SECONDS)


def _finish(run: ApplyRun, work: Work, record: Record, executed: Executed, claims: Claims) -> Applied:
    """Note what became of every object, wait for it, and close the record, whatever of that fails."""
    results, interruption = executed
    notes: list[str] = []
    note = _noting(notes)
    known: list[ObjectInventory] = []
    note(lambda: known.append(_note_results(run, results)))
    adopted = {change.key for change in work.plan.changes if change.adopts}
    ours = [one.key for one in results if one.uid and one.key in adopted]
    note(lambda: forget_elsewhere(run.live, [(key, claim) for key in ours for claim in claims.get(key, ())]))
    _remember(run.live, work, results)
    if interruption is None:
        note(lambda: let_go(run.live, run.place, work.released.get(record.cluster, ())))
    not_ready: dict[str, str] = {}
    steps = {step.path: step for step in work.steps}
    done = [result for result in results if result.ending is Ending.DONE]
    if interruption is None and run.wait_seconds is not None:
        waiter = Waiter(live=run.live, kinds=work.kinds, clock=run.clock, seconds=run.wait_seconds, tell=run.tell)
        try:
            not_ready.update(wait_ready(waiter, [steps[result.path] for result in done]))
        except KeyboardInterrupt as error:
            interruption = error
    if interruption is None:
        note(lambda: _tidy_inventory(run, work, record.cluster, known))
    record = replace(
        _ended(run, record, results),
        interrupted=interruption is not None,
        objects=deeds(work.plan, work.folder, results),
    )
    at_once(note, [lambda: add_record(run.live, run.place, record), lambda: emit_event(run, record)])
    note(lambda: run.log(encode_record(record)))
    _log.info("plan %s on %s: %s", record.plan, record.cluster, record.result)
    return Applied(record=record, results=results, not_ready=not_ready, notes=tuple(notes), interruption=interruption)


def _ended(run: ApplyRun, record: Record, results: Sequence[StepResult]) -> Record:
    """Return the record of a run with what became of its steps."""
    failed = failures(results)[:_MAX_FAILURES]
    return replace(record, finished=timestamp(run.clock), counts=count(results), failures=failed)


def _noting(notes: list[str]) -> Callable[[Callable[[], object]], None]:
    """Return a function that calls another one, and notes why it failed."""

    def note(action: Callable[[], object]) -> None:
        try:
            action()
        except ReconcilerError as error:
            notes.append(str(error))

    return note


_NOT_CREATED = frozenset(Ending) - {Ending.DONE, Ending.UNCHANGED, Ending.UNKNOWN}


def _note_results(run: ApplyRun, results: Sequence[StepResult]) -> ObjectInventory:
    """Confirm what exists, and forget creations that certainly did not happen and objects that were gone.

    Return the inventory after that.
    """
    written = [one for one in results if one.verb is not Verb.DELETE and one.uid]
    forgotten = [one.key for one in results if one.verb is Verb.CREATE and one.ending in _NOT_CREATED]
    forgotten += [one.key for one in results if one.verb is Verb.DELETE and one.ending is Ending.UNCHANGED]
    return change_inventory(
        run.live,
        run.place,
        add=[Member(key=one.key, uid=one.uid) for one in written],
        remove=[*forgotten, *(one.key for one in written)],
    )


def _remember(live: LiveCluster, work: Work, results: Sequence[StepResult]) -> None:
    """Remember which objects are as desired now, so that the next plan need not read them."""
    after = {one.path: one.after for one in planned_objects(work.plan, work.folder)}
    add_proofs(
        work.cache,
        live.server,
        {
            one.path: proof(after[one.path], LiveVersion(uid=one.uid, resource_version=one.resource_version))
            for one in results
            if one.verb is not Verb.DELETE and one.ending in (Ending.DONE, Ending.UNCHANGED) and one.resource_version
            if one.path not in work.left
        },
    )


def _tidy_inventory(run: ApplyRun, work: Work, cluster: str, known: Sequence[ObjectInventory]) -> None:
    """Forget what is gone or not ours, and confirm creations that an earlier run began and was perhaps killed after.

    What another config repository created under the same name is theirs; while that is not known, nothing is confirmed.
    known: the inventory as this run left it; empty if that is not known.
    """
    if known and not _unconfirmed(work, cluster, known[0].uids()):
        return
    found = read_inventories(run.live, run.place)
    uids = found.own.uids()
    add: list[Member] = []
    remove: list[ObjectKey] = []
    for key, body in read_now(run.live, _unconfirmed(work, cluster, uids)):
        if isinstance(body, ClusterError):
            raise body
        if body is None or ("" not in uids[key] and not owns(uids[key], body, MANAGER)):
            remove.append(key)
        elif "" in uids[key] and owns(uids[key], body, MANAGER):
            uid = body["metadata"]["uid"]
            rivals = () if uid in uids[key] else claimants(found.claims, key, uid)
            if not rivals or any(rival.uid for rival in rivals):
                remove.append(key)
            if not rivals:
                add.append(Member(key=key, uid=uid))
    if add or remove:
        change_inventory(run.live, run.place, add=add, remove=remove)


def _unconfirmed(work: Work, cluster: str, uids: Mapping[ObjectKey, AbstractSet[str]]) -> list[ObjectKey]:
    """Return the objects of the inventory whose creation was not confirmed, and those that are not desired."""
    return sorted(key for key, known in uids.items() if "" in known or (cluster, key) not in work.keys)


def who_am_i(live: LiveCluster) -> str:
    """Return the user name that the cluster knows us by."""
    try:
        answer = live.create({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    except ClusterError:
        return "unknown"
    return text(mapping(mapping(answer.body.get("status")).get("userInfo")).get("username")) or "unknown"


def emit_event(run: ApplyRun, record: Record) -> None:
    """Leave an event at the records, where `kubectl get events` shows it."""
    counts = ", ".join(f"{number} {name}" for name, number in record.counts.items())
    released = f"released {', '.join(record.released)}" if record.released else ""
    what = f"applied plan {record.plan} of commit {record.commit}: {counts or released}" if record.plan else released
    run.live.create(
        {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"generateName": f"{run.place.name}-", "namespace": run.place.namespace},
            "eventTime": record.finished,
            "reportingController": "gpureconciler.io/reconciler",
            "reportingInstance": record.user[:128] or "unknown",
            "type": "Normal" if record.result in ("Applied", "Released") else "Warning",
            "reason": f"{'Plan' if record.plan else 'Objects'}{record.result}",
            "action": "Apply" if record.plan else "Release",
            "note": "; ".join([f"{record.user} {what}", *record.objects])[:1024],
            "regarding": {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": f"{run.place.name}-records",
                "namespace": run.place.namespace,
            },
        }
    )


def timestamp(clock: Clock) -> str:
    """Return the time of records: ISO 8601, UTC."""
    return clock.now().astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
