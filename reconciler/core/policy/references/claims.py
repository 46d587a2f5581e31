"""Claims that several workloads write to."""

from collections.abc import Sequence

from msgspec.structs import replace

from reconciler.core.kinds.facts import QueueRole
from reconciler.core.manifests.generations import base_name
from reconciler.core.policy.references.rules import Evaluation
from reconciler.core.summary import ObjectSummary, Reference

_MAX_NAMES = 3


def check_claims(evaluation: Evaluation, rows: Sequence[ObjectSummary]) -> None:
    """Report the folders of claims that workloads of several documents write to, each at the first of them.

    The objects that one document renders belong together, and a claim that a queue defines is for all its jobs.
    """
    writers: dict[tuple[str, str, str], list[tuple[ObjectSummary, Reference]]] = {}
    for row in rows:
        for reference in row.references:
            for folder in reference.writes:
                writers.setdefault((reference.namespace, reference.name, folder), []).append((row, reference))
    several = {what: found for what, found in writers.items() if len({row.place for row, _ in found}) > 1}
    if not several:
        return
    queues = {row.place for row in rows if row.queue_role is not QueueRole.NONE and not row.is_workload}
    own = {(row.namespace, row.name) for row in rows if row.place in queues}
    for (namespace, name, folder), found in sorted(several.items()):
        if (namespace, name) in own:
            continue
        first = {row.place: (row, reference) for row, reference in reversed(found)}
        (row, reference), *others = (first[place] for place in sorted(first))
        names = ", ".join(_name(evaluation, other) for other, _ in others[:_MAX_NAMES])
        more = f" and {len(others) - _MAX_NAMES} more" if len(others) > _MAX_NAMES else ""
        where = f"folder {folder!r} of claim {name}" if folder else f"claim {name}"
        verb = "does" if len(others) == 1 else "do"
        evaluation.report(
            "reference.shared-claim",
            row,
            f"writes to {where}, and so {verb} {names}{more}",
            hint="give each workload a claim or a subPath of its own, or mount the claim with readOnly",
            field=reference.field,
        )


def _name(evaluation: Evaluation, row: ObjectSummary) -> str:
    """Return the name of a workload without the suffix of its generation, which changes with each replacement."""
    has_generations = evaluation.kinds.find(row.group, row.kind).has_generations
    return str(replace(row.key, name=base_name(row.name)) if has_generations else row.key)
