"""The number of pods of a job, in its kind's own fields and in those of a wrapper."""

from reconciler.core.objects import FieldPath, format_path
from reconciler.core.sized.draft import Draft, Row
from reconciler.core.sized.grounds import Grounds
from reconciler.core.training import TrainingJob
from reconciler.core.training.job import PodCounts


def set_replicas(draft: Draft, job: TrainingJob, grounds: Grounds) -> None:
    """Write the nodes of the layout as the job's kind counts them, and as a wrapper that holds it does."""
    pods = job.format.set_replicas(draft, job, grounds)
    if job.is_wrapped:
        _set_pod_sets(draft, job, pods, grounds)


def _set_pod_sets(draft: Draft, job: TrainingJob, pods: PodCounts, grounds: Grounds) -> None:
    """Make the wrapper's own count of pods agree, where it has one: an AppWrapper infers what it does not say."""
    path: FieldPath = (*job.root[:-1], "podSets")
    before = draft.get(path)
    if not isinstance(before, list) or not before:
        return
    reason = grounds.because("workers", f"{grounds.spread}; the wrapper counts the same pods")
    missing = {format_path(template[len(job.root) - 1 :]): count for template, count in pods.items()}
    rows: list[Row] = []
    for index, item in enumerate(before):
        known = isinstance(item, dict) and item.get("path") in missing
        count = missing.pop(item["path"]) if known else None
        if count is None or (count == item.get("replicas", 1) and count):
            rows.append((item, index))
        elif count:
            rows.append(({**item, "replicas": count}, reason))
    rows += [({"path": template, "replicas": count}, reason) for template, count in missing.items() if count]
    draft.set_rows(path, rows)
