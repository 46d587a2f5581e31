"""Workloads that Kueue never admits, and those of which that is not known."""

from collections.abc import Sequence

from reconciler.kinds.summary import ObjectSummary
from reconciler.policy.references.rules import Evaluation
from reconciler.queues.admission import AdmissionAnswer, KueueAdmission
from reconciler.queues.queues import QueueUsage
from reconciler.sizing.inventory import Inventory

_NEVER, _UNKNOWN = "queues.never-admitted", "queues.admission-unknown"


def check_admission(
    evaluation: Evaluation, rows: Sequence[ObjectSummary], usage: QueueUsage, inventory: Inventory | None
) -> None:
    """Check the workloads in queues of Kueue. What is not known is said once for each thing that is missing."""
    admission = KueueAdmission(usage, inventory, evaluation.kueue)
    unknown: dict[str, list[tuple[ObjectSummary, AdmissionAnswer]]] = {}
    for row in rows:
        for answer in admission.answers(row) if row.pod_sets and not row.finished else ():
            if not answer.is_known:
                unknown.setdefault(answer.message, []).append((row, answer))
            elif answer.cause is not None:
                cause = answer.cause
                evaluation.report_object(
                    _NEVER,
                    row.key,
                    cause.place,
                    _words(answer),
                    hint=answer.hint,
                    field=answer.field,
                    cause=cause.key,
                )
            else:
                evaluation.report(_NEVER, row, _words(answer), hint=answer.hint, field=answer.field)
    for message, found in sorted(unknown.items()):
        row, answer = min(found, key=lambda one: one[0].place)
        others = f" (this object and {len(found) - 1} more)" if len(found) > 1 else ""
        evaluation.report(_UNKNOWN, row, f"{message}{others}", hint=answer.hint, field=answer.field)


def _words(answer: AdmissionAnswer) -> str:
    return f"is never admitted: {answer.message}"


def placed_here(rows: Sequence[ObjectSummary], usage: QueueUsage) -> Sequence[ObjectSummary]:
    """Return all objects but the workloads for which a check of their queue adds nodes: today's do not limit them."""
    admission = KueueAdmission(usage, None)
    return [row for row in rows if not (row.pod_sets and admission.has_nodes_on_demand(row))]
