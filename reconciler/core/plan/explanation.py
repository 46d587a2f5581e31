"""`Explanation`: why the fields of one rendered object are what they are, as far back as the files go."""

from typing import Any

from msgspec import Struct

from reconciler.core.objects import ObjectKey, SourceRef
from reconciler.core.sizing.summary import SizingSummary


class Origin(Struct, frozen=True, kw_only=True):
    """A value that another one was made from, and the line of the file that says it, as it is written there."""

    place: SourceRef
    field: str = ""
    line: str = ""
    is_evidence: bool = False  # measured, not asked for


class ExplainedField(Struct, frozen=True, kw_only=True):
    """One field of the rendered object. `formula` is the sentence with its arithmetic; a copied value has none."""

    field: str
    value: Any
    rule: str
    formula: str = ""
    origins: tuple[Origin, ...] = ()


class Explanation(Struct, frozen=True, kw_only=True):
    """The chain of reasons: rendered value, rule, source, evidence. `path` is the rendered file below the root."""

    cluster: str
    key: ObjectKey
    path: str
    source: SourceRef
    fields: tuple[ExplainedField, ...]
    sizing: SizingSummary | None = None
