"""A finding about the input: stable rule id, place, field, what is wrong and what to do."""

from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

from reconciler.core.objects import SourceRef

Intent = TypeVar("Intent")


class Severity(StrEnum):
    """How much a problem matters: an error stops `commit`, a warning is shown."""

    ERROR = "error"
    WARNING = "warning"


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong in one place.

    `rule` is stable (`yaml.duplicate-key`); `message` never holds a whole document or a secret; `hint` is what to do.
    """

    rule: str
    place: SourceRef
    message: str
    field: str = ""
    hint: str = ""
    severity: Severity = Severity.ERROR

    def __str__(self) -> str:
        field = f"{self.field}: " if self.field else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{self.place}: {field}{self.message}{hint} [{self.rule}]"

    @property
    def sort_key(self) -> tuple[str, int, int, str, str, str]:
        """Order by place, then rule: the order of every listing."""
        return (self.place.path, self.place.line, self.place.column, self.rule, self.field, self.message)


class Parsed(Struct, Generic[Intent], frozen=True, kw_only=True):
    """The meaning of a document; None where an error is among the problems (warnings leave it usable)."""

    intent: Intent | None
    problems: tuple[Problem, ...] = ()
