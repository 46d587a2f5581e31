"""Tokens of a CEL expression, to rename identifiers and to find calls.

This is not a parser: what it does not recognise is passed to the engine unchanged.
"""

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from reconciler.core.patterns import later

_TOKEN = later(
    r'''
    (?P<space>(?:\s+|//[^\n]*)+)
  | (?P<string>
      (?:[rR][bB]?|[bB][rR])(?:"""[\s\S]*?"""|\'\'\'[\s\S]*?\'\'\'|"[^"\n]*"|'[^'\n]*')
    | [bB]?(?:"""(?:\\[\s\S]|[^\\])*?"""|\'\'\'(?:\\[\s\S]|[^\\])*?\'\'\'|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*|`[^`\n]*`)
  | (?P<number>0x[0-9A-Fa-f]+[uU]?|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[uU]?)
  | (?P<sign>\.\?|&&|\|\||[=!<>]=|[\s\S])
    ''',
    re.VERBOSE,
)
_OPENERS, _CLOSERS = {"(": ")", "[": "]", "{": "}"}, ")]}"


class Token(NamedTuple):
    """A piece of an expression; `kind` is space, string, name, number or sign."""

    kind: str
    text: str


class CelCall(Struct, frozen=True, kw_only=True):
    """A call, by token positions: it extends from `start` to `end`; `name` is one of the names searched for.

    The receiver of a member call is between `start` and `dot`, the arguments are between `opener` and `end - 1`.
    """

    name: str
    start: int
    dot: int
    opener: int
    end: int


@lru_cache(maxsize=1024)
def tokens(expression: str) -> list[Token]:
    """Split an expression into tokens without whitespace and comments. The list is cached: do not change it."""
    return [
        Token(match.lastgroup or "sign", match[0])
        for match in _TOKEN.finditer(expression)
        if match.lastgroup != "space"
    ]


def write(parts: list[Token]) -> str:
    """Join tokens into an expression."""
    return " ".join(part.text for part in parts)


def fields(parts: list[Token], root: str) -> set[str]:
    """Return the fields selected from `root`: `b` of `root.b`; `""` if `root` is used by itself."""
    names = set()
    for index, part in enumerate(parts):
        if part.kind == "name" and part.text == root and not is_selected(parts, index):
            dotted = index + 2 < len(parts) and parts[index + 1].text == "." and parts[index + 2].kind == "name"
            names.add(parts[index + 2].text if dotted else "")
    return names


def is_selected(parts: list[Token], index: int) -> bool:
    """Whether the name at `index` is a field of something."""
    return index > 0 and parts[index - 1].text in (".", ".?")


def rename(parts: list[Token], names: Mapping[str, str], selected: Mapping[tuple[str, str], str]) -> list[Token]:
    """Replace free names by `names` and `root.field` by `selected[(root, field)]`."""
    result: list[Token] = []
    index = 0
    while index < len(parts):
        part = parts[index]
        if part.kind == "name" and not is_selected(parts, index):
            field = parts[index + 2].text if index + 2 < len(parts) and parts[index + 1].text in (".", ".?") else ""
            whole = selected.get((part.text, field))
            if whole is not None:
                result.append(Token("name", whole))
                index += 3
                continue
            part = Token("name", names.get(part.text, part.text))
        result.append(part)
        index += 1
    return result


def find_call(parts: list[Token], functions: Collection[str]) -> CelCall | None:
    """Return the last call of one of `functions`: `.size` for a member, `lists.range` for a qualified name.

    The last call has no other one in its arguments, so rewriting the calls one after another terminates.
    """
    names = {name.rpartition(".")[2] for name in functions}
    if not any(part.text in names for part in parts):
        return None
    pairs = _pairs(parts)
    for opener in range(len(parts) - 1, 0, -1):
        position = opener - 1
        if parts[opener].text != "(" or opener not in pairs or parts[position].kind != "name":
            continue
        dotted = position >= 2 and parts[position - 1].text == "."  # noqa: PLR2004 - receiver and dot
        start = _primary(parts, position - 2, pairs) if dotted else position
        qualified = "".join(part.text for part in parts[start:opener])
        name = qualified if qualified in functions else f".{parts[position].text}"
        if name in functions and (dotted or name == qualified):
            return CelCall(name=name, start=start, dot=position - 1, opener=opener, end=pairs[opener] + 1)
    return None


def _pairs(parts: list[Token]) -> dict[int, int]:
    """Map the position of each bracket to that of its counterpart."""
    stack: list[int] = []
    pairs: dict[int, int] = {}
    for index, part in enumerate(parts):
        if part.kind != "sign":
            continue
        if part.text in _OPENERS:
            stack.append(index)
        elif part.text in _CLOSERS and stack:
            opener = stack.pop()
            pairs[opener], pairs[index] = index, opener
    return pairs


def _primary(parts: list[Token], index: int, closing: Mapping[int, int]) -> int:
    """Return the first token of the member expression that ends at `index`."""
    while True:
        while parts[index].text in _CLOSERS and parts[index].kind == "sign" and index in closing:
            opener = closing[index]
            before = parts[opener - 1] if opener else None
            called = before is not None and (
                before.kind in ("name", "string") or (before.kind == "sign" and before.text in _CLOSERS)
            )
            if before is None or before.text == "in" or not called:
                return opener
            index = opener - 1
        if index >= 2 and parts[index - 1].text in (".", ".?"):  # noqa: PLR2004 - receiver and dot
            index -= 2
            continue
        return index
