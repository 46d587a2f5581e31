"""The nodes that the pods of a training job may run on, by node selector, required node affinity and tolerations.

The evidence keeps only labels that something in the repository names. A condition on a label that no node has is
therefore not judged; one on the GPU product always is.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import FieldPath
from reconciler.kube.values import mapping, sequence
from reconciler.sizing.devices import PRODUCT_LABEL, WHOLE_GPUS, Vendor
from reconciler.sizing.inventory import Node, Taint
from reconciler.sizing.training_jobs.job import TrainingJob

_REQUIRED = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


class Placement(Struct, frozen=True, kw_only=True):
    """The binding of a job's pods to nodes: paths of selectors, of terms of affinity, and of tolerations.

    `tolerations` is empty if they come from elsewhere (a queue, a runtime), so that taints cannot be judged.
    """

    selectors: tuple[FieldPath, ...]
    terms: tuple[FieldPath, ...]
    tolerations: tuple[FieldPath, ...] = ()


def placement(job: TrainingJob) -> Placement:
    """Return the paths that bind the pods of a job, of all its templates."""
    templates = [(*pods.template, "spec") for pods in job.pods if pods.template]
    selectors = job.node_selectors
    affinities = job.node_affinities
    return Placement(
        selectors=tuple((*path, "nodeSelector") for path in templates) if selectors is None else selectors,
        terms=tuple(
            (*path, *_REQUIRED)
            for path in (((*path, "affinity") for path in templates) if affinities is None else affinities)
        ),
        tolerations=tuple((*path, "tolerations") for path in templates) if selectors is None else (),
    )


def obstacles(job: TrainingJob, nodes: Sequence[Node], *, taints: bool) -> list[FieldPath | None]:
    """Return, for each node, the path of the first field that keeps the job's pods off it; None if none does.

    `taints` is false if something else may add tolerations to the pods, such as the flavors of a queue.
    """
    where, known = placement(job), {key for one in nodes for key in one.labels} | set(PRODUCT_LABEL.values())
    return [_obstacle(job, node, where, known, taints=taints) for node in nodes]


def _obstacle(
    job: TrainingJob, node: Node, where: Placement, known: AbstractSet[str], *, taints: bool
) -> FieldPath | None:
    labels = _labels(node)
    for path in where.selectors:
        for key, value in mapping(job.get(*path)).items():
            if key in known and labels.get(key) != value:
                return (*path, key)
    for path in where.terms:
        terms = sequence(job.get(*path))
        if terms and not any(_term_matches(mapping(term), labels, known) for term in terms):
            return path
    for path in where.tolerations if taints else ():
        tolerations = [mapping(item) for item in sequence(job.get(*path))]
        if any(_repels(taint) and not any(_tolerates(item, taint) for item in tolerations) for taint in node.taints):
            return path if tolerations else path[:-1]
    return None


def named_products(job: TrainingJob) -> Iterator[tuple[str, FieldPath]]:
    """Yield the GPU product of each node selector, and where it is named."""
    for path in placement(job).selectors:
        for label in PRODUCT_LABEL.values():
            value = job.get(*path, label)
            if isinstance(value, str) and value:
                yield value, (*path, label)


def _labels(node: Node) -> dict[str, str]:
    labels = dict(node.labels)
    if not any(label in labels for label in PRODUCT_LABEL.values()) and node.product:
        is_amd = node.product.lower().startswith(("amd", "instinct"))
        labels[PRODUCT_LABEL[Vendor.AMD if is_amd else Vendor.NVIDIA]] = node.product
    return labels


def _term_matches(term: dict[str, Any], labels: dict[str, str], known: AbstractSet[str]) -> bool:
    """Return whether a node matches all expressions of a term, as the scheduler does; unknown labels are not judged."""
    return all(
        expression.get("key") not in known or _matches(expression, labels.get(str(expression.get("key"))))
        for expression in map(mapping, sequence(term.get("matchExpressions")))
    )


def _matches(expression: dict[str, Any], value: str | None) -> bool:
    """Return whether the value of a label matches; an operator that the schema refuses is not judged."""
    values = [item for item in sequence(expression.get("values")) if isinstance(item, str)]
    numbers = [int(item) for item in (value, *values[:1]) if item is not None and item.isdecimal()]
    difference = numbers[0] - numbers[1] if len(numbers) > 1 else 0
    return {
        "In": value in values,
        "NotIn": value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
        "Gt": difference > 0,
        "Lt": difference < 0,
    }.get(str(expression.get("operator")), True)


def _repels(taint: Taint) -> bool:
    """Return whether a taint keeps pods away. Admission may add the toleration of a GPU's own resource name."""
    return taint.effect != "PreferNoSchedule" and taint.key not in WHOLE_GPUS


def _tolerates(toleration: dict[str, Any], taint: Taint) -> bool:
    """Return whether a toleration matches a taint (`ToleratesTaint` in k8s.io/api/core/v1)."""
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    return (
        toleration.get("effect") in (None, "", taint.effect)
        and (key == taint.key or (not key and operator == "Exists"))
        and (operator == "Exists" or (toleration.get("value") or "") == taint.value)
    )
