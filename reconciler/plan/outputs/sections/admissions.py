"""The section about admission: which workloads start, wait or never start, and whom they displace."""

from collections.abc import Iterator, Sequence

from reconciler.console.page import Style, Styled
from reconciler.kube.values import plural
from reconciler.plan import AdmissionLine, Displaced
from reconciler.plan.outputs.findings import qualified_name
from reconciler.plan.outputs.sections.model import Column, Form, Name, PageSection, Row, SentenceBlock, TableBlock, View

_COLUMNS = (Column("workload"), Column("cluster"), Column("queue"), Column("forecast"), Column("", Form.NOTE))
_STYLES = {
    "starts": Style.CREATED,
    "preempts": Style.WARNING,
    "preempted": Style.DELETED,
    "over": Style.WARNING,
    "waits": Style.WARNING,
    "never": Style.ERROR,
    "unknown": Style.WARNING,
}
_WORDS = {"starts": "starts now", "over": "over its quota"}
_MOST_DISPLACED = 3
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def admissions(view: View) -> PageSection | None:
    """Return a row for each workload that changes or that the change reaches; none without evidence of use."""
    lines = view.plan.admissions
    if not lines:
        return None
    table = TableBlock(columns=_COLUMNS, rows=tuple(map(_row, lines)))
    return PageSection(title="Admission", blocks=(table, *_sources(lines)))


def _row(line: AdmissionLine) -> Row:
    return (
        Styled(qualified_name(line.key), Style.STRONG),
        Name(line.cluster),
        Name(f"{line.queue} ({line.cohort})" if line.cohort and line.verdict == "waits" else line.queue),
        Styled(_WORDS.get(line.verdict, line.verdict), _STYLES[line.verdict]),
        "; ".join(_notes(line)),
    )


def _notes(line: AdmissionLine) -> Iterator[str]:
    if line.reason:
        yield line.reason
    if line.pods is not None:
        yield f"with {plural(line.pods, 'pod')} of those it wants"
    if line.flavors:
        yield f"on {', '.join(line.flavors)}"
    if line.displaces:
        shown = [_displaced(one) for one in line.displaces[:_MOST_DISPLACED]]
        more = len(line.displaces) - len(shown)
        yield f"preempts {', '.join(shown)}" + (f" and {more} more" if more else "")
    if line.wait_seconds is not None:
        low, high = map(duration, line.wait_seconds)
        yield (
            f"half of {plural(line.wait_samples, 'workload')} there waited {low} or less in {line.wait_window},"
            f" 9 of 10 {high} or less"
        )


def _displaced(one: Displaced) -> str:
    ran = f", which ran for {duration(one.seconds)}" if one.seconds is not None else ""
    return f"{qualified_name(one.key)} ({plural(one.gpus, 'GPU')}{ran}; {one.reason})"


def duration(seconds: int) -> str:
    """Return a duration in its two greatest units: `2d 3h`."""
    if seconds < _MINUTE:
        return f"{seconds}s"
    units = ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m"))
    parts = []
    for size, name in units:
        if seconds >= size:
            parts.append(f"{seconds // size}{name}")
            seconds %= size
    return " ".join(parts[:2])


def _sources(lines: Sequence[AdmissionLine]) -> Iterator[SentenceBlock]:
    """Yield when the evidence of each cluster was recorded: what ran since then is not known."""
    for cluster, moment, days in sorted({(one.cluster, one.observed_at, one.evidence_days or 0) for one in lines}):
        age = f", {plural(days, 'day')} before" if days > 0 else ""
        start = "A forecast from what ran and waited on "
        yield SentenceBlock((start, Name(cluster), " at ", Name(moment), f"{age}, not a promise"))
