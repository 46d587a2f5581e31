"""Reading a document with its problems: typed lookups below the place where a job stands."""

from collections.abc import Callable
from typing import Any

from reconciler.core.documents import Document
from reconciler.core.objects import FieldPath, format_path
from reconciler.core.problems import Problem
from reconciler.core.training.container import Container
from reconciler.core.training.job import value_at

Launches = Callable[[Container], bool]
"""Tells whether a container's words start a training; asked only where a pod has several containers."""


class Reader:
    """A document, where its job stands, and all that is wrong with it so far."""

    __slots__ = ("document", "launches", "problems", "root")

    def __init__(self, document: Document, launches: Launches, root: FieldPath = ()) -> None:
        self.document = document
        self.launches = launches
        self.root = root
        self.problems: list[Problem] = []

    def mapping(self, *path: str | int) -> dict[str, Any]:
        """Return the mapping at a path below the job; empty where there is none."""
        found = value_at(self.document.data, (*self.root, *path))
        return found if isinstance(found, dict) else {}

    def items(self, *path: str | int) -> list[Any]:
        """Return the list at a path below the job; empty where there is none."""
        found = value_at(self.document.data, (*self.root, *path))
        return found if isinstance(found, list) else []

    def count(self, *path: str | int, default: int = 1) -> int:
        """Return the whole number at a path below the job."""
        found = value_at(self.document.data, (*self.root, *path))
        return found if type(found) is int else default

    def flag(self, *path: str | int) -> bool:
        """Whether `true` stands at a path below the job."""
        return value_at(self.document.data, (*self.root, *path)) is True

    def problem(self, rule: str, path: FieldPath, message: str, hint: str) -> None:
        """Add an error at `path`, which begins at the document's root."""
        place = self.document.at(path)
        self.problems.append(Problem(rule=rule, place=place, field=format_path(path), message=message, hint=hint))
