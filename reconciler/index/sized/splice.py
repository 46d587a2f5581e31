"""Edit a document in its own file: comments, order, quotes and block styles stay."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

from msgspec import Struct

from reconciler.index.sized.patch import same
from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem
from reconciler.kube.yaml import Document, read, write
from reconciler.kube.yaml.parser import Limits, MappingNode, ScalarNode, SequenceNode, YamlNode, compose, split
from reconciler.kube.yaml.tree import child, key_name


class Splice(Struct, frozen=True, order=True):
    """Replace the characters from `start` up to `end` by `text`. An insertion has no width."""

    start: int
    end: int
    text: str


class CannotSpliceError(Exception):
    """A change that cannot be made in place. The message is the reason."""


def apply_splices(text: str, splices: Iterable[Splice]) -> str:
    """Return the text after all splices. Raises CannotSpliceError if two of them overlap."""
    parts, position = [], 0
    for splice in sorted(set(splices)):
        if splice.start < position:
            raise CannotSpliceError("two changes overlap")
        parts += [text[position : splice.start], splice.text]
        position = splice.end
    return "".join([*parts, text[position:]])


_FLOW_SIGNS = frozenset(",[]{}")  # they end a plain scalar in a list or mapping on one line


def block_entry(key: str, value: Any, indent: int, deeper: int) -> list[str]:
    """Return the lines of a mapping's entry. Dashes are indented by `deeper` from the key of their list."""
    return [" " * indent + line if line else "" for line in _entry(key, value, deeper)]


def block_item(item: Any, indent: int, deeper: int) -> list[str]:
    """Return the lines of a list item, with its dash at `indent`."""
    return [" " * indent + line if line else "" for line in _item(item, deeper)]


def _entry(key: str, value: Any, deeper: int) -> Iterator[str]:
    name = inline(key, flow=False, as_json=False)
    if value and isinstance(value, dict):
        yield f"{name}:"
        for below, item in value.items():
            yield from _indented(_entry(below, item, deeper), 2)
    elif value and isinstance(value, list):
        yield f"{name}:"
        for item in value:
            yield from _indented(_item(item, deeper), deeper)
    else:
        yield from write({key: value}).decode().removesuffix("\n").split("\n")


def _item(item: Any, deeper: int) -> Iterator[str]:
    if item and isinstance(item, dict):
        lines = [line for key, value in item.items() for line in _entry(key, value, deeper)]
    elif item and isinstance(item, list):
        lines = [line for below in item for line in _item(below, deeper)]
    else:
        _, _, text = write({"x": [item]}).decode().partition("\n- ")
        lines = text.removesuffix("\n").split("\n")
        lines[1:] = [line.removeprefix("  ") for line in lines[1:]]
    yield f"- {lines[0]}"
    yield from _indented(iter(lines[1:]), 2)


def _indented(lines: Iterator[str], width: int) -> Iterator[str]:
    for line in lines:
        yield " " * width + line if line else ""


def inline(value: Any, *, flow: bool, as_json: bool) -> str:
    """Return a value on one line. Flow collections and JSON need more quotes."""
    if as_json:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        entries = (f"{_flow(key)}: {_flow(item)}" for key, item in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_flow, value)) + "]"
    text = write({"x": value}).decode().removeprefix("x: ").removesuffix("\n")
    plain = isinstance(value, str) and text == value
    if "\n" in text or (plain and flow and not _FLOW_SIGNS.isdisjoint(text)):
        return json.dumps(value, ensure_ascii=False)
    return text


def _flow(value: Any) -> str:
    return inline(value, flow=True, as_json=False)


_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")  # anchors and tags in front of a value
_WORD = re.compile(r"\S+")
_WORD_IN_DOUBLE_QUOTES = re.compile(r'(?:\\["\\/]|[^\s\\])+')
_ESCAPED = re.compile(r"\\(.)")


class ScalarText:
    """A scalar in a text: its style, its span, and the span of its characters."""

    __slots__ = ("end", "inner", "start", "style", "text")

    def __init__(self, text: str, node: ScalarNode, start: int, end: int) -> None:
        properties = _PROPERTIES.match(text, start, end)
        self.text = text
        self.start, self.end = properties.end() if properties else start, end
        self.style: str = node.style or ""
        if self.style in {"|", ">"}:
            self.inner = (min(text.find("\n", self.start, end) + 1 or end, end), end)
        else:
            quotes = 1 if self.style else 0
            self.inner = (self.start + quotes, end - quotes)


