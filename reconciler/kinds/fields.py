"""The fields of a document: values with their places, and problems about them."""

from typing import Any

from msgspec import Struct

from reconciler.kube.objects import FieldPath
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Reason, Traced, copied
from reconciler.kube.values import mapping, sequence, value_at
from reconciler.kube.yaml import Document

Tree = dict[str, Any]
"""Plain and `Traced` values, from which a manifest is built."""


class Fields(Struct, frozen=True):
    """A document that its schema has accepted. The rules of its problems and reasons start with its family."""

    document: Document
    family: str

    def plain(self, *path: str | int) -> Any:
        """Return the value at a path; None if there is none."""
        return value_at(self.document.data, path)

    def get(self, *path: str | int) -> Traced | None:
        """Return the value at a path with its place; None if there is none."""
        value = self.plain(*path)
        return None if value is None else copied(self.document, path, value)

    def entries(self, *path: str | int, without: tuple[str, ...] = ()) -> Tree:
        """Return the entries of a mapping, each with its place, except some."""
        found = mapping(self.plain(*path))
        return {key: copied(self.document, (*path, key), value) for key, value in found.items() if key not in without}

    def items(self, *path: str | int) -> list[Traced]:
        """Return the items of a list, each with its place."""
        return [copied(self.document, (*path, index), item) for index, item in enumerate(sequence(self.plain(*path)))]

    def made(self, value: Any, rule: str, text: str, *paths: FieldPath) -> Traced:
        """Return a value that was made from those at some paths."""
        origins = tuple(copied(self.document, path, None).reason.origins[0] for path in paths)
        return Traced(value, Reason(rule=f"{self.family}.{rule}", text=text, origins=origins))

    def problem(
        self, rule: str, path: FieldPath, message: str, hint: str = "", *, severity: Severity = Severity.ERROR
    ) -> Problem:
        """Return a problem of the value at a path."""
        return self.document.problem(f"{self.family}.{rule}", path, message, hint, severity=severity)

    def warning(self, rule: str, path: FieldPath, message: str, hint: str = "") -> Problem:
        """Return a warning about the value at a path."""
        return self.problem(rule, path, message, hint, severity=Severity.WARNING)
