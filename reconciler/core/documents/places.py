"""Where in a file a value is written: found on demand by composing that one document again."""

from functools import lru_cache

from yaml import YAMLError

from reconciler.core.documents.builder import child
from reconciler.core.documents.parser import Chunk, LimitExceeded, Limits, Node, ScalarNode, compose, split
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
    root, offset = _tree(text, index)
    if root is None:
        return None
    key_node: Node | None = None
    node = root
    for part in path:
        step = child(node, part)
        if step is None:
            key = True
            break
        key_node, node = step
    mark = (key_node if key and key_node is not None else node).start_mark
    return mark.line + 1 + offset, mark.column + 1


def scalar_text(text: bytes, index: int, path: FieldPath) -> str | None:
    """Return the text of the scalar at `path` before any type was made of it; None where there is no scalar."""
    node, _ = _tree(text, index)
    for part in path:
        step = child(node, part) if node is not None else None
        if step is None:
            return None
        node = step[1]
    return node.value if type(node) is ScalarNode else None


@lru_cache(maxsize=_KEPT)
def _chunks(text: bytes) -> list[Chunk]:
    return split(text)


@lru_cache(maxsize=_KEPT)
def _tree(text: bytes, index: int) -> tuple[Node | None, int]:
    chunks = _chunks(text)
    if index >= len(chunks):
        return None, 0
    chunk = chunks[index]
    try:
        return compose(chunk.text, _GENEROUS), chunk.line
    except (YAMLError, LimitExceeded, UnicodeError):
        return None, chunk.line
