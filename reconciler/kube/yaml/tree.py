"""Navigation in node trees: children as they are in the data, paths, and the places of values.

Places are looked up on demand, by composing the document again.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from reconciler.kube.objects import FieldPath
from reconciler.kube.patterns import later
from reconciler.kube.yaml.libyaml import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    CParser,
    MappingStartEvent,
    ScalarEvent,
    YAMLError,
)
from reconciler.kube.yaml.parser import (
    PLAIN,
    Chunk,
    LimitExceeded,
    Limits,
    MappingNode,
    ScalarNode,
    SequenceNode,
    YamlNode,
    compose,
    split,
)
from reconciler.kube.yaml.scalars import is_ambiguous, key_text

MERGE = "<<"
_MAX_PATH_DEPTH = 200
_MAX_NAME = 60
_BARE_TAG = later(r"(?:&\S+\s+)?!(?:\s|$)")
_GENEROUS = Limits(depth=1_000, nodes=3_000_000)
"""The document was read before, within the caller's limits."""
_LARGE = 64 * 1024
"""Bytes of a document that is not composed for a place near its start, among the first `_EARLY_EVENTS` events."""
_EARLY_EVENTS = 100
_CACHED = 4
"""Files and trees in the cache: lookups in one document come together."""


def is_merge(node: YamlNode) -> bool:
    """Return whether a key node is the merge key."""
    return node.tag is PLAIN and node.value == MERGE


def key_name(node: YamlNode) -> str | None:
    """Return the key as it is in the data, or None for merge keys and invalid keys."""
    if type(node) is not ScalarNode or is_merge(node):
        return None
    text: str = node.value
    return key_text(text) if node.tag is PLAIN else text


def children(node: YamlNode) -> Iterator[tuple[str | int, YamlNode | None, YamlNode]]:
    """Yield the name or position, the key node and the value node of each child, as they are in the data.

    Children from merge keys are included. If a name occurs more than once, the last one counts.
    """
    if type(node) is SequenceNode:
        for position, item in enumerate(node.value):
            yield position, None, item
    elif type(node) is MappingNode:
        for key_node, value_node in node.value:
            name = key_name(key_node)
            if name is not None:
                yield name, key_node, value_node
            elif is_merge(key_node):
                sources = value_node.value if type(value_node) is SequenceNode else [value_node]
                for source in reversed(sources):
                    yield from children(source)


def child(node: YamlNode, part: str | int) -> tuple[YamlNode | None, YamlNode] | None:
    """Return the key node and the value node of one child, or None if it does not exist."""
    if type(node) is SequenceNode:
        exists = isinstance(part, int) and 0 <= part < len(node.value)
        return (None, node.value[part]) if exists else None
    match = None
    for name, key_node, value_node in children(node):
        if name == part:
            match = key_node, value_node
    return match


