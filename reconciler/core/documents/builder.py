"""From a node tree to plain values: Kubernetes' types, merge keys, duplicates, limits, and all that is wrong."""

import json
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from reconciler.core.documents.parser import (
    COLLECTION,
    PLAIN,
    QUOTED,
    LimitExceeded,
    Limits,
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
)
from reconciler.core.documents.scalars import is_ambiguous, key_text, resolve
from reconciler.core.objects import FieldPath

MERGE = "<<"
_TAGS = {
    "tag:yaml.org,2002:str": ScalarNode,
    "tag:yaml.org,2002:map": MappingNode,
    "tag:yaml.org,2002:seq": SequenceNode,
}
_MEMO_SIZE = 50_000
_MEMO_TEXT = 64
_DEEPEST_PATH = 200
_LONGEST_SHOWN = 60
_LONE_TAG = re.compile(r"(?:&\S+\s+)?!(?:\s|$)")

# Pure memos of `resolve` and `key_text` for scalars that nobody reads differently; emptied when they grow too large.
_values: dict[str, Any] = {}
_keys: dict[str, str] = {}


class Flaw(Struct, frozen=True):
    """Something wrong at a node; becomes a problem with the node's place and path. `other` is what it clashes with."""

    rule: str
    node: Node
    message: str
    hint: str = ""
    other: Node | None = None


def bad_tag(node: Node, tag: str) -> Flaw:
    """Refuse a tag: kubectl drops most of them without a word."""
    hint = "remove the tag; only !!str, !!map and !!seq are allowed"
    return Flaw("yaml.tag", node, f"the tag {_shown(tag)} is not allowed", hint)


class Builder:
    """Builds the values of one file's documents under one budget of nodes; `flaws` and `odd` are of the last one."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._deepest, self._most = limits.depth, limits.nodes
        self.nodes = 0
        self.flaws: list[Flaw] = []
        self.odd = False
        """Whether an ambiguous plain scalar was met."""

    def build(self, node: Node, depth: int = 0) -> Any:
        """Return the value of a node. Raises LimitExceeded."""
        tag = node.tag
        if tag is PLAIN:
            try:
                return _values[node.value]
            except KeyError:
                return self._plain(node)
        if tag is QUOTED:
            return node.value
        if tag is not COLLECTION and _TAGS.get(tag) is not type(node):
            self.flaws.append(bad_tag(node, tag))
            return None
        if type(node) is ScalarNode:
            return node.value
        return self._mapping(node, depth) if type(node) is MappingNode else self._sequence(node, depth)

    def _exceed(self, node: Node, depth: int) -> None:
        raise LimitExceeded("depth" if depth >= self.limits.depth else "nodes", node)

    def _sequence(self, node: Node, depth: int) -> list[Any]:
        self.nodes += 1 + len(node.value)
        if depth >= self._deepest or self.nodes > self._most:
            self._exceed(node, depth)
        depth += 1
        build, mapping = self.build, self._mapping
        return [
            mapping(item, depth) if item.tag is COLLECTION and type(item) is MappingNode else build(item, depth)
            for item in node.value
        ]

    def _mapping(self, node: Node, depth: int) -> dict[str, Any]:  # noqa: C901 - in one piece: it takes half the time
        self.nodes += 1 + len(node.value)
        if depth >= self._deepest or self.nodes > self._most:
            self._exceed(node, depth)
        depth += 1
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            try:
                name = _keys[key_node.value] if key_node.tag is PLAIN else _quoted_key(key_node)
            except KeyError:
                odd_name = self._odd_key(key_node)
                if odd_name is None:
                    if is_merge(key_node):
                        self._merge(data, value_node, depth)
                    continue
                name = odd_name
            tag = value_node.tag
            if tag is PLAIN:
                try:
                    data[name] = _values[value_node.value]
                except KeyError:
                    data[name] = self._plain(value_node)
            elif tag is QUOTED:
                data[name] = value_node.value
            elif tag is COLLECTION and type(value_node) is MappingNode:
                data[name] = self._mapping(value_node, depth)
            else:
                data[name] = self.build(value_node, depth)
        if len(data) != len(node.value):
            self._find_duplicates(node)
        return data

    def _plain(self, node: Node) -> Any:
        """Resolve a plain scalar that is not in the memo."""
        text = node.value
        value = resolve(text)
        if isinstance(value, float) and not math.isfinite(value):
            hint = "Kubernetes' JSON has no such number: write a finite one, or quote it"
            self.flaws.append(Flaw("yaml.number", node, f"{_shown(text)} is not a number that JSON can hold", hint))
        elif is_ambiguous(text):
            self.odd = True
        elif len(text) <= _MEMO_TEXT:
            if len(_values) >= _MEMO_SIZE:
                _values.clear()
            _values[text] = value
        return value

    def _odd_key(self, node: Node) -> str | None:
        """Return the text of a key that is not in the memo; None for a merge key and for one that is refused."""
        if node.tag is not PLAIN:
            return self._tagged_key(node)
        text = node.value
        if text == MERGE:
            return None
        name = key_text(text)
        if name is None:
            hint = f"quote it: {_shown(text)}" if text else "write the key before the colon"
            self.flaws.append(Flaw("yaml.key", node, f"{_shown(text)} is no text and cannot be a key", hint))
            return None
        if name != text or is_ambiguous(text):
            message = f"the key {_shown(text)} is not the same text to every parser"
            if name != text:
                message += f"; Kubernetes reads {_shown(name)}"
            self.flaws.append(Flaw("yaml.ambiguous-key", node, message, f"quote it: {_shown(text)}"))
        elif len(text) <= _MEMO_TEXT:
            if len(_keys) >= _MEMO_SIZE:
                _keys.clear()
            _keys[text] = name
        return name

    def _tagged_key(self, node: Node) -> str | None:
        if type(node) is not ScalarNode:
            hint = "keys are text; if this is a template placeholder, quote it or render the file first"
            kind = "mapping" if type(node) is MappingNode else "list"
            self.flaws.append(Flaw("yaml.key", node, f"a {kind} cannot be a key", hint))
            return None
        value = self.build(node)
        return value if isinstance(value, str) else None

    def _merge(self, data: dict[str, Any], node: Node, depth: int) -> None:
        """Merge as go-yaml v2 does: at once, over the keys already there, the first of a list winning."""
        sources = node.value if type(node) is SequenceNode else [node]
        for source in reversed(sources):
            if type(source) is not MappingNode:
                hint = "give << an alias of a mapping, or a list of those"
                self.flaws.append(Flaw("yaml.merge", node, "<< takes a mapping or a list of mappings", hint))
                return
        merged: dict[str, Any] = {}
        for source in reversed(sources):
            merged.update(self.build(source, depth) or {})
        for name, value in merged.items():
            if name in data and data[name] != value:
                message = f"<< after the key {_shown(name)} overrides it in Kubernetes, and does not in other parsers"
                self.flaws.append(Flaw("yaml.merge-override", node, message, "write << before the other keys"))
        data.update(merged)

    def _find_duplicates(self, node: Node) -> None:
        first: dict[str, Node] = {}
        for key_node, _ in node.value:
            name = key_name(key_node)
            if name is None:
                continue
            if name in first:
                message = f"the key {_shown(name)} is already set"
                self.flaws.append(Flaw("yaml.duplicate-key", key_node, message, "keep one of the two", first[name]))
            else:
                first[name] = key_node


def _quoted_key(node: Node) -> str:
    if node.tag is QUOTED:
        text: str = node.value
        return text
    raise KeyError


def is_merge(node: Node) -> bool:
    """Tell whether a key node is the merge key."""
    return node.tag is PLAIN and node.value == MERGE


def key_name(node: Node) -> str | None:
    """Return the key as it is in the data; None for merge keys and for keys that are refused."""
    if type(node) is not ScalarNode or is_merge(node):
        return None
    text: str = node.value
    return key_text(text) if node.tag is PLAIN else text


def _shown(text: str) -> str:
    """Quote text from a file for a message, shortened."""
    short = text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
    return json.dumps(short) if text else "an empty value"


def children(node: Node) -> Iterator[tuple[str | int, Node | None, Node]]:
    """Yield the name or position, the key's node and the value's node of each child, as they are in the data.

    What a merge key brings in comes in the order in which it is set, so the last of a name is the one that counts.
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


