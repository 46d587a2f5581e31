"""`TrainingJob`: what all kinds of training jobs have in common, with the place of each part in the document."""

from collections.abc import Iterator
from enum import StrEnum
from fractions import Fraction
from typing import Any

from msgspec import Struct

from reconciler.core.config import Vendor
from reconciler.core.documents import Document
from reconciler.core.objects import FieldPath
from reconciler.core.quantities import parse_quantity
from reconciler.core.training.container import Container


class Kind(StrEnum):
    """Kinds whose GPUs can be sized."""

    PYTORCH_JOB = "PyTorchJob"
    JOB = "Job"
    JOB_SET = "JobSet"
    TRAIN_JOB = "TrainJob"
    RAY_JOB = "RayJob"
    TORCHRUN_JOB = "TorchrunJob"


class Pods(Struct, frozen=True, kw_only=True, eq=False):
    """Pods of one template that run the line: how many, the container in them, where their template stands.

    `template` is empty where the kind has none of its own (TrainJob, TorchrunJob).
    """

    role: str
    replicas: int
    container: Container
    template: FieldPath = ()


class TrainingJob(Struct, frozen=True, kw_only=True, eq=False):
    """A job that is trained by one line. `root` is where the job stands in the document: () or inside an AppWrapper.

    `command` and `args` are read as a kubelet would: a kind that holds its line in one string (`line` says where)
    gives `("/bin/sh", "-c", line)`. `pods[0]` leads (the Master); others run the same line. `env` are the variables
    that the line can see; `seen_by` are further containers that give it some (Ray's head, which runs it). `meets`
    says that several pods of it find each other: the operator tells them how, or the line does.
    """

    document: Document
    kind: Kind
    root: FieldPath = ()
    pods: tuple[Pods, ...]
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[tuple[str, str | None], ...]
    line: FieldPath | None = None
    seen_by: tuple[FieldPath, ...] = ()
    meets: bool = True
    suspended: bool = False

    @property
    def lead(self) -> Pods:
        """The pods whose container starts the training."""
        return self.pods[0]

    @property
    def replicas(self) -> int:
        """All pods that run the line today."""
        return sum(pods.replicas for pods in self.pods)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the document (of an AppWrapper: its own)."""
        return _texts(self.document.metadata.get("labels"))

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the document."""
        return _texts(self.document.metadata.get("annotations"))

    @property
    def is_wrapped(self) -> bool:
        """Whether an AppWrapper holds the job."""
        return bool(self.root)

    def word_path(self, field: str, index: int) -> FieldPath:
        """Return where item `index` of `command` or `args` stands in the document."""
        return self.line if self.line is not None else (*self.lead.container.path, field, index)

    def get(self, *path: str | int) -> Any:
        """Return the value at a path of the document; None where there is none."""
        return value_at(self.document.data, path)


def value_at(data: Any, path: FieldPath) -> Any:
    """Return what stands at `path` in plain data; None where there is nothing."""
    for part in path:
        kind = type(data)
        if kind is dict:
            data = data.get(part)
        elif kind is list and type(part) is int and part < len(data):
            data = data[part]
        else:
            return None
    return data


def requested_gpus(job: TrainingJob) -> int | None:
    """Return the GPUs that all pods of the job ask for today; None where they ask for none.

    A TorchrunJob without `numGPUs` takes what its queue's nodes have, which is not in its document: None.
    """
    if job.kind is Kind.TORCHRUN_JOB:
        total = job.get("spec", "numGPUs")
        return total if isinstance(total, int) and total > 0 else None
    gpus = sum(pods.replicas * _gpus(pods.container) for pods in job.pods)
    return gpus or None


def _gpus(container: Container) -> int:
    """Kubernetes wants request and limit of an extended resource equal; a limit alone is enough."""
    for vendor in Vendor:
        for section in ("limits", "requests"):
            amounts = container.resources.get(section)
            text = amounts.get(vendor.resource) if isinstance(amounts, dict) else None
            amount = parse_quantity(text) if isinstance(text, str | int | float) else None
            if amount is not None and amount == Fraction(int(amount)):
                return int(amount)
    return 0


