"""Quarantines that have ended, by the date of the plan: never by a clock, so that a plan can be repeated."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date

from reconciler.kinds.kind import Kinds
from reconciler.kube.values import mapping, text
from reconciler.kube.yaml import Document
from reconciler.policy.references.age import utc_date
from reconciler.policy.references.rules import Evaluation
from reconciler.policy.verdict import Verdict
from reconciler.repo.config import Cluster, RuleSetting

_RULE = "health.quarantine-ended"
_FIELD = ("spec", "until")


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
            evaluation.report_object(_RULE, document.key, document.at(_FIELD), message, hint=hint, field="spec.until")
        verdicts += evaluation.verdicts
    return tuple(verdicts)
