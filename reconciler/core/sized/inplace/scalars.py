"""One scalar's text changed: in its own quotes, inside its own block, word by word."""

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from reconciler.core.documents.parser import ScalarNode
from reconciler.core.sized.inplace.cuts import CannotSplice, Cut
from reconciler.core.sized.inplace.emit import inline

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_WORD = re.compile(r"\S+")
_WORD_IN_DOUBLE_QUOTES = re.compile(r'(?:\\["\\/]|[^\s\\])+')
_ESCAPED = re.compile(r"\\(.)")


class Written:
    """A scalar as it stands in a text: its style, its own span, the span of its characters."""

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


def whole(written: Written, value: object, newline: str, *, flow: bool, as_json: bool) -> Cut:
    """Return the cut that writes the scalar anew, in its quotes or its block where the value is still a text."""
    if isinstance(value, str) and written.style in {"'", '"'}:
        single = written.style == "'" and value.isprintable()
        text = "'" + value.replace("'", "''") + "'" if single else json.dumps(value, ensure_ascii=False)
    elif isinstance(value, str) and written.style == "|":
        return _block(written, value, newline)
    elif written.style in {"|", ">"}:
        raise CannotSplice("its block would have to be written anew")
    else:
        text = inline(value, flow=flow, as_json=as_json)
        if written.start and not written.text[written.start - 1].isspace() and written.start == written.end:
            text = " " + text  # `key:` without a value
    return Cut(written.start, written.end, text)


def _block(written: Written, value: str, newline: str) -> Cut:
    """Return the cut that writes the lines of a literal block anew; its header and what follows them stay."""
    start, end = written.inner
    end = start + len(written.text[start:end].rstrip())
    lines = value.rstrip("\n").split("\n")
    indent = _indent(written)
    return Cut(start, end, newline.join(indent + line if line else "" for line in lines))


def by_words(written: Written, before: str, after: str, newline: str) -> Iterator[Cut]:
    """Yield the cuts that change words and leave the space between others as it is written.

    A scalar's words are the same in every style: folding, indentation and line breaks only make the space between
    them. Raises CannotSplice where the words of text and value are not the same (escapes that make space).
    """
    spans = _spans(written)
    old, new = [match.span() for match in _WORD.finditer(before)], [match.span() for match in _WORD.finditer(after)]
    words, wanted = [before[slice(*span)] for span in old], [after[slice(*span)] for span in new]
    if [_unescaped(written, span) for span in spans] != words or not words:
        raise CannotSplice("its words are written with escapes")
    indent = _indent(written)

    def as_written(start: int, end: int) -> str:
        return _escaped(written, after[start:end]).replace("\n", newline + indent)

    for tag, i1, i2, j1, j2 in _opcodes(words, wanted):
        if tag == "replace":
            yield Cut(spans[i1][0], spans[i2 - 1][1], as_written(new[j1][0], new[j2 - 1][1]))
        elif tag == "delete":
            yield Cut(spans[i1 - 1][1], spans[i2 - 1][1], "") if i1 else Cut(spans[0][0], _next(spans, i2), "")
        elif tag == "insert" and i1:
            yield Cut(spans[i1 - 1][1], spans[i1 - 1][1], as_written(new[j1 - 1][1], new[j2 - 1][1]))
        elif tag == "insert":
            yield Cut(spans[0][0], spans[0][0], as_written(0, new[j2][0]))


def _opcodes(words: list[str], wanted: list[str]) -> Iterator[tuple[str, int, int, int, int]]:
    r"""Compare word by word where none was added: repeated words (`\\`) must not be taken for each other."""
    if len(words) != len(wanted):
        yield from SequenceMatcher(None, words, wanted, autojunk=False).get_opcodes()
        return
    for at, (old, new) in enumerate(zip(words, wanted, strict=True)):
        if old != new:
            yield "replace", at, at + 1, at, at + 1


def _next(spans: list[tuple[int, int]], index: int) -> int:
    return spans[index][0] if index < len(spans) else spans[-1][1]


def _spans(written: Written) -> list[tuple[int, int]]:
    word = _WORD_IN_DOUBLE_QUOTES if written.style == '"' else _WORD
    return [match.span() for match in word.finditer(written.text, *written.inner)]


def _unescaped(written: Written, span: tuple[int, int]) -> str:
    word = written.text[slice(*span)]
    if written.style == "'":
        return word.replace("''", "'")
    return _ESCAPED.sub(r"\1", word) if written.style == '"' else word


def _escaped(written: Written, text: str) -> str:
    if written.style == "'":
        return text.replace("'", "''")
    if written.style == '"':
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return text


def _indent(written: Written) -> str:
    """Return the space before the lines of a block; what the header's digit says is in the lines themselves."""
    if written.style not in {"|", ">"}:
        return ""
    lines = written.text[slice(*written.inner)].splitlines()
    depths = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    return " " * min(depths, default=0)
