"""Markdown escaping. All strings of a plan pass through this module before they enter a comment.

Forges act on the text of a comment: they notify `@people`, link `#123` and URLs, render HTML and run `/commands`. Code
spans and fences prevent that. In prose, special characters are written as character references, and a zero-width
space, as dependency bots use it, breaks up references.
"""

import re
from collections.abc import Iterable, Sequence

from reconciler.console.printable import clip, clip_middle, printable
from reconciler.kube.patterns import later

_MAX_NAME = 160  # cells; longer paths and names are cut in the middle
_MAX_PROSE = 600
_MAX_LINE = 400  # cells of one line in a fence
_BREAK = "&#8203;"
_PLAIN = later(r"[A-Za-z0-9 ,.;/()'+=→·…—-]")
# A sign and the text after it form a mention, an issue, a merge request, a label, a snippet, a milestone, an epic …
_REFERENCE = later(r"([@#!~$%&^*:])(?=[\w\"\[])")
_ISSUE = later(r"\b(GH|gh)-(?=\d)")
_URL = later(r":(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_BACKTICKS = later(r"`+")
_SCOPE = later(r"[^A-Za-z0-9._/]+")
_MAX_SCOPE = 100


def prose(text: str, *, longest: int = _MAX_PROSE) -> str:
    """Escape a sentence that contains strings of users. It must not be placed at the start of a line."""
    shown = clip(printable(text), longest)
    marked = _URL.sub(_mark, _ISSUE.sub(_mark, _REFERENCE.sub(_mark, shown)))
    return "".join(_BREAK if sign == _MARK else _character_reference(sign) for sign in marked)


_MARK = "\x00"  # stands for `_BREAK`; `printable` escapes NUL, so it does not occur in the text


def _mark(match: re.Match[str]) -> str:
    return match.group() + _MARK


def _character_reference(sign: str) -> str:
    return sign if _PLAIN.fullmatch(sign) or not sign.isascii() else f"&#{ord(sign)};"


def code(text: str, *, longest: int = _MAX_NAME) -> str:
    """Format a name as a code span, which is also safe in a table."""
    shown = clip_middle(printable(text), longest).replace("|", "\\x7c").strip()
    if not shown:
        return "—"
    ticks = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(shown)), default=0))
    pad = " " if "`" in shown else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def html_code(text: str, *, longest: int = _MAX_NAME) -> str:
    """Format a name as an HTML element, for places where Markdown is not parsed, such as `<summary>`."""
    shown = clip_middle(printable(text), longest)
    return f"<code>{''.join(_character_reference(sign) for sign in shown)}</code>"


def fence(lines: Iterable[str], *, language: str = "diff") -> str:
    """Format lines as a code block. Its fence is longer than any run of backticks in them."""
    shown = [clip(printable(line), _MAX_LINE) for line in lines]
    longest = max((len(run) for line in shown for run in _BACKTICKS.findall(line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([f"{ticks}{language}", *shown, ticks])


def details(summary: str, body: str) -> str:
    """Format a collapsed section with the title `summary` (HTML) and the content `body` (Markdown)."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def table_of(titles: Sequence[str], rows: Sequence[Sequence[str]], *, most: int) -> str:
    """Format a table of Markdown cells, with at most `most` rows and a count of the others.

    A title that ends in `:` is that of a right-aligned column.
    """
    head = "| " + " | ".join(title.rstrip(":") for title in titles) + " |"
    rule = "|" + "|".join("--:" if title.endswith(":") else "---" for title in titles) + "|"
    lines = [head, rule, *("| " + " | ".join(_no_break(cell) for cell in row) + " |" for row in rows[:most])]
    more = len(rows) - most
    return "\n".join(lines) + (f"\n\n… and {more:,} more" if more > 0 else "")


def _no_break(cell: str) -> str:
    return cell if "`" in cell else cell.replace(" → ", "&nbsp;→&nbsp;").replace(" %", "&nbsp;%")


def marker(scope: str) -> str:
    """Return the hidden line by which a later run finds its comment, without hyphens that could end an HTML comment."""
    return f"<!-- gpu-reconciler:plan:{_SCOPE.sub('-', scope).strip('-')[:_MAX_SCOPE].strip('-')} -->"


def size(text: str) -> int:
    """Return the length of text in UTF-16 units, the largest count that any forge uses."""
    return len(text.encode("utf-16-le")) // 2
