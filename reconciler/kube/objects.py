"""The identity and the place of an object: `ObjectKey`, `SourceRef`, field paths, and selectors of labels."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

FieldPath = tuple[str | int, ...]
"""The path from the root of a document to a value: keys are `str`, list positions are `int`."""


class SourceRef(Struct, frozen=True, kw_only=True, order=True):
    """A place in a file of the repository. `line` and `column` count from 1; 0 means the file as a whole."""

    path: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}" if self.line else self.path


class ObjectKey(Struct, frozen=True, kw_only=True, order=True):
    """The identity of a Kubernetes object, without its version. `namespace` is empty for cluster-scoped objects."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(part for part in (self.kind, self.namespace, self.name) if part)


def split_api_version(api_version: str) -> tuple[str, str]:
    """Split `group/version` into both; the core group is the empty string."""
    group, _, version = api_version.rpartition("/")
    return group, version


class OversizedContent(bytes):
    """The content of a file that is over the size limit and was not read: no bytes, and the `size` of the file."""

    size: int = 0

    @classmethod
    def of_size(cls, size: int) -> "OversizedContent":
        """Return the stand-in for a file of `size` bytes."""
        content = cls()
        content.size = size
        return content


_SPECIAL = frozenset(".[]\"' \\")


def format_path(path: FieldPath) -> str:
    """Return a path as text: `spec.containers[0].env`. Keys with dots or brackets are quoted.

    Non-printable characters are escaped.
    """
    text = ""
    for part in path:
        piece = f"[{part}]" if isinstance(part, int) else format_key(part)
        text += f".{piece}" if text and piece[0] != "[" else piece
    return text


def format_key(key: str) -> str:
    """Return a key as it appears in a path: `env`, `["a.b/c"]`."""
    if key and _SPECIAL.isdisjoint(key) and key.isprintable():
        return key
    return f'["{escape_text(key)}"]'


def escape_text(text: str) -> str:
    """Escape quotes, backslashes and non-printable characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    if escaped.isprintable():
        return escaped
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in escaped)


def matches_selector(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Tell whether labels match a selector of Kubernetes. An operator that is not known matches."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_matches(row, labels) for row in selector.get("matchExpressions") or ())


def _matches(row: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = row.get("key", ""), row.get("values") or ()
    match row.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return True
