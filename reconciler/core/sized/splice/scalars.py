"""YAML text of values: new entries in the surrounding style, and scalars edited word by word in their quotes."""

import json
import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any

from msgspec import Struct

from reconciler.core.documents import write
from reconciler.core.documents.parser import ScalarNode


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


_FLOW_SIGNS = frozenset(",[]{}")


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


_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
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
