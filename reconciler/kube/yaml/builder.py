"""Build plain values from a node tree: Kubernetes' types, merge keys, duplicates and limits."""

import json
import math
from typing import Any

from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem
from reconciler.kube.yaml.parser import (
    COLLECTION,
    PLAIN,
    QUOTED,
    LimitExceeded,
    Limits,
    MappingNode,
    ScalarNode,
    SequenceNode,
    YamlNode,
)
from reconciler.kube.yaml.scalars import is_ambiguous, key_text, resolve
from reconciler.kube.yaml.tree import is_merge, key_name

_TAGS = {
    "tag:yaml.org,2002:str": ScalarNode,
    "tag:yaml.org,2002:map": MappingNode,
    "tag:yaml.org,2002:seq": SequenceNode,
}
_MEMO_SIZE = 50_000
_MEMO_TEXT = 64
_MAX_SHOWN = 60

# Caches of `resolve` and `key_text` for unambiguous scalars; emptied when they grow too large.
_values: dict[str, Any] = {}
_keys: dict[str, str] = {}


class Builder:
    """Builds the values of one file's documents, with one budget of nodes for all of them.

    `problems` and `has_ambiguous` are those of the last document. The problems have no `field` yet: a path is only
    computed for the node of a problem.
    """

    def __init__(self, path: str, limits: Limits) -> None:
        self.limits = limits
        self._max_depth, self._max_nodes = limits.depth, limits.nodes
        self._path, self._line = path, 0
        self.nodes = 0
        self.problems: list[tuple[YamlNode, Problem]] = []
        self.has_ambiguous = False
        """Whether the document has an ambiguous plain scalar."""

    def start(self, line: int) -> None:
        """Start a document that has `line` lines before it."""
        self._line = line
        self.problems, self.has_ambiguous = [], False

    def place(self, node: YamlNode) -> SourceRef:
        """Return the place of a node in the file."""
        mark = node.start_mark
        return SourceRef(path=self._path, line=mark.line + 1 + self._line, column=mark.column + 1)

    def add(self, rule: str, node: YamlNode, message: str, hint: str) -> None:
        """Add a problem at a node."""
        self.problems.append((node, Problem(rule=rule, place=self.place(node), message=message, hint=hint)))

    def add_tag(self, node: YamlNode, tag: str) -> None:
        """Refuse a tag: kubectl silently ignores most of them."""
        hint = "remove the tag; allowed tags: !!str, !!map, !!seq"
        is_password = tag.startswith("!") and len(tag) > 1  # perhaps: `password: !x1 y` without quotes
        name = "this tag" if is_password else f"the tag {_shown(tag)}"
        self.add("yaml.tag", node, f"{name} is not allowed", hint)

    def build(self, node: YamlNode, depth: int = 0) -> Any:
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
            self.add_tag(node, tag)
            return None
        if type(node) is ScalarNode:
            return node.value
        return self._mapping(node, depth) if type(node) is MappingNode else self._sequence(node, depth)

    def _exceed(self, node: YamlNode, depth: int) -> None:
        raise LimitExceeded("depth" if depth >= self.limits.depth else "nodes", node.start_mark)

    def _sequence(self, node: YamlNode, depth: int) -> list[Any]:
        self.nodes += 1 + len(node.value)
        if depth >= self._max_depth or self.nodes > self._max_nodes:
            self._exceed(node, depth)
        depth += 1
        build, mapping = self.build, self._mapping
        return [
            mapping(item, depth) if item.tag is COLLECTION and type(item) is MappingNode else build(item, depth)
            for item in node.value
        ]

    def _mapping(self, node: YamlNode, depth: int) -> dict[str, Any]:  # noqa: C901 - inlined: this is half of the reading time
        self.nodes += 1 + len(node.value)
        if depth >= self._max_depth or self.nodes > self._max_nodes:
            self._exceed(node, depth)
        depth += 1
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            try:
                name = _keys[key_node.value] if key_node.tag is PLAIN else _quoted_key(key_node)
            except KeyError:
                uncached = self._resolve_key(key_node)
                if uncached is None:
                    if is_merge(key_node):
                        self._merge(data, value_node, depth)
                    continue
                name = uncached
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

    def _plain(self, node: YamlNode) -> Any:
        """Resolve a plain scalar that is not in the cache."""
        text = node.value
        value = resolve(text)
        if isinstance(value, float) and not math.isfinite(value):
            hint = "write a finite number, or quote it"
            self.add("yaml.number", node, f"{_shown(text)} is not a valid JSON number", hint)
        elif is_ambiguous(text):
            self.has_ambiguous = True
        elif len(text) <= _MEMO_TEXT:
            if len(_values) >= _MEMO_SIZE:
                _values.clear()
            _values[text] = value
        return value

    def _resolve_key(self, node: YamlNode) -> str | None:
        """Return the text of a key that is not in the cache, or None for a merge key or an invalid one."""
        if node.tag is not PLAIN:
            return self._tagged_key(node)
        text = node.value
        if is_merge(node):
            return None
        name = key_text(text)
        if name is None:
            hint = f"quote it: {_shown(text)}" if text else "write the key before the colon"
            self.add("yaml.key", node, f"{_shown(text)} is not a string and cannot be a key", hint)
            return None
        if name != text or is_ambiguous(text):
            message = f"YAML parsers disagree about the key {_shown(text)}"
            if name != text:
                message += f", and Kubernetes reads {_shown(name)}"
            self.add("yaml.ambiguous-key", node, message, f"quote it: {_shown(text)}")
        elif len(text) <= _MEMO_TEXT:
            if len(_keys) >= _MEMO_SIZE:
                _keys.clear()
            _keys[text] = name
        return name

    def _tagged_key(self, node: YamlNode) -> str | None:
        if type(node) is not ScalarNode:
            hint = "keys are strings; if this is a template placeholder, quote it or render the template first"
            kind = "mapping" if type(node) is MappingNode else "list"
            self.add("yaml.key", node, f"a {kind} cannot be a key", hint)
            return None
        value = self.build(node)
        return value if isinstance(value, str) else None

    def _merge(self, data: dict[str, Any], node: YamlNode, depth: int) -> None:
        """Merge as go-yaml v2 does: immediately, over earlier keys; the first mapping of a list wins."""
        sources = node.value if type(node) is SequenceNode else [node]
        for source in reversed(sources):
            if type(source) is not MappingNode:
                hint = "use an alias of a mapping, or a list of aliases"
                self.add("yaml.merge", node, "the value of << must be a mapping or a list of mappings", hint)
                return
        merged: dict[str, Any] = {}
        for source in reversed(sources):
            merged.update(self.build(source, depth) or {})
        for name, value in merged.items():
            if name in data and data[name] != value:
                message = f"this << overrides the key {_shown(name)} in Kubernetes, but not in other YAML parsers"
                self.add("yaml.merge-override", node, message, "write << before the other keys")
        data.update(merged)

    def _find_duplicates(self, node: YamlNode) -> None:
        first: dict[str, YamlNode] = {}
        for key_node, _ in node.value:
            name = key_name(key_node)
            if name is None:
                continue
            if name in first:
                place = self.place(first[name])
                message = f"the key {_shown(name)} is already set at {place.line}:{place.column}"
                self.add("yaml.duplicate-key", key_node, message, "keep one of the two")
            else:
                first[name] = key_node


def _quoted_key(node: YamlNode) -> str:
    if node.tag is QUOTED:
        text: str = node.value
        return text
    raise KeyError


def _shown(text: str) -> str:
    """Quote text from a file for a message, shortened."""
    short = text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."
    return json.dumps(short) if text else "an empty value"
