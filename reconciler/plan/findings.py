"""The findings of a plan: problems, and verdicts with exceptions applied, on the date of the plan."""

import datetime as dt
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision, read_files
from reconciler.index.context import quarantines_of
from reconciler.index.dependencies import DefinitionDependency, decode_dependencies
from reconciler.index.evaluator import PolicyFindings, first_exceeded
from reconciler.index.evidence import read_evidence
from reconciler.index.store import ObjectTotals
from reconciler.index.totals import kueue_version
from reconciler.kinds.health import QUARANTINE
from reconciler.kube.patterns import later
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.values import plural
from reconciler.plan.inputs import UsageEvidence
from reconciler.plan.updates import Update
from reconciler.policy.exceptions import ExceptionInForce, apply_exceptions
from reconciler.policy.references import evaluate_age, evaluate_expiry, evaluate_shrinks, evidence_ages, utc_date
from reconciler.policy.references.age import age_in_days
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.config import Config, RuleSetting
from reconciler.repo.files import BlobIds, report_files
from reconciler.repo.port import Repository
from reconciler.repo.revision import LoadedRevision, TreeReference
from reconciler.sizing.inventory import Inventory, with_quarantined


class PlanFindings(Struct, frozen=True, kw_only=True):
    """Sorted problems and verdicts, and the exceptions in force.

    blocked: source files without errors that need what a file with errors defines.
    """

    problems: tuple[Problem, ...]
    verdicts: tuple[Verdict, ...]
    exceptions: tuple[ExceptionInForce, ...]
    blocked: frozenset[str] = frozenset()


def collect_findings(
    index: CompiledRevision, evaluation: PolicyFindings, others: Iterable[Problem], day: dt.date | None
) -> PlanFindings:
    """Return problems, and the verdicts with the exceptions that are valid on a day; without one all are.

    A policy that exceeds a limit has that error and no other verdict: which objects it was evaluated on depends on the
    order.
    """
    excepted = apply_exceptions(evaluation.verdicts, index.context.exceptions, day.isoformat() if day else "")
    exceeded = first_exceeded(evaluation.exceeded)
    verdicts = [verdict for verdict in excepted.verdicts if verdict.rule not in exceeded]
    verdicts += (replace(verdict, labels=()) for verdict in exceeded.values())
    problems = [*index.problems(), *others, *excepted.problems]
    return PlanFindings(
        problems=tuple(sorted(problems, key=lambda problem: problem.sort_key)),
        verdicts=tuple(sorted(verdicts, key=lambda verdict: verdict.sort_key)),
        exceptions=excepted.in_force,
    )


def own_verdicts(  # noqa: PLR0917 - the parts of a plan
    index: CompiledRevision,
    totals: ObjectTotals,
    updates: Mapping[str, Update],
    inventories: Mapping[str, Inventory],
    config: Config,
    day: dt.date | None,
    *,
    is_dated: bool,
) -> PolicyFindings:
    """Return the verdicts by the rules of the head. Policies evaluate an update beside what it replaces.

    inventories: those of the base.
    """
    updated = {(update.comparison.cluster, update.comparison.key) for update in updates.values()}
    policies = set(index.context.policies.rules)
    verdicts = [
        verdict
        for verdict in index.verdicts(totals)
        if (verdict.cluster, verdict.key) not in updated or verdict.rule not in policies
    ]
    exceeded = [verdict for verdict in index.exceeded() if (verdict.cluster, verdict.key) not in updated]
    for update in updates.values():
        verdicts += update.verdicts
        exceeded += update.exceeded
    verdicts += judge_evidence(index, inventories, config, config.rules, day, is_dated=is_dated)
    return PolicyFindings(tuple(verdicts), tuple(exceeded))


def judge_evidence(
    index: CompiledRevision,
    before: Mapping[str, Inventory],
    config: Config,
    rules: Mapping[str, RuleSetting],
    day: dt.date | None,
    *,
    is_dated: bool,
) -> tuple[Verdict, ...]:
    """Evaluate the rules about evidence and quarantines. Evidence of a working tree may be newer than its commit."""
    context = index.context
    shrinks = evaluate_shrinks(context.kinds, index.clusters, before, context.evidence.inventories, rules)
    is_committed = is_dated or index.revision.tree.commit is not None
    ages = (
        verdict
        for evidence in (context.evidence.inventories, context.evidence.health, context.evidence.definitions)
        for verdict in evaluate_age(
            context.kinds, index.clusters, evidence, rules, day, config.evidence_days, is_committed=is_committed
        )
    )
    quarantines = {
        cluster.name: [each.document for each in context.definitions.get((cluster.name, QUARANTINE, ""), {}).values()]
        for cluster in index.clusters
    }
    ends = evaluate_expiry(context.kinds, index.clusters, quarantines, rules, day)
    return (*shrinks, *ages, *ends)


