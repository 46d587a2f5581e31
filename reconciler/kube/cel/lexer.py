"""Tokens of a CEL expression, and the values of its literals."""

import re
from typing import NamedTuple

from reconciler.kube.cel.values import INT64, UINT64
from reconciler.kube.patterns import later

_ESCAPE = r"""\\(?:[abfnrtv"'\\?`]|[0-3][0-7][0-7]|[xX][0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"""
_TOKEN = later(
    rf"""
    (?P<space>(?:[\t\x20\r\n\f]+|//[^\n]*)+)
  | (?P<string>
      [bB]?[rR](?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|"[^"\n\r]*"|'[^'\n\r]*')
    | [bB]?(?:\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|'''(?:{_ESCAPE}|[^\\])*?'''
      |"(?:{_ESCAPE}|[^\\"\n\r])*"|'(?:{_ESCAPE}|[^\\'\n\r])*'))
  | (?P<double>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>0x[0-9A-Fa-f]+[uU]|[0-9]+[uU])
  | (?P<int>0x[0-9A-Fa-f]+|[0-9]+)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<quoted>`[A-Za-z0-9_.\-/\x20]+`)
  | (?P<sign>&&|\|\||[=!<>]=|[-<>\[\]{{}}().,!?:+*/%])
    """,
    re.VERBOSE,
)
_PARTS = later(rf"({_ESCAPE})")
_PLAIN = dict(zip("abfnrtv\"'\\?`", "\a\b\f\n\r\t\v\"'\\?`", strict=True))
_SURROGATES = range(0xD800, 0xE000)  # halves of UTF-16 pairs: no characters by themselves


class Token(NamedTuple):
    """A piece of an expression; `kind` is string, double, uint, int, name, quoted, sign or end."""

    kind: str
    text: str
    at: int


class CelSyntaxError(Exception):
    """The expression is no CEL; `at` is an offset in it."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


def tokens(expression: str) -> list[Token]:
    """Split an expression into tokens, without space and comments and with one `end`."""
    found: list[Token] = []
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            shown = expression[position : position + 1]
            raise CelSyntaxError(f"Syntax error: token recognition error at: {shown!r}", position)
        kind = match.lastgroup or ""
        if kind != "space":
            found.append(Token(kind, match[0], position))
        position = match.end()
    found.append(Token("end", "<EOF>", len(expression)))
    return found


def number(token: Token, *, negative: bool = False) -> int | float:
    """Return the value of a number. Raises CelSyntaxError if it is out of range."""
    sign = "-" if negative else ""
    if token.kind == "double":
        value = float(sign + token.text)
        if value in (float("inf"), float("-inf")):
            raise CelSyntaxError("invalid double literal", token.at)
        return value
    text = token.text.rstrip("uU") if token.kind == "uint" else token.text
    whole = int(sign + text, 0 if "x" in text else 10) if len(text) < 32 else 2**64  # noqa: PLR2004
    if whole not in (UINT64 if token.kind == "uint" else INT64):
        raise CelSyntaxError(f"invalid {token.kind} literal", token.at)
    return whole


def text(token: Token) -> str | bytes:
    """Return the value of a string or of bytes. Raises CelSyntaxError for an escape without a meaning."""
    quote = min(found for found in (token.text.find('"'), token.text.find("'")) if found >= 0)
    prefix, body = token.text[:quote].lower(), token.text[quote:]
    width = 3 if body.startswith(('"""', "'''")) else 1
    body = body[width:-width]
    if width == 3 or "r" in prefix:  # noqa: PLR2004 - as the server, which reads lines as Go does
        body = body.replace("\r\n", "\n").replace("\r", "\n")
    if "r" in prefix or "\\" not in body:
        return body.encode() if "b" in prefix else body
    parts = [part for part in _PARTS.split(body) if part]
    if "b" in prefix:
        return b"".join(_byte(part, token.at) if part[0] == "\\" else part.encode() for part in parts)
    return "".join(_character(part, token.at) if part[0] == "\\" else part for part in parts)


def _code(escape: str) -> int:
    digits, base = (escape[2:], 16) if escape[1] in "xXuU" else (escape[1:], 8)
    return int(digits, base)


def _character(escape: str, at: int) -> str:
    if escape[1] in _PLAIN:
        return _PLAIN[escape[1]]
    code = _code(escape)
    if code > 0x10FFFF or code in _SURROGATES:  # noqa: PLR2004 - the last character of Unicode
        raise CelSyntaxError("invalid unicode code point", at)
    return chr(code)


def _byte(escape: str, at: int) -> bytes:
    if escape[1] in _PLAIN:
        return _PLAIN[escape[1]].encode()
    if escape[1] in "uU":
        raise CelSyntaxError("unable to unescape string", at)
    return bytes([_code(escape)])
