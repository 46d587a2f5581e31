"""Findings: everything a plan reports as wrong or risky, in one form for every output."""

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from reconciler.console.printable import clip_middle, printable
from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.kube.problems import Problem
from reconciler.kube.values import plural
from reconciler.plan import Approval, Breach, ExceptionInForce, Harm, Plan, Risk
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config.changes import SettingChange


class Level(StrEnum):
    """The severity of a finding, by the names of SARIF."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Category(StrEnum):
    """The part of the plan that a finding comes from."""

    PROBLEM = "problem"
    VERDICT = "verdict"
    RISK = "risk"
    BUDGET = "budget"
    EDITED = "edited"  # a rendered file that was edited by hand
    SETTING = "setting"  # a setting that the change weakens
    EXCEPTED = "excepted"  # a denial that an exception allows
    EXCEPTION = "exception"  # an exception that is no longer used
    APPROVAL = "approval"  # an approval that does not apply


_WORDS = 4  # of `Job research/gpt on main`
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
    label: str = ""  # what a reviewer should know about the rule, such as the harm of a risk

    @property
    def sentence(self) -> str:
        """Subject, field, message and hint on one line, without place and rule."""
        start = "".join(f"{part}: " for part in (self.subject, self.field) if part)
        return f"{start}{self.message}" + (f"; {self.hint}" if self.hint else "")


def findings(plan: Plan) -> tuple[Finding, ...]:
    """Return all findings: errors first, then warnings, then notes, each in the order of the plan."""
    everything = [
        *map(finding_of, plan.problems),
        *map(finding_of, plan.verdicts),
        *map(_from_edited, plan.edited),
        *map(_from_breach, plan.breaches),
        *(_from_setting(change) for change in plan.settings if change.weakens),
        *map(finding_of, plan.risks),
        *(_from_exception(exception) for exception in plan.exceptions if not exception.used),
        *(_from_approval(approval) for approval in plan.approvals if approval.ignored and not approval.is_merged),
    ]
    order = list(Level)
    return tuple(sorted(everything, key=lambda finding: order.index(finding.level)))


class FindingEntry(Struct, frozen=True, kw_only=True):
    """Findings that say the same about several objects or places."""

    first: Finding
    others: tuple[Finding, ...] = ()

    @property
    def names(self) -> tuple[str, tuple[str, ...]]:
        """The common kind (`Job on main`) and the names; or nothing, and the places or full names."""
        names = tuple(dict.fromkeys(name_of(finding) for finding in (self.first, *self.others)))
        words = [name.split(" ") for name in names]
        kinds = {(kind, cluster) for kind, _, _, cluster in words} if all(len(word) == _WORDS for word in words) else ()
        if len(kinds) != 1:
            return "", names
        return f"{words[0][0]} on {words[0][-1]}", tuple(word[1] for word in words)


class FindingGroup(Struct, frozen=True, kw_only=True):
    """The findings of one rule and level."""

    first: Finding
    count: int
    entries: tuple[FindingEntry, ...]

    @property
    def hint(self) -> str:
        """The hint that all findings share, if there is one."""
        hints = {entry.first.hint for entry in self.entries}
        return self.first.hint if len(hints) == 1 else ""


def group_findings(members: Iterable[Finding]) -> tuple[FindingGroup, ...]:
    """Group findings by rule, and those of a rule by what they say, in the order in which they first appear."""
    rules: dict[tuple[str, Level], dict[tuple[str, str, str], list[Finding]]] = {}
    for finding in members:
        entries = rules.setdefault((finding.rule, finding.level), {})
        entries.setdefault((finding.field, finding.message, finding.hint), []).append(finding)
    return tuple(
        FindingGroup(
            first=next(iter(entries.values()))[0],
            count=sum(map(len, entries.values())),
            entries=tuple(FindingEntry(first=same[0], others=tuple(same[1:])) for same in entries.values()),
        )
        for entries in rules.values()
    )


def name_of(finding: Finding) -> str:
    """Return the place of a finding, else its object. A risk without a line is about the object, not about its file."""
    if finding.category is Category.RISK and finding.place is not None and finding.place.line <= 1:
        return finding.subject or where(finding.place)
    return where(finding.place) or finding.subject


def qualified_name(key: ObjectKey) -> str:
    """Return `namespace/name`, or the name alone for objects without a namespace."""
    return "/".join(part for part in (key.namespace, key.name) if part)


def subject_of(cluster: str, key: ObjectKey) -> str:
    """Name an object for people: `Job research/gpt on main`."""
    return " ".join(part for part in (key.kind, qualified_name(key), f"on {cluster}" if cluster else "") if part)


def loss_headline(plan: Plan) -> Iterator[str]:
    """Yield a sentence that names what data may be lost: the one thing that no revert brings back."""
    lost = [subject_of(risk.cluster, risk.key) for risk in plan.risks if risk.harm is Harm.DATA_LOSS]
    if lost:
        names = ", ".join(clip_middle(printable(name), _NAME_CELLS) for name in lost[:_NAMES])
        more = f" and {len(lost) - _NAMES:,} more" if len(lost) > _NAMES else ""
        yield f"Data may be lost: {names}{more}"


_NAMES, _NAME_CELLS = 2, 60  # of a headline


def where(place: SourceRef | None) -> str:
    """Format a place for people: only the path for the start of a file, the empty string for None."""
    if place is None:
        return ""
    return place.path if place.line <= 1 and place.column <= 1 else str(place)


def finding_of(origin: Problem | Verdict | Risk) -> Finding:
    """Return one finding of a plan in the form of outputs."""
    match origin:
        case Problem():
            return _from_problem(origin)
        case Verdict():
            return _from_verdict(origin)
    return _from_risk(origin)


def _from_problem(problem: Problem) -> Finding:
    return Finding(
        category=Category.PROBLEM,
        rule=problem.rule,
        level=Level(problem.severity.value),
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
        label="" if risk.harm is Harm.OTHER else risk.harm.value,
    )


def _from_edited(path: str) -> Finding:
    return Finding(
        category=Category.EDITED,
        rule="rendered.edited",
        level=Level.ERROR,
        message="differs from what the sources render",
        place=SourceRef(path=path),
        hint="run `reconciler commit` on this branch; do not edit rendered/ by hand",
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


def _from_breach(breach: Breach) -> Finding:
    return Finding(
        category=Category.BUDGET,
        rule=f"budget.{breach.budget}",
        level=Level.NOTE if breach.approved else Level.ERROR,
        message=f"{breach.message}{' (approved)' if breach.approved else ''}",
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


def _from_approval(approval: Approval) -> Finding:
    return Finding(
        category=Category.APPROVAL,
        rule="approval.not-used",
        level=Level.WARNING,
        message=f"is not used: {approval.ignored}",
        place=approval.place,
        hint="review the plan and run `reconciler approve` again, or remove the file",
    )


def lint_headline(plan: Plan) -> str:
    """Return the result of lint as one phrase: `2 errors and 1 warning in 2 files`."""
    everything = findings(plan)
    levels = Counter(finding.level for finding in everything)
    parts = [plural(levels[level], str(level)) for level in Level if levels[level]]
    files = {finding.place.path for finding in everything if finding.place}
    if not parts:
        return "No problems found"
    *most, last = parts
    listed = f"{', '.join(most)} and {last}" if most else last
    return listed + (f" in {plural(len(files), 'file')}" if files else "")