def plan_date(index: CompiledRevision, base: TreeReference, date: str) -> dt.date | None:
    """Return the given date, else the later UTC date of the head commit and of the base branch; None without commits.

    So a commit with an early date does not bring expired exceptions back.
    """
    if date:
        return utc_date(date)
    tips = (index.revision.tree.tip, base.branch_tip, base.tip)
    return max((day for tip in tips if tip and (day := utc_date(tip.committed_at))), default=None)


def ages_of_evidence(index: CompiledRevision, config: Config, day: dt.date | None) -> dict[str, int]:
    """Return the ages in days that a reviewer should see: of evidence older than a day, and all if there is a limit."""
    ages = evidence_ages(index.context.evidence.inventories, day)
    return {name: days for name, days in ages.items() if config.evidence_days is not None or days > _RECENT_DAYS}


_RECENT_DAYS = 1


def age_of(index: CompiledRevision, timestamp: str, day: dt.date | None) -> int | None:
    """Return the age of evidence in days. That of a working tree may be newer than its commit: it is of today."""
    days = age_in_days(timestamp, day)
    return days if days is None or index.revision.tree.commit is not None else max(days, 0)


def usage_evidence(index: CompiledRevision, day: dt.date | None) -> dict[str, UsageEvidence]:
    """Return the evidence of use with its age in days."""
    found: dict[str, UsageEvidence] = {}
    for cluster, usage in index.context.evidence.usage.items():
        days = age_of(index, usage.observed_at, day)
        found[cluster] = UsageEvidence(found=usage, days=days, kueue=kueue_version(index, cluster))
    return found


# What follows from the error of another file: a queue that cannot be read, and the jobs that name it.

_NO_DEFINITION = "torchrun.queue-unknown"
_NO_OBJECT = "reference."
_MAX_FILES = 3  # in one message


def fold_consequences(repository: Repository, index: CompiledRevision, findings: PlanFindings) -> PlanFindings:
    """Replace what is missing only because its file has errors by one note at that file.

    The files of what needs it are `blocked`: what they rendered stays as it is.
    """
    broken = _first_errors(index, findings.problems)
    missing = _missing_names(index, findings) if broken else {}
    waiting = _waiting(_broken_files(repository, index, broken), missing) if missing else {}
    if not waiting:
        return findings
    folded = {finding for found in waiting.values() for finding in found}
    notes = [_note(broken[path], found) for path, found in waiting.items()]
    problems = [*(problem for problem in findings.problems if problem not in folded), *notes]
    return replace(
        findings,
        problems=tuple(sorted(problems, key=lambda problem: problem.sort_key)),
        verdicts=tuple(verdict for verdict in findings.verdicts if verdict not in folded),
        blocked=frozenset(finding.place.path for finding in folded),
    )


Finding = Problem | Verdict
Names = frozenset[tuple[str, str]]  # kinds and names of definitions or objects


def _first_errors(index: CompiledRevision, problems: Sequence[Problem]) -> dict[str, Problem]:
    """Return the first error of each source file that has errors of its own, by path."""
    sources = index.revision.files.sources
    errors: dict[str, Problem] = {}
    for problem in problems:
        is_own = problem.severity is Severity.ERROR and problem.rule != _NO_DEFINITION
        if is_own and problem.place.path in sources:
            errors.setdefault(problem.place.path, problem)
    return errors


def _missing_names(index: CompiledRevision, findings: PlanFindings) -> dict[Finding, Names]:
    """Return what each finding misses, if it says that something is missing."""
    unknown = [problem for problem in findings.problems if problem.rule == _NO_DEFINITION]
    needed = {path: _missing_definitions(index, path) for path in dict.fromkeys(one.place.path for one in unknown)}
    dangling = {
        verdict: index.context.kinds.manifest_path(verdict.cluster, verdict.key)
        for verdict in findings.verdicts
        if verdict.rule.startswith(_NO_OBJECT) and verdict.result in (Result.DENY, Result.WARN)
    }
    summaries = index.summaries({path for path in dangling.values() if path in index.sources})
    missing: dict[Finding, Names] = {problem: needed[problem.place.path] for problem in unknown}
    for verdict, path in dangling.items():
        references = summaries[path].references if path in summaries else ()
        missing[verdict] = frozenset((one.kind, one.name) for one in references if one.field == verdict.field)
    return missing


