"""The fast lane: one round from reports to marks on nodes, within what merged policies allow."""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.clock import Clock
from reconciler.health.deep_runs import uses_gpus
from reconciler.health.events import EventTarget, notify_users, record_event
from reconciler.health.fleet_reading import FleetReading, pods_on, read_fleet
from reconciler.health.network_tests import with_network_tests
from reconciler.health.reports import report_key
from reconciler.health.state_store import HealthCase, LaneState, StateStore
from reconciler.kube.client.port import Body, ClusterError, LiveCluster
from reconciler.kube.objects import ObjectKey
from reconciler.kube.values import mapping, text
from reconciler.live.observe.owners import RepairOwner
from reconciler.live.observe.placed import controller_of
from reconciler.nodehealth.exports.labels import NodeLabels, node_labels
from reconciler.nodehealth.fleet.decisions import FleetEvaluation, HealthDecision
from reconciler.nodehealth.fleet.evaluate import FleetInput, evaluate, is_stale
from reconciler.nodehealth.fleet.state import FleetNode, FleetState, HealthPhase, NodeState
from reconciler.nodehealth.inflight.postflight import with_job_errors
from reconciler.nodehealth.limits import rejudged_reports
from reconciler.nodehealth.nodes import MANAGER, NodeEdits, NodeMark, node_edits, node_mark
from reconciler.nodehealth.policy import CheckRule, PolicyBook
from reconciler.nodehealth.published import EXPECTED, expected_text
from reconciler.nodehealth.quarantine import NodeQuarantine
from reconciler.nodehealth.report import NodeReport
from reconciler.nodehealth.xids import mentioned, renamed

# Write marks to nodes of a live cluster: what is ours, guarded against every other writer.


_ATTEMPTS = 5

_CONFLICTS = frozenset({404, 409, 422})  # gone, another version, a `test` of a patch that failed: look again