PRODUCT_LABELS = {Vendor.NVIDIA: "nvidia.com/gpu.product", Vendor.AMD: "amd.com/gpu.product-name"}
"""Labels by which nodes name their cards: NVIDIA's GPU feature discovery, AMD's node labeller."""


def named_product(job: TrainingJob) -> tuple[str, FieldPath] | None:
    """Return the card that the job's node selector, or else its required node affinity, names, and where.

    An affinity counts only where every one of its terms (they are alternatives) allows exactly one and the same
    product: of two products nobody knows which one the job will get.
    """
    for selector in _selectors(job):
        for label in PRODUCT_LABELS.values():
            value = job.get(*selector, label)
            if isinstance(value, str) and value:
                return value, (*selector, label)
    for affinity in _affinities(job):
        found = _of_affinity(job, affinity)
        if found:
            return found
    return None


def allows_product(job: TrainingJob, vendor: Vendor, product: str) -> bool:
    """Whether the job's required node affinity lets it run on a card; conditions on other labels are not judged."""
    for path in _affinities(job):
        terms = job.get(*path)
        if isinstance(terms, list) and terms and not any(_term_allows(term, vendor, product) for term in terms):
            return False
    return True


def _term_allows(term: Any, vendor: Vendor, product: str) -> bool:
    expressions = term.get("matchExpressions") if isinstance(term, dict) else None
    for expression in expressions if isinstance(expressions, list) else ():
        if not isinstance(expression, dict) or expression.get("key") not in PRODUCT_LABELS.values():
            continue
        own = expression["key"] == PRODUCT_LABELS[vendor]  # nodes with other cards lack the label
        values = expression.get("values")
        listed = own and isinstance(values, list) and product in values
        allowed = {"In": listed, "NotIn": not listed, "Exists": own, "DoesNotExist": not own}
        if not allowed.get(str(expression.get("operator")), True):
            return False
    return True


def _selectors(job: TrainingJob) -> Iterator[FieldPath]:
    if job.kind is Kind.TRAIN_JOB:
        overrides = job.get(*job.root, "spec", "podSpecOverrides")
        for index in range(len(overrides) if isinstance(overrides, list) else 0):
            yield (*job.root, "spec", "podSpecOverrides", index, "nodeSelector")
    elif job.kind is Kind.TORCHRUN_JOB:
        yield ("spec", "scheduling", "nodeSelector")
    else:
        yield (*job.lead.template, "spec", "nodeSelector")


def _affinities(job: TrainingJob) -> Iterator[FieldPath]:
    at = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    if job.kind is Kind.TORCHRUN_JOB:
        yield ("spec", "scheduling", "affinity", *at)
    elif job.lead.template:
        yield (*job.lead.template, "spec", "affinity", *at)


def _of_affinity(job: TrainingJob, path: FieldPath) -> tuple[str, FieldPath] | None:
    terms = job.get(*path)
    found = [_of_term(term, (*path, index)) for index, term in enumerate(terms)] if isinstance(terms, list) else []
    first = found[0] if found else None
    return first if first and all(other is not None and other[0] == first[0] for other in found) else None


def _of_term(term: Any, path: FieldPath) -> tuple[str, FieldPath] | None:
    expressions = term.get("matchExpressions") if isinstance(term, dict) else None
    for index, expression in enumerate(expressions if isinstance(expressions, list) else ()):
        named = isinstance(expression, dict) and expression.get("key") in PRODUCT_LABELS.values()
        if named and expression.get("operator") == "In":
            values = expression.get("values")
            if isinstance(values, list) and len(values) == 1 and isinstance(values[0], str):
                return values[0], (*path, "matchExpressions", index, "values", 0)
    return None


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}
