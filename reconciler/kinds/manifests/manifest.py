"""`Manifest`: one object as it is committed, and the reason of each of its values."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from reconciler.kube.objects import FieldPath, ObjectKey, SourceRef, split_api_version
from reconciler.kube.reasons import Origin, Reason, Reasons, Traced, Why, trace, untrace, why
from reconciler.sizing.summary import SizingSummary


class Manifest(Struct, frozen=True, kw_only=True, eq=False):
    """A rendered object of one cluster. `source` is the document it was rendered from; `sizing` says how it was sized.

    `on_immutable_change` is the choice of its document or queue; empty: that of the configuration.
    `is_shared`: other documents may render the same object.

    The reasons are in `tree`, which the body was built from; `reasons` are those of values that were added later.
    """

    cluster: str
    key: ObjectKey
    body: dict[str, Any]
    source: SourceRef
    tree: Any = None
    reasons: Reasons = field(default_factory=dict)
    sizing: Callable[[], SizingSummary] | None = None
    on_immutable_change: str = ""
    is_shared: bool = False

    def why(self, path: FieldPath) -> Why:
        """Return the reason of the value at `path`."""
        return why(self.tree, self.reasons, path)

    def origins(self, path: FieldPath) -> tuple[Origin, ...]:
        """Return the source values that the value at `path` comes from."""
        return trace(self.tree, self.reasons, path)[1]


def manifest(
    *, cluster: str, tree: Mapping[str, Any], source: SourceRef, reason: Reason, on_immutable_change: str = ""
) -> Manifest:
    """Build a manifest from a tree of plain and `Traced` values; `reason` is that of all other values."""
    body = untrace(tree)
    group, _ = split_api_version(body["apiVersion"])
    metadata = body["metadata"]
    key = ObjectKey(group=group, kind=body["kind"], namespace=metadata.get("namespace", ""), name=metadata["name"])
    return Manifest(
        cluster=cluster,
        key=key,
        body=body,
        source=source,
        tree=Traced(tree, reason),
        on_immutable_change=on_immutable_change,
    )
