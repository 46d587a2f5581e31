"""Parse the bytes of a file into node trees with PyYAML's C parser, within limits.

The C composer recurses on the C stack and builds the whole tree at once, so text that could be nested deeply or
contain very many nodes is composed by a subclass that counts nodes. All other text, which is nearly all, takes a path
without hooks.
"""

import json
import operator
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from reconciler.kube.patterns import later
from reconciler.kube.yaml.libyaml import CParser, MarkedYAMLError, _yaml

PLAIN, QUOTED, COLLECTION = "plain", "quoted", "collection"
"""What `node.tag` holds for nodes without an explicit tag; compared by identity."""

_SAFE_LEVELS = 8000
"""The C composer handles 20,000 levels on a stack of 8 MiB and crashes before 50,000."""
_TOO_DEEP = "exceeded maximum nesting depth"
"""What libyaml says since 0.2.6 of more than 1,000 levels, which it scans before any of them is composed."""
_CHEAP_BRACKETS = 100
"""The C scanner visits all open brackets at each token: thousands of them cost milliseconds per kilobyte."""
# A surrogate pair, or any other escape.
_JSON_ESCAPE = later(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)")
_JSON_BREAKS = {"\t": " ", "\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class YamlNode(Struct, eq=False):
    """A node of a document's tree, with PyYAML's fields; the marks count lines and columns from 0."""

    tag: str
    value: Any
    start_mark: Any
    end_mark: Any


class ScalarNode(YamlNode, eq=False, gc=False):
    """A scalar; `value` is its text."""

    style: str | None = None


class SequenceNode(YamlNode, eq=False):
    """A list; `value` is its items."""

    flow_style: bool | None = None


class MappingNode(YamlNode, eq=False):
    """A mapping; `value` is its pairs of nodes in order, including duplicates."""

    flow_style: bool | None = None


_NODE_CLASSES = {"ScalarNode": ScalarNode, "SequenceNode": SequenceNode, "MappingNode": MappingNode}


@contextmanager
def _own_node_classes() -> Iterator[None]:
    """Make PyYAML's C composer create nodes of these classes.

    It looks its classes up by name for each node, and they are Python code, which takes a sixth of the reading time.
    """
    original = {name: getattr(_yaml, name) for name in _NODE_CLASSES}
    vars(_yaml).update(_NODE_CLASSES)
    try:
        yield
    finally:
        vars(_yaml).update(original)


class Limits(Struct, frozen=True, kw_only=True):
    """Limits for one file. The defaults follow what an API server accepts (etcd: 1.5 MiB per request).

    `nodes` counts values and keys after aliases are expanded, over all documents of the file.
    """

    file_bytes: int = 3 * 1024 * 1024
    depth: int = 100
    nodes: int = 250_000
    documents: int = 10_000


class Chunk(Struct, frozen=True, kw_only=True):
    """The text of one document, from a `---` line to the next; `line` is the number of lines before it."""

    text: bytes
    index: int
    line: int


class LimitExceeded(Exception):
    """A document is nested too deeply or has too many values; `mark` is the place of the last one within the limit."""

    def __init__(self, limit: str, mark: Any) -> None:
        super().__init__(limit)
        self.limit = limit
        self.mark = mark


class _Parser(CParser):
    """The C parser and composer; the tag of an untagged node only says whether a scalar is plain."""

    # PyYAML's path resolvers are not used: these C functions do nothing, which is the fastest.
    descend_resolver: Any = operator.is_
    ascend_resolver: Any = bool

    def resolve(self, kind: type[YamlNode], _value: str | None, implicit: tuple[bool, bool]) -> str:
        """Return the tag of a node without an explicit one."""
        if kind is ScalarNode:
            return PLAIN if implicit[0] else QUOTED
        return COLLECTION


class _CountingParser(_Parser):
    """Raises LimitExceeded at the limits."""

    def __init__(self, text: bytes, limits: Limits) -> None:
        super().__init__(text)
        self.limits = limits
        self.depth = 0
        self.nodes = 0

    def descend_resolver(self, parent: YamlNode | None, index: object) -> None:  # noqa: ARG002 - PyYAML calls it so
        """Count a node and go one level down."""
        self.depth += 1
        self.nodes += 1
        if self.depth > self.limits.depth + 1:
            raise LimitExceeded("depth", _start(parent))
        if self.nodes > self.limits.nodes:
            raise LimitExceeded("nodes", _start(parent))

    def ascend_resolver(self) -> None:
        """Go one level up."""
        self.depth -= 1


def split(raw: bytes) -> list[Chunk]:
    """Cut a file at the lines that start with `---`; YAML allows such a line nowhere else.

    Every document ends with a newline, the last one too: k8s.io/apimachinery/pkg/util/yaml (YAMLReader) reads line by
    line and ends each with one, which decides what a block scalar at the end of a document holds.
    """
    ended = raw if raw.endswith(b"\n") else raw + b"\n"
    parts = ended[:-1].split(b"\n---")
    chunks, line = [], 0
    for index, part in enumerate(parts):
        chunks.append(Chunk(text=(b"---" if index else b"") + part + b"\n", index=index, line=line))
        line += part.count(b"\n") + 1
    return chunks


def compose(text: bytes, limits: Limits) -> YamlNode | None:
    """Compose the only document of `text` (valid UTF-8); None where it is empty. Raises YAMLError or LimitExceeded."""
    if text.startswith(b"---"):
        text = b"#--" + text[3:]  # Kubernetes' decoder drops the separator line; every place stays the same
    elif text.lstrip()[:1] == b"{":
        text = _json_as_yaml(text)
    parser = _Parser(text) if _is_cheap(text, limits) else _CountingParser(text, limits)
    try:
        with _own_node_classes():
            node: Any = parser.get_single_node()
    except MarkedYAMLError as error:
        if error.problem == _TOO_DEEP:
            raise LimitExceeded("depth", error.problem_mark) from error
        raise
    root: YamlNode | None = node
    return root


def _start(node: YamlNode | None) -> Any:
    return None if node is None else node.start_mark


def _is_cheap(text: bytes, limits: Limits) -> bool:
    """Return whether upper bounds of levels and nodes, from counting characters, are within the limits.

    Each level takes a bracket or half of a line's width.
    """
    brackets = text.count(b"[") + text.count(b"{")
    if brackets > _CHEAP_BRACKETS:
        return False
    if 2 * len(text) <= min(_SAFE_LEVELS, limits.nodes):
        return True
    if 2 * (brackets + max(map(len, text.splitlines()), default=0)) > _SAFE_LEVELS:
        return False
    pairs = text.count(b":") + text.count(b"?")
    return 3 * pairs + 2 * (text.count(b",") + text.count(b"-") + brackets) < limits.nodes


def _json_as_yaml(text: bytes) -> bytes:
    """Replace what JSON allows and YAML 1.1 does not: tabs between tokens, surrogate pairs, raw line separators.

    Text that is not JSON is returned unchanged. A tab becomes one space, so that places stay exact.
    """
    if text.isascii() and b"\t" not in text and b"\\u" not in text:
        return text
    decoded = text.decode("utf-8")
    try:
        json.loads(decoded, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return text
    for sign, replacement in _JSON_BREAKS.items():
        decoded = decoded.replace(sign, replacement)
    return _JSON_ESCAPE.sub(_join_surrogates, decoded).encode("utf-8")


def _join_surrogates(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[0]
    high, low = int(match[1], 16), int(match[2], 16)
    return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"