class MarkResult(StrEnum):
    """The result of writing a mark."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    PLANNED = "planned"  # a dry run: nothing was sent
    GONE = "gone"  # there is no such node
    REPLACED = "replaced"  # another machine has the name by now
    CONTENDED = "contended"  # somebody kept changing the node


class MarkedNode(Struct, frozen=True, kw_only=True):
    """The result of writing one mark. `observed`: somebody else repairs the node, so only conditions are written."""

    node: str
    result: MarkResult
    changes: tuple[str, ...] = ()
    conflicts: int = 0
    observed: RepairOwner | None = None


def write_mark(
    cluster: LiveCluster,
    mark: NodeMark,
    body: Body | None,
    *,
    clock: Clock,
    owner: RepairOwner | None = None,
    dry_run: bool = False,
) -> MarkedNode:
    """Make a node say what its mark says. `body` is the node as it was listed; it is read again after a conflict.

    Writes one JSON patch for taint, label and annotations, one apply of our conditions, and an event for every
    change. Each only if something differs.
    """
    for conflicts in range(_ATTEMPTS):
        if conflicts:
            body = cluster.get(node_key(mark.node))
        if body is None or "deletionTimestamp" in body["metadata"]:
            return MarkedNode(node=mark.node, result=MarkResult.GONE, conflicts=conflicts, observed=owner)
        if body["metadata"]["uid"] != mark.uid:
            return MarkedNode(node=mark.node, result=MarkResult.REPLACED, conflicts=conflicts, observed=owner)
        edits = node_edits(body, mark, clock.now().timestamp(), conditions_only=owner is not None)
        result = MarkResult.PLANNED if edits.changes else MarkResult.UNCHANGED
        if not dry_run:
            try:
                _write(cluster, mark, edits)
            except ClusterError as error:
                if error.status not in _CONFLICTS:
                    raise
                continue
            if edits.changes:
                _tell(cluster, mark, edits.changes, clock)
            result = MarkResult.WRITTEN if edits.patch or edits.conditions else MarkResult.UNCHANGED
        return MarkedNode(node=mark.node, result=result, changes=edits.changes, conflicts=conflicts, observed=owner)
    return MarkedNode(node=mark.node, result=MarkResult.CONTENDED, conflicts=_ATTEMPTS, observed=owner)


def _write(cluster: LiveCluster, mark: NodeMark, edits: NodeEdits) -> None:
    """Fence first, then explain: a crash between both leaves a taint with its reason beside it."""
    if edits.patch:
        cluster.patch(node_key(mark.node), list(edits.patch), manager=MANAGER)
    if edits.conditions:
        status: Mapping[str, Any] = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": mark.node, "uid": mark.uid},
            "status": {"conditions": list(edits.conditions)},
        }
        cluster.apply(status, manager=MANAGER, force=True, subresource="status")


def _tell(cluster: LiveCluster, mark: NodeMark, changes: Sequence[str], clock: Clock) -> None:
    """Tell those who run the node; if it was fenced just now, also those whose pods run there."""
    about = EventTarget(api_version="v1", kind="Node", name=mark.node, uid=mark.uid)
    text = f"{mark.message} ({', '.join(changes)})"
    record_event(cluster, about, reason=mark.reason, message=text, is_warning=mark.is_problem, clock=clock)
    if any(change.startswith("taint ") for change in changes):
        notify_users(cluster, mark, clock)


def node_key(name: str) -> ObjectKey:
    """Return the key of a node."""
    return ObjectKey(group="", kind="Node", namespace="", name=name)


def with_drained(
    cluster: LiveCluster, facts: Mapping[str, FleetNode], states: Mapping[str, NodeState]
) -> tuple[dict[str, FleetNode], tuple[str, ...]]:
    """Return the facts, with those nodes marked as drained that are being drained and are; and what went wrong.

    Only the pods of nodes that are being drained are listed. A list that fails leaves the node as it is.
    """
    drained, problems = set[str](), list[str]()
    for name in sorted(_draining(facts, states)):
        try:
            pods = pods_on(cluster, name)
        except ClusterError as error:
            problems.append(f"{name}: its pods cannot be listed: {error.message}")
            continue
        if not any(uses_gpus(pod) for pod in pods):
            drained.add(name)
    return {name: replace(one, drained=True) if name in drained else one for name, one in facts.items()}, (*problems,)


def _draining(facts: Mapping[str, FleetNode], states: Mapping[str, NodeState]) -> Iterable[str]:
    return (name for name in facts if name in states and states[name].phase is HealthPhase.DRAINING)


class NamedReports(Struct, frozen=True, kw_only=True, eq=False):
    """Reports with the names of pods and jobs in their texts.

    names: by UID of the pods that reports mention; empty for a pod that was gone already. They are kept, because a pod
    may be deleted long before its Xid is forgotten.
    """

    reports: Mapping[str, NodeReport]
    names: Mapping[str, str] = {}
    problems: tuple[str, ...] = ()


def name_workloads(cluster: LiveCluster, reports: Mapping[str, NodeReport], known: Mapping[str, str]) -> NamedReports:
    """Name the pods that reports mention; only the pods of nodes with an unknown one are listed."""
    wanted = {node: found for node, report in reports.items() if (found := _mentioned(report))}
    if not wanted:
        return NamedReports(reports=reports)
    names = {uid: known[uid] for uids in wanted.values() for uid in uids if uid in known}
    problems: list[str] = []
    for node, uids in sorted(wanted.items()):
        if uids <= names.keys():
            continue
        try:
            pods = pods_on(cluster, node)
        except ClusterError as error:
            problems.append(f"{node}: its pods cannot be listed: {error.message}")
            continue
        there = {text(mapping(pod.get("metadata")).get("uid")): _name(pod) for pod in pods}
        names |= {uid: there.get(uid, "") for uid in uids - names.keys()}
    changed = {node: _renamed(reports[node], names) for node in wanted}
    return NamedReports(reports={**reports, **changed}, names=names, problems=tuple(problems))


def _mentioned(report: NodeReport) -> set[str]:
    return {uid for finding in report.findings for uid in mentioned(finding.message)}


def _renamed(report: NodeReport, names: Mapping[str, str]) -> NodeReport:
    findings = (replace(one, message=renamed(one.message, names)) for one in report.findings)
    return replace(report, findings=tuple(findings))


def _name(pod: Body) -> str:
    """Return the pod, and what controls it: `job team-a/train (pod train-0)`."""
    metadata = mapping(pod.get("metadata"))
    namespace, name = text(metadata.get("namespace")), text(metadata.get("name"))
    owner = controller_of(pod)
    if not owner:
        return f"pod {namespace}/{name}"
    return f"{text(owner.get('kind')).lower()} {namespace}/{text(owner.get('name'))} (pod {name})"


_REMEMBERED = 86400.0


class HealthRules(Struct, frozen=True, kw_only=True, eq=False):
    """The rules in Git about the health of one cluster. `reviewed` quarantines were merged by a person."""

    policies: PolicyBook
    defaults: Mapping[str, CheckRule] = {}
    reviewed: tuple[NodeQuarantine, ...] = ()
    autoscaler: bool = False


class LaneRound(Struct, frozen=True, kw_only=True, eq=False):
    """The observations, decisions and writes of one round.

    failures: nodes that could not be written or tested, and why. tested: those on which a deep run was started.
    """

    reading: FleetReading
    evaluation: FleetEvaluation
    state: LaneState
    now: float
    marked: tuple[MarkedNode, ...] = ()
    failures: tuple[str, ...] = ()
    tested: tuple[str, ...] = ()

    @property
    def written(self) -> tuple[MarkedNode, ...]:
        """The nodes that changed."""
        return tuple(one for one in self.marked if one.changes and one.result is MarkResult.WRITTEN)


def run_round(
    cluster: LiveCluster, store: StateStore, rules: HealthRules, *, clock: Clock, dry_run: bool = False
) -> LaneRound:
    """Make one round. What the breaker admits is stored before a node is touched, so that a crash admits no more."""
    reading = read_fleet(cluster)
    stored = store.read()
    named = name_workloads(cluster, reading.reports, stored.state.workloads)
    now = clock.now().timestamp()
    reports = with_job_errors(named.reports, stored.state.job_errors)
    reading = replace(reading, reports=rejudged_reports(reports, reading.facts, rules.policies))
    reading, untested = with_network_tests(cluster, reading, rules.policies, now)
    facts, problems = with_drained(cluster, _facts(reading, stored.state), stored.state.fleet.nodes)
    given = FleetInput(
        facts=facts,
        reports=reading.reports,
        policies=rules.policies,
        defaults=rules.defaults,
        quarantines=rules.reviewed,
    )
    evaluation = evaluate(given, stored.state.fleet, now)
    state = replace(
        stored.state,
        fleet=evaluation.state,
        cases=open_cases(stored.state.cases, evaluation.decisions.values(), now, evaluation.state.nodes),
        deep_runs={node: at for node, at in stored.state.deep_runs.items() if 0 <= now - at < _REMEMBERED},
        workloads=dict(named.names),
        proven={name: uids for name, uids in stored.state.proven.items() if _is_in_probation(evaluation.state, name)},
    )
    if not dry_run:
        store.write(state, stored)
    marked, failures = _mark_all(cluster, reading, evaluation, state, rules, clock=clock, dry_run=dry_run)
    untold = () if dry_run else _publish_expectations(cluster, reading, rules.policies)
    failures = (*named.problems, *untested, *problems, *failures, *untold)
    return LaneRound(reading=reading, evaluation=evaluation, state=state, now=now, marked=marked, failures=failures)


def _publish_expectations(cluster: LiveCluster, reading: FleetReading, policies: PolicyBook) -> tuple[str, ...]:
    """Write what Git expects of each node on its report, where that has changed; return what could not be written."""
    failures: list[str] = []
    for node, known in sorted(reading.expected.items()):
        if node not in reading.facts:
            continue
        wanted = expected_text(policies.of_labels(reading.facts[node].labels).expected)
        if wanted == known:
            continue
        change = {"metadata": {"annotations": {EXPECTED: wanted or None}}}
        try:
            cluster.patch(report_key(node), change, manager=MANAGER)
        except ClusterError as error:
            failures.append(f"{node}: its agent cannot be told what Git expects: {error.message}")
    return tuple(failures)


def _facts(reading: FleetReading, state: LaneState) -> dict[str, FleetNode]:
    """Return the facts. Who closes the proposal of a case disagrees with it, as who removes our taint does.

    What ran well on a node counts for its probation.
    """
    nodes = state.fleet.nodes
    closed = {
        node for node, case in state.cases.items() if node in nodes and case.closed_at >= max(nodes[node].since, 1.0)
    }
    facts = {name: replace(one, unfenced=True) if name in closed else one for name, one in reading.facts.items()}
    proven = {name: replace(facts[name], jobs=len(uids)) for name, uids in state.proven.items() if name in facts}
    return {**facts, **proven}


def _is_in_probation(state: FleetState, name: str) -> bool:
    return name in state.nodes and state.nodes[name].phase is HealthPhase.PROBATION


def _mark_all(
    cluster: LiveCluster,
    reading: FleetReading,
    evaluation: FleetEvaluation,
    state: LaneState,
    rules: HealthRules,
    *,
    clock: Clock,
    dry_run: bool,
) -> tuple[tuple[MarkedNode, ...], tuple[str, ...]]:
    """Write the marks, those with taints first. One node that cannot be written stops no other."""
    marked: list[MarkedNode] = []
    failures: list[str] = []
    for decision in in_order(evaluation.decisions.values()):
        body = reading.nodes.get(decision.node)
        if body is None:
            continue
        case = state.cases.get(decision.node)
        mark = node_mark(
            decision,
            evaluation.state.nodes.get(decision.node, NodeState()),
            body,
            case=case.id if case is not None else "",
            policy=rules.policies.digest[:12],
            autoscaler=rules.autoscaler,
        )
        if mark is None:
            continue
        exports = _exports(decision, reading, evaluation, rules, clock)
        mark = replace(mark, labels=exports.labels, annotations=exports.annotations)
        owner = reading.owners.get(decision.node) if decision.observes_only else None
        try:
            marked.append(write_mark(cluster, mark, dict(body), clock=clock, owner=owner, dry_run=dry_run))
        except ClusterError as error:
            failures.append(f"{decision.node}: {error.message}")
    return tuple(marked), tuple(failures)


def _exports(
    decision: HealthDecision, reading: FleetReading, evaluation: FleetEvaluation, rules: HealthRules, clock: Clock
) -> NodeLabels:
    """Return the labels of other projects. Only a report that the evaluator took in says something."""
    name, now = decision.node, clock.now().timestamp()
    policy = rules.policies.of_labels(reading.facts[name].labels)
    state, report = evaluation.state.nodes.get(name, NodeState()), reading.reports.get(name)
    is_current = report is not None and report.measured_at == state.measured_at
    is_current &= not is_stale(state, policy.lifecycle.stale_after, now)
    return node_labels(reading.nodes[name], report, policy.exports, now, is_current=is_current)


def in_order(decisions: Iterable[HealthDecision]) -> Sequence[HealthDecision]:
    """Return decisions with taints first, then by node."""
    return sorted(decisions, key=lambda one: (one.taint is None, one.node))


def open_cases(
    known: Mapping[str, HealthCase],
    decisions: Iterable[HealthDecision],
    now: float,
    states: Mapping[str, NodeState] = {},
) -> dict[str, HealthCase]:
    """Open a case for every node that leaves health; forget it when the node is back and its checks no longer flap."""
    cases = {}
    for decision in decisions:
        before = known.get(decision.node)
        has_branch = before is not None and before.branch  # which has to be removed first
        may_return = before is not None and decision.node in states and states[decision.node].flaps
        if decision.phase is HealthPhase.HEALTHY and decision.proposal is None and not (has_branch or may_return):
            continue
        cases[decision.node] = before or HealthCase(id=case_id(decision.node, now), opened_at=now)
    return cases


def case_id(node: str, now: float) -> str:
    """Return the id of a case, which names its branch: the node and the minute in which it was opened."""
    return f"{node}-{dt.datetime.fromtimestamp(now, dt.UTC):%Y%m%d-%H%M}"