def ambiguous_scalars(node: YamlNode, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """Yield the path and text of every ambiguous plain scalar below a valid node."""
    if node.tag is PLAIN:
        if is_ambiguous(node.value):
            yield path, node.value
    elif type(node) is not ScalarNode:
        for name, child in {name: child for name, _, child in children(node)}.items():
            yield from ambiguous_scalars(child, (*path, name))


def paths_to(root: YamlNode, targets: Iterable[YamlNode]) -> dict[int, FieldPath]:
    """Return the path of each node, by the node's `id`; the path of a key is that of its value.

    Works on invalid trees: each node is visited once, down to a limited depth.
    """
    target_ids = {id(node) for node in targets}
    paths: dict[int, FieldPath] = {}
    seen: set[int] = set()
    pending: list[tuple[YamlNode, FieldPath]] = [(root, ())]
    while pending and len(paths) < len(target_ids):
        node, path = pending.pop()
        if id(node) in target_ids:
            paths.setdefault(id(node), path)
        if id(node) in seen or type(node) is ScalarNode or len(path) > _MAX_PATH_DEPTH:
            continue
        seen.add(id(node))
        if type(node) is SequenceNode:
            pending.extend((item, (*path, position)) for position, item in enumerate(node.value))
            continue
        for key_node, value_node in node.value:
            below = (*path, _display_name(key_node))
            if id(key_node) in target_ids:
                paths[id(key_node)] = below
            pending.append((value_node, below))
    return paths


def bare_tags(root: YamlNode, text: str) -> Iterator[YamlNode]:
    """Yield the plain scalars of the document `text` with the tag `!`, which the parser does not report."""
    skipped = 1 if text.startswith("\ufeff") else 0
    seen: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if type(node) is ScalarNode:
            start = node.start_mark.index + skipped
            is_marked = node.tag is PLAIN and text.startswith(("!", "&"), start)
            if is_marked and _BARE_TAG.match(text, start, node.end_mark.index + skipped):
                yield node
        elif id(node) not in seen:
            seen.add(id(node))
            pending += node.value if type(node) is SequenceNode else [part for pair in node.value for part in pair]


def _display_name(node: YamlNode) -> str:
    if type(node) is not ScalarNode:
        return "?"
    name: str = key_name(node) or node.value
    return name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "..."


# --- places -----------------------------------------------------------------------------------------------------------


def locate(text: bytes, index: int, path: FieldPath, *, key: bool) -> tuple[int, int] | None:
    """Return the line and column, from 1, of the value at `path` (or of its key) in document `index` of a file.

    If the path does not exist, return the place of the key of its nearest ancestor.
    """
    if len(text) > _LARGE and index < len(chunks := _chunks(text)) and (early := _early(chunks[index], path, key=key)):
        return early
    tree = _tree(text, index)
    if tree.root is None:
        return None
    key_node, node, is_whole = _nearest(tree, tree.root, path)
    mark = (key_node if (key or not is_whole) and key_node is not None else node).start_mark
    return mark.line + 1 + tree.line, mark.column + 1


def _nearest(tree: "_Tree", node: YamlNode, path: FieldPath) -> tuple[YamlNode | None, YamlNode, bool]:
    """Return the key and the value at a path, or those of its nearest ancestor, and whether the path exists."""
    key_node: YamlNode | None = None
    for part in path:
        step = tree.child(node, part)
        if step is None:
            return key_node, node, False
        key_node, node = step
    return key_node, node, True


def _early(chunk: Chunk, path: FieldPath, *, key: bool) -> tuple[int, int] | None:
    """Return a place near the start of a document, which is not composed for it; None if it is not found so."""
    if chunk.text.lstrip()[:1] == b"{":
        return None
    try:
        event = _find_event(_first_events(chunk.text), path, key=key)
    except YAMLError:
        return None
    return None if event is None else (event.start_mark.line + 1 + chunk.line, event.start_mark.column + 1)


def _first_events(text: bytes) -> Iterator[Any]:
    parser = CParser(b"#--" + text[3:] if text.startswith(b"---") else text)
    for _ in range(_EARLY_EVENTS):
        yield parser.get_event()


def _find_event(events: Iterator[Any], path: FieldPath, *, key: bool) -> Any:
    """Return the event of the value at `path` or of its key; None where it is not found without the whole document."""
    name: Any = None
    event = next(islice(events, 2, None), None)  # after the starts of the stream and of the document
    for part in path:
        if not isinstance(event, MappingStartEvent):
            return None
        for name in events:
            event = next(events, None)
            if not isinstance(name, ScalarEvent) or name.value == MERGE or isinstance(event, AliasEvent):
                return None
            if name.value == part:
                break
            _skip_value(event, events)
        else:
            return None
    return name if key else event


def _skip_value(event: Any, events: Iterator[Any]) -> None:
    depth = int(isinstance(event, CollectionStartEvent))
    while depth and (event := next(events, None)) is not None:
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)


def extent(text: bytes, index: int, path: FieldPath) -> tuple[int, int] | None:
    """Return the first and the last line of the value at `path` with its key, from 1.

    If the path does not exist, return the line of the key of its nearest ancestor, twice.
    """
    tree = _tree(text, index)
    if tree.root is None:
        return None
    key_node, node, is_whole = _nearest(tree, tree.root, path)
    first = (key_node or node).start_mark.line
    last = max(first, _last_line(node)) if is_whole else first
    return first + 1 + tree.line, last + 1 + tree.line


def _last_line(node: YamlNode) -> int:
    """Return the last line of a node, from 0. The end mark of a block collection is the start of what follows it."""
    while type(node) in (SequenceNode, MappingNode) and node.value and not node.flow_style:  # type: ignore[attr-defined]
        last = node.value[-1]
        node = last if type(node) is SequenceNode else last[1]
    line, column = int(node.end_mark.line), node.end_mark.column
    return line - 1 if column == 0 and line > node.start_mark.line else line


def scalar_text(text: bytes, index: int, path: FieldPath) -> str | None:
    """Return the text of the scalar at `path` as it is written, or None if there is no scalar."""
    tree = _tree(text, index)
    node = tree.root
    for part in path:
        step = tree.child(node, part) if node is not None else None
        if step is None:
            return None
        node = step[1]
    return node.value if type(node) is ScalarNode else None


@lru_cache(maxsize=_CACHED)
def _chunks(text: bytes) -> list[Chunk]:
    return split(text)


@lru_cache(maxsize=_CACHED)
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
    """A composed document that starts after `line` lines, with an index of every mapping that was visited."""

    def __init__(self, root: YamlNode | None, line: int) -> None:
        self.root, self.line = root, line
        self._steps: dict[int, dict[str | int, tuple[YamlNode | None, YamlNode]]] = {}

    def child(self, node: YamlNode, part: str | int) -> tuple[YamlNode | None, YamlNode] | None:
        if type(node) is SequenceNode:
            return child(node, part)
        steps = self._steps.get(id(node))
        if steps is None:
            steps = self._steps[id(node)] = {name: (key_node, value) for name, key_node, value in children(node)}
        return steps.get(part)
