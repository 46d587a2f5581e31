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
from reconciler.kinds.summary.summarize import ESTIMATE
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import mapping, metadata_map, text, value_at, with_value
from reconciler.kube.yaml import Document
from reconciler.repo.config import Backend, Cluster, StrategyName
from reconciler.repo.config.placement import PRIORITY_MAX
from reconciler.sizing.devices import pod_devices

PREFIX = "agentaflow.gpu/"
STRATEGY = f"{PREFIX}scheduling-strategy"
PRIORITY = f"{PREFIX}priority"
MEMORY = f"{PREFIX}gpu-memory"
PRIORITY_LABELS = {Backend.KUEUE: PRIORITY_LABEL, Backend.KAI: KAI_PRIORITY}
"""The labels by which workloads name the class of their priority."""

_SAID = frozenset((STRATEGY, PRIORITY, ESTIMATE))
_DIGITS = 9
_METADATA: FieldPath = ("metadata", "annotations")


class PlacementWish(Struct, frozen=True, kw_only=True):
    """The words of a job about its placement; None: nothing.

    duration_seconds: how long it is expected to run. memory_mib: what each of its GPUs needs, which only a GPUWorkload
    says.
    """

    strategy: StrategyName | None = None
    priority: int | None = None
    duration_seconds: int | None = None
    memory_mib: int | None = None


NO_WISH = PlacementWish()


def placement_wish(body: Mapping[str, Any]) -> PlacementWish:
    """Return the wish of an object, rendered or live; what is not valid counts as not said."""
    found = mapping(value_at(body, _METADATA))
    if not any(type(key) is str and (key.startswith(PREFIX) or key == ESTIMATE) for key in found):
        return NO_WISH
    strategy = text(found.get(STRATEGY))
    return PlacementWish(
        strategy=StrategyName(strategy) if strategy in list(StrategyName) else None,
        priority=_priority(found.get(PRIORITY)),
        duration_seconds=_duration(text(found.get(ESTIMATE))),
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
    """Return a job with what its document says about placement, and with the class of its priority; others as they are.

    A class that it names itself stays. Also returned: what is wrong with what the document says.
    """
    written = {key: said for key, said in mapping(value_at(document.data, _METADATA)).items() if key in _SAID}
    pods = kinds.pod_sets(manifest.body) if written else None
    if not pods:
        return manifest, []
    said = mapping(value_at(manifest.body, _METADATA))
    # Objects beside the job, such as one that downloads its data, have no GPUs.
    added = written.keys() - said.keys() if any(pod_devices(mapping(one.template.get("spec"))) for one in pods) else ()
    changes = {(*_METADATA, key): (written[key], "what its document says") for key in sorted(added)}
    priority, label = _priority({**written, **said}.get(PRIORITY)), PRIORITY_LABELS.get(cluster.backend, "")
    name = cluster.placement.class_of(priority) if priority is not None and (added or PRIORITY in said) else ""
    if name and label and label not in metadata_map(manifest.body, "labels"):
        changes["metadata", "labels", label] = name, f"the class of priority {priority}"
    problems = list(_problems(document, written))
    if not changes:
        return manifest, problems
    body = deepcopy(manifest.body)
    for path, (value, _) in changes.items():
        body = with_value(body, path, value)
    reasons = {
        path: Reason(
            rule="agentaflow.priority",
            text=why,
            origins=(Origin(document=document, field=path if path[:2] == _METADATA else (*_METADATA, PRIORITY)),),
        )
        for path, (_, why) in changes.items()
    }
    return with_changes(manifest, body, reasons), problems


def _problems(document: Document, written: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield what of the annotations of a document cannot be followed."""
    found = {STRATEGY: strategy_problem(written.get(STRATEGY))}
    if PRIORITY in written and _priority(written[PRIORITY]) is None:
        message = f"{written[PRIORITY]!r} is not a priority"
        found[PRIORITY] = message, f"write a number from 0 to {PRIORITY_MAX} in quotes"
    for key, wrong in found.items():
        if wrong is not None:
            yield document.problem("agentaflow.annotation", (*_METADATA, key), *wrong)
