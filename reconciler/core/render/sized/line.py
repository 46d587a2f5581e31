"""The launch line with its numbers."""

from msgspec import Struct


class Line(Struct, frozen=True, kw_only=True):
    """A container's words after editing."""

    command: tuple[str, ...]
    args: tuple[str, ...]
