"""Any string in, harmless Markdown out: the only door through which a plan's strings enter a comment.

Forges act on what they read in a comment: they notify `@people`, link `#123` and URLs, render HTML, run `/commands` and
fold tables. Code spans and fences switch all of that off; in running text every sign that could start something is
written as a character reference, and a zero-width space (the trick of dependency bots) parts what forges look for.
"""

import re
from collections.abc import Iterable, Sequence

from reconciler.core.patterns import later
from reconciler.outputs.printable import clip, clip_middle, printable

_LONGEST_NAME = 160  # cells: paths and names beyond it are cut in the middle
_LONGEST_PROSE = 600
_LONGEST_LINE = 400  # cells of one line in a fence
_PART = "&#8203;"
_PLAIN = later(r"[A-Za-z0-9 ,.;/()'+=→·…—-]")
# A sign and what follows it make a mention, an issue, a merge request, a label, a snippet, a milestone, an epic …
_REFERENCE = later(r"([@#!~$%&^*:])(?=[\w\"\[])")
_ISSUE = later(r"\b(GH|gh)-(?=\d)")
_URL = later(r":(?=//)|(?<=www)(?=\.)", re.IGNORECASE)
_BACKTICKS = later(r"`+")
_SCOPE = later(r"[^A-Za-z0-9._/]+")
_LONGEST_SCOPE = 100


def prose(text: str, *, longest: int = _LONGEST_PROSE) -> str:
    """Write a sentence that holds foreign strings; it must not stand at the start of a line."""
    shown = clip(printable(text), longest)
    marked = _URL.sub(_mark, _ISSUE.sub(_mark, _REFERENCE.sub(_mark, shown)))
    return "".join(_PART if sign == _MARK else _referenced(sign) for sign in marked)


_MARK = "\x00"  # `printable` leaves no NUL in the text, so that it can stand for the part


def _mark(match: re.Match[str]) -> str:
    return match.group() + _MARK


def _referenced(sign: str) -> str:
    return sign if _PLAIN.fullmatch(sign) or not sign.isascii() else f"&#{ord(sign)};"


def code(text: str, *, longest: int = _LONGEST_NAME) -> str:
    """Write a name as a code span that may stand in a table."""
    shown = clip_middle(printable(text), longest).replace("|", "\\x7c").strip()
    if not shown:
        return "—"
    ticks = "`" * (1 + max((len(run) for run in _BACKTICKS.findall(shown)), default=0))
    pad = " " if "`" in shown else ""
    return f"{ticks}{pad}{shown}{pad}{ticks}"


def html_code(text: str, *, longest: int = _LONGEST_NAME) -> str:
    """Write a name as an HTML element, for places where Markdown is not read, as in `<summary>`."""
    shown = clip_middle(printable(text), longest)
    return f"<code>{''.join(_referenced(sign) for sign in shown)}</code>"


def fence(lines: Iterable[str], *, language: str = "diff") -> str:
    """Write lines verbatim; the fence is longer than any run of backticks in them."""
    shown = [clip(printable(line), _LONGEST_LINE) for line in lines]
    longest = max((len(run) for line in shown for run in _BACKTICKS.findall(line)), default=0)
    ticks = "`" * max(3, longest + 1)
    return "\n".join([f"{ticks}{language}", *shown, ticks])


def details(summary: str, body: str) -> str:
    """Fold `body` (Markdown) under `summary` (HTML)."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n\n</details>"


def table_of(titles: Sequence[str], rows: Sequence[Sequence[str]], *, most: int) -> str:
    """Write a table of cells that are Markdown already, `most` rows at most and the others counted.

    A title that ends in `:` stands over numbers.
    """
    head = "| " + " | ".join(title.rstrip(":") for title in titles) + " |"
    rule = "|" + "|".join("--:" if title.endswith(":") else "---" for title in titles) + "|"
    lines = [head, rule, *("| " + " | ".join(_unbroken(cell) for cell in row) + " |" for row in rows[:most])]
    rest = len(rows) - most
    return "\n".join(lines) + (f"\n\n… and {rest:,} more" if rest > 0 else "")


def _unbroken(cell: str) -> str:
    return cell if "`" in cell else cell.replace(" → ", "&nbsp;→&nbsp;").replace(" %", "&nbsp;%")


def marker(scope: str) -> str:
    """Return the hidden line by which a later run finds its own comment; hyphens could end the HTML comment early."""
    return f"<!-- gpu-reconciler:plan:{_SCOPE.sub('-', scope).strip('-')[:_LONGEST_SCOPE].strip('-')} -->"


def size(text: str) -> int:
    """Length as forges count it at most: in UTF-16 units, so that an emoji is two."""
    return len(text.encode("utf-16-le")) // 2
