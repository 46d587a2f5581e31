"""Facts with their places, and diagnostics."""

from msgspec import Struct


class Span(Struct, frozen=True, kw_only=True, order=True, gc=False):
    """A place in a container's `command` or `args` (`field`): item `index`, characters `start` to `end`."""

    field: str
    index: int
    start: int
    end: int


class Fact(Struct, frozen=True, kw_only=True, gc=False):
    """A value after expansion. `snippet` shows the words that set it (`--batch 4`), `span` is their place.

    `span` is None where the value comes from elsewhere; `origin` names the source (`env AUTOCONF_METHOD`, a file).
    """

    value: str
    snippet: str
    span: Span | None = None
    origin: str = ""


class Diagnostic(Struct, frozen=True, kw_only=True):
    """Why a launch line cannot be sized. It becomes a Problem once the document's place is known."""

    rule: str
    message: str
    hint: str
    span: Span | None = None
