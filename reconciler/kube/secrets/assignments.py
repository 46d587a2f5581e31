"""Masking of values that a name before them makes secret: `name=value`, `name: value`, `"name": "value"`.

This covers the shell, `.env`, properties, INI, TOML, YAML, JSON (also in strings of JSON), headers, query strings and
connection strings.
"""

import re

from reconciler.kube.patterns import later
from reconciler.kube.secrets.names import is_secret_key

MASK = "***"
_NAME_PARTS = (
    "pass", "token", "secret", "key", "pwd", "cred", "auth", "cookie", "jwt", "sig", "salt", "sas", "pat", "psk", "otp",
)  # fmt: skip
_ASSIGNMENT = later(  # a sign follows few words, and few letters begin a part: both are looked for first
    r"(?<![\w.-])(?=[\w.-]{3,134}+\\{0,16}[\"']?\]?[ \t]{0,8}[=:?+])"
    rf"(?P<name>[\w.-]{{0,64}}(?=[{''.join(sorted({part[0] for part in _NAME_PARTS}))}])"
    rf"(?:{'|'.join(_NAME_PARTS)})[\w.-]{{0,64}})"
    r"(?P<close>\\{0,16}[\"']?\]?)(?P<sign>[ \t]{0,8}(?:=>|[:?+]?=|:-|:(?!//))[ \t]{0,40})",
    re.IGNORECASE,
)
_DOUBLE = later(r'"""(?:[^"]|"(?!""))*(?:"""|\Z)|"(?:[^"\\]|\\.)*(?:"|\Z)', re.DOTALL)
_SINGLE = later(r"'''(?:[^']|'(?!''))*(?:'''|\Z)|'(?:[^']|'')*(?:'|\Z)")
_BLOCK = later(
    r"[|>][^\n]{0,8}\n(?:[ \t]*\n)*(?P<indent>[ \t]+)[^\n]*(?:\n|\Z)(?:(?P=indent)[^\n]*(?:\n|\Z)|[ \t]*\n)*"
)
_ITEMS = later(r"[ \t]*\n(?:[ \t]*-[ \t]+[^\n:]+(?:\n|\Z))+")
_INLINE = later(r"\[[^\]\n{]*(?:\]|(?=\n)|\Z)")
_STARTS = {'"': _DOUBLE, "'": _SINGLE, "[": _INLINE, "{": later("")}
_REST = later(r"[^\n]*")
_TO_QUOTE = later(r"[^\n'\"\\]+")
_TO_SPACE = later(r"[^\s'\"&;<>]+")
_TO_COMMA = later(r"[^\s'\",;}\])<>&\\]+")
_LINE_START = later(r"(?:^|[\n{])[ \t#;\\-]*(?:export |set |ENV |ARG )?[\"']?\Z")
_NO_SECRET = later(
    r"\\*[\"']?(?:true|false|yes|no|on|off|null|none|nil|~|\*\*\*.*|\$\w+|\$\{[^}]*\}*|\$\([^)]*\)*|\{\{.*|<[^>]*>|%\(.*|ENC\[.*"
    r"|/(?:run|etc|var|tmp|opt|home|mnt|data|root|usr|secrets?|certs?|keys|workspace)/[\w./-]*)?\\*[\"']?[,;}\])\s]*",
    re.IGNORECASE | re.DOTALL,
)
_HEADERS = ("authorization", "cookie", "token", "key", "auth")
_MIN_AUTH = 8  # characters of the credentials in a Docker configuration


def mask_assignments(text: str) -> str:
    """Mask the values of names that hold secrets. The names stay."""
    lower = text.lower()
    if text.isascii() and not any(part in lower for part in _NAME_PARTS):
        return text
    pieces: list[str] = []
    done = position = 0
    while match := _ASSIGNMENT.search(text, position):
        position = match.end()
        end = _value_end(text, match)
        if end > position:
            pieces += [text[done:position], masked_value(text[position:end])]
            done = position = end
    if not pieces:
        return text
    return "".join([*pieces, text[done:]])


def is_no_secret(value: str) -> bool:
    """Return whether a value is none, whatever its name: a boolean, a reference such as `$TOKEN`, a path, a mask."""
    return _NO_SECRET.fullmatch(value) is not None


def _value_end(text: str, match: re.Match[str]) -> int:
    """Return the end of the value after a name; its start if it is not secret."""
    start = match.end()
    name = match["name"]
    is_auth = name.lower().rpartition("_")[2] == "auth"
    if not is_auth and not is_secret_key(name):
        return start
    end = _extent(text, match)
    value = text[start:end]
    if is_no_secret(value) or (is_auth and len(value.strip("\\'\"")) < _MIN_AUTH):
        return start
    return end


def _extent(text: str, match: re.Match[str]) -> int:
    """Return the end of a value: at its quote, its line, its block or the next separator."""
    start = match.end()
    following = text[start : start + 1]
    if following == "\\":
        return _escaped_end(text, start)
    if following in _STARTS:
        return _end(_STARTS[following], text, start)
    is_line = _starts_line(text, match.start())
    if following in ("|", ">") and (block := _BLOCK.match(text, start)):
        return block.end()
    if following in ("\n", ""):
        return _end(_ITEMS, text, start) if is_line else start
    return _bare_end(text, match, is_line=is_line)


def _bare_end(text: str, match: re.Match[str], *, is_line: bool) -> int:
    """Return the end of a value without quotes."""
    start, sign = match.end(), match["sign"]
    if match["close"] or sign.strip() == ":-":
        return _end(_TO_COMMA, text, start)
    if is_line:
        rest = _end(_REST, text, start)
        if sign != "=" or not any(sign.isspace() for sign in text[start:rest].strip()):
            return rest
    if sign.strip() == ":":
        if (match["name"].lower().endswith(_HEADERS) and "-" in match["name"]) or match["name"].lower() in _HEADERS[:2]:
            return _end(_TO_QUOTE, text, start)
        return _end(_TO_COMMA, text, start) if is_line or _is_inline(text, match.start()) else start
    return _end(_TO_SPACE, text, start)


def _starts_line(text: str, position: int) -> bool:
    before = max(0, position - 80)
    return _LINE_START.search(text[before:position] if before == 0 else "\0" + text[before:position]) is not None


def _is_inline(text: str, position: int) -> bool:
    """Return whether a name follows the start of a mapping, a separator or a quote, as in `{user: a, password: b}`."""
    before = text[max(0, position - 8) : position].rstrip(" \t")
    return before[-1:] in ("{", ",", "'", '"', "(", ";", "&", "?")


def _escaped_end(text: str, start: int) -> int:
    """Return the end of a value in escaped quotes: text in a string of JSON."""
    length = 0
    while length < 16 and text[start + length : start + length + 1] == "\\":  # noqa: PLR2004 - four levels of strings
        length += 1
    quote = text[start : start + length + 1]
    end = text.find(quote, start + len(quote))
    return len(text) if end < 0 else end + len(quote)


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def masked_value(value: str) -> str:
    """Return the mask in the quotes of a value, so that JSON stays JSON, with the line break at its end."""
    ending = "\n" if value.endswith("\n") else ""
    for quote in ('"', "'"):
        if len(value) > 1 and value[0] == value[-1] == quote:
            return f"{quote}{MASK}{quote}"
    escapes = value[: len(value) - len(value.lstrip("\\"))]
    if escapes and value.endswith(f'{escapes}"'):
        return f'{escapes}"{MASK}{escapes}"'
    return MASK + ending
