"""The effect of changed policies: by recorded reports if there are any, else by the health that was recorded last."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.values import mapping, plural
from reconciler.nodehealth.catalogue import RECORDED
from reconciler.nodehealth.findings import CheckStatus
from reconciler.nodehealth.fleet.evidence import FleetHealth, ObservedNode
from reconciler.nodehealth.fleet.failures import UNLISTED, Rules
from reconciler.nodehealth.fleet.replay import MAX_A_WEEK, compare_replays, gate, replay
from reconciler.nodehealth.fleet.state import FleetNode
from reconciler.nodehealth.policy import XID_CHECK, CheckMode, HealthPolicy, Lane, PolicyBook
from reconciler.nodehealth.report import NodeReport
from reconciler.plan.health.effect import NodeVerdict, PolicyEffect

_MAX_SHOWN = 10
_JUDGED_ELSEWHERE = frozenset(("jobs", "selector", "networkTests", "drain", "repair", "iperf", "deepRuns", "exports"))


class PolicyChange(Struct, frozen=True, kw_only=True, eq=False):
    """The policies of a cluster before and after, and its nodes with GPUs as the inventory has them.

    key, place: of the first policy that changed.
    """

    cluster: str
    key: ObjectKey
    place: SourceRef
    before: PolicyBook
    after: PolicyBook
    rules: Rules
    nodes: Mapping[str, FleetNode]

    @property
    def matters(self) -> bool:
        """True if nodes may be judged differently. What health changes in jobs is seen in their manifests."""
        return _judging(self.before) != _judging(self.after)


def effect_on_reports(change: PolicyChange, reports: Sequence[NodeReport]) -> PolicyEffect:
    """Replay both sides on recorded reports, of which there is at least one."""
    facts = {**change.nodes}
    for one in reports:
        if one.node not in facts:
            product = one.gpus[0].product if one.gpus else ""
            facts[one.node] = FleetNode(name=one.node, uid=one.node_uid, product=product, gpus=len(one.gpus))
    before, after = (replay(book, reports, facts, change.rules) for book in (change.before, change.after))
    comparison = compare_replays(before, after)
    words = {name: (str(old), str(new)) for name, (old, new) in comparison.changed.items()}
    for name in comparison.newly_quarantined:
        phases = before.verdicts.get(name, "healthy"), after.verdicts.get(name, "healthy")
        proposed = any(event.node == name and event.lane == "reviewed" for event in after.events)
        words[name] = (str(phases[0]), f"{phases[1]}, quarantine proposed" if proposed else f"{phases[1]}, tainted")
    times = [one.measured_at for one in reports]
    recorded = {one.node for one in reports}
    return PolicyEffect(
        cluster=change.cluster,
        key=change.key,
        place=change.place,
        basis="reports",
        reports=len(reports),
        nodes=len(recorded),
        first=_date(min(times)),
        last=_date(max(times)),
        before=before.a_week,
        after=after.a_week,
        changed=len(words),
        verdicts=_verdicts(words),
        refused=gate(after, comparison),
        unknown=(*_limits(change, reports), *_expected(change), *_missing(change, recorded, "report")),
    )


class NodeAction(StrEnum):
    """The action of a policy on the recorded failures of a node."""

    NOTHING = "nothing"
    PROPOSED = "quarantine proposed"
    TAINTED = "tainted"


_ACTIONS = list(NodeAction)


def effect_on_health(change: PolicyChange, health: FleetHealth) -> PolicyEffect:
    """Judge the recorded failures by both sides. All count as confirmed, because nothing tells."""
    pairs = {name: _actions(change, node) for name, node in sorted(health.nodes.items()) if node.issues}
    words = {name: (str(old), str(new)) for name, (old, new) in pairs.items() if old is not new}
    newly = [name for name, (old, new) in pairs.items() if _ACTIONS.index(new) > _ACTIONS.index(old)]
    total = len(health.nodes)
    refused: tuple[str, ...] = ()
    if len(newly) > max(1.0, MAX_A_WEEK * total):
        share = 100 * len(newly) / total
        text = f"acts at once on {plural(len(newly), 'recorded node')} more, {share:.1f} % of them"
        refused = (f"{text}; the limit is {100 * MAX_A_WEEK:.0f} %",)
    day = health.taken_at[:10]
    return PolicyEffect(
        cluster=change.cluster,
        key=change.key,
        place=change.place,
        basis="health",
        nodes=total,
        first=day,
        last=day,
        before=float(sum(old is not NodeAction.NOTHING for old, _ in pairs.values())),
        after=float(sum(new is not NodeAction.NOTHING for _, new in pairs.values())),
        changed=len(words),
        verdicts=_verdicts(words),
        refused=refused,
        unknown=(
            *_limits(change),
            *_expected(change),
            *_unclear(change, health),
            *_missing(change, health.nodes, "recorded health"),
        ),
    )


def _actions(change: PolicyChange, node: ObservedNode) -> tuple[NodeAction, NodeAction]:
    labels = change.nodes[node.name].labels if node.name in change.nodes else {}
    before, after = (_action(book.of_labels(labels), node, change.rules) for book in (change.before, change.after))
    return before, after


def _action(policy: HealthPolicy, node: ObservedNode, rules: Rules) -> NodeAction:
    """Return the strongest action that the recorded failures of a node lead to."""
    found = NodeAction.NOTHING
    if policy.remediation == "provider":
        return found
    for issue in node.issues:
        rule = policy.rule(issue.check, rules.get(issue.check, UNLISTED))
        if issue.status != CheckStatus.FAIL or not rule.enabled or rule.mode is CheckMode.SHADOW:
            continue
        is_fast = rule.mode is CheckMode.ENFORCE and rule.lane is Lane.FAST
        found = max(found, NodeAction.TAINTED if is_fast else NodeAction.PROPOSED, key=_ACTIONS.index)
    return found


# What nobody can tell.


def unknown_effect(change: PolicyChange, why: str) -> PolicyEffect:
    """Return the effect where no record tells it."""
    return PolicyEffect(cluster=change.cluster, key=change.key, place=change.place, unknown=(why,))


def _limits(change: PolicyChange, reports: Sequence[NodeReport] = ()) -> Iterator[str]:
    """Say which limits change of checks that passed without a recorded value."""
    before, after = _thresholds(change.before), _thresholds(change.after)
    differing = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    names = sorted(
        name
        for name in differing
        if not reports
        or name not in RECORDED
        or any(name in one.passed and name not in one.measured for one in reports)
    )
    if names:
        yield f"who passes under the new limits of {', '.join(names)}: records contain no values of checks that passed"


def _thresholds(book: PolicyBook) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for one in book.documents:
        for check, rule in mapping(one.spec.get("checks")).items():
            if limits := mapping(rule).get("limits"):
                found.setdefault(check, []).append([dict(one.node_labels), limits])
    return found


def _expected(change: PolicyChange) -> Iterator[str]:
    """Say that no record tells what agents will find."""
    before, after = (
        [[dict(one.node_labels), found] for one in book.documents if (found := one.spec.get("expected"))]
        for book in (change.before, change.after)
    )
    if before != after:
        yield "which nodes lack what `expected` says now: agents compare it with values that records do not contain"


def _unclear(change: PolicyChange, health: FleetHealth) -> Iterator[str]:
    """Say what the recorded health leaves out: the code of an Xid, and nodes of which nothing was known."""
    xids = [one.name for one in health.nodes.values() if any(issue.check == XID_CHECK for issue in one.issues)]
    if xids and _xids(change.before) != _xids(change.after):
        yield f"the effect of the new Xid rules on {plural(len(xids), 'node')} with Xids: the codes are not recorded"
    silent = [one for one in health.nodes.values() if one.status is CheckStatus.UNKNOWN and not one.issues]
    if silent:
        why = silent[0].why or "not measured"
        yield f"{plural(len(silent), 'node')} whose health is unknown ({silent[0].name}: {why})"


def _xids(book: PolicyBook) -> list[Any]:
    return [[dict(one.node_labels), one.spec.get("xid")] for one in book.documents]


def _missing(change: PolicyChange, recorded: Iterable[str], what: str) -> Iterator[str]:
    """Say which nodes have no record, and of which records the labels are unknown."""
    names = set(recorded)
    if silent := len(change.nodes.keys() - names):
        yield f"{plural(silent, 'node')} without a {what}"
    selects = any(one.node_labels for book in (change.before, change.after) for one in book.documents)
    if selects and (strange := len(names - change.nodes.keys())):
        yield f"{plural(strange, 'node')} that the inventory does not list, so no selector was applied to them"


def _judging(book: PolicyBook) -> list[Any]:
    return [
        [
            one.name,
            dict(one.node_labels),
            {key: value for key, value in one.spec.items() if key not in _JUDGED_ELSEWHERE},
        ]
        for one in book.documents
    ]


def _verdicts(words: Mapping[str, tuple[str, str]]) -> tuple[NodeVerdict, ...]:
    first = sorted(words.items())[:_MAX_SHOWN]
    return tuple(NodeVerdict(node=name, before=before, after=after) for name, (before, after) in first)


def _date(at: float) -> str:
    return dt.datetime.fromtimestamp(at, dt.UTC).date().isoformat()
