"""`Explanation`: why the fields of one rendered object are what they are, as far back as the files go."""

from dataclasses import dataclass
from typing import Any

from reconciler.core.objects import ObjectKey, SourceRef


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A value that another one was made from, and the line of the file that says it, as it is written there."""

    place: SourceRef
    field: str = ""
    line: str = ""
    is_evidence: bool = False  # measured, not asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedField:
    """One field of the rendered object. `formula` is the sentence with its arithmetic; a copied value has none."""

    field: str
    value: Any
    rule: str
    formula: str = ""
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The chain of reasons: rendered value, rule, source, evidence. `path` is the rendered file below the root."""

    cluster: str
    key: ObjectKey
    path: str
    source: SourceRef
    fields: tuple[ExplainedField, ...]
