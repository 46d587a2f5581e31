"""What a job says about its placement by annotations `agentaflow.gpu/…`, and the class of its priority."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from reconciler.kinds.kai import PRIORITY_LABEL as KAI_PRIORITY
from reconciler.kinds.kind import Kinds
from reconciler.kinds.kueue.labels import PRIORITY_LABEL
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kinds.manifests.templates import with_changes
from reconciler.kinds.preemption import seconds_of
from reconciler.kube.objects import FieldPath, format_path
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import mapping, text, value_at
from reconciler.kube.yaml import Document
from reconciler.repo.config import Backend, Cluster, StrategyName
from reconciler.repo.config.placement import PRIORITY_MAX

PREFIX = "agentaflow.gpu/"
STRATEGY = f"{PREFIX}scheduling-strategy"
PRIORITY = f"{PREFIX}priority"
DURATION = f"{PREFIX}estimated-duration"
MEMORY = f"{PREFIX}gpu-memory"
PRIORITY_LABELS = {Backend.KUEUE: PRIORITY_LABEL, Backend.KAI: KAI_PRIORITY}
"""The labels by which workloads name the class of their priority."""

_DIGITS = 9
_METADATA: FieldPath = ("metadata", "annotations")


class PlacementWish(Struct, frozen=True, kw_only=True):
    """What a job says about its placement; None: nothing.

    duration_seconds: how long it is expected to run. memory_mib: what each of its GPUs needs, which only a GPUWorkload
    says.
    """

    strategy: StrategyName | None = None
    priority: int | None = None
    duration_seconds: int | None = None
    memory_mib: int | None = None


NO_WISH = PlacementWish()


def mentions_wish(raw: bytes) -> bool:
    """Return whether a file may say something about placement."""
    return PREFIX.encode() in raw


def placement_wish(body: Mapping[str, Any]) -> PlacementWish:
    """Return the wish of an object, rendered or live; what is not valid counts as not said."""
    found = mapping(value_at(body, _METADATA))
    if not any(type(key) is str and key.startswith(PREFIX) for key in found):
        return NO_WISH
    strategy = text(found.get(STRATEGY))
    return PlacementWish(
        strategy=StrategyName(strategy) if strategy in list(StrategyName) else None,
        priority=_priority(found.get(PRIORITY)),
        duration_seconds=_duration(text(found.get(DURATION))),
        memory_mib=_whole(text(found.get(MEMORY))),
    )


def _priority(written: Any) -> int | None:
    number = _whole(text(written))
    return number if number is not None and number <= PRIORITY_MAX else None


def _whole(words: str) -> int | None:
    return int(words) if words.isascii() and words.isdecimal() and len(words) <= _DIGITS else None


def _duration(written: str) -> int | None:
    try:
        return seconds_of(written) if written else None
    except ValueError:
        return None


def strategy_problem(written: Any) -> tuple[str, str] | None:
    """Return what is wrong with the name of a strategy, and a hint; None if it is one, or none is written."""
    if written is None or written in list(StrategyName):
        return None
    near = get_close_matches(str(written).replace("-", "_"), list(StrategyName), n=1, cutoff=0.3)
    known = f"strategies: {', '.join(StrategyName)}"
    return f"{str(written)!r} is not a strategy", f"did you mean {near[0]}? {known}" if near else known


def with_priority(
    kinds: Kinds, manifest: Manifest, document: Document, cluster: Cluster
) -> tuple[Manifest, list[Problem]]:
    """Return a job with the class of its priority, and what is wrong with what it says; other objects as they are.

    A class that it names itself stays.
    """
    said = mapping(value_at(manifest.body, _METADATA))
    if not (STRATEGY in said or PRIORITY in said) or not kinds.pod_sets(manifest.body):
        return manifest, []
    problems = list(_problems(document, said))
    priority, label = _priority(said.get(PRIORITY)), PRIORITY_LABELS.get(cluster.backend, "")
    name = cluster.placement.class_of(priority) if priority is not None else ""
    if not name or not label or label in mapping(value_at(manifest.body, ("metadata", "labels"))):
        return manifest, problems
    body = deepcopy(manifest.body)
    body["metadata"]["labels"] = {**mapping(body["metadata"].get("labels")), label: name}
    origins = (Origin(document=document, field=(*_METADATA, PRIORITY)),)
    reason = Reason(rule="agentaflow.priority", text=f"the class of priority {priority}", origins=origins)
    return with_changes(manifest, body, {("metadata", "labels", label): reason}), problems


def _problems(document: Document, said: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what of the annotations of a job cannot be followed. Those of a GPUWorkload come from valid fields."""
    written = mapping(value_at(document.data, _METADATA))
    found = {STRATEGY: strategy_problem(said.get(STRATEGY))}
    if PRIORITY in said and _priority(said[PRIORITY]) is None:
        found[PRIORITY] = f"{said[PRIORITY]!r} is not a priority", f"write a number from 0 to {PRIORITY_MAX} in quotes"
    for key, wrong in found.items():
        if wrong is not None and key in written:
            path = (*_METADATA, key)
            yield Problem(
                rule="agentaflow.annotation",
                place=document.at(path),
                field=format_path(path),
                message=wrong[0],
                hint=wrong[1],
                severity=Severity.ERROR,
            )
