"""Where in a file a value is written: found on demand by composing that one document again."""

from functools import lru_cache

from yaml import YAMLError

from reconciler.core.documents.builder import child, children
from reconciler.core.documents.parser import (
    Chunk,
    LimitExceeded,
    Limits,
    Node,
    ScalarNode,
    SequenceNode,
    compose,
    split,
)
from reconciler.core.objects import FieldPath

Place = tuple[int, int]
"""Line and column, counted from 1."""

_GENEROUS = Limits(depth=1_000, nodes=3_000_000)
"""The document was read before, within the caller's limits."""
_KEPT = 4
"""Files and trees kept for the next question: questions about one document come together."""


def locate(text: bytes, index: int, path: FieldPath, *, key: bool) -> Place | None:
    """Return the place of the value at `path` (or of its key) in document `index` of a file.

    Where the path does not exist, it is the key of the nearest ancestor that does.
    """
    tree = _tree(text, index)
    if tree.root is None:
        return None
    key_node: Node | None = None
    node = tree.root
    for part in path:
        step = tree.child(node, part)
        if step is None:
            key = True
            break
        key_node, node = step
    mark = (key_node if key and key_node is not None else node).start_mark
    return mark.line + 1 + tree.line, mark.column + 1


def scalar_text(text: bytes, index: int, path: FieldPath) -> str | None:
    """Return the text of the scalar at `path` before any type was made of it; None where there is no scalar."""
    tree = _tree(text, index)
    node = tree.root
    for part in path:
        step = tree.child(node, part) if node is not None else None
        if step is None:
            return None
        node = step[1]
    return node.value if type(node) is ScalarNode else None


@lru_cache(maxsize=_KEPT)
def _chunks(text: bytes) -> list[Chunk]:
    return split(text)


@lru_cache(maxsize=_KEPT)
def _tree(text: bytes, index: int) -> "_Tree":
    chunks = _chunks(text)
    if index >= len(chunks):
        return _Tree(None, 0)
    chunk = chunks[index]
    try:
        return _Tree(compose(chunk.text, _GENEROUS), chunk.line)
    except (YAMLError, LimitExceeded, UnicodeError):
        return _Tree(None, chunk.line)


class _Tree:
    """A composed document that begins after `line` lines; every mapping is looked through once."""

    def __init__(self, root: Node | None, line: int) -> None:
        self.root, self.line = root, line
        self._steps: dict[int, dict[str | int, tuple[Node | None, Node]]] = {}

    def child(self, node: Node, part: str | int) -> tuple[Node | None, Node] | None:
        if type(node) is SequenceNode:
            return child(node, part)
        steps = self._steps.get(id(node))
        if steps is None:
            steps = self._steps[id(node)] = {name: (key_node, value) for name, key_node, value in children(node)}
        return steps.get(part)