def _missing_definitions(index: CompiledRevision, path: str) -> Names:
    definitions = index.context.definitions
    return frozenset(
        (needed.kind, needed.name)
        for needed in decode_dependencies(index.records[path].dependencies)
        if isinstance(needed, DefinitionDependency)
        and needed.name not in definitions.get((needed.cluster, (needed.group, needed.kind), needed.namespace), ())
    )


def _broken_files(
    repository: Repository, index: CompiledRevision, broken: Iterable[str]
) -> Iterator[tuple[str, bytes]]:
    """Return the texts of files that may define what other files need."""
    return iter(read_files(repository, index.revision.files.sources, sorted(broken)))


def _waiting(texts: Iterable[tuple[str, bytes]], missing: Mapping[Finding, Names]) -> dict[str, list[Finding]]:
    """Return the findings about what a file with errors may define, by its path; each with the first such file."""
    waiting: dict[str, list[Finding]] = {}
    left = dict(missing)
    for path, text in texts:
        may_define = _defined(text, {kind for names in left.values() for kind, _ in names})
        found = [finding for finding, names in left.items() if path != finding.place.path and names & may_define]
        if found:
            waiting[path] = found
        for finding in found:
            del left[finding]
    return waiting


_NAMED = later(rb"""\b(?:name|kaiQueue)["']?\s*:\s*["']?([^"'\s,}]+)""")


def _defined(text: bytes, kinds: Collection[str]) -> Names:
    """Return what a file that has errors may define, by its text. A TorchrunQueue renders to a Queue."""
    named = {name.decode("utf-8", "replace") for name in _NAMED.findall(text)}
    return frozenset((kind, name) for kind in kinds if kind.encode() in text for name in named)


def _note(error: Problem, found: Sequence[Finding]) -> Problem:
    files = sorted({finding.place.path for finding in found})
    count = len({str(finding.place) for finding in found})
    shown = ", ".join(files[:_MAX_FILES]) + (" …" if len(files) > _MAX_FILES else "")
    message = f"needed by {plural(count, 'object')} in {plural(len(files), 'other file')}: {shown}"
    return Problem(
        rule="source.referenced",
        place=error.place,
        message=message,
        hint="their objects are left unchanged until this file is valid",
        severity=Severity.NOTE,
    )


# The evidence of the base, to compare that of the head with.


def inventories_before(
    repository: Repository, index: CompiledRevision, base: LoadedRevision
) -> Mapping[str, Inventory]:
    """Return the inventories of the base, without the nodes that the head keeps out of use.

    Those of clusters whose files are the same are not read again.
    """
    head, current = index.revision, index.context.evidence.inventories
    definitions = index.context.definitions
    old, new = _by_cluster(base), _by_cluster(head)
    changed = {cluster for cluster in (*old, *new) if old.get(cluster) != new.get(cluster)}
    if not changed:
        return current
    blobs = {path: blob for cluster in sorted(changed) for path, blob in old.get(cluster, {}).items()}
    files = index.parser.parse(
        [*blobs.items()], lambda missing: repository.read([base.files.evidence[path] for path in missing])
    )
    read = read_evidence(base.config, index.clusters, index.engine.kinds, files).inventories
    before = {cluster: one for cluster, one in current.items() if cluster not in changed}
    for cluster, one in read.items():
        taken = {each.node for each in quarantines_of(definitions, cluster).values() if each.takes_node}
        before[cluster] = with_quarantined(one, taken)
    return before


def _by_cluster(revision: LoadedRevision) -> dict[str, BlobIds]:
    """Return the evidence files of each cluster, the folder below that of the evidence, without stored reports."""
    files: dict[str, dict[str, str]] = {}
    reports = report_files(revision.config, revision.files.evidence)
    for path, blob in revision.files.evidence.items():
        if path in reports:
            continue
        cluster = path.removeprefix(f"{revision.config.evidence}/").partition("/")[0]
        files.setdefault(cluster, {})[path] = blob
    return {**files}
