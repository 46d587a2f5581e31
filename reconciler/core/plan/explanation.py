"""`Explanation`: the reasons of the values of one rendered object, with the source lines that they come from."""

from typing import Any

from msgspec import Struct

from reconciler.core.objects import ObjectKey, SourceRef
from reconciler.core.sizing.summary import SizingSummary


class ValueSource(Struct, frozen=True, kw_only=True):
    """A value of a file that another value was computed from, and its line in the file."""

    place: SourceRef
    field: str = ""
    line: str = ""
    is_evidence: bool = False  # measured, not written by a user


class ExplainedField(Struct, frozen=True, kw_only=True):
    """One field of the rendered object. `formula` shows the computation; it is empty for a copied value."""

    field: str
    value: Any
    rule: str
    formula: str = ""
    origins: tuple[ValueSource, ...] = ()


class Explanation(Struct, frozen=True, kw_only=True):
    """The reasons of an object or a field. `path` is the rendered file, relative to the root of the repository."""

    cluster: str
    key: ObjectKey
    path: str
    source: SourceRef
    fields: tuple[ExplainedField, ...]
    sizing: SizingSummary | None = None
