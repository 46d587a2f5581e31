"""A patch to a document: changed values, each with its reason; and the reasons of a sizing decision."""

from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import FieldPath
from reconciler.kube.reasons import Origin, Reason
from reconciler.kube.values import plural, value_at
from reconciler.kube.yaml import Document
from reconciler.sizing.decision import Candidate
from reconciler.sizing.question import Question


class NotAContainerError(Exception):
    """The value at `path` is not a mapping or list. Only what an AppWrapper wraps is not checked by a schema."""

    def __init__(self, path: FieldPath) -> None:
        super().__init__(path)
        self.path = path


class DocumentPatch:
    """A copy of the document's data, `body`, with changed values; `reasons` has an entry for each change."""

    __slots__ = ("body", "document", "reasons")

    def __init__(self, document: Document) -> None:
        self.document = document
        self.body: dict[str, Any] = copy_value(document.data)
        self.reasons: dict[FieldPath, Reason] = {}

    def get(self, path: FieldPath) -> Any:
        """Return the value at `path`; None if there is none."""
        return value_at(self.body, path)

    def set(self, path: FieldPath, value: Any, reason: Reason) -> None:
        """Set a value. An equal value stays, with the position where the user wrote it. Raises NotAContainerError."""
        node: Any = self.body
        for depth, part in enumerate(path[:-1]):
            below = _child(node, part, path[:depth])
            if below is None:
                below = node[part] = {}
            node = below
        if not same(_child(node, path[-1], path[:-1]), value):
            node[path[-1]] = value
            self.reasons[path] = reason

    def remove(self, path: FieldPath, reason: Reason) -> None:
        """Remove a key, if it is present. The reason is kept, for explanations."""
        parent = self.get(path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            del parent[path[-1]]
            self.reasons[path] = reason

    def duplicate(self, source: FieldPath, target: FieldPath, rule: str, text: str) -> None:
        """Copy the value at `source` to `target`."""
        origin = Origin(document=self.document, field=source)
        self.set(target, copy_value(self.get(source)), Reason(rule=rule, text=text, origins=(origin,), copied=True))

    def set_words(self, path: FieldPath, words: list[str], reason: Reason) -> None:
        """Set a list of words. Words that stay keep their positions in the source, also if they move."""
        before = self.get(path)
        old = before if isinstance(before, list) else []
        rows: list[ListItem] = []
        for tag, first, _, start, end in SequenceMatcher(None, old, words, autojunk=False).get_opcodes():
            kept = tag == "equal"
            rows += [(words[at], first + at - start if kept else reason) for at in range(start, end)]
        self.set_rows(path, rows)

    def set_rows(self, path: FieldPath, rows: list["ListItem"]) -> None:
        """Set a list of items that are new (with a reason) or were there before (with their old index).

        Raises NotAContainerError if the value is not a list.
        """
        before = self.get(path)
        if before is not None and not isinstance(before, list):
            raise NotAContainerError(path)
        items = [item for item, _ in rows]
        if same(before, items) or (before is None and not items):
            return
        self.set(path, items, _LIST_REASON)
        del self.reasons[path]
        for index, (_, source) in enumerate(rows):
            if isinstance(source, Reason):
                self.reasons[*path, index] = source
            elif source != index:
                origin = Origin(document=self.document, field=(*path, source))
                self.reasons[*path, index] = Reason(rule="source", origins=(origin,), copied=True)


ListItem = tuple[Any, "Reason | int"]
"""An item of a list, and its reason or its old index."""

_LIST_REASON = Reason(rule="sizing.list")


def _child(node: Any, part: str | int, path: FieldPath) -> Any:
    """Return the value of a key or index in the mapping or list at `path`; None if it is absent."""
    if type(node) is dict:
        return node.get(part)
    if type(node) is list and isinstance(part, int) and part < len(node):
        return node[part]
    raise NotAContainerError(path)


def copy_value(node: Any) -> Any:
    """Return a deep copy of plain data."""
    kind = type(node)
    if kind is dict:
        return {key: value if type(value) in _SCALARS else copy_value(value) for key, value in node.items()}
    return [copy_value(item) for item in node] if kind is list else node


_SCALARS = frozenset({str, int, float, bool, type(None)})


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of equal types: 1, 1.0 and true all differ."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is dict:
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


class SizingReasons(Struct, frozen=True, kw_only=True, eq=False):
    """The question, the chosen layout, and their origins: words of the launch line, evidence."""

    question: Question
    chosen: Candidate
    origins: tuple[Origin, ...]

    @property
    def gpus(self) -> int:
        """GPUs over all nodes."""
        return self.chosen.layout.gpus

    @property
    def workers(self) -> int:
        """Nodes."""
        return self.chosen.layout.workers

    @property
    def per_worker(self) -> int:
        """GPUs per node."""
        return self.chosen.layout.gpus_per_worker

    @property
    def resource(self) -> str:
        """Extended resource of the GPUs."""
        return self.chosen.gpu.vendor.resource

    def because(self, rule: str, text: str) -> Reason:
        """Return a reason with the origins of the decision."""
        return Reason(rule=f"sizing.{rule}", text=text, origins=self.origins)

    @property
    def spread(self) -> str:
        """The layout, such as `16 GPUs on 2 nodes, 8 per node`."""
        if self.workers == 1:
            return f"{plural(self.gpus, 'GPU')} on 1 node"
        return f"{plural(self.gpus, 'GPU')} on {self.workers} nodes, {self.per_worker} per node"

    @property
    def memory(self) -> str:
        """The predicted peak and the memory of the GPU."""
        estimate, gpu = self.chosen.estimate, self.chosen.gpu
        if estimate is None:
            return f"on {gpu.product}"
        return f"predicted peak {estimate.peak_gib:.1f} of {gpu.memory_gib:.1f} GiB on {gpu.product}"

    @property
    def batch(self) -> str:
        """The effective batch, before and after."""
        layout, question = self.chosen.layout, self.question
        samples, replicas = question.samples(layout), question.replicas_of(layout.gpus)
        among = f"{layout.batch} per GPU x {plural(layout.gpus, 'GPU')}"
        if replicas != layout.gpus:
            among = f"{layout.batch} per replica x {plural(replicas, 'replica')}"
        after = f"{among} x {plural(layout.accumulation, 'step')}"
        before = f"{question.batch} x {question.replicas} x {question.accumulation}"
        if samples == question.effective_batch:
            return f"effective batch {samples} = {after}, unchanged ({before})"
        return f"effective batch {samples} = {after}, instead of {question.effective_batch} ({before})"
