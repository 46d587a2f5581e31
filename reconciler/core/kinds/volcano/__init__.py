"""Volcano (`batch.volcano.sh`): jobs of several tasks."""

from collections.abc import Iterator, Mapping
from typing import Any

from reconciler.core.kinds.facts import PodSet
from reconciler.core.kinds.kind import Kind
from reconciler.core.kinds.pods import of_spec, replicated
from reconciler.core.values import mapping, sequence


def _pods(spec: Mapping[str, Any], prefix: str) -> Iterator[PodSet]:
    for index, task in enumerate(map(mapping, sequence(spec.get("tasks")))):
        yield from replicated(task, f"{prefix}tasks[{index}].")


KINDS = (Kind(group="batch.volcano.sh", kind="Job", pods=of_spec(_pods)),)
