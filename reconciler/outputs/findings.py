"""A plan in, everything it complains about out: one list for annotations, SARIF, JUnit and the texts."""

from enum import StrEnum

from msgspec import Struct

from reconciler.core.objects import ObjectKey, SourceRef
from reconciler.core.plan import Breach, ExceptionInForce, Plan, Risk
from reconciler.core.policy.verdict import Result, Verdict
from reconciler.core.problems import Problem, Severity


class Level(StrEnum):
    """How loud a finding is; the names are those of SARIF."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Kind(StrEnum):
    """What part of the plan a finding comes from."""

    PROBLEM = "problem"
    VERDICT = "verdict"
    RISK = "risk"
    BUDGET = "budget"
    EXCEPTED = "excepted"  # a denial that an exception allows
    EXCEPTION = "exception"  # an exception that allows nothing any more


_LEVELS = {
    Result.DENY: Level.ERROR,
    Result.ERROR: Level.ERROR,
    Result.WARN: Level.WARNING,
    Result.AUDIT: Level.NOTE,
    Result.EXCEPTED: Level.NOTE,
}


class Finding(Struct, frozen=True, kw_only=True):
    """One complaint with its place in the sources. `subject` names the object on its cluster, if there is one."""

    kind: Kind
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
    """Return all findings: loudest first, then as the plan orders them."""
    found = [
        *(_of_problem(problem) for problem in plan.problems),
        *(_of_verdict(verdict) for verdict in plan.verdicts),
        *(_of_breach(breach, acknowledged=plan.acknowledged) for breach in plan.breaches),
        *(_of_risk(risk) for risk in plan.risks),
        *(_of_exception(exception) for exception in plan.exceptions if not exception.used),
    ]
    order = list(Level)
    return tuple(sorted(found, key=lambda finding: order.index(finding.level)))


def subject_of(cluster: str, key: ObjectKey) -> str:
    """Name an object for people: `Job research/gpt on main`."""
    name = "/".join(part for part in (key.namespace, key.name) if part)
    return " ".join(part for part in (key.kind, name, f"on {cluster}" if cluster else "") if part)


def where(place: SourceRef | None) -> str:
    """Write a place for people: the start of a file is the file, and no place is nothing."""
    if place is None:
        return ""
    return place.path if place.line <= 1 and place.column <= 1 else str(place)


def _of_problem(problem: Problem) -> Finding:
    return Finding(
        kind=Kind.PROBLEM,
        rule=problem.rule,
        level=Level.ERROR if problem.severity is Severity.ERROR else Level.WARNING,
        message=problem.message,
        place=problem.place,
        field=problem.field,
        hint=problem.hint,
    )


def _of_verdict(verdict: Verdict) -> Finding:
    return Finding(
        kind=Kind.EXCEPTED if verdict.result is Result.EXCEPTED else Kind.VERDICT,
        rule=verdict.rule,
        level=_LEVELS[verdict.result],
        message=verdict.message,
        place=verdict.place,
        field=verdict.field,
        hint=verdict.hint,
        subject=subject_of(verdict.cluster, verdict.key),
    )


def _of_risk(risk: Risk) -> Finding:
    return Finding(
        kind=Kind.RISK,
        rule=risk.rule,
        level=Level.WARNING,
        message=risk.message,
        place=risk.place,
        hint=risk.hint,
        subject=subject_of(risk.cluster, risk.key),
    )


def _of_breach(breach: Breach, *, acknowledged: bool) -> Finding:
    return Finding(
        kind=Kind.BUDGET,
        rule=f"budget.{breach.budget}",
        level=Level.NOTE if acknowledged else Level.ERROR,
        message=breach.message,
    )


def _of_exception(exception: ExceptionInForce) -> Finding:
    return Finding(
        kind=Kind.EXCEPTION,
        rule=exception.rule,
        level=Level.NOTE,
        message=f"the exception for {exception.target} until {exception.expires} allows nothing any more",
        place=exception.place,
        hint=f"remove the file; its owner is {exception.owner}",
    )
