"""`KnownSecrets`: the secret values of one file, masked wherever its messages repeat them.

A text costs its length times a constant, however many values there are: at each position where a value may start, only
a bounded number of lengths is looked up. `mask_findings` masks problems and verdicts before anything prints or caches
them.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, TypeVar, cast
from urllib.parse import quote

from msgspec.structs import replace

from reconciler.kube.secrets.assignments import MASK
from reconciler.kube.secrets.structure import secret_leaves
from reconciler.kube.secrets.text import mask_text

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


class MessageAndHint(Protocol):
    """Anything with a message and a hint: a problem, a verdict, a risk."""

    @property
    def message(self) -> str:
        """The defect."""
        ...

    @property
    def hint(self) -> str:
        """The remedy."""
        ...


_Found = TypeVar("_Found", bound=MessageAndHint)


def mask_findings(findings: Iterable[_Found], bodies: Iterable[Any] = ()) -> tuple[_Found, ...]:
    """Mask secrets in messages and hints: those of any text, and the secret values of the objects in question.

    Without findings the objects are not read. The cost grows with the sum of findings and values, not their product.
    """
    found = tuple(findings)
    if not found:
        return ()
    known = KnownSecrets(value for body in bodies for value in secret_leaves(body))
    texts = dict.fromkeys(text for finding in found for text in (finding.message, finding.hint))  # many are the same
    masked = {text: mask_text(known.mask(text) if known else text) for text in texts}
    return tuple(_with_texts(finding, masked[finding.message], masked[finding.hint]) for finding in found)


def _with_texts(finding: _Found, message: str, hint: str) -> _Found:
    if message == finding.message and hint == finding.hint:
        return finding
    return cast("_Found", replace(cast("Any", finding), message=message, hint=hint))
