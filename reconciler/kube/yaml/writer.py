"""Write an object as YAML.

The same object gives the same bytes: keys in Kubernetes' order, block style, no folding, and quotes around every
string that a common parser could read as something else. Multi-line text is a literal block if that is exact, so that
scripts are readable in a review.
"""

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from reconciler.kube.yaml.scalars import is_string

_TOP = ("apiVersion", "kind", "metadata")
_METADATA = ("name", "generateName", "namespace")
_ITEM = ("name",)
_LISTS = (list, tuple)

# Plain text without characters that YAML interprets; `: ` and ` #` cannot occur.
_INSIDE = r"[A-Za-z0-9_/.()+^$;=,<>@%~*&?!|-]"
_PLAIN = re.compile(rf"(?:--?(?=[A-Za-z])|[A-Za-z0-9_/.(+^$;<]){_INSIDE}*(?:[: ]{_INSIDE}+)*")
_NEEDS_ESCAPE = re.compile(r"""["\\]""")
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
# Not escaped in double quotes: printable characters; no control, line break or directional characters
_BEYOND_ASCII = (  # without fillers, blanks and other characters that nobody sees
    r"\xa1-\xac\xae-\u02ff\u0370-\u05ff\u0900-\u115e\u1161-\u167f\u1681-\u17b3\u17b6-\u180a\u1810-\u1fff"
    r"\u3040-\u3163\u3165-\ud7ff"
)
# What build servers read from logs as commands: `::name::` at the start of a line, `##[`, `##vso[` anywhere in it.
# Such text is written in double quotes, with the first character of `##` escaped: `render` prints to a log.
_RUNNER_LINE = re.compile(r"^[ \t]*::", re.MULTILINE)
_RUNNER_MARK = re.compile(r"#(?=#(?:\[|vso\[|teamcity\[))", re.IGNORECASE)
_QUOTED = r"\x20\x21\x23-\x5b\x5d-\x7e"
_IN_BLOCK = r"\n\t\x20-\x7e"
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
_MAX_KEY = 1000
"""YAML parsers require the colon of a key within 1024 characters."""
_MEMO_SIZE = 50_000
_MEMO_TEXT = 128
_MEMO_KEYS = 1000
_MEMO_ORDERS = 5_000

_memo: dict[str, str] = {}
"""Cache of `_inline`; emptied when it grows too large."""
_Keys = tuple[str, ...]
_Order = tuple[tuple[str, str], ...]
_sorted: dict[_Keys, _Order] = {}
_items: dict[_Keys, _Order] = {}
_orders: dict[_Keys, dict[_Keys, _Order]] = {_TOP: {}, _METADATA: {}, _ITEM: _items, (): _sorted}
"""Caches of `_order` by the keys that come first: most mappings have the keys of an earlier one."""


def write(body: Mapping[str, Any]) -> bytes:
    """Write one object as YAML, without a `---`.

    Raises ValueError for NaN and infinities, and TypeError for other values that JSON cannot represent.
    """
    lines: list[str] = [] if body else ["{}"]
    for key, name in _order(body, _TOP):
        value = body[key]
        if key == "metadata" and value and isinstance(value, Mapping):
            lines.append("metadata:")
            _mapping(lines, value, "  ", _order(value, _METADATA))
        else:
            _mapping(lines, body, "", ((key, name),))
    lines.append("")
    return "\n".join(lines).encode("utf-8")


def _order(body: Mapping[str, Any], first: _Keys) -> _Order:
    """Return the keys in output order, `first` first, each with its text up to the colon."""
    keys, known = tuple(body), _orders[first]
    order = known.get(keys)
    if order is None:
        ordered = sorted(keys, key=lambda key: (first.index(key) if key in first else len(first), key))
        order = tuple((key, _head(key)) for key in ordered)
        if sum(map(len, keys)) <= _MEMO_KEYS:
            if len(known) >= _MEMO_ORDERS:
                known.clear()
            known[keys] = order
    return order


def _head(key: str) -> str:
    """Return a key's text up to the colon; empty if it is too long."""
    name = _key(key)
    return f"{name}:" if len(name) < _MAX_KEY else ""


def _long_head(key: str, indent: str) -> str:
    return f"? {_key(key)}\n{indent}:"


def _key(text: str) -> str:
    name = _inline(text)
    return name if name != "\n" else _double_quoted(text)


def _mapping(lines: list[str], body: Mapping[str, Any], indent: str, order: _Order) -> None:
    add = lines.append
    inner = indent + "  "
    for key, name in order:
        value = body[key]
        kind = type(value)
        head = name or _long_head(key, indent)
        if kind is str:
            text = _memo.get(value) or _inline(value)
            add(f"{indent}{head} {text}" if text != "\n" else f"{indent}{head} {_block(value, indent)}")
        elif kind is dict and value:
            add(indent + head)
            _mapping(lines, value, inner, _sorted.get(tuple(value)) or _order(value, ()))
        elif kind is list and value:
            add(indent + head)
            _sequence(lines, value, indent)
        elif kind is int:
            add(f"{indent}{head} {value}")
        else:
            _other(lines, indent + head, value, indent)


