"""The splices that turn one state of a document into another, from the node tree of its text."""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from reconciler.core.documents.parser import MappingNode, ScalarNode, SequenceNode, YamlNode
from reconciler.core.documents.tree import key_name
from reconciler.core.sized.patch import same
from reconciler.core.sized.splice.scalars import (
    CannotSpliceError,
    ScalarText,
    Splice,
    block_entry,
    block_item,
    edit_words,
    inline,
    replace_scalar,
)

_DEEPER_DASHES = re.compile(r"^( *)[^ #\n-][^\n]*:[ \t]*(?:#[^\n]*)?\r?\n\1 +- ", re.MULTILINE)
"""A list whose dashes are indented deeper than its key. New lists then follow that style."""

_DASH = re.compile(r"^ *-(?=\s)", re.MULTILINE)

Entry = tuple[str, YamlNode, YamlNode]
"""A key's name, its node, the node of its value."""


class SpliceBuilder:
    """Collects the splices of one document. `words`: scalars change word by word, otherwise as a replace_scalar."""

    def __init__(self, text: str, skipped: int, *, as_json: bool, words: bool) -> None:
        self.text = text
        self.skipped = skipped  # a byte order mark, which the parser's marks do not count
        self.as_json = as_json
        self.words = words
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.deeper = 2 if _DEEPER_DASHES.search(text) else 0
        self.splices: list[Splice] = []

    def change(self, node: YamlNode, before: Any, after: Any, *, flow: bool = False) -> None:
        """Collect the splices that change the value of `node` from `before` to `after`. Raises CannotSpliceError."""
        if same(before, after):
            return
        if type(node) is MappingNode and isinstance(after, dict) and after and before:
            self._mapping(node, before, after)
        elif type(node) is SequenceNode and isinstance(after, list) and after and before:
            self._sequence(node, before, after)
        elif type(node) is ScalarNode:
            self._scalar(node, before, after, flow=flow)
        elif _is_flow(node):
            text = inline(after, flow=flow, as_json=self.as_json)
            self.splices.append(Splice(self._start(node), self._end(node), text))
        elif after in ({}, []):
            self.splices.append(
                Splice(self._start(node), self._content_end(node), inline(after, flow=False, as_json=False))
            )
        else:
            raise CannotSpliceError("a list or mapping would become another type")

    def _scalar(self, node: ScalarNode, before: Any, after: Any, *, flow: bool) -> None:
        scalar = ScalarText(self.text, node, self._start(node), self._end(node))
        if isinstance(before, str) and isinstance(after, str) and (self.words or scalar.style == ">"):
            self.splices += edit_words(scalar, before, after, self.newline)
        else:
            self.splices.append(replace_scalar(scalar, after, self.newline, flow=flow, as_json=self.as_json))

    def _mapping(self, node: MappingNode, before: dict[str, Any], after: dict[str, Any]) -> None:
        own: list[Entry] = [(name, key, value) for key, value in node.value if (name := key_name(key)) is not None]
        known = {name for name, _, _ in own}
        if any(name not in known and name not in after for name in before):
            raise CannotSpliceError("a key merged by `<<` cannot be removed")
        added = [name for name in after if name not in known and not same(before.get(name, _ABSENT), after[name])]
        removed = [name not in after for name, _, _ in own]
        for name, _, value in own:
            if name in after:
                self.change(value, before[name], after[name], flow=bool(node.flow_style))
        if node.flow_style:
            spans = [(self._start(key), self._value_end(key, value)) for _, key, value in own]
            self._flow_removals(spans, removed)
            name_of = {name: inline(name, flow=True, as_json=self.as_json) for name in added}
            texts = [f"{name_of[name]}: {inline(after[name], flow=True, as_json=self.as_json)}" for name in added]
            self._flow_insertion(spans, texts)
            return
        spans = [(self._start(key), self._value_end(key, value)) for _, key, value in own]
        self._block_removals(spans, removed)
        if added:
            column = node.value[0][0].start_mark.column
            lines = [line for name in added for line in block_entry(name, after[name], column, self.deeper)]
            last = spans[-1] if own else (self._start(node.value[0][0]), self._value_end(*node.value[-1]))
            self._block_insertion(last[1], lines)

    def _sequence(self, node: SequenceNode, before: list[Any], after: list[Any]) -> None:
        spans = [(self._start(item), self._content_end(item)) for item in node.value]
        if any(later[0] < earlier[1] for earlier, later in pairwise(spans)):
            raise CannotSpliceError("an alias (*name) is among its items")
        flow, removed = bool(node.flow_style), [False] * len(spans)
        insertions: list[tuple[int, list[Any]]] = []
        for first, last, start, end in _aligned(before, after):
            for index in range(max(last - first, end - start)):
                if first + index < last and start + index < end:
                    position = first + index
                    self.change(node.value[position], before[position], after[start + index], flow=flow)
            removed[first + (end - start) : last] = [True] * max(0, last - first - (end - start))
            if end - start > last - first:
                insertions.append((last, after[start + last - first : end]))
        if flow:
            self._flow_removals(spans, removed)
            for position, items in insertions:
                texts = [inline(item, flow=True, as_json=self.as_json) for item in items]
                self._flow_insertion(spans[:position], texts, before=spans[0][0])
            return
        dashes = [(dash, end) for dash, (_, end) in zip(self._dashes(node, spans), spans, strict=True)]
        self._block_removals(dashes, removed)
        column = dashes[0][0] - self._line_start(dashes[0][0])
        for position, items in insertions:
            lines = [line for item in items for line in block_item(item, column, self.deeper)]
            if position:
                self._block_insertion(dashes[position - 1][1], lines)
            else:
                self._insert_before(dashes[0][0], lines)

    def _dashes(self, node: YamlNode, spans: list[tuple[int, int]]) -> Iterator[int]:
        """Yield the position of each item's dash. Comments may separate it from the item."""
        position = self._start(node)
        for index, (start, end) in enumerate(spans):
            if not index and self.text[position] == "-":  # no anchor or tag before it
                yield position
                position = self._line_end(end)
                continue
            found = _DASH.search(self.text, position, start)
            if found is None:
                raise CannotSpliceError("an item of its list is not on a line of its own")
            yield found.end() - 1
            position = self._line_end(end)

    def _block_removals(self, spans: list[tuple[int, int]], removed: list[bool]) -> None:
        for index, (start, end) in enumerate(spans):
            if not removed[index]:
                continue
            if self._starts_line(start):
                # With the preceding line break, so that an insertion after it does not overlap.
                before = self._line_start(start)
                first = before == 0
                self.splices.append(
                    Splice(0, self._next_line(end), "")
                    if first
                    else Splice(self._break(before), self._line_end(end), "")
                )
            elif index + 1 < len(spans):
                self.splices.append(Splice(start, spans[index + 1][0], ""))
            else:
                raise CannotSpliceError("an entry shares its lines with others")

    def _block_insertion(self, position: int, lines: list[str]) -> None:
        end = self._line_end(position)
        self.splices.append(Splice(end, end, "".join(self.newline + line for line in lines)))

    def _insert_before(self, position: int, lines: list[str]) -> None:
        if not self._starts_line(position):
            raise CannotSpliceError("the next entry shares its lines with others")
        start = self._line_start(position)
        self.splices.append(Splice(start, start, "".join(line + self.newline for line in lines)))

    def _flow_removals(self, spans: list[tuple[int, int]], removed: list[bool]) -> None:
        """Remove an entry with the comma before it; the first entries with the comma after them."""
        for index, (start, end) in enumerate(spans):
            if removed[index] and not all(removed[:index]):
                self.splices.append(Splice(spans[index - 1][1], end, ""))
            elif removed[index]:
                self.splices.append(Splice(start, spans[index + 1][0] if index + 1 < len(spans) else end, ""))

    def _flow_insertion(self, spans: list[tuple[int, int]], texts: list[str], before: int = 0) -> None:
        if not texts:
            return
        if not spans:
            self.splices.append(Splice(before, before, "".join(text + ", " for text in texts)))
            return
        start, end = spans[-1]
        line = self._line_start(start)
        between = self.newline + self.text[line:start] if line and self._starts_line(start) else " "
        self.splices.append(Splice(end, end, "".join("," + between + text for text in texts)))

    def _start(self, node: YamlNode) -> int:
        index: int = node.start_mark.index
        return index + self.skipped

    def _end(self, node: YamlNode) -> int:
        index: int = node.end_mark.index
        return index + self.skipped

    def _value_end(self, key: YamlNode, value: YamlNode) -> int:
        """Return the end of an entry. An alias has no position of its own, but is on the line of its key."""
        if self._start(value) < self._end(key):
            return self._alias_end(self._end(key))
        return self._content_end(value)

    def _alias_end(self, position: int) -> int:
        end = position
        while end < len(self.text) and self.text[end] not in "\r\n,}]#":
            end += 1
        return len(self.text[:end].rstrip())

    def _content_end(self, node: YamlNode) -> int:
        """Return the end of a node's text, without trailing comments and blank lines, which the parser includes."""
        if type(node) is ScalarNode:
            end = self._end(node)
            return len(self.text[:end].rstrip()) if node.style in {"|", ">"} else end
        if _is_flow(node) or not node.value:
            return self._end(node)
        if type(node) is SequenceNode:
            return self._content_end(node.value[-1])
        return self._value_end(*node.value[-1])

    def _starts_line(self, position: int) -> bool:
        return not self.text[self._line_start(position) : position].strip()

    def _line_start(self, position: int) -> int:
        return self.text.rfind("\n", 0, position) + 1

    def _break(self, line: int) -> int:
        """Return the start of the line break before a line."""
        return line - 2 if self.text[line - 2 : line] == "\r\n" else line - 1

    def _line_end(self, position: int) -> int:
        end = self.text.find("\n", position)
        if end < 0:
            return len(self.text)
        return end - 1 if self.text[end - 1 : end] == "\r" and end > position else end

    def _next_line(self, position: int) -> int:
        end = self.text.find("\n", position)
        return end + 1 if end >= 0 else len(self.text)


_ABSENT = object()


def _is_flow(node: YamlNode) -> bool:
    return isinstance(node, MappingNode | SequenceNode) and bool(node.flow_style)


def _aligned(before: list[Any], after: list[Any]) -> Iterator[tuple[int, int, int, int]]:
    """Yield ranges of positions that correspond; items with the same name do, even if their content changed.

    A common start and end are matched first: SequenceMatcher alone prefers a longer match in between, and would
    replace an item where another one is only inserted.
    """
    if len(before) == len(after):
        yield 0, len(before), 0, len(after)
        return
    old, new = [_name(item) for item in before], [_name(item) for item in after]
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    last, end = len(old) - tail, len(new) - tail
    yield 0, head, 0, head
    matcher = SequenceMatcher(None, old[head:last], new[head:end], autojunk=False)
    for _, i1, i2, j1, j2 in matcher.get_opcodes():
        yield head + i1, head + i2, head + j1, head + j2
    yield last, len(old), end, len(new)


def _common(one: list[str], other: list[str]) -> int:
    """Return how many items at the start are equal."""
    return next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _name(item: Any) -> str:
    named = isinstance(item, dict) and isinstance(item.get("name"), str)
    return f"name {item['name']}" if named else repr(item)
