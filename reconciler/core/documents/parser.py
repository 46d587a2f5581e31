"""From the bytes of a file to node trees, by PyYAML's C parser behind guards that no input gets around.

The C composer recurses on the C stack and builds its tree before anybody can look at it, so text that could be
nested deeply or hold very many nodes is composed by a subclass that counts while it goes. All other text, which is
nearly all there is, takes a path without hooks.
"""

import json
import operator
import re
from typing import Any

from msgspec import Struct
from yaml._yaml import CParser

from reconciler.core.documents.nodes import MappingNode, Node, ScalarNode, SequenceNode, composed_as_ours

__all__ = ["MappingNode", "Node", "ScalarNode", "SequenceNode"]

PLAIN, QUOTED, COLLECTION = "plain", "quoted", "collection"
"""What `node.tag` holds for nodes without an explicit tag; compared by identity."""

_SAFE_LEVELS = 8000
"""The C composer survives 20,000 levels on a stack of 8 MiB and dies before 50,000."""
_CHEAP_BRACKETS = 100
"""The C scanner looks at all open brackets at each token: thousands of them cost milliseconds a kilobyte."""
_JSON_ESCAPE = re.compile(r"\\(?:u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|.)")
_JSON_BREAKS = {"\t": " ", "\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class Limits(Struct, frozen=True, kw_only=True):
    """What one file may cost. Defaults follow what an API server accepts (etcd takes 1.5 MiB a request).

    `nodes` counts values and keys after aliases are expanded, over all documents of the file.
    """

    file_bytes: int = 3 * 1024 * 1024
    depth: int = 100
    nodes: int = 250_000
    documents: int = 10_000


class Chunk(Struct, frozen=True, kw_only=True):
    """One document's text: the lines from a `---` to the next. `line` counts the file's lines before it."""

    text: bytes
    index: int
    line: int


class LimitExceeded(Exception):
    """A document is nested too deeply or holds too many values; `node` is the last one before that."""

    def __init__(self, limit: str, node: Node | None) -> None:
        super().__init__(limit)
        self.limit = limit
        self.node = node


class _Parser(CParser):
    """The C parser and composer with Kubernetes' view of tags: only whether a scalar is plain matters here."""

    # PyYAML's path resolvers are not used: what is called for every node instead does nothing, at the speed of C.
    descend_resolver: Any = operator.is_
    ascend_resolver: Any = bool

    def resolve(self, kind: type[Node], _value: str | None, implicit: tuple[bool, bool]) -> str:
        """Name the kind of an untagged node."""
        if kind is ScalarNode:
            return PLAIN if implicit[0] else QUOTED
        return COLLECTION


class _CountingParser(_Parser):
    """Stops composing at the limits."""

    def __init__(self, text: bytes, limits: Limits) -> None:
        super().__init__(text)
        self.limits = limits
        self.depth = 0
        self.nodes = 0

    def descend_resolver(self, parent: Node | None, index: object) -> None:  # noqa: ARG002 - PyYAML calls it so
        """Count one more node, one level deeper."""
        self.depth += 1
        self.nodes += 1
        if self.depth > self.limits.depth + 1:
            raise LimitExceeded("depth", parent)
        if self.nodes > self.limits.nodes:
            raise LimitExceeded("nodes", parent)

    def ascend_resolver(self) -> None:
        """One level up again."""
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


def compose(text: bytes, limits: Limits) -> Node | None:
    """Compose the only document of `text` (valid UTF-8); None where it is empty. Raises YAMLError or LimitExceeded."""
    if text.startswith(b"---"):
        text = b"#--" + text[3:]  # Kubernetes' decoder drops the separator line; every place stays the same
    elif text.lstrip()[:1] == b"{":
        text = _json_as_yaml(text)
    parser = _Parser(text) if _is_harmless(text, limits) else _CountingParser(text, limits)
    with composed_as_ours():
        node: Any = parser.get_single_node()
    found: Node | None = node
    return found


def _is_harmless(text: bytes, limits: Limits) -> bool:
    """Bound levels and nodes from above by counting characters; a level costs a bracket or half of a line's width."""
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
    """Rewrite what JSON allows and YAML 1.1 does not: tabs between tokens, surrogate pairs, raw line separators.

    Text that is no JSON comes back as it is. Tabs keep their width, so that places stay exact.
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
