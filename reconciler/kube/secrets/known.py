"""`KnownSecrets`: the secret values of one file, masked wherever its messages repeat them.

A text costs its length times a constant, however many values there are: at each position where a value may start, only
a bounded number of lengths is looked up.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from reconciler.kube.secrets.assignments import MASK

_LEAST = 6  # characters; shorter values occur in ordinary words
_START = 4  # characters by which values are found
_COMPARED = 64  # characters; of a longer value the beginning is compared, and the rest of the word is masked with it


class KnownSecrets:
    """Secret values, by how they start. Their base64, decoded and URL-encoded forms are secret too."""

    def __init__(self, values: Iterable[str | int | float], *, least: int = _LEAST) -> None:
        self._values: set[str] = set()
        lengths: dict[str, set[int]] = {}
        for value in values:
            for form in _forms(str(value), least):
                start = form[:_COMPARED]
                self._values.add(start)
                lengths.setdefault(start[:_START], set()).add(len(start))
        self._lengths = {start: sorted(found, reverse=True) for start, found in lengths.items()}

    def __bool__(self) -> bool:
        """Return whether there is any value."""
        return bool(self._values)

    def mask(self, text: str) -> str:
        """Mask every known value."""
        lengths, values = self._lengths, self._values
        pieces: list[str] = []
        done = position = 0
        while position <= len(text) - _START:
            for length in lengths.get(text[position : position + _START], ()):
                if text[position : position + length] in values:
                    pieces += [text[done:position], MASK]
                    position += length
                    if length == _COMPARED:
                        position = _word_end(text, position)
                    done = position
                    break
            else:
                position += 1
        return "".join([*pieces, text[done:]]) if pieces else text


def _forms(value: str, least: int) -> Iterator[str]:
    """Yield a value as it may be repeated: each of its lines, decoded, encoded."""
    decoded = _decode(value) if len(value) % 4 == 0 and not value.isdigit() else ""
    for text in (value, decoded) if decoded else (value,):
        for line in text.splitlines():
            stripped = line.strip()
            if len(stripped) >= max(least, _START):
                yield stripped
                yield base64.b64encode(stripped.encode("utf-8", "replace")).decode()
                if not stripped.isalnum():
                    yield quote(stripped, safe="", errors="replace")
                    yield quote(stripped, errors="replace")


def _decode(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode()
    except (binascii.Error, ValueError):
        return ""


def _word_end(text: str, position: int) -> int:
    while position < len(text) and not text[position].isspace() and text[position] not in "'\"`,;":
        position += 1
    return position
