"""The output of `reconciler health explain`: the chain from reading over finding and policy to the consequence."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct, to_builtins

from reconciler.console.page import Page, Style, Styled
from reconciler.kube.secrets import mask_text
from reconciler.kube.times import duration
from reconciler.kube.values import plural
from reconciler.nodehealth.findings import CheckStatus, HealthFinding
from reconciler.nodehealth.fleet.decisions import HealthDecision, ProblemStatus
from reconciler.nodehealth.fleet.overview import UNKNOWN, NodeHealthRow
from reconciler.nodehealth.fleet.state import CheckFailure, HealthPhase, NodeState
from reconciler.nodehealth.policy import CheckMode, HealthPolicy, NodeExpectation
from reconciler.nodehealth.report import NodeReport


class NodeExplanation(Struct, frozen=True, kw_only=True):
    """One node: what was decided, from what, by which policy.

    case: the id of its open case. jobs: how many ended well on it since its probation began. recorded: what evidence
    says where no cluster was asked.
    """

    cluster: str
    decision: HealthDecision
    state: NodeState
    policy: HealthPolicy
    report: NodeReport | None = None
    case: str = ""
    jobs: int = 0
    recorded: NodeHealthRow | None = None

    @property
    def phase(self) -> str:
        """The phase in words: a node of which no current report says anything is not healthy."""
        if self.recorded is not None:
            return self.recorded.phase
        is_unknown = self.decision.condition is ProblemStatus.UNKNOWN and self.decision.phase is HealthPhase.HEALTHY
        return UNKNOWN if is_unknown else self.decision.phase.value


def render_explanation(
    one: NodeExplanation, now: float, *, width: int = 80, color: bool = False, unicode: bool = True
) -> str:
    """Render the chain for a terminal of `width` cells."""
    page = Page(width=width, color=color, unicode=unicode)
    since = f" for {duration(now - one.state.since)}" if one.state.since else ""
    page.heading(f"{one.decision.node} on {one.cluster}: {one.phase}{since}")
    for title, lines in _chain(one, now):
        page.write(Styled(title, Style.STRONG))
        for line in lines:
            page.write(mask_text(line), indent=2)
    return page.text()


def explanation_json(one: NodeExplanation, now: float) -> dict[str, Any]:
    """Return the chain as plain data."""
    chain = {title: [mask_text(line) for line in lines] for title, lines in _chain(one, now)}
    return {"cluster": one.cluster, "node": one.decision.node, "phase": one.phase, "chain": chain} | {
        "evidence": one.decision.evidence,
        "slots": to_builtins(one.decision.slots),
    }


def _chain(one: NodeExplanation, now: float) -> Iterator[tuple[str, list[str]]]:
    yield "readings", [*_readings(one, now)]
    yield "findings", [*_findings(one)] or ["no check reports a problem"]
    yield "policy", [*_policy(one)] or ["no rule applies"]
    yield "consequences", [*_consequences(one, now)]


def _readings(one: NodeExplanation, now: float) -> Iterator[str]:
    report = one.report
    if report is None and one.recorded is not None and one.recorded.age is not None:
        yield f"recorded {duration(one.recorded.age)} ago in the evidence; no cluster was asked"
        return
    if report is None:
        yield "no report: its agent has not written one, or cannot be asked"
        return
    yield (
        f"report of {duration(now - report.measured_at)} ago, driver {report.driver or 'unknown'}, "
        f"{plural(len(report.passed), 'check')} passed, {len(report.skipped)} skipped"
    )
    for finding in _bad(report):
        if finding.observed is not None:
            yield f"{finding.check}{_at(finding.slot)}: {finding.observed} {finding.unit}".rstrip()


def _findings(one: NodeExplanation) -> Iterator[str]:
    if one.recorded is not None and one.recorded.reason:
        yield one.recorded.reason
    for finding in _bad(one.report):
        limit = finding.threshold
        against = (
            f" (limit {limit.value} {finding.unit}, source {limit.source}{_cited(limit.citation)})" if limit else ""
        )
        what = f"{finding.check}{_at(finding.slot)}: {finding.status}, {finding.severity}: {finding.message}"
        yield f"{what}{against}, by profile {finding.profile}"
    current = {finding.key for finding in _bad(one.report)}
    for failure in one.state.failures:
        if failure.key not in current:
            yield f"{failure.check}{_at(failure.slot)}: failed before; only a pass of profile {failure.profile} ends it"


def _cited(citation: str) -> str:
    return f", {citation}" if citation else ""


def _policy(one: NodeExplanation) -> Iterator[str]:
    named = one.policy.name or "no HealthPolicy selects the node, so the defaults apply"
    if one.state.failures:
        yield named
    for failure in one.state.failures:
        mode = CheckMode.ENFORCE if failure.enforced else CheckMode.PROPOSE
        yield f"{failure.check}{_at(failure.slot)}: mode {mode}, lane {failure.lane}, {_confirmed(one, failure)}"
    if expected := ", ".join(_expected(one.policy.expected)):
        yield f"expected: {expected}{one.policy.expected.said_by}"
    if one.decision.refused:
        yield f"breaker: {one.decision.refused}"


def _expected(expected: NodeExpectation) -> Iterator[str]:
    ports = {"InfiniBand port": expected.ib, "Ethernet port": expected.ethernet}
    counts = {"GPU": expected.gpus, **{name: one.ports if one else None for name, one in ports.items()}}
    yield from (plural(count, name) for name, count in counts.items() if count is not None)
    if expected.drivers:
        yield f"driver {' or '.join(expected.drivers)}"
    if expected.denied_drivers:
        yield f"not driver {' or '.join(expected.denied_drivers)}"
    if expected.nvlinks is not None:
        yield f"{plural(expected.nvlinks, 'NVLink')} per GPU"
    if expected.pcie_width is not None:
        yield f"PCIe x{expected.pcie_width}"


def _confirmed(one: NodeExplanation, failure: CheckFailure) -> str:
    if failure.is_strong:
        return "fatal, so one report is enough"
    life = one.policy.lifecycle
    failed = f"failed in {sum(failure.recent)} of the last {len(failure.recent)} reports"
    return f"{failed}; {life.confirmations} required"


def _consequences(one: NodeExplanation, now: float) -> Iterator[str]:
    decision = one.decision
    if decision.condition is ProblemStatus.UNKNOWN:
        yield "condition GPUProblem stays as it is: the state is unknown"
    else:
        yield f"condition GPUProblem={decision.condition}"
    label, is_unknown = "label gpureconciler.io/health", one.phase == UNKNOWN or one.recorded is not None
    yield f"{label} stays as it is" if is_unknown else f"{label}={one.phase}"
    if decision.taint is not None:
        until = f" for another {duration(decision.until - now)}" if decision.until else " until a merge removes it"
        yield f"taint gpureconciler.io/gpu-problem:{decision.taint}{until}; new pods stay away, running ones stay"
    if decision.observes_only:
        yield "somebody else repairs this node, so taint and label are left to them"
    if decision.proposal is not None:
        where = f" on branch health/{one.case}" if one.case else ""
        yield f"proposed: {decision.proposal}{where}"
    if decision.action != "none":
        yield f"recommended: {decision.action}"
    if decision.phase is HealthPhase.PROBATION:
        yield f"probation ends {_end_of_probation(one, now)}"
    if decision.escalate:
        yield "somebody must look at it: a day has passed without a decision"


def _end_of_probation(one: NodeExplanation, now: float) -> str:
    life = one.policy.lifecycle
    when = f"in {duration(max(0.0, one.state.since + life.probation - now))}"
    if life.probation_jobs:
        missing = max(0, life.probation_jobs - one.jobs)
        when += f", or after {plural(missing, 'more job')} without a failure"
    return f"{when}, if no check fails"


def _bad(report: NodeReport | None) -> list[HealthFinding]:
    bad = (CheckStatus.FAIL, CheckStatus.WARN, CheckStatus.UNKNOWN)
    return [] if report is None else [one for one in report.findings if one.status in bad]


def _at(slot: str) -> str:
    return f" on {slot}" if slot else ""
