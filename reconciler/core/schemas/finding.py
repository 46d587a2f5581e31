"""`Finding`: something wrong with a value, before its place in a file is looked up."""

from collections.abc import Callable

from msgspec import Struct

from reconciler.core.objects import FieldPath, SourceRef, format_path
from reconciler.core.problems import Problem, Severity


class Finding(Struct, frozen=True, kw_only=True):
    """A problem by the path of its value. `at_key` places it at the key instead of at the value."""

    rule: str
    path: FieldPath
    message: str
    hint: str = ""
    at_key: bool = False
    severity: Severity = Severity.ERROR

    def problem(self, place: Callable[[FieldPath, bool], SourceRef]) -> Problem:
        """Look the place up: `place(path, at_key)` answers where it is written."""
        return Problem(
            rule=self.rule,
            place=place(self.path, self.at_key),
            field=format_path(self.path),
            message=self.message,
            hint=self.hint,
            severity=self.severity,
        )
