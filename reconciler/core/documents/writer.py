"""A manifest's body in, stable YAML bytes out.

The same body gives the same bytes: keys in Kubernetes' order, block style, nothing folded, and quotes around every
string that any common parser could take for something else. Multi-line text is a literal block wherever that is
exact, so that a script reads as a script in a review.
"""

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from reconciler.core.documents.scalars import is_string

_TOP = ("apiVersion", "kind", "metadata")
_METADATA = ("name", "generateName", "namespace")
_ITEM = ("name",)
_LISTS = (list, tuple)

# Plain text without any character that means something to YAML where it stands; `: ` and ` #` cannot occur.
_INSIDE = r"[A-Za-z0-9_/.()+^$;=,<>@%~*&?!|-]"
_PLAIN = re.compile(rf"(?:--?(?=[A-Za-z])|[A-Za-z0-9_/.(+^$;<]){_INSIDE}*(?:[: ]{_INSIDE}+)*")
_NEEDS_ESCAPE = re.compile(r"""["\\]""")
_PRINTABLE = re.compile(r"[\x20-\x7e]*")
# Left in double quotes as they are: letters and signs that every parser prints; no controls, breaks or direction marks
_BEYOND_ASCII = r"\xa1-\xac\xae-\u02ff\u0370-\u05ff\u0900-\u1fff\u3040-\ud7ff"
_QUOTED = r"\x20\x21\x23-\x5b\x5d-\x7e"
_IN_BLOCK = r"\n\t\x20-\x7e"
_SHORT = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}
_LONGEST_KEY = 1000
"""YAML parsers look no further than 1024 characters for the colon of a key."""
_MEMO_SIZE = 50_000
_MEMO_TEXT = 128
_MEMO_KEYS = 1000
_MEMO_ORDERS = 5_000

_memo: dict[str, str] = {}
"""Pure memo of `_inline`; emptied when it grows too large."""
_Keys = tuple[str, ...]
_Order = tuple[tuple[str, str], ...]
_sorted: dict[_Keys, _Order] = {}
_items: dict[_Keys, _Order] = {}
_orders: dict[_Keys, dict[_Keys, _Order]] = {_TOP: {}, _METADATA: {}, _ITEM: _items, (): _sorted}
"""Pure memos of `_order`, by what comes first: most mappings have the keys of an earlier one."""


def write(body: Mapping[str, Any]) -> bytes:
    """Write one object as YAML, without a `---`.

    Raises ValueError for NaN and infinities and TypeError for what JSON does not know: both are bugs of the caller.
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
    """Return the keys in the order in which they are written, each with its text up to the colon; some come first."""
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
    """Return a key's text up to the colon; empty where it is too long for that."""
    name = _key(key)
    return f"{name}:" if len(name) < _LONGEST_KEY else ""


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
    """Write what is no plain string, list or dict, or is an empty one."""
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
    """Write what needs no lines of its own: numbers, words, empty collections, and subclasses of str."""
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
    """Write a float so that YAML 1.1 and 1.2 both read a number: with a point and a signed exponent."""
    if not math.isfinite(value):
        raise ValueError("NaN and infinities cannot be written as YAML for Kubernetes")
    if value.is_integer() and abs(value) < 2**63:
        return str(int(value))
    mantissa, mark, exponent = repr(value).partition("e")
    if not mark:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent):+03d}"


def _inline(text: str) -> str:
    """Return a string on one line, or a line break where `_block` has to write it."""
    if _PLAIN.fullmatch(text) and is_string(text):
        written = text
    elif "\n" in text and _fits_block(text):
        return "\n"
    elif _PRINTABLE.fullmatch(text) and _NEEDS_ESCAPE.search(text):
        written = "'" + text.replace("'", "''") + "'"
    else:
        written = _double_quoted(text)
    if len(text) <= _MEMO_TEXT:
        if len(_memo) >= _MEMO_SIZE:
            _memo.clear()
        _memo[text] = written
    return written


def _double_quoted(text: str) -> str:
    return '"' + _other_than(_QUOTED, text).sub(_escape, text) + '"'


def _other_than(ascii_signs: str, text: str) -> re.Pattern[str]:
    """Match any sign but these and the letters of other scripts, which take milliseconds to compile: if needed only."""
    return _compiled(ascii_signs if text.isascii() else ascii_signs + _BEYOND_ASCII)


@cache
def _compiled(signs: str) -> re.Pattern[str]:
    return re.compile(f"[^{signs}]")


def _escape(match: re.Match[str]) -> str:
    sign = match[0]
    code = ord(sign)
    wide = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - the end of the basic plane
    return _SHORT.get(sign) or wide


def _fits_block(text: str) -> bool:
    """Tell whether a literal block gives the text back exactly under every parser."""
    return not _other_than(_IN_BLOCK, text).search(text) and text[0] not in "\n\t " and text.strip("\n") != ""


def _block(text: str, indent: str) -> str:
    body = text.rstrip("\n")
    trailing = len(text) - len(body)
    chomp = "" if trailing == 1 else "-" if trailing == 0 else "+"
    inner = "\n" + indent + "  "
    lines = [inner + line if line else "\n" for line in body.split("\n")]
    return "|" + chomp + "".join(lines) + "\n" * (trailing - 1 if trailing else 0)
