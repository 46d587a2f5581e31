"""`Document`: one object of a file, and where each of its values is written."""

from dataclasses import dataclass
from typing import Any

from reconciler.core.objects import FieldPath, ObjectKey, SourceRef, split_api_version
from reconciler.core.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Document:
    """One Kubernetes object as written: `data` holds plain JSON types only (dict, list, str, int, float, bool, None).

    `source` is the place of its first key. Items of a `List` kind become documents of their own.
    """

    source: SourceRef
    data: dict[str, Any]
    text: bytes
    index: int = 0
    root: FieldPath = ()

    def at(self, field: FieldPath, *, key: bool = False) -> SourceRef:
        """Place of the value at `field` (or of its key); of the nearest existing ancestor where it is absent."""
        raise NotImplementedError

    @property
    def api_version(self) -> str:
        """`apiVersion`, empty where it is missing or not a string."""
        value = self.data.get("apiVersion")
        return value if isinstance(value, str) else ""

    @property
    def kind(self) -> str:
        """`kind`, empty where it is missing or not a string."""
        value = self.data.get("kind")
        return value if isinstance(value, str) else ""

    @property
    def metadata(self) -> dict[str, Any]:
        """`metadata`, empty where it is missing or not a mapping."""
        value = self.data.get("metadata")
        return value if isinstance(value, dict) else {}

    @property
    def key(self) -> ObjectKey:
        """The identity as written; an absent namespace stays empty."""
        group, _ = split_api_version(self.api_version)
        name, namespace = self.metadata.get("name"), self.metadata.get("namespace")
        return ObjectKey(
            group=group,
            kind=self.kind,
            namespace=namespace if isinstance(namespace, str) else "",
            name=name if isinstance(name, str) else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What one file holds: its documents, and everything that is wrong with it."""

    documents: tuple[Document, ...] = ()
    problems: tuple[Problem, ...] = ()
