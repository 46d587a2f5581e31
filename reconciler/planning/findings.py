"""What a plan reports: problems, and verdicts with exceptions applied, on the date of the plan."""

import datetime as dt
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.config import Config, RuleSetting
from reconciler.core.inventory import Inventory
from reconciler.core.policy.exceptions import ExceptionInForce, apply_exceptions
from reconciler.core.policy.references import evaluate_age, evaluate_shrinks, evidence_ages, utc_date
from reconciler.core.policy.verdict import Result, Verdict
from reconciler.core.problems import Problem, Severity
from reconciler.core.values import plural
from reconciler.index.build import CompiledRevision, Runtime, read_files
from reconciler.index.dependencies import DefinitionDependency, decode_dependencies
from reconciler.index.evaluator import PolicyFindings, first_exceeded
from reconciler.index.evidence import read_evidence
from reconciler.index.parsed import CachedParser
from reconciler.index.store import ObjectTotals
from reconciler.planning.updates import Update
from reconciler.revision.files import BlobIds
from reconciler.revision.revision import LoadedRevision, TreeReference


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
    verdicts = [*(verdict for verdict in excepted.verdicts if verdict.rule not in exceeded), *exceeded.values()]
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
    """Evaluate the rules about evidence. That of a working tree may be newer than its commit."""
    context = index.context
    shrinks = evaluate_shrinks(context.kinds, index.clusters, before, context.evidence.inventories, rules)
    ages = evaluate_age(
        context.kinds,
        index.clusters,
        context.evidence.inventories,
        rules,
        day,
        config.evidence_days,
        is_committed=is_dated or index.revision.tree.commit is not None,
    )
    return (*shrinks, *ages)


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


# What follows from the error of another file: a queue that cannot be read, and the jobs that name it.

_NO_DEFINITION = "torchrun.queue-unknown"
_NO_OBJECT = "reference."
_MAX_FILES = 3  # in one message


def fold_consequences(runtime: Runtime, index: CompiledRevision, findings: PlanFindings) -> PlanFindings:
    """Replace what is missing only because its file has errors by one note at that file.

    The files of what needs it are `blocked`: what they rendered stays as it is.
    """
    missing = {finding: names for finding in _candidates(findings) if (names := _missing_names(index, finding))}
    texts = _broken_files(runtime, index, findings.problems) if missing else {}
    waiting: dict[str, list[Problem | Verdict]] = {}
    for finding, names in missing.items():
        for path, text in texts.items():
            if path != finding.place.path and _may_define(text, names):
                waiting.setdefault(path, []).append(finding)
                break
    if not waiting:
        return findings
    folded = {finding for found in waiting.values() for finding in found}
    notes = [_note(findings.problems, path, found) for path, found in waiting.items()]
    problems = [*(problem for problem in findings.problems if problem not in folded), *notes]
    return replace(
        findings,
        problems=tuple(sorted(problems, key=lambda problem: problem.sort_key)),
        verdicts=tuple(verdict for verdict in findings.verdicts if verdict not in folded),
        blocked=frozenset(finding.place.path for finding in folded),
    )


def _candidates(findings: PlanFindings) -> Iterator[Problem | Verdict]:
    yield from (problem for problem in findings.problems if problem.rule == _NO_DEFINITION)
    yield from (
        verdict
        for verdict in findings.verdicts
        if verdict.rule.startswith(_NO_OBJECT) and verdict.result in (Result.DENY, Result.WARN)
    )


def _missing_names(index: CompiledRevision, finding: Problem | Verdict) -> frozenset[tuple[str, str]]:
    """Return the kinds and names of the definitions or objects that a finding misses."""
    if isinstance(finding, Problem):
        definitions = index.context.definitions
        return frozenset(
            (needed.kind, needed.name)
            for needed in decode_dependencies(index.records[finding.place.path].dependencies)
            if isinstance(needed, DefinitionDependency)
            and needed.name not in definitions.get((needed.cluster, (needed.group, needed.kind), needed.namespace), ())
        )
    path = index.context.kinds.manifest_path(finding.cluster, finding.key)
    rows = index.summaries([path]).values() if path in index.sources else ()
    return frozenset((one.kind, one.name) for row in rows for one in row.references if one.field == finding.field)


def _broken_files(runtime: Runtime, index: CompiledRevision, problems: Sequence[Problem]) -> Mapping[str, bytes]:
    """Return the source files with errors of their own that may define what other files need."""
    sources = index.revision.files.sources
    paths = {
        problem.place.path
        for problem in problems
        if problem.severity is Severity.ERROR and problem.rule != _NO_DEFINITION
    }
    return dict(read_files(runtime.repository, sources, sorted(path for path in paths if path in sources)))


def _may_define(text: bytes, names: Collection[tuple[str, str]]) -> bool:
    """Return whether a file that has errors may define one of these objects. A TorchrunQueue renders to a Queue."""
    return any(
        kind.encode() in text and re.search(_NAMED % re.escape(name.encode()), text) is not None for kind, name in names
    )


_NAMED = rb"""\b(?:name|kaiQueue)["']?\s*:\s*["']?%s(?:["'\s,}]|$)"""


def _note(problems: Sequence[Problem], path: str, found: Sequence[Problem | Verdict]) -> Problem:
    place = next(one.place for one in problems if one.place.path == path and one.severity is Severity.ERROR)
    files = sorted({finding.place.path for finding in found})
    count = len({str(finding.place) for finding in found})
    shown = ", ".join(files[:_MAX_FILES]) + (" …" if len(files) > _MAX_FILES else "")
    message = f"needed by {plural(count, 'object')} in {plural(len(files), 'other file')}: {shown}"
    return Problem(
        rule="source.referenced",
        place=place,
        message=message,
        hint="their objects are left unchanged until this file is valid",
        severity=Severity.NOTE,
    )


# The evidence of the base, to compare that of the head with.


def inventories_before(runtime: Runtime, index: CompiledRevision, base: LoadedRevision) -> Mapping[str, Inventory]:
    """Return the inventories of the base. Those of clusters whose files are the same are not read again."""
    head, current = index.revision, index.context.evidence.inventories
    old, new = _by_cluster(base), _by_cluster(head)
    changed = {cluster for cluster in (*old, *new) if old.get(cluster) != new.get(cluster)}
    if not changed:
        return current
    blobs = {path: blob for cluster in sorted(changed) for path, blob in old.get(cluster, {}).items()}
    parser = CachedParser(index.store.parsed, runtime.kinds, runtime.catalogue)
    files = parser.parse(
        [*blobs.items()], lambda missing: runtime.repository.read([base.files.evidence[path] for path in missing])
    )
    read = read_evidence(base.config, index.clusters, runtime.kinds, files).inventories
    return {**{cluster: one for cluster, one in current.items() if cluster not in changed}, **read}


def _by_cluster(revision: LoadedRevision) -> dict[str, BlobIds]:
    """Return the evidence files of each cluster, the folder below that of the evidence."""
    files: dict[str, dict[str, str]] = {}
    for path, blob in revision.files.evidence.items():
        cluster = path.removeprefix(f"{revision.config.evidence}/").partition("/")[0]
        files.setdefault(cluster, {})[path] = blob
    return {**files}
