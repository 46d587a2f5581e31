"""What a plan reports: problems, and verdicts with exceptions applied, on the date of the plan."""

import datetime as dt
from collections.abc import Iterable, Mapping

from msgspec import Struct

from reconciler.core.config import Config, RuleSetting
from reconciler.core.inventory import Inventory
from reconciler.core.policy.exceptions import ExceptionInForce, apply_exceptions
from reconciler.core.policy.references import evaluate_age, evaluate_shrinks, evidence_ages, utc_date
from reconciler.core.policy.verdict import Verdict
from reconciler.core.problems import Problem
from reconciler.index.build import CompiledRevision, Runtime
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
    """Return the age of each inventory in days, if the configuration limits it."""
    return {} if config.evidence_days is None else evidence_ages(index.context.evidence.inventories, day)


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
