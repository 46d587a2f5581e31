"""Pods and GPUs that no figure of a plan includes."""

from collections.abc import Sequence

from reconciler.kinds.summary import ObjectSummary
from reconciler.policy.references.rules import Evaluation

_RULE = "quota.not-counted"
_DEFAULT_RULE = "quota.default-gpus"
_SHARED_RULE = "quota.shared-gpus"


def check_counted(evaluation: Evaluation, rows: Sequence[ObjectSummary]) -> None:
    """Check that everything an object runs is counted; a job that has ended runs nothing."""
    for row in rows:
        for resource, times in row.offered_again:
            message = f"nodes with this configuration offer each device {times} times as {resource}: 1 is a share"
            hint = f"set renameByDefault: true, so that shares are {resource}.shared"
            evaluation.report(_SHARED_RULE, row, message, hint=hint, field="data")
        if row.given and not row.finished:
            message = f"gets GPUs that it does not name: {'; '.join(row.given)}"
            hint = "name them in the containers, with 0 in those that need none, or change the LimitRange"
            evaluation.report(_DEFAULT_RULE, row, message, hint=hint)
        if row.uncounted and not row.finished:
            first, others = row.uncounted[0], len(row.uncounted) - 1
            more = f", and {others} more" if others else ""
            hint = "declare where the kind has its pods in spec.podPaths of reconciler.yaml, or add its family"
            if evaluation.kinds.is_known(row.group, row.kind):
                hint = "add what it names to the repository, or request known resources"
            message = f"not counted: {first}{more}"
            evaluation.report(_RULE, row, message, hint=hint, field=first.field)
