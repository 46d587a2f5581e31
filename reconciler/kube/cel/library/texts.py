"""Functions on strings. Positions count characters."""

from reconciler.kube.cel.library.formatting import format_text
from reconciler.kube.cel.library.signature import Signature, function, member
from reconciler.kube.cel.values import CelError, kind_of

_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_SPACE = "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_QUOTED = {ord(mark): f"\\{name}" for mark, name in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
_MAX_LENGTH = 16 << 20


def _outside(position: int) -> CelError:
    return CelError(f"index out of range: {position}")


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _outside(position)
    return text[position : position + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _outside(offset)
    return text.find(part, offset)


def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


def _last_index_before(text: str, part: str, offset: int) -> int:
    if not part:
        return offset
    if offset < 0:
        raise _outside(offset)
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old) if old else len(text) + 1
    times = times if count < 0 else min(times, count)
    if len(text) + times * max(len(new) - len(old), 0) > _MAX_LENGTH:
        raise CelError("operation cancelled: actual cost limit exceeded")
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    parts = list(text)
    return parts if count < 0 or len(parts) <= count else [*parts[: count - 1], "".join(parts[count - 1 :])]


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if end is not None and start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, last):
        if not 0 <= position <= len(text):
            raise _outside(position)
    return text[start:last]


def _join(parts: list[str], separator: str = "") -> str:
    for part in parts:
        if kind_of(part) != "string":
            raise CelError("join: invalid input")
    return separator.join(parts)


def quote(text: str) -> str:
    """Return a text in quotes, with escapes."""
    return f'"{text.translate(_QUOTED)}"'


SIGNATURES: tuple[Signature, ...] = (
    member("contains", "string string", "bool", lambda text, part: part in text, "{1} in {0}"),
    member("startsWith", "string string", "bool", str.startswith, "{0}.startswith({1})"),
    member("endsWith", "string string", "bool", str.endswith, "{0}.endswith({1})"),
    member("charAt", "string int", "string", _char_at),
    member("indexOf", "string string", "int", _index_of),
    member("indexOf", "string string int", "int", _index_of),
    member("lastIndexOf", "string string", "int", _last_index_of),
    member("lastIndexOf", "string string int", "int", _last_index_before),
    member("lowerAscii", "string", "string", lambda text: text.lower() if text.isascii() else text.translate(_LOWER)),
    member("upperAscii", "string", "string", lambda text: text.upper() if text.isascii() else text.translate(_UPPER)),
    member("replace", "string string string", "string", _replace),
    member("replace", "string string string int", "string", _replace),
    member("split", "string string", "list<string>", _split),
    member("split", "string string int", "list<string>", _split),
    member("substring", "string int", "string", _substring),
    member("substring", "string int int", "string", _substring),
    member("trim", "string", "string", lambda text: text.strip(_SPACE)),
    member("format", "string list<dyn>", "string", format_text),
    member("join", "list<string>", "string", _join),
    member("join", "list<string> string", "string", _join),
    function("strings.quote", "string", "string", quote),
)
