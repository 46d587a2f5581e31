r"""Any string in, a string that is safe to show out: no control characters, no hidden signs, known width in cells.

Names and values come from files that anybody may have written. Before a terminal, a comment or a log shows them, every
character that moves the cursor, hides, reorders or widens without a trace is replaced by its visible escape (`\x1b`,
`\u202e`), and the commands that build servers read out of logs are broken up.
"""

import re
import unicodedata

from reconciler.core.patterns import later

_HIDDEN = frozenset(
    # Not in a control category, but drawn as nothing: combining grapheme joiner, fillers, vowel signs, blanks.
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
)
# Variation selectors change the sign before them; noncharacters are nothing at all.
_UNSEEN = later("[\ufe00-\ufe0f\U000e0100-\U000e01ef\ufdd0-\ufdef]")
_NONCHARACTER = 0xFFFE  # in every plane the last two code points
_LAST_IN_BYTE, _LAST_IN_PLANE = 0xFF, 0xFFFF
_ESCAPED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp", "Zs"})
_COMBINING = frozenset({"Mn", "Me"})
_MOST_COMBINING = 2  # marks on one letter; natural languages need no more, and more climb into other lines
# The signs that nearly all text is made of, our own among them: a cell each, and nothing to look up.
_PLAIN = later(r"[ -~→·…│]*")
# `##[error]` (GitHub, anywhere in a line), `##vso[` (Azure), `##teamcity[`: commands to the runner.
_LOG_COMMAND = later(r"#(?=#(?:\[|vso\[|teamcity\[))", re.IGNORECASE)
# `::error::` counts for GitHub when only blanks stand before it; a colour sequence is a blank to be safe.
_LINE_COMMAND = later(r"^((?:[ \t]|\x1b\[[0-9;]*m)*):(?=:)", re.MULTILINE)


def printable(text: str, *, unicode: bool = True) -> str:
    """Return `text` on one line with everything that is not plainly visible escaped; pure ASCII if not `unicode`."""
    if _PLAIN.fullmatch(text) and (unicode or text.isascii()):
        return text
    shown: list[str] = []
    marks = 0
    for sign in text:
        category = unicodedata.category(sign)
        marks = marks + 1 if category in _COMBINING else 0
        if sign == " " or (_is_visible(sign, category) and marks <= _MOST_COMBINING and (unicode or sign.isascii())):
            shown.append(sign)
        else:
            shown.append(_escape(sign))
    return "".join(shown)


def _is_visible(sign: str, category: str) -> bool:
    if category in _ESCAPED_CATEGORIES or sign in _HIDDEN or _UNSEEN.match(sign):
        return False
    return ord(sign) & _NONCHARACTER != _NONCHARACTER


def _escape(sign: str) -> str:
    known = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(sign)
    if known:
        return known
    point = ord(sign)
    if point <= _LAST_IN_BYTE:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= _LAST_IN_PLANE else f"\\U{point:08x}"


def without_commands(text: str) -> str:
    """Break up what a build server would take for a command when it reads this finished output in its log."""
    return _LINE_COMMAND.sub(r"\1\\x3a", _LOG_COMMAND.sub(r"\\x23", text))


def cells(text: str) -> int:
    """Columns that printable text takes in a terminal: wide East Asian signs and emoji two, combining marks none."""
    if text.isascii() or _PLAIN.fullmatch(text):
        return len(text)
    return sum(_cells_of(sign) for sign in text)


def _cells_of(sign: str) -> int:
    if unicodedata.category(sign) in _COMBINING:
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1


def clip(text: str, width: int, *, ellipsis: str = "…") -> str:
    """Cut printable text to `width` cells at its end, and say so by an ellipsis."""
    if cells(text) <= width:
        return text
    return _head(text, max(0, width - cells(ellipsis))) + ellipsis[: max(0, width)]


def clip_middle(text: str, width: int, *, ellipsis: str = "…") -> str:
    """Cut printable text to `width` cells in its middle: names differ at both ends."""
    if cells(text) <= width:
        return text
    room = width - cells(ellipsis)
    if room < 2:  # noqa: PLR2004 - one cell at each end
        return clip(text, width, ellipsis=ellipsis)
    tail = _head(text[::-1], room // 2)[::-1]
    return _head(text, room - cells(tail)) + ellipsis + tail


def _head(text: str, width: int) -> str:
    taken = 0
    for position, sign in enumerate(text):
        taken += _cells_of(sign)
        if taken > width:
            return text[:position]
    return text
