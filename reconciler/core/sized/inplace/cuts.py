"""Cuts: what is taken out of a text, and what is put there instead."""

from collections.abc import Iterable

from msgspec import Struct


class Cut(Struct, frozen=True, order=True):
    """Characters from `start` up to `end` become `text`; an insertion has no width."""

    start: int
    end: int
    text: str


class CannotSplice(Exception):
    """A change that no small edit of the text can make; the message says why."""


def applied(text: str, cuts: Iterable[Cut]) -> str:
    """Return the text after all cuts. Raises CannotSplice where two of them overlap."""
    parts, position = [], 0
    for cut in sorted(set(cuts)):
        if cut.start < position:
            raise CannotSplice("two changes meet in the same words")
        parts += [text[position : cut.start], cut.text]
        position = cut.end
    return "".join([*parts, text[position:]])
