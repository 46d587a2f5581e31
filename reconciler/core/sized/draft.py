"""A document on its way to being sized: a copy of its data, changed value by value, each change with its reason."""

from difflib import SequenceMatcher
from typing import Any

from reconciler.core.documents import Document
from reconciler.core.objects import FieldPath
from reconciler.core.reasons import Origin, Reason
from reconciler.core.values import value_at


class Misfit(Exception):
    """Something stands at `path` that can hold nothing: only what an AppWrapper wraps is not checked by its schema."""

    def __init__(self, path: FieldPath) -> None:
        super().__init__(path)
        self.path = path


class Draft:
    """`body` begins as a copy of the document's data; `reasons` speak for what was changed, and for nothing else."""

    __slots__ = ("body", "document", "reasons")

    def __init__(self, document: Document) -> None:
        self.document = document
        self.body: dict[str, Any] = plain_copy(document.data)
        self.reasons: dict[FieldPath, Reason] = {}

    def get(self, path: FieldPath) -> Any:
        """Return the value at `path`; None where there is none."""
        return value_at(self.body, path)

    def set(self, path: FieldPath, value: Any, reason: Reason) -> None:
        """Write a value; what stands there already stays, with the place where the user wrote it. Raises Misfit."""
        node: Any = self.body
        for depth, part in enumerate(path[:-1]):
            below = _held(node, part, path[:depth])
            if below is None:
                below = node[part] = {}
            node = below
        if not same(_held(node, path[-1], path[:-1]), value):
            node[path[-1]] = value
            self.reasons[path] = reason

    def remove(self, path: FieldPath, reason: Reason) -> None:
        """Take a key away; an absent one is fine. The reason stays, for those who ask what became of it."""
        parent = self.get(path[:-1])
        if isinstance(parent, dict) and path[-1] in parent:
            del parent[path[-1]]
            self.reasons[path] = reason

    def duplicate(self, source: FieldPath, target: FieldPath, rule: str, text: str) -> None:
        """Write at `target` what the document holds at `source`."""
        origin = Origin(document=self.document, field=source)
        self.set(target, plain_copy(self.get(source)), Reason(rule=rule, text=text, origins=(origin,), copied=True))

    def set_words(self, path: FieldPath, words: list[str], reason: Reason) -> None:
        """Write a list of words: those that stay keep their own places, wherever they stand now."""
        before = self.get(path)
        old = before if isinstance(before, list) else []
        rows: list[Row] = []
        for tag, first, _, start, end in SequenceMatcher(None, old, words, autojunk=False).get_opcodes():
            kept = tag == "equal"
            rows += [(words[at], first + at - start if kept else reason) for at in range(start, end)]
        self.set_rows(path, rows)

    def set_rows(self, path: FieldPath, rows: list["Row"]) -> None:
        """Write a list whose items are new (with a reason) or stood there before (with their old position).

        Raises Misfit where something else than a list stands.
        """
        before = self.get(path)
        if before is not None and not isinstance(before, list):
            raise Misfit(path)
        items = [item for item, _ in rows]
        if same(before, items) or (before is None and not items):
            return
        self.set(path, items, _LISTED)
        del self.reasons[path]
        for index, (_, source) in enumerate(rows):
            if isinstance(source, Reason):
                self.reasons[*path, index] = source
            elif source != index:
                origin = Origin(document=self.document, field=(*path, source))
                self.reasons[*path, index] = Reason(rule="source", origins=(origin,), copied=True)


Row = tuple[Any, "Reason | int"]
"""An item of a list, and why it is there, or where it stood before."""

_LISTED = Reason(rule="sizing.list")


def _held(node: Any, part: str | int, path: FieldPath) -> Any:
    """Return what a mapping or list at `path` holds under a key or position; None where it holds nothing."""
    if type(node) is dict:
        return node.get(part)
    if type(node) is list and isinstance(part, int) and part < len(node):
        return node[part]
    raise Misfit(path)


def plain_copy(node: Any) -> Any:
    """Copy plain data."""
    kind = type(node)
    if kind is dict:
        return {key: value if type(value) in _SCALARS else plain_copy(value) for key, value in node.items()}
    return [plain_copy(item) for item in node] if kind is list else node


_SCALARS = frozenset({str, int, float, bool, type(None)})


def same(one: Any, other: Any) -> bool:
    """Whether two values are written alike: 1, 1.0 and true are three."""
    kind = type(one)
    if kind is not type(other):
        return False
    if kind is dict:
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if kind is list:
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)