def replace_scalar(scalar: ScalarText, value: object, newline: str, *, flow: bool, as_json: bool) -> Splice:
    """Return the splice that replaces the scalar, in the same quotes or block if the value is still a string."""
    if isinstance(value, str) and scalar.style in {"'", '"'}:
        single = scalar.style == "'" and value.isprintable()
        text = "'" + value.replace("'", "''") + "'" if single else json.dumps(value, ensure_ascii=False)
    elif isinstance(value, str) and scalar.style == "|":
        return _block(scalar, value, newline)
    elif scalar.style in {"|", ">"}:
        raise CannotSpliceError("its block would have to be rewritten")
    else:
        text = inline(value, flow=flow, as_json=as_json)
        if scalar.start and not scalar.text[scalar.start - 1].isspace() and scalar.start == scalar.end:
            text = " " + text  # `key:` without a value
    return Splice(scalar.start, scalar.end, text)


def _block(scalar: ScalarText, value: str, newline: str) -> Splice:
    """Return the splice that replaces the lines of a literal block. Its header stays."""
    start, end = scalar.inner
    end = start + len(scalar.text[start:end].rstrip())
    lines = value.rstrip("\n").split("\n")
    indent = _indent(scalar)
    return Splice(start, end, newline.join(indent + line if line else "" for line in lines))


def edit_words(scalar: ScalarText, before: str, after: str, newline: str) -> Iterator[Splice]:
    """Yield the splices that change words and keep the whitespace between the others.

    The words of a scalar are the same in every style; folding, indentation and line breaks only change the whitespace
    between them. Raises CannotSpliceError if the words of text and value differ (escapes that produce whitespace).
    """
    spans = _spans(scalar)
    old, new = [match.span() for match in _WORD.finditer(before)], [match.span() for match in _WORD.finditer(after)]
    words, wanted = [before[slice(*span)] for span in old], [after[slice(*span)] for span in new]
    if [_unescaped(scalar, span) for span in spans] != words or not words:
        raise CannotSpliceError("it contains escaped whitespace")
    indent = _indent(scalar)

    def as_written(start: int, end: int) -> str:
        return _escaped(scalar, after[start:end]).replace("\n", newline + indent)

    for tag, i1, i2, j1, j2 in _opcodes(words, wanted):
        if tag == "replace":
            yield Splice(spans[i1][0], spans[i2 - 1][1], as_written(new[j1][0], new[j2 - 1][1]))
        elif tag == "delete":
            yield Splice(spans[i1 - 1][1], spans[i2 - 1][1], "") if i1 else Splice(spans[0][0], _next(spans, i2), "")
        elif tag == "insert" and i1:
            yield Splice(spans[i1 - 1][1], spans[i1 - 1][1], as_written(new[j1 - 1][1], new[j2 - 1][1]))
        elif tag == "insert":
            yield Splice(spans[0][0], spans[0][0], as_written(0, new[j2][0]))