def child(node: Node, part: str | int) -> tuple[Node | None, Node] | None:
    """Return the key's node and the value's node of one child; None where there is no such child."""
    if type(node) is SequenceNode:
        known = isinstance(part, int) and 0 <= part < len(node.value)
        return (None, node.value[part]) if known else None
    found = None
    for name, key_node, value_node in children(node):
        if name == part:
            found = key_node, value_node
    return found


def ambiguous_scalars(node: Node, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """Yield the path and the text of every ambiguous plain scalar below a node that was built without flaws."""
    if node.tag is PLAIN:
        if is_ambiguous(node.value):
            yield path, node.value
    elif type(node) is not ScalarNode:
        for name, child in {name: child for name, _, child in children(node)}.items():
            yield from ambiguous_scalars(child, (*path, name))


def paths_to(root: Node, targets: Iterable[Node]) -> dict[int, FieldPath]:
    """Return, by identity, the path of each node, or of the value whose key it is, as it is written.

    Works on trees that were refused too: each node is entered once, and only down to a bounded depth.
    """
    wanted = {id(node) for node in targets}
    found: dict[int, FieldPath] = {}
    seen: set[int] = set()
    pending: list[tuple[Node, FieldPath]] = [(root, ())]
    while pending and len(found) < len(wanted):
        node, path = pending.pop()
        if id(node) in wanted:
            found.setdefault(id(node), path)
        if id(node) in seen or type(node) is ScalarNode or len(path) > _DEEPEST_PATH:
            continue
        seen.add(id(node))
        if type(node) is SequenceNode:
            pending.extend((item, (*path, position)) for position, item in enumerate(node.value))
            continue
        for key_node, value_node in node.value:
            below = (*path, _shown_name(key_node))
            if id(key_node) in wanted:
                found[id(key_node)] = below
            pending.append((value_node, below))
    return found


def lone_tags(root: Node, text: str) -> Iterator[Node]:
    """Yield the plain scalars that have the tag `!`, which the parser drops; `text` is the document's."""
    skipped = 1 if text.startswith("\ufeff") else 0
    seen: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if type(node) is ScalarNode:
            if node.tag is PLAIN and _LONE_TAG.match(
                text, node.start_mark.index + skipped, node.end_mark.index + skipped
            ):
                yield node
        elif id(node) not in seen:
            seen.add(id(node))
            pending += node.value if type(node) is SequenceNode else [part for pair in node.value for part in pair]


def _shown_name(node: Node) -> str:
    if type(node) is not ScalarNode:
        return "?"
    name: str = key_name(node) or node.value
    return name if len(name) <= _LONGEST_SHOWN else name[:_LONGEST_SHOWN] + "..."
