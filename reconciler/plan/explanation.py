"""`Explanation`: the reasons of the values of one rendered object, with the source lines that they come from."""

from typing import Any

from msgspec import Struct

from reconciler.kube.objects import ObjectKey, SourceRef
from reconciler.sizing.summary import SizingSummary


class ValueSource(Struct, frozen=True, kw_only=True):
    """A value of a file that another value was computed from, and its line in the file."""

    place: SourceRef
    field: str = ""
    line: str = ""
    is_evidence: bool = False  # measured, not written by a user


class ExplainedField(Struct, frozen=True, kw_only=True):
    """One field of the rendered object. `formula` shows the computation; it is empty for a copied value.

    The value of a `removed` field is that of the base.
    """

    field: str
    value: Any
    rule: str
    formula: str = ""
    origins: tuple[ValueSource, ...] = ()
    removed: bool = False


class Explanation(Struct, frozen=True, kw_only=True):
    """The reasons of an object or a field. `path` is the rendered file, relative to the root of the repository.

    status: what happens to an object that the sources do not define, or not under this name; empty for all others.
    causes: the edited lines behind the status, each with what it says.
    problems: what is wrong with the object or with its source document.
    """

    cluster: str
    key: ObjectKey
    path: str
    source: SourceRef | None  # None: no source document defines it
    fields: tuple[ExplainedField, ...] = ()
    sizing: SizingSummary | None = None
    status: str = ""
    causes: tuple[ValueSource, ...] = ()
    problems: tuple[str, ...] = ()
