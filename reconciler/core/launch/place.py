"""Where words stand: in the script that a shell gets, or as items of an argument list."""

import re
from collections.abc import Sequence

from msgspec import Struct

from reconciler.core.launch.facts import Span
from reconciler.core.launch.shell.expansion import Field
from reconciler.core.launch.shell.kubernetes import Expanded
from reconciler.core.patterns import later

_MAX_SHOWN = 80


class Item(Struct, frozen=True, gc=False):
    """One item of `command` or `args`: as written, and as the container's program receives it."""

    field: str
    index: int
    text: str
    expanded: Expanded


class Place(Struct, frozen=True):
    """Tells for words where they are written. `script`: their offsets are places in the only item.

    Otherwise a word's `start` is the number of its item. Without items nothing is written where it could be edited.
    """

    items: tuple[Item, ...] = ()
    script: bool = False
    source: str = ""  # what was read where there are no items (`file train.sh`)

    def span(self, field: Field, end: Field | None = None) -> Span | None:
        """Return the place from one word to another; None where they are not written as such."""
        last = end or field
        if not self.items or field.start < 0 or last.start < 0 or not field.whole or not last.whole:
            return None
        if not self.script:
            item = self.items[field.start]
            return Span(field=item.field, index=item.index, start=0, end=len(item.text))
        item = self.items[0]
        placed = item.expanded.place(field.start, last.end)
        return placed and Span(field=item.field, index=item.index, start=placed[0], end=placed[1])

    def told(self, fields: Sequence[Field]) -> tuple[str, Span | None]:
        """Return words as they are written, for people to recognise, and where."""
        span = self.span(fields[0], fields[-1])
        if self.script and span is not None:
            return shown(self.items[0].text[span.start : span.end]), span
        if self.script and self.items and fields[0].start >= 0:
            return shown(self.items[0].expanded.text[fields[0].start : fields[-1].end]), span
        return shown(" ".join([field.text for field in fields])), span

    def written(self, fields: Sequence[Field]) -> str:
        """Return words as they are written, for people to recognise."""
        return self.told(fields)[0]


_SECRET = later(
    r"(?P<keep>(?:--?|\b)(?:[\w-]*[-_])?(?:token|password|passwd|secret|(?:api|access|secret)[-_]?key)(?:=|\s+)['\"]?)"
    r"(?![-$\s])[^\s'\"]+|(?<=://)[^\s/]+(?=@)",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Blot out what flags and variables give as secrets: any words of a line may be shown in a message."""
    return _SECRET.sub(lambda found: f"{found['keep'] or ''}***", text)


def shown(text: str) -> str:
    """Return text on one line, cut where it is long, with what is no text left out."""
    if len(text) <= _MAX_SHOWN and "  " not in text and text.isprintable() and text.strip() == text:
        return text
    line = " ".join(text.replace("\\\n", " ").split())
    if not line.isprintable():
        line = "".join(char if char.isprintable() else "?" for char in line)
    return line if len(line) <= _MAX_SHOWN else line[: _MAX_SHOWN - 1] + "…"
