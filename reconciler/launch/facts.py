"""Facts with their places, and diagnostics."""

from functools import cache

from msgspec import Struct

from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem


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


@cache
def default_fact(value: str, origin: str) -> Fact:
    """Return the fact of a default value; the same few are shared by all launch lines."""
    return Fact(value=value, snippet="", origin=origin)


class Diagnostic(Struct, frozen=True, kw_only=True):
    """A reason for which a launch line cannot be sized. `to_problem` adds the place in the document.

    `variable` is the variable of the container that says it, where no word of the line does. `missing` is the fact that
    nothing states, or that cannot be read; `path` is that of a file that was not found, and `missing` is its title.
    """

    rule: str
    message: str
    hint: str
    span: Span | None = None
    variable: str = ""
    missing: str = ""
    path: str = ""

    def to_problem(self, place: SourceRef, field: str) -> Problem:
        """Return the problem at a place of the document, which is that of `span` or of the container."""
        return Problem(rule=self.rule, place=place, field=field, message=self.message, hint=self.hint)