def _opcodes(words: list[str], wanted: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    r"""Compare word by word if the number is equal: repeated words (`\\`) must not be confused."""
    if len(words) != len(wanted):
        yield from SequenceMatcher(None, words, wanted, autojunk=False).get_opcodes()
        return
    for at, (old, new) in enumerate(zip(words, wanted, strict=True)):
        if old != new:
            yield "replace", at, at + 1, at, at + 1


def _next(spans: list[tuple[int, int]], index: int) -> int:
    return spans[index][0] if index < len(spans) else spans[-1][1]


def _spans(scalar: ScalarText) -> list[tuple[int, int]]:
    word = _WORD_IN_DOUBLE_QUOTES if scalar.style == '"' else _WORD
    return [match.span() for match in word.finditer(scalar.text, *scalar.inner)]


def _unescaped(scalar: ScalarText, span: tuple[int, int]) -> str:
    word = scalar.text[slice(*span)]
    if scalar.style == "'":
        return word.replace("''", "'")
    return _ESCAPED.sub(r"\1", word) if scalar.style == '"' else word


def _escaped(scalar: ScalarText, text: str) -> str:
    if scalar.style == "'":
        return text.replace("'", "''")
    if scalar.style == '"':
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return text


def _indent(scalar: ScalarText) -> str:
    """Return the indentation of the lines of a block."""
    if scalar.style not in {"|", ">"}:
        return ""
    lines = scalar.text[slice(*scalar.inner)].splitlines()
    depths = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    return " " * min(depths, default=0)


_DEEPER_DASHES = re.compile(r"^( *)[^ #\n-][^\n]*:[ \t]*(?:#[^\n]*)?\r?\n\1 +- ", re.MULTILINE)
"""A list whose dashes are indented deeper than its key. New lists then follow that style."""

_DASH = re.compile(r"^ *-(?=\s)", re.MULTILINE)  # in front of an item

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
    """Return the number of equal items at the start."""
    return next(
        (index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


def _name(item: Any) -> str:
    named = isinstance(item, dict) and isinstance(item.get("name"), str)
    return f"name {item['name']}" if named else repr(item)


_LIMITS = Limits(depth=1_000, nodes=3_000_000)
"""The document has been parsed before, within the limits of the caller."""
_BYTE_ORDER_MARK = "\ufeff"


class EditedSource(Struct, frozen=True, kw_only=True):
    """The new content of a file. Documents that could not be edited are unchanged; `problems` say why."""

    content: bytes
    problems: tuple[Problem, ...] = ()


def edit_source(raw: bytes, changes: Sequence[tuple[Document, dict[str, Any]]]) -> EditedSource:
    """Edit the file `raw` so that each document has its new data.

    Scalars change in place, in their quotes and blocks; entries are added after their neighbours. Every document is
    parsed again: one that does not have exactly its new data stays unchanged, with a problem (`sizing.write`, or
    `sizing.shared` if an alias shares a value that has to change).
    """
    problems: list[Problem] = []
    for document, data in changes:
        edited = _edited(raw, document, data)
        if isinstance(edited, Problem):
            problems.append(edited)
        else:
            raw = edited
    return EditedSource(content=raw, problems=tuple(problems))


def _edited(raw: bytes, document: Document, data: dict[str, Any]) -> bytes | Problem:
    chunks = split(raw)
    chunk = chunks[document.index]
    text = chunk.text.decode("utf-8")
    root = compose(chunk.text, _LIMITS)
    if root is None:
        return _problem(document, "sizing.write", "the file has changed since it was read", "run the command again")
    why = ""
    for words in (True, False):
        builder = SpliceBuilder(text, int(text.startswith(_BYTE_ORDER_MARK)), as_json=_is_json(text), words=words)
        try:
            builder.change(_descend(root, document.root), document.data, data)
            new = apply_splices(text, builder.splices)
        except CannotSpliceError as problem:
            why = why or str(problem)
            continue
        content = b"".join(new.encode() if other is chunk else other.text for other in chunks)
        if not raw.endswith(b"\n"):
            content = content.removesuffix(b"\n")
        if _has_data(content, document, data):
            return content
    if _has_shared(root):
        hint = "replace the alias by a copy of the value"
        return _problem(document, "sizing.shared", "a value that has to change is shared by an alias (*name)", hint)
    hint = "edit the file by hand; `reconciler size FILE` prints the numbers"
    return _problem(document, "sizing.write", f"cannot be edited in place{': ' if why else ''}{why}", hint)


def _problem(document: Document, rule: str, message: str, hint: str) -> Problem:
    return Problem(rule=rule, place=document.source, message=message, hint=hint)


def _has_data(content: bytes, document: Document, data: dict[str, Any]) -> bool:
    """Return whether the document has exactly its new data when it is parsed again."""
    found = [
        other
        for other in read(document.source.path, content).documents
        if (other.index, other.root) == (document.index, document.root)
    ]
    return len(found) == 1 and same(found[0].data, data)


def _descend(node: YamlNode, path: FieldPath) -> YamlNode:
    for part in path:
        step = child(node, part)
        node = step[1] if step is not None else node
    return node


def _is_json(text: str) -> bool:
    if text.lstrip(_BYTE_ORDER_MARK + " \t\r\n")[:1] != "{":
        return False
    try:
        json.loads(text.lstrip(_BYTE_ORDER_MARK))
    except (ValueError, RecursionError):
        return False
    return True


def _has_shared(root: YamlNode) -> bool:
    """Return whether a node is reached twice, which only an alias can cause."""
    seen: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            return True
        seen.add(id(node))
        if type(node) is SequenceNode:
            pending += node.value
        elif type(node) is MappingNode:
            pending += [part for pair in node.value for part in pair]
        elif type(node) is not ScalarNode:
            return False
    return False
