"""Changed HealthPolicies: what they would have done with what the repository has recorded, and what is refused."""

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping

from reconciler.index.build import CompiledRevision
from reconciler.kinds.health import POLICY
from reconciler.plan.baseline import Baseline
from reconciler.plan.health.effect import PolicyEffect
from reconciler.plan.health.quarantines import changed_names
from reconciler.policy.references.rules import Evaluation
from reconciler.policy.verdict import Verdict
from reconciler.repo.config import Cluster, RuleSetting
from reconciler.repo.port import Repository

_RULE = "health.replay"


def policy_effects(
    repository: Repository,
    index: CompiledRevision,
    baseline: Baseline,
    changed: Iterable[str],
    differing: Iterable[str],
    *,
    day: dt.date | None,
    most_days: int | None,
) -> tuple[PolicyEffect, ...]:
    """Return the effect of changed policies on each cluster. Policies that only change jobs have none."""
    existing = set(differing)
    found: dict[str, tuple[Cluster, dict[str, str]]] = {}
    for cluster, name, path in changed_names(index, POLICY, (*changed, *existing)):
        found.setdefault(cluster.name, (cluster, {}))[1][name] = path
    if not found:
        return ()
    from reconciler.plan.health.effects import effect_of_change  # noqa: PLC0415 - few plans change policies

    effects = (
        effect_of_change(repository, index, baseline, cluster, paths, existing=existing, day=day, most_days=most_days)
        for cluster, paths in found.values()
    )
    return tuple(effect for effect in effects if effect is not None)


def refused_policies(
    index: CompiledRevision, effects: Iterable[PolicyEffect], rules: Mapping[str, RuleSetting]
) -> Iterator[Verdict]:
    """Yield a verdict on each policy that must not be merged, by what it would have done."""
    clusters = {cluster.name: cluster for cluster in index.clusters}
    for one in effects:
        if one.refused and one.place is not None:
            evaluation = Evaluation(kinds=index.context.kinds, cluster=clusters[one.cluster], settings=rules)
            hint = "make the policy milder, start with `mode: shadow`, or add a PolicyException"
            evaluation.report_object(_RULE, one.key, one.place, "; ".join(one.refused), hint=hint)
            yield from evaluation.verdicts