def _other(lines: list[str], head: str, value: Any, indent: str) -> None:
    """Write any value that is not a plain string, int, non-empty list or dict."""
    if not value or type(value) is bool:
        lines.append(f"{head} {_scalar(value)}")
    elif isinstance(value, _LISTS):
        lines.append(head)
        _sequence(lines, value, indent)
    elif isinstance(value, Mapping):
        lines.append(head)
        _mapping(lines, value, indent + "  ", _order(value, ()))
    else:
        lines.append(f"{head} {_scalar(value, indent)}")


def _sequence(lines: list[str], items: Iterable[Any], indent: str) -> None:
    inner = indent + "  "
    cut = len(inner)
    for item in items:
        kind = type(item)
        if kind is str:
            text = _memo.get(item) or _inline(item)
            lines.append(f"{indent}- {text}" if text != "\n" else f"{indent}- {_block(item, indent)}")
            continue
        start = len(lines)
        if item and (kind is dict or isinstance(item, Mapping)):
            _mapping(lines, item, inner, _items.get(tuple(item)) or _order(item, _ITEM))
        elif item and isinstance(item, _LISTS):
            _sequence(lines, item, inner)
        else:
            lines.append(inner + _scalar(item, indent))
        lines[start] = f"{indent}- {lines[start][cut:]}"


def _scalar(value: Any, indent: str = "") -> str:
    """Return a scalar or an empty collection as YAML."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, str):
        text = _inline(str(value))
        return text if text != "\n" else _block(value, indent)
    if not value and isinstance(value, (Mapping, *_LISTS)):
        return "{}" if isinstance(value, Mapping) else "[]"
    raise TypeError(f"{type(value).__name__} cannot be written as YAML")


def _float(value: float) -> str:
    """Return a float that YAML 1.1 and 1.2 both read as a number: with a point and a signed exponent."""
    if not math.isfinite(value):
        raise ValueError("NaN and infinities cannot be written as YAML for Kubernetes")
    if value.is_integer() and abs(value) < 2**63:
        return str(int(value))
    mantissa, mark, exponent = repr(value).partition("e")
    if not mark:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent):+03d}"


def _inline(text: str) -> str:
    """Return a string on one line, or a line break if it needs a block."""
    if _PLAIN.fullmatch(text) and is_string(text):
        written = text
    elif "\n" in text and _fits_block(text):
        return "\n"
    elif _PRINTABLE.fullmatch(text) and _NEEDS_ESCAPE.search(text) and not _RUNNER_MARK.search(text):
        written = "'" + text.replace("'", "''") + "'"
    else:
        written = _double_quoted(text)
    if len(text) <= _MEMO_TEXT:
        if len(_memo) >= _MEMO_SIZE:
            _memo.clear()
        _memo[text] = written
    return written


def _double_quoted(text: str) -> str:
    written = _other_than(_QUOTED, text).sub(_escape, text)
    return '"' + _RUNNER_MARK.sub(r"\\x23", written) + '"'


def _other_than(ascii_characters: str, text: str) -> re.Pattern[str]:
    """Return a pattern for any other character. Non-ASCII ranges take milliseconds to compile, so only if needed."""
    return _compile(ascii_characters if text.isascii() else ascii_characters + _BEYOND_ASCII)


@cache
def _compile(characters: str) -> re.Pattern[str]:
    return re.compile(f"[^{characters}]")


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    wide = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - the end of the Basic Multilingual Plane
    return _SHORT.get(match[0]) or wide


def _fits_block(text: str) -> bool:
    """Return whether every parser reads a literal block as this very text, and no build server a command in it."""
    if text[0] in "\n\t " or text.strip("\n") == "" or _needs_escapes(text):
        return False
    return not ("::" in text and _RUNNER_LINE.search(text)) and not ("##" in text and _RUNNER_MARK.search(text))


def _needs_escapes(text: str) -> bool:
    """Return whether a block cannot hold a character of a text. ASCII is printable where Python says so."""
    if text.isascii():
        return not text.replace("\n", "").replace("\t", "").isprintable()
    return _other_than(_IN_BLOCK, text).search(text) is not None


def _block(text: str, indent: str) -> str:
    body = text.rstrip("\n")
    trailing = len(text) - len(body)
    chomp = "" if trailing == 1 else "-" if trailing == 0 else "+"
    inner = "\n" + indent + "  "
    lines = [inner + line if line else "\n" for line in body.split("\n")]
    return "|" + chomp + "".join(lines) + "\n" * (trailing - 1 if trailing else 0)
