"""The age of evidence and the end of quarantines, by the date of the plan, so that a plan can be repeated."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Protocol

from reconciler.kinds.kind import Kinds
from reconciler.kube.values import mapping, plural, text
from reconciler.kube.yaml import Document
from reconciler.policy.references.rules import Evaluation
from reconciler.policy.verdict import Verdict
from reconciler.repo.config import Cluster, RuleSetting

_RULE = "evidence.age"
_FIELD = ("spec", "takenAt")
_EARLIEST = date(2010, 1, 1)  # a clock that was never set starts in 1970 or 2000


class DatedEvidence(Protocol):
    """Evidence about a cluster with the time when it was recorded, RFC 3339."""

    @property
    def taken_at(self) -> str:
        """The time of the record."""
        ...

    @property
    def document(self) -> Document | None:
        """The file."""
        ...


def utc_date(timestamp: str) -> date | None:
    """Return the UTC date of an RFC 3339 timestamp or of a date; None for an empty text, the year 1 if out of range."""
    if not timestamp:
        return None
    try:
        moment = datetime.fromisoformat(timestamp.upper().replace(":60", ":59"))  # `datetime` has no leap seconds
        return (moment.astimezone(UTC) if moment.tzinfo else moment).date()
    except (ValueError, OverflowError):
        return date.min


def age_in_days(timestamp: str, today: date | None) -> int | None:
    """Return the age of what was recorded at a time, negative for the future; None if nothing says so."""
    taken = utc_date(timestamp)
    return None if taken is None or today is None else (today - taken).days


def evidence_ages(evidence: Mapping[str, DatedEvidence], today: date | None) -> dict[str, int]:
    """Return the age of the evidence of each cluster in days; negative for one from the future."""
    ages = {cluster: age_in_days(one.taken_at, today) for cluster, one in evidence.items()}
    return {cluster: days for cluster, days in ages.items() if days is not None}


def evaluate_age(  # noqa: PLR0917 - the parts of a cluster
    kinds: Kinds,
    clusters: Sequence[Cluster],
    evidence: Mapping[str, DatedEvidence],
    settings: Mapping[str, RuleSetting],
    today: date | None,
    max_days: int | None,
    *,
    is_committed: bool = True,
) -> tuple[Verdict, ...]:
    """Evaluate the rule `evidence.age`. `today` is the date of the plan; None before the first commit.

    Evidence that is not committed yet may be newer than the head commit.
    """
    ages = evidence_ages(evidence, today)
    verdicts: list[Verdict] = []
    for cluster in clusters:
        known = evidence.get(cluster.name)
        if known is None or known.document is None:
            continue
        taken = utc_date(known.taken_at)
        message = "" if taken is None else _message(taken, ages.get(cluster.name, 0), max_days)
        if not is_committed and taken and today and today < taken:
            continue
        if message:
            evaluation = Evaluation(kinds=kinds, cluster=cluster, settings=settings)
            place, hint = known.document.at(_FIELD), "run `reconciler observe`, and commit the new evidence"
            evaluation.report_object(_RULE, known.document.key, place, message, hint=hint, field="spec.takenAt")
            verdicts += evaluation.verdicts
    return tuple(verdicts)


def _message(taken: date, age: int, max_days: int | None) -> str:
    if taken < _EARLIEST:
        return f"is dated {taken}, so the clock of the machine was wrong"
    if age < 0:
        return f"is dated {taken}, after the date of the plan"
    if max_days is not None and age > max_days:
        return f"is dated {taken}; spec.evidence.maxAge allows an age of {plural(max_days, 'day')}"
    return ""


_ENDED = "health.quarantine-ended"
_UNTIL = ("spec", "until")


def evaluate_expiry(
    kinds: Kinds,
    clusters: Sequence[Cluster],
    quarantines: Mapping[str, Iterable[Document]],
    settings: Mapping[str, RuleSetting],
    today: date | None,
) -> tuple[Verdict, ...]:
    """Evaluate the rule about quarantines whose last day is over. `today` is the date of the plan."""
    verdicts: list[Verdict] = []
    for cluster in clusters:
        evaluation = Evaluation(kinds=kinds, cluster=cluster, settings=settings)
        for document in quarantines.get(cluster.name, ()):
            spec = mapping(document.data.get("spec"))
            last = utc_date(text(spec.get("until")))
            if last is None or last == date.min or today is None or last >= today:
                continue
            message = f"ended on {last}, but the plan still counts node {text(spec.get('node'))} as kept out of use"
            hint = "remove the file, or set a later `until`"
            evaluation.report_object(_ENDED, document.key, document.at(_UNTIL), message, hint=hint, field="spec.until")
        verdicts += evaluation.verdicts
    return tuple(verdicts)
