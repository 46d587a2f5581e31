"""What an object is called and where it is written: `ObjectKey`, `SourceRef` and paths of fields."""

from msgspec import Struct

FieldPath = tuple[str | int, ...]
"""From the root of a document to a value: mapping keys as `str`, list positions as `int`."""


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


_SPECIAL = frozenset(".[]\"' ")


def format_path(path: FieldPath) -> str:
    """Write a path as people do: `spec.containers[0].env`; keys that hold dots or brackets are quoted.

    What a terminal would not print (line breaks, control characters) is escaped.
    """
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part and _SPECIAL.isdisjoint(part) and part.isprintable():
            text += f".{part}" if text else part
        else:
            escaped = part.replace("\\", "\\\\").replace('"', '\\"')
            if not escaped.isprintable():
                escaped = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in escaped)
            text += f'["{escaped}"]'
    return text
