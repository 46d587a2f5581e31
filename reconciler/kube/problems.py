"""`Problem`: one error or warning about the input, with a stable rule id, its place, and what to do."""

from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

from reconciler.kube.objects import FieldPath, SourceRef, format_path

Intent = TypeVar("Intent")


class Severity(StrEnum):
    """An error stops `commit`; a warning is only shown; a note adds to an error elsewhere."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Problem(Struct, frozen=True, kw_only=True):
    """One error or warning at one place.

    `rule` is a stable id (`yaml.duplicate-key`). `message` never contains a whole document or a secret. `hint` says
    what to do.
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


class Violation(Struct, frozen=True, kw_only=True):
    """A problem of the value at `path`, before its place in a file is known.

    `at_key` places the problem at the key of the value instead of at the value.
    """

    rule: str
    path: FieldPath
    message: str
    hint: str = ""
    severity: Severity = Severity.ERROR
    at_key: bool = False

    def at(self, place: SourceRef) -> Problem:
        """Return the problem at its place."""
        return Problem(
            rule=self.rule,
            place=place,
            field=format_path(self.path),
            message=self.message,
            hint=self.hint,
            severity=self.severity,
        )


class Parsed(Struct, Generic[Intent], frozen=True, kw_only=True):
    """The intent of a document, or None if there is an error among the problems."""

    intent: Intent | None
    problems: tuple[Problem, ...] = ()
