"""Volcano (`batch.volcano.sh`): jobs of several tasks."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.kinds.aspects import Life, Pods
from reconciler.kinds.facts import Body, PodSet
from reconciler.kinds.kind import Kind
from reconciler.kinds.pods import of_spec, replicated
from reconciler.kinds.progress import Progress
from reconciler.kinds.volcano.progress import volcano_job_progress
from reconciler.kube.values import mapping, sequence


def _pods(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    for index, task in enumerate(map(mapping, sequence(spec.get("tasks")))):
        yield from replicated(task, f"{prefix}tasks[{index}].")


def _volcano_job_progress(body: Body) -> Progress:
    return volcano_job_progress(body)


KINDS = (
    Kind(group="batch.volcano.sh", kind="Job", pods=Pods(of_spec(_pods)), life=Life(progress=_volcano_job_progress)),
)
