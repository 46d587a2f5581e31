"""Findings judged again by the limits of a policy, where their observed value alone decides.

The agent judges by the catalogue and not by policies. A finding is judged again if its check is in `NAMED_LIMITS`
and the limit that it names is the reason for its status; any other reason stands. A check that passed can fail if its
values are kept in reports (`RECORDED`).
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from reconciler.nodehealth.catalogue import BY_ID
from reconciler.nodehealth.checks.check import CheckResult, HealthCheck, as_number
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, Threshold, ThresholdSource
from reconciler.nodehealth.fleet.state import FleetNode
from reconciler.nodehealth.judge import weigh
from reconciler.nodehealth.policy import HealthPolicy, PolicyBook
from reconciler.nodehealth.report import GpuSeries, NodeReport

_BAD = (CheckStatus.FAIL, CheckStatus.WARN)
_ROUNDED = 2e-3


class NamedLimits(Struct, frozen=True, kw_only=True):
    """Limits of a check that its observed value is compared with; empty: there is none for that status."""

    warn: str = ""
    fail: str = ""
    is_bad: Callable[[float, float], bool] = operator.ge
    is_part: bool = False  # the limits are parts of the finding's `scale`

    def of(self, status: CheckStatus) -> str:
        """Return the limit behind a status."""
        return self.fail if status is CheckStatus.FAIL else self.warn


_LINK = (NamedLimits(warn="warnBelow", fail="failBelow", is_bad=operator.lt, is_part=True),)
_GDDR = NamedLimits(warn="warnBelowGddr", fail="failBelowGddr", is_bad=operator.lt, is_part=True)

NAMED_LIMITS: Mapping[str, tuple[NamedLimits, ...]] = {
    "ecc.dram.corr.rate": (NamedLimits(warn="errorsAnHour", is_bad=operator.gt),),
    "remap.count": (NamedLimits(warn="rows"),),
    "retired.pages": (NamedLimits(warn="warnPages", fail="failPages"),),
    "pcie.errors": (NamedLimits(warn="correctableAMinute", is_bad=operator.gt),),
    "temp.core": (NamedLimits(warn="warnDegrees", fail="failDegrees"),),
    "power.limit": (NamedLimits(warn="warnPercent", fail="failPercent", is_bad=operator.lt),),
    "amd.ecc": (NamedLimits(fail="uncorrectable", is_bad=operator.gt),),
    "amd.pcie.replay": (NamedLimits(warn="replaysAMinute", is_bad=operator.gt),),
    "amd.throttle": (NamedLimits(warn="percent", is_bad=operator.gt),),
    "pcie.h2d": _LINK,
    "pcie.d2h": _LINK,
    "hbm.bandwidth": (*_LINK, _GDDR),
    "p2p.bandwidth": (NamedLimits(fail="failBelow", is_bad=operator.lt),),
}
"""The checks whose limits a policy sets, with the names of those limits."""


def limit_names(check: str) -> frozenset[str]:
    """Return the limits of a check that a policy can set."""
    return frozenset(name for row in NAMED_LIMITS.get(check, ()) for name in (row.warn, row.fail) if name)


def rejudged_reports(
    reports: Mapping[str, NodeReport], facts: Mapping[str, FleetNode], policies: PolicyBook
) -> dict[str, NodeReport]:
    """Return reports as the policies of their nodes judge them; those of nodes that do not exist stay as they are."""
    return {
        name: rejudged_report(report, policies.of_labels(facts[name].labels)) if name in facts else report
        for name, report in reports.items()
    }


def rejudged_report(report: NodeReport, policy: HealthPolicy) -> NodeReport:
    """Return a report with its findings as the limits of a policy judge them; the same object if nothing changes."""
    limits = {check: rule.limits for check, rule in policy.checks.items() if rule.limits and check in NAMED_LIMITS}
    worse = [*_worse(report, limits)]
    if not worse and not any(one.check in limits for one in report.findings):
        return report
    judged = [rejudged(one, limits[one.check]) if one.check in limits else one for one in report.findings]
    judged = sorted([*judged, *worse], key=lambda one: one.key)
    passed = {one.check: one.profile for one in judged if one.status is CheckStatus.PASS}
    heavy = {check: profile for check, profile in passed.items() if profile.weight}
    return replace(
        report,
        findings=tuple(one for one in judged if one.status is not CheckStatus.PASS),
        passed=tuple(sorted({*report.passed, *passed})),
        passed_by=dict(sorted({**heavy, **report.passed_by}.items())),
    )


def _worse(report: NodeReport, limits: Mapping[str, Mapping[str, object]]) -> Iterator[HealthFinding]:
    """Yield what limits of a policy make of values that passed."""
    said, uuids = {one.key for one in report.findings}, {gpu.slot: gpu.uuid for gpu in report.gpus}
    for check in sorted(limits.keys() & report.measured.keys() & set(report.passed)):
        row = BY_ID[check]
        for slot, series in report.measured[check].items():
            names = next((one for one in NAMED_LIMITS[check] if _was_judged_by(one, series, row)), None)
            if (check, slot) in said or names is None or not series.newest:
                continue
            passed = HealthFinding(
                check=check,
                slot=slot,
                uuid=uuids.get(slot, ""),
                status=CheckStatus.PASS,
                message="",
                observed=series.newest[-1],
                unit=row.unit,
                profile=report.passed_by.get(check, row.profile),
                rule=series.rule,
                scale=series.scale,
            )
            yield from _failing(passed, names, limits[check])


def _failing(passed: HealthFinding, names: NamedLimits, own: Mapping[str, object]) -> Iterator[HealthFinding]:
    """Yield the failure or warning that a value is under limits of a policy; nothing if it is good."""
    observed = as_number(passed.observed) or 0.0
    for status in _BAD:
        limit = as_number(own.get(names.of(status)))
        if limit is not None and names.is_bad(_value(names, passed, observed), limit):
            found = _changed(passed, status, names, limit, own)
            text = f"{observed:.4g} {passed.unit}, worse than the policy's limit of {limit * _unit(names, passed):.4g}"
            yield replace(found, message=text)
            return


def _was_judged_by(names: NamedLimits, series: GpuSeries, row: HealthCheck) -> bool:
    """Say whether the agent judged these runs by the limit of this name, of several kinds of GPUs."""
    name, unit = names.warn or names.fail, series.scale if names.is_part and series.scale > 0 else 1.0
    usual = as_number(row.limits[name].value)
    return usual is None or math.isclose(usual, series.limit / unit, rel_tol=_ROUNDED)


def rejudged(finding: HealthFinding, limits: Mapping[str, object]) -> HealthFinding:
    """Return a finding as limits of a policy judge it. What is UNKNOWN or SKIP stays so."""
    observed = as_number(finding.observed)
    if finding.status not in _BAD or observed is None:
        return finding
    row = BY_ID[finding.check]
    names = next((one for one in NAMED_LIMITS[finding.check] if _is_reason(one, finding, observed, row)), None)
    own = {name: value for name, value in limits.items() if names is not None and name in (names.warn, names.fail)}
    if names is None or not own:
        return finding
    if odd := sorted(name for name, value in own.items() if as_number(value) is None):
        text = f"the threshold {odd[0]} of the policy is not a number"
        return replace(finding, status=CheckStatus.UNKNOWN, message=text, threshold=None)
    for status in _BAD:
        limit = _limit(names, status, finding, own)
        if limit is not None and names.is_bad(_value(names, finding, observed), limit):
            is_same = status is finding.status and names.of(status) not in own
            return finding if is_same else _changed(finding, status, names, limit, own)
    if finding.status is CheckStatus.FAIL and names.warn and _limit(names, CheckStatus.WARN, finding, own) is None:
        lifted = float(str(own[names.fail]))  # only the agent knows the limit of a warning
        return _changed(finding, CheckStatus.WARN, names, lifted, own)
    return replace(finding, status=CheckStatus.PASS)


def _is_reason(names: NamedLimits, finding: HealthFinding, observed: float, row: HealthCheck) -> bool:
    """Say whether the limit with this name is what the finding was judged by, and why it is bad."""
    name, judged = names.of(finding.status), _judged(names, finding)
    if not name or judged is None or not names.is_bad(_value(names, finding, observed), judged):
        return False
    usual = as_number(row.limits[name].value)
    is_usual = finding.threshold is not None and finding.threshold.source is row.limits[name].source
    return is_usual and (usual is None or math.isclose(usual, judged, rel_tol=_ROUNDED))


def _value(names: NamedLimits, finding: HealthFinding, observed: float) -> float:
    return observed / _unit(names, finding)


def _unit(names: NamedLimits, finding: HealthFinding) -> float:
    """Return what the limits are parts of; 1 for limits in the unit of the check."""
    return finding.scale if names.is_part and finding.scale > 0 else 1.0


def _judged(names: NamedLimits, finding: HealthFinding) -> float | None:
    """Return the limit that the agent judged by. An agent that does not tell the whole of a part tells no limit."""
    number = as_number(finding.threshold.value) if finding.threshold is not None else None
    if number is None or (names.is_part and finding.scale <= 0):
        return None
    return number / _unit(names, finding)


def _limit(names: NamedLimits, status: CheckStatus, finding: HealthFinding, own: Mapping[str, object]) -> float | None:
    """Return the limit of a status: of the policy, else what the agent judged by, else of the catalogue."""
    name = names.of(status)
    if name in own:
        return as_number(own[name])
    if status is finding.status:
        return _judged(names, finding)
    return as_number(BY_ID[finding.check].limits[name].value) if name else None


def _changed(
    finding: HealthFinding, status: CheckStatus, names: NamedLimits, limit: float, own: Mapping[str, object]
) -> HealthFinding:
    """Return a finding with another status, limit or both. The threshold is in the unit of the check."""
    row, is_same = BY_ID[finding.check], status is finding.status
    severity, action = weigh(row, CheckResult(status=status, message=""))
    usual = row.limits[names.of(status)]
    is_usual = names.of(status) not in own and as_number(usual.value) is not None
    return replace(
        finding,
        status=status,
        severity=finding.severity if is_same else severity,
        action=finding.action if is_same else action,
        threshold=Threshold(
            value=round(limit * _unit(names, finding), 3), source=usual.source if is_usual else ThresholdSource.POLICY
        ),
    )
