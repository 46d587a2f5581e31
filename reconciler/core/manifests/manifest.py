"""`Manifest`: one object as it is committed, and why each of its values is what it is."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from reconciler.core.objects import FieldPath, ObjectKey, SourceRef, split_api_version
from reconciler.core.reasons import Reason, Reasons, Traced, Why, untrace, why

if TYPE_CHECKING:
    from reconciler.core.sizing.note import SizingNote


class Manifest(Struct, frozen=True, kw_only=True, eq=False):
    """A rendered object of one cluster. `source` is the document that asked for it; `sizing` tells how it was sized.

    The reasons are in `tree`, of which the body was made; `reasons` are those of values that were added to it.
    """

    cluster: str
    key: ObjectKey
    body: dict[str, Any]
    source: SourceRef
    tree: Any = None
    reasons: Reasons = field(default_factory=dict)
    sizing: Callable[[], "SizingNote"] | None = None

    def why(self, path: FieldPath) -> Why:
        """Why the value at `path` is what it is."""
        return why(self.tree, self.reasons, path)


def manifest(*, cluster: str, tree: Mapping[str, Any], source: SourceRef, reason: Reason) -> Manifest:
    """Build a manifest from a tree of plain and `Traced` values; `reason` speaks for what carries none of its own."""
    body = untrace(tree)
    group, _ = split_api_version(body["apiVersion"])
    metadata = body["metadata"]
    key = ObjectKey(group=group, kind=body["kind"], namespace=metadata.get("namespace", ""), name=metadata["name"])
    return Manifest(cluster=cluster, key=key, body=body, source=source, tree=Traced(tree, reason))


def manifest_path(cluster: str, key: ObjectKey) -> str:
    """Path of a manifest below `rendered/`: `<cluster>/<namespace or _cluster>/<kind>-<name>.yaml`.

    Kinds that exist in several groups carry their group, so that no two objects share a file.
    """
    kind = key.kind.lower() if key.kind not in _AMBIGUOUS_KINDS else f"{key.kind.lower()}.{key.group or 'core'}"
    # ":" is legal in RBAC names, but not in a file name on every system.
    return f"{cluster}/{key.namespace or '_cluster'}/{kind}-{key.name.replace(':', '~')}.yaml"


_AMBIGUOUS_KINDS = frozenset({"Queue", "PodGroup", "Topology", "Event", "Workload"})
