"""`TrainingJob`: what all kinds of training jobs have in common, with the place of each part in the document."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from reconciler.kube.objects import FieldPath, SourceRef
from reconciler.kube.reasons import Reason
from reconciler.kube.values import value_at
from reconciler.kube.yaml import Document
from reconciler.sizing.training_jobs.container import Container

PodCounts = Mapping[FieldPath, int]
"""Numbers of pods by the path of their template."""


class Editor(Protocol):
    """A copy of the job's document that sizing changes. Paths begin at the document's root."""

    def get(self, path: FieldPath) -> Any:
        """Return the value at `path`; None if there is none."""
        ...

    def set(self, path: FieldPath, value: Any, reason: Reason) -> None:
        """Write a value."""
        ...

    def remove(self, path: FieldPath, reason: Reason) -> None:
        """Remove a key."""
        ...

    def duplicate(self, source: FieldPath, target: FieldPath, rule: str, text: str) -> None:
        """Copy the value at `source` to `target`."""
        ...

    def set_rows(self, path: FieldPath, rows: list[tuple[Any, Reason | int]]) -> None:
        """Write a list of new items, each with its reason, and of old ones, each with its old index."""
        ...


class Allocation(Protocol):
    """The nodes and GPUs that sizing chose for a job, with the sentences for its reasons."""

    @property
    def gpus(self) -> int:
        """All GPUs."""
        ...

    @property
    def workers(self) -> int:
        """Nodes."""
        ...

    @property
    def per_worker(self) -> int:
        """GPUs per node."""
        ...

    @property
    def resource(self) -> str:
        """Extended resource of the GPUs."""
        ...

    @property
    def spread(self) -> str:
        """The layout as a sentence."""
        ...

    @property
    def memory(self) -> str:
        """The predicted memory as a sentence."""
        ...

    def because(self, rule: str, text: str) -> Reason:
        """Return a reason of the rule `sizing.<rule>`."""
        ...


class JobFormat(ABC):
    """The form in which a kind of job holds what sizing chooses. Families subclass it; the defaults suit a Job.

    kind: name of the kind, for messages.
    resources: field of a container with its resources; empty if the job requests no resources itself.
    total_gpus: field of the job with its GPUs over all nodes, for kinds whose queue decides the nodes; else ().
    suspend: field of the job that suspends it.
    starts_processes: the kind starts one process per GPU, so the launch line need not.
    has_process_per_gpu: it does so even if the launch line starts a different number.
    passes_process_counts: its operator passes torchrun the number of processes and nodes (`PET_NPROC_PER_NODE` ...).
    rank_variable, main_variable: variables with the rank of a pod, and the prefix of the main pod's address and port.
    """

    kind = "Job"
    resources = "resources"
    total_gpus: FieldPath = ()
    suspend: FieldPath = ("spec", "suspend")
    starts_processes = False
    has_process_per_gpu = False
    passes_process_counts = False
    rank_variable = "RANK"
    main_variable = "MASTER"

    @abstractmethod
    def set_replicas(self, editor: Editor, job: "TrainingJob", allocation: Allocation) -> PodCounts:
        """Write the nodes as the kind counts them; return the pods of each template."""

    def containers(self, editor: Editor, job: "TrainingJob") -> list[FieldPath]:
        """Return the containers that run the launch line after `set_replicas`."""
        del editor
        return [job.lead.container.path]

    def select_product(self, editor: Editor, job: "TrainingJob", label: str, product: str, reason: Reason) -> None:
        """Bind the pods that train to nodes with a label."""
        for pods in job.pods:
            editor.set((*pods.template, "spec", "nodeSelector", label), product, reason)


class TrainingPods(Struct, frozen=True, kw_only=True, eq=False):
    """Pods of one template that run the launch line.

    `template` is the path of their template; () if the kind has none of its own (TrainJob, TorchrunJob).
    """

    role: str
    replicas: int
    container: Container
    template: FieldPath = ()


class TrainingJob(Struct, frozen=True, kw_only=True, eq=False):
    """A job that runs one training by one launch line.

    format: how its kind writes down what sizing chooses.
    root: path of the job in the document: (), or inside a wrapper.
    pods: the first is the lead (the Master); the others run the same line.
    command, args: as a kubelet would read them. A kind with its line in one string gives `("/bin/sh", "-c", line)`.
    env: the variables that the line can use.
    line: path of the launch line, for kinds that have it in one string.
    seen_by: further containers whose variables the line can use (Ray's head, which runs it).
    has_rendezvous: several pods can find each other: the operator or the line sets the address.
    node_selectors, node_affinities: paths that bind its pods to nodes; by default those of the lead's template.
    """

    document: Document
    format: JobFormat
    root: FieldPath = ()
    pods: tuple[TrainingPods, ...]
    command: tuple[str, ...]
    args: tuple[str, ...]
    env: tuple[tuple[str, str | None], ...]
    line: FieldPath | None = None
    seen_by: tuple[FieldPath, ...] = ()
    has_rendezvous: bool = True
    suspended: bool = False
    node_selectors: tuple[FieldPath, ...] | None = None
    node_affinities: tuple[FieldPath, ...] | None = None

    @property
    def kind(self) -> str:
        """Name of the kind, for messages."""
        return self.format.kind

    @property
    def lead(self) -> TrainingPods:
        """The pods whose container starts the training."""
        return self.pods[0]

    @property
    def replicas(self) -> int:
        """All pods that run the line today."""
        return sum(pods.replicas for pods in self.pods)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the document, which are those of the wrapper if there is one."""
        return _strings(self.document.metadata.get("labels"))

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations of the document."""
        return _strings(self.document.metadata.get("annotations"))

    @property
    def is_wrapped(self) -> bool:
        """True if a wrapper holds the job."""
        return bool(self.root)

    def word_path(self, field: str, index: int) -> FieldPath:
        """Return the path of item `index` of `command` or `args`."""
        return self.line if self.line is not None else (*self.lead.container.path, field, index)

    def get(self, *path: str | int) -> Any:
        """Return the value at a path of the document; None if there is none."""
        return value_at(self.document.data, path)


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}


def word_place(job: TrainingJob, field: str, index: int, start: int = 0) -> SourceRef:
    """Return the place of character `start` of item `index` of `command` or `args`.

    It is exact in literal blocks (`|`), and for scalars on one line without escapes before the word; otherwise (folded
    text) it is the beginning of the scalar.
    """
    path = job.word_path(field, index)
    begin = job.document.at(path)
    value = job.get(*path)
    lines = job.document.text.decode("utf-8", "replace").split("\n")
    if not isinstance(value, str) or not 0 < begin.line <= len(lines):
        return begin
    written = lines[begin.line - 1][begin.column - 1 :]
    if written.startswith("|"):
        return _place_in_block(begin, lines, value, start)
    quote = 1 if written[:1] in {"'", '"'} else 0
    if written[quote:].startswith(value[: start + 1]):
        return SourceRef(path=begin.path, line=begin.line, column=begin.column + quote + start)
    return begin


def _place_in_block(begin: SourceRef, lines: list[str], value: str, start: int) -> SourceRef:
    """Return the place in a literal block: as many lines below its header as there are line breaks before the word."""
    before = value[:start]
    number = begin.line + before.count("\n")
    text = value.split("\n")[before.count("\n")]
    source = lines[number].removesuffix("\r") if number < len(lines) else ""
    if not source.endswith(text):
        return begin
    column = len(source) - len(text) + start - (before.rfind("\n") + 1) + 1
    return SourceRef(path=begin.path, line=number + 1, column=column)


def as_written(before: Any, number: int) -> int | str:
    """Return a quantity in the form of the one that it replaces: `"8"` stays a string."""
    return str(number) if isinstance(before, str) else number
