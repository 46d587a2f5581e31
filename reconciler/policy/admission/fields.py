"""`FieldReader`: the fields of a policy or a binding, with problems at their places."""

from collections.abc import Collection
from typing import Any

from msgspec import Struct, field

from reconciler.kube.objects import FieldPath, format_path
from reconciler.kube.problems import Problem
from reconciler.kube.yaml import Document


class FieldReader(Struct, frozen=True, kw_only=True):
    """Reads the fields of a mapping in a document. A field of the wrong type is a problem and counts as absent."""

    document: Document
    path: FieldPath
    value: dict[str, Any]
    problems: list[Problem] = field(default_factory=list)

    def add_problem(self, key: str | int, message: str, hint: str = "") -> None:
        """Add a problem of one field."""
        path = (*self.path, key) if key != "" else self.path
        place = self.document.at(path)
        self.problems.append(
            Problem(rule="policy.invalid", place=place, field=format_path(path), message=message, hint=hint)
        )

    def text(self, key: str, *, required: bool = False, among: Collection[str] = (), default: str = "") -> str:
        """Read a string."""
        value = self.value.get(key)
        if value is None:
            if required:
                self.add_problem(key, "is required", "add it")
            return default
        if not isinstance(value, str) or (required and not value.strip()):
            self.add_problem(key, "must be a non-empty string" if required else "must be a string")
            return default
        if among and value not in among:
            self.add_problem(key, f"{value[:80]!r} is not allowed", f"allowed values: {', '.join(among)}")
            return default
        return value

    def texts(self, key: str, *, required: bool = False, among: Collection[str] = ()) -> tuple[str, ...]:
        """Read a list of strings; null is an empty one."""
        value = self.value.get(key)
        items: Any = [] if value is None else value
        if isinstance(items, list):
            items = ["" if item is None else item for item in items]
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            self.add_problem(key, "must be a list of strings")
            return ()
        unknown = [item for item in items if among and item not in among]
        if unknown:
            self.add_problem(key, f"{unknown[0][:80]!r} is not allowed", f"allowed values: {', '.join(among)}")
        if required and not items:
            self.add_problem(key, "must not be empty")
        return tuple(item for item in items if item not in unknown)

    def child(self, key: str) -> "FieldReader | None":
        """Read a mapping, or None if it is absent."""
        value = self.value.get(key)
        if value is not None and not isinstance(value, dict):
            self.add_problem(key, "must be a mapping")
        return self._below((key,), value) if isinstance(value, dict) else None

    def children(self, key: str) -> list["FieldReader"]:
        """Read a list of mappings."""
        value = self.value.get(key)
        items = [] if value is None else value
        if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
            self.add_problem(key, "must be a list of mappings")
            return []
        return [self._below((key, index), item) for index, item in enumerate(items)]

    def _below(self, rest: FieldPath, value: dict[str, Any]) -> "FieldReader":
        return FieldReader(document=self.document, path=(*self.path, *rest), value=value, problems=self.problems)
