r"""Escaping for display: no control characters, no invisible characters, and a known width in cells.

Names and values come from files that anybody may have written. Every character that moves the cursor, is invisible or
reorders text is replaced by its escape (`\x1b`, `\u202e`) before a terminal, a comment or a log shows it, and commands
that build servers read from logs are broken up.
"""

import json
import re
import unicodedata

from reconciler.kube.patterns import later

_HIDDEN = frozenset(
    # Invisible, although not in a control category: combining grapheme joiner, fillers, vowel signs, blanks.
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
)
# Variation selectors, which change the character before them, and noncharacters.
_UNSEEN = later("[\ufe00-\ufe0f\U000e0100-\U000e01ef\ufdd0-\ufdef]")
_NONCHARACTER = 0xFFFE  # the last two code points of every plane
_LAST_IN_BYTE, _LAST_IN_PLANE = 0xFF, 0xFFFF  # the last that `\x` and `\u` can write
# Controls, separators, and what no font shows.
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"})
_COMBINING = frozenset({"Mn", "Me"})  # marks, which join the character before them
_MAX_COMBINING = 2  # marks on one letter; no language needs more, and more of them overlap other lines
# Common characters, which take one cell each and need no lookup.
_PLAIN = later(r"[ -~→·…│]*")
# `##[error]` (GitHub, anywhere in a line), `##vso[` (Azure), `##teamcity[`: commands to the runner.
_LOG_COMMAND = later(r"#(?=#(?:\[|vso\[|teamcity\[))", re.IGNORECASE)
# GitHub reads `::error::` after spaces only. Color sequences count as spaces, to be safe.
_LINE_COMMAND = later(r"^((?:[ \t]|\x1b\[[0-9;]*m)*):(?=:)", re.MULTILINE)


def printable(text: str, *, unicode: bool = True) -> str:
    """Return `text` on one line with all invisible characters escaped; without `unicode`, in pure ASCII."""
    if _PLAIN.fullmatch(text) and (unicode or text.isascii()):
        return text
    shown: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in _COMBINING else 0
        if character == " " or (
            _is_visible(character, category) and marks <= _MAX_COMBINING and (unicode or character.isascii())
        ):
            shown.append(character)
        else:
            shown.append(_escape(character))
    return "".join(shown)


def _is_visible(character: str, category: str) -> bool:
    if category in _ESCAPED_CATEGORIES or character in _HIDDEN or _UNSEEN.match(character):
        return False
    return ord(character) & _NONCHARACTER != _NONCHARACTER


def _escape(character: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character)
    if known:
        return known
    point = ord(character)
    if point <= _LAST_IN_BYTE:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= _LAST_IN_PLANE else f"\\U{point:08x}"


_SPAN = later(r"(?<!`)`([\w.,:/='()-](?:[\w .,:/='()-]*[\w.,:/='()-])?)`(?!`)", re.ASCII)


def spans(text: str) -> list[str]:
    """Divide a sentence at its commands and field names, such as `kubectl get`: the odd parts stood in backticks."""
    return _SPAN.split(text)


def without_commands(text: str) -> str:
    """Break up text that a build server would read as a command when the output appears in its log."""
    return _LINE_COMMAND.sub(r"\1\\x3a", _LOG_COMMAND.sub(r"\\x23", text))


_KEPT = later("(\n|\t|⚠\ufe0f|\x1b\\[[0-9;]*m)")


def clean_output(text: str, *, form: str = "text", color: bool = False) -> str:
    """Return output with everything escaped that could act on a terminal or a build server.

    This is the last step before printing, whatever the text came from. In the forms `json` and `sarif` escapes are
    those of JSON. `github` keeps the line commands that its formatter writes. YAML is left alone: the writer
    escapes by itself. Color sequences remain only with `color`.
    """
    if form in {"yaml", "policyreport"}:
        return text
    is_json = form in {"json", "sarif"}
    pieces = _KEPT.split(text)
    for position, piece in enumerate(pieces):
        if position % 2 == 0:
            pieces[position] = _printable_json(piece) if is_json else printable(piece)
        elif piece[0] == "\x1b" and not color:
            pieces[position] = printable(piece)
    cleaned = "".join(pieces)
    if form == "github":
        return _LOG_COMMAND.sub(r"\\x23", cleaned)
    return _LOG_COMMAND.sub(r"\\u0023", cleaned) if is_json else without_commands(cleaned)


def _printable_json(text: str) -> str:
    if _PLAIN.fullmatch(text):
        return text
    shown = (
        one if one == " " or _is_visible(one, unicodedata.category(one)) else json.dumps(one)[1:-1] for one in text
    )
    return "".join(shown)


def cells(text: str) -> int:
    """Return the width of printable text in cells: 2 for wide East Asian characters and emoji, 0 for marks."""
    if text.isascii() or _PLAIN.fullmatch(text):
        return len(text)
    return sum(_cells_of(character) for character in text)


def _cells_of(character: str) -> int:
    if unicodedata.category(character) in _COMBINING:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def clip(text: str, width: int, *, ellipsis: str = "…") -> str:
    """Cut printable text to `width` cells, with an ellipsis at the end."""
    if cells(text) <= width:
        return text
    return _head(text, max(0, width - cells(ellipsis))) + ellipsis[: max(0, width)]


def clip_middle(text: str, width: int, *, ellipsis: str = "…") -> str:
    """Cut printable text to `width` cells, with an ellipsis in the middle, because names differ at both ends."""
    if cells(text) <= width:
        return text
    room = width - cells(ellipsis)
    if room < 2:  # noqa: PLR2004 - one cell at each end
        return clip(text, width, ellipsis=ellipsis)
    tail = _head(text[::-1], room // 2)[::-1]
    return _head(text, room - cells(tail)) + ellipsis + tail


def _head(text: str, width: int) -> str:
    taken = 0
    for position, character in enumerate(text):
        taken += _cells_of(character)
        if taken > width:
            return text[:position]
    return text
