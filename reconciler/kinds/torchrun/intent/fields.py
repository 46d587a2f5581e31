"""Typed access to the fields of a document: each value has its place, each wrong type becomes a problem."""

from collections.abc import Iterator
from typing import Any

from reconciler.kube.objects import FieldPath, format_path
from reconciler.kube.patterns import is_label_value
from reconciler.kube.problems import Intent, Parsed, Problem, Severity
from reconciler.kube.reasons import Traced, copied
from reconciler.kube.yaml import Document

Entries = tuple[tuple[str, Traced], ...]
"""Keys and string values of a mapping."""


class SpecReader:
    """Values below a document's `spec`, by path, as `Traced`. A null counts as absent, as on the API server."""

    __slots__ = ("document", "problems", "spec")

    def __init__(self, document: Document) -> None:
        self.document = document
        self.problems: list[Problem] = []
        spec = document.data.get("spec")
        self.spec: dict[str, Any] = spec if isinstance(spec, dict) else {}

    def has(self, path: FieldPath) -> bool:
        """Return whether there is a value at `path`."""
        return self._find(path) is not None

    def text(self, *path: str | int) -> Traced | None:
        """Return a string."""
        return self._typed(path, str, "text")

    def whole(self, *path: str | int) -> Traced | None:
        """Return a whole number."""
        return self._typed(path, int, "a whole number")

    def number(self, *path: str | int) -> Traced | None:
        """Return a number, whole or not."""
        node = self._find(path)
        return self._typed(path, float if isinstance(node, float) else int, "a number")

    def flag(self, *path: str | int) -> Traced | None:
        """Return true or false."""
        return self._typed(path, bool, "true or false")

    def mapping(self, *path: str | int) -> Traced | None:
        """Return a mapping, as written."""
        return self._typed(path, dict, "a mapping")

    def quantity(self, *path: str | int) -> Traced | None:
        """Return a string or a whole number, as quantities are written."""
        node = self._find(path)
        return self._typed(path, int if isinstance(node, int) else str, "a quantity")

    def entries(self, *path: str | int) -> tuple[tuple[str, Traced], ...]:
        """Return the entries of a mapping of strings."""
        found = self.mapping(*path)
        keys = found.value if found else ()
        values = ((key, self.text(*path, key)) for key in keys)
        return tuple((key, value) for key, value in values if value is not None)

    def items(self, *path: str | int) -> tuple[Traced, ...]:
        """Return the items of a list of mappings."""
        found = self._typed(path, list, "a list")
        values: list[Traced] = []
        for index, item in enumerate(found.value if found else ()):
            if type(item) is dict:
                values.append(copied(self.document, ("spec", *path, index), item))
            elif item is not None:
                self._misfit((*path, index), "a mapping")
        return tuple(values)

    def texts(self, *path: str | int) -> Traced | None:
        """Return a list of strings, whole."""
        found = self._typed(path, list, "a list")
        if found and not all(isinstance(item, str) for item in found.value):
            self._misfit(path, "a list of strings")
            return None
        return found

    def agree(self, first: Traced | None, second: Traced | None) -> Traced | None:
        """Return the value that is set; two that differ are reported with both places."""
        if first is None or second is None:
            return second if first is None else first
        if first.value != second.value or type(first.value) is not type(second.value):
            self.clash(first, second)
        return first

    def clash(self, first: Traced, second: Traced) -> None:
        """Report two values that contradict each other."""
        there, field = place_of(second)
        self.problem(
            "torchrun.contradiction",
            first.reason.origins[0].field,
            f"{_shown(first.value)} contradicts {_shown(second.value)} of {field} at {there}",
            "set only one of them, or the same value in both",
        )

    def problem(self, rule: str, path: FieldPath, message: str, hint: str, severity: Severity = Severity.ERROR) -> None:
        """Add a problem at `path`."""
        self.problems.append(self.document.problem(rule, path, message, hint, severity=severity))

    def parsed(self, intent: Intent) -> Parsed[Intent]:
        """Return the intent with the problems, or the problems alone."""
        failed = any(problem.severity is Severity.ERROR for problem in self.problems)
        return Parsed(intent=None if failed else intent, problems=tuple(self.problems))

    def _find(self, path: FieldPath) -> Any:
        node: Any = self.spec
        for part in path:
            if type(node) is dict:  # documents hold no other mappings
                node = node.get(part)
            elif type(node) is list and isinstance(part, int) and part < len(node):
                node = node[part]
            else:
                return None
        return node

    def _typed(self, path: FieldPath, kind: type, words: str) -> Traced | None:
        node = self._find(path)
        if node is None:
            return None
        if type(node) is not kind:
            self._misfit(path, words)
            return None
        return copied(self.document, ("spec", *path), node)

    def _misfit(self, path: FieldPath, words: str) -> None:
        self.problem("torchrun.type", ("spec", *path), "has the wrong type", f"use {words}")


def _shown(value: Any) -> str:
    """Return a value for a message; mappings are not shown, because they may hold secrets."""
    if isinstance(value, dict):
        return f"{value['name']!r}" if isinstance(value.get("name"), str) else "this"
    return repr(value) if len(repr(value)) <= _SHOWN else "this"


_SHOWN = 80  # characters of a value that a message repeats


def place_of(value: Traced) -> tuple[str, str]:
    """Return the place of a value, as `path:line:column`, and its field."""
    origin = value.reason.origins[0]
    return str(origin.document.at(origin.field)), format_path(origin.field)


def duplicates(items: tuple[Traced, ...], key: str) -> Iterator[tuple[Traced, Traced]]:
    """Yield pairs of items that share the string under `key`."""
    seen: dict[Any, Traced] = {}
    for item in items:
        name = item.value.get(key)
        if isinstance(name, str):
            first = seen.setdefault(name, item)
            if first is not item:
                yield first, item


OWN_LABELS = frozenset(
    {
        "torchrun-job-name",
        "torchrun.ai/job-name",
        "torchrun.ai/job-queue",
        "torchrun.ai/job-id",
        "kai.scheduler/queue",
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/priority-class",
        "priorityClassName",
    }
)
"""Labels that name the job and queue of an object. They are derived from the job and cannot be set."""


def identity(fields: SpecReader) -> tuple[str, str]:
    """Return name and namespace; a missing name is a problem."""
    key = fields.document.key
    if not key.name:
        fields.problem("torchrun.name", ("metadata", "name"), "is missing", "add metadata.name")
    return key.name, key.namespace


def check_labels(fields: SpecReader, labels: Entries) -> None:
    """Report labels that belong to the renderer, and values that the API server rejects."""
    for key, value in labels:
        path = value.reason.origins[0].field
        if key in OWN_LABELS:
            fields.problem("torchrun.reserved-label", path, f"label {key!r} is derived from the job", "remove it")
        elif value.value and not is_label_value(value.value):
            hint = "use at most 63 letters, digits, `-`, `_` or `.`"
            fields.problem("torchrun.label", path, "is not a valid label value", hint)
