"""Findings: everything a plan reports as wrong or risky, in one form for every output."""

from enum import StrEnum

from msgspec import Struct

from reconciler.core.config.changes import SettingChange
from reconciler.core.objects import ObjectKey, SourceRef
from reconciler.core.plan import Breach, ExceptionInForce, Plan, Risk
from reconciler.core.policy.verdict import Result, Verdict
from reconciler.core.problems import Problem, Severity


class Level(StrEnum):
    """How severe a finding is, by the names of SARIF."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Category(StrEnum):
    """The part of the plan that a finding comes from."""

    PROBLEM = "problem"
    VERDICT = "verdict"
    RISK = "risk"
    BUDGET = "budget"
    SETTING = "setting"  # a setting that the change weakens
    EXCEPTED = "excepted"  # a denial that an exception allows
    EXCEPTION = "exception"  # an exception that is no longer used


_LEVELS = {
    Result.DENY: Level.ERROR,
    Result.ERROR: Level.ERROR,
    Result.WARN: Level.WARNING,
    Result.AUDIT: Level.NOTE,
    Result.EXCEPTED: Level.NOTE,
}


class Finding(Struct, frozen=True, kw_only=True):
    """One finding with its rule, its place in the sources and a hint. `subject` names the object and its cluster."""

    category: Category
    rule: str
    level: Level
    message: str
    place: SourceRef | None = None
    field: str = ""
    hint: str = ""
    subject: str = ""

    @property
    def sentence(self) -> str:
        """Subject, field, message and hint on one line, without place and rule."""
        start = "".join(f"{part}: " for part in (self.subject, self.field) if part)
        return f"{start}{self.message}" + (f"; {self.hint}" if self.hint else "")


def findings(plan: Plan) -> tuple[Finding, ...]:
    """Return all findings: errors first, then warnings, then notes, each in the order of the plan."""
    everything = [
        *(_from_problem(problem) for problem in plan.problems),
        *(_from_verdict(verdict) for verdict in plan.verdicts),
        *(_from_breach(breach, acknowledged=plan.acknowledged) for breach in plan.breaches),
        *(_from_setting(change) for change in plan.settings if change.weakens),
        *(_from_risk(risk) for risk in plan.risks),
        *(_from_exception(exception) for exception in plan.exceptions if not exception.used),
    ]
    order = list(Level)
    return tuple(sorted(everything, key=lambda finding: order.index(finding.level)))


def qualified_name(key: ObjectKey) -> str:
    """Return `namespace/name`, or the name alone for objects without a namespace."""
    return "/".join(part for part in (key.namespace, key.name) if part)


def subject_of(cluster: str, key: ObjectKey) -> str:
    """Name an object for people: `Job research/gpt on main`."""
    return " ".join(part for part in (key.kind, qualified_name(key), f"on {cluster}" if cluster else "") if part)


def where(place: SourceRef | None) -> str:
    """Format a place for people: only the path for the start of a file, the empty string for None."""
    if place is None:
        return ""
    return place.path if place.line <= 1 and place.column <= 1 else str(place)


def _from_problem(problem: Problem) -> Finding:
    return Finding(
        category=Category.PROBLEM,
        rule=problem.rule,
        level=Level.ERROR if problem.severity is Severity.ERROR else Level.WARNING,
        message=problem.message,
        place=problem.place,
        field=problem.field,
        hint=problem.hint,
    )


def _from_verdict(verdict: Verdict) -> Finding:
    return Finding(
        category=Category.EXCEPTED if verdict.result is Result.EXCEPTED else Category.VERDICT,
        rule=verdict.rule,
        level=_LEVELS[verdict.result],
        message=verdict.message,
        place=verdict.place,
        field=verdict.field,
        hint=verdict.hint,
        subject=subject_of(verdict.cluster, verdict.key),
    )


def _from_risk(risk: Risk) -> Finding:
    return Finding(
        category=Category.RISK,
        rule=risk.rule,
        level=Level.WARNING,
        message=risk.message,
        place=risk.place,
        hint=risk.hint,
        subject=subject_of(risk.cluster, risk.key),
    )


def _from_setting(change: SettingChange) -> Finding:
    return Finding(
        category=Category.SETTING,
        rule="settings.weaker",
        level=Level.WARNING,
        message=f"{change.setting}: {change.before} -> {change.after}"
        + (f"; {change.effect}" if change.effect else ""),
        place=change.place,
    )


def _from_breach(breach: Breach, *, acknowledged: bool) -> Finding:
    return Finding(
        category=Category.BUDGET,
        rule=f"budget.{breach.budget}",
        level=Level.NOTE if acknowledged else Level.ERROR,
        message=breach.message,
    )


def _from_exception(exception: ExceptionInForce) -> Finding:
    return Finding(
        category=Category.EXCEPTION,
        rule=exception.rule,
        level=Level.NOTE,
        message=f"the exception for {exception.target}, which expires on {exception.expires}, is no longer used",
        place=exception.place,
        hint=f"delete the file; its owner is {exception.owner}",
    )
