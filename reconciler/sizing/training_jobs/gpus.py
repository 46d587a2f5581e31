"""The GPUs of a training job: how many it requests today, and which products its pods may get."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.quantities import parse_quantity
from reconciler.sizing.devices import PRODUCT_LABEL, Vendor
from reconciler.sizing.training_jobs.container import Container
from reconciler.sizing.training_jobs.job import TrainingJob

_LABELS = frozenset(PRODUCT_LABEL.values())
_REQUIRED = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def requested_gpus(job: TrainingJob) -> int | None:
    """Return the GPUs that all pods of the job request today; None if they request none.

    A TorchrunJob without `numGPUs` takes what the nodes of its queue have, which its document does not say: None.
    """
    if job.format.total_gpus:
        total = job.get(*job.root, *job.format.total_gpus)
        return total if isinstance(total, int) and total > 0 else None
    gpus = sum(pods.replicas * _gpus(pods.container) for pods in job.pods)
    return gpus or None


def _gpus(container: Container) -> int:
    """Return the GPUs of a container. Request and limit of an extended resource are equal; a limit alone is enough."""
    for vendor in Vendor:
        for section in ("limits", "requests"):
            amounts = container.resources.get(section)
            text = amounts.get(vendor.resource) if isinstance(amounts, dict) else None
            amount = parse_quantity(text) if isinstance(text, str | int | float) else None
            if amount is not None and amount == Fraction(int(amount)):
                return int(amount)
    return 0


def named_product(job: TrainingJob) -> tuple[str, FieldPath] | None:
    """Return the GPU product that the node selector, or else the required node affinity, names, and its path.

    An affinity counts only if every one of its terms (they are alternatives) allows exactly one and the same product:
    with two products it is unknown which one the job will get.
    """
    return _named_by(job, _selectors(job), _affinities(job))


def binds_all_pods(job: TrainingJob) -> bool:
    """Return whether node selector or affinity name a product for the pods of each template, not for the lead alone."""
    if job.node_selectors is not None:
        return named_product(job) is not None
    specs = [(*pods.template, "spec") for pods in job.pods]
    return all(_named_by(job, ((*spec, "nodeSelector"),), [(*spec, *_REQUIRED)]) for spec in specs)


def _named_by(
    job: TrainingJob, selectors: Sequence[FieldPath], affinities: Sequence[FieldPath]
) -> tuple[str, FieldPath] | None:
    for selector in selectors:
        for label in PRODUCT_LABEL.values():
            value = job.get(*selector, label)
            if isinstance(value, str) and value:
                return value, (*selector, label)
    for affinity in affinities:
        product = _affinity_product(job, affinity)
        if product:
            return product
    return None


def allows_product(job: TrainingJob, vendor: Vendor, product: str) -> bool:
    """Return whether the required node affinity allows a GPU product; conditions on other labels are ignored."""
    for path in _affinities(job):
        terms = job.get(*path)
        if isinstance(terms, list) and terms and not any(_term_allows(term, vendor, product) for term in terms):
            return False
    return True


def _term_allows(term: Any, vendor: Vendor, product: str) -> bool:
    expressions = term.get("matchExpressions") if isinstance(term, dict) else None
    for expression in expressions if isinstance(expressions, list) else ():
        if not isinstance(expression, dict) or expression.get("key") not in _LABELS:
            continue
        own = expression["key"] == PRODUCT_LABEL[vendor]  # nodes with GPUs of the other vendor lack the label
        values = expression.get("values")
        listed = own and isinstance(values, list) and product in values
        allowed = {"In": listed, "NotIn": not listed, "Exists": own, "DoesNotExist": not own}
        if not allowed.get(str(expression.get("operator")), True):
            return False
    return True


def _selectors(job: TrainingJob) -> tuple[FieldPath, ...]:
    if job.node_selectors is not None:
        return job.node_selectors
    return ((*job.lead.template, "spec", "nodeSelector"),)


def _affinities(job: TrainingJob) -> list[FieldPath]:
    """Return the paths of the terms of the required node affinities."""
    if job.node_affinities is None:
        return [(*job.lead.template, "spec", *_REQUIRED)]
    return [(*path, *_REQUIRED[1:]) for path in job.node_affinities]


def _affinity_product(job: TrainingJob, path: FieldPath) -> tuple[str, FieldPath] | None:
    terms = job.get(*path)
    products = (
        [_term_product(term, (*path, index)) for index, term in enumerate(terms)] if isinstance(terms, list) else []
    )
    first = products[0] if products else None
    return first if first and all(other is not None and other[0] == first[0] for other in products) else None


def _term_product(term: Any, path: FieldPath) -> tuple[str, FieldPath] | None:
    expressions = term.get("matchExpressions") if isinstance(term, dict) else None
    for index, expression in enumerate(expressions if isinstance(expressions, list) else ()):
        names_product = isinstance(expression, dict) and expression.get("key") in _LABELS
        if names_product and expression.get("operator") == "In":
            values = expression.get("values")
            if isinstance(values, list) and len(values) == 1 and isinstance(values[0], str):
                return values[0], (*path, "matchExpressions", index, "values", 0)
    return None
