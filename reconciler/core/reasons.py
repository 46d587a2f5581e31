"""Why a rendered value is what it is: values travel through rendering together with their reason.

Renderers build a tree of plain values and `Traced` leaves or subtrees; `untrace` makes the manifest's body of it.
`why` answers for any leaf: the reason nearest above it wins, and for a copied subtree the rest of the path is followed
into the source document, so that the line is exact. Reasons are looked up when somebody asks: few are ever asked for.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from reconciler.core.objects import FieldPath, SourceRef, format_path

if TYPE_CHECKING:
    from reconciler.core.documents import Document

Reasons = Mapping[FieldPath, "Reason"]


class Origin(Struct, frozen=True, kw_only=True):
    """A value in a source or evidence document."""

    document: "Document"
    field: FieldPath = ()


class Reason(Struct, frozen=True, kw_only=True):
    """Why: a stable `rule` id (`torchrun.nodes`), one sentence with its arithmetic, and the values it came from.

    `copied` says that the value is its first origin's value unchanged, so that paths below it can be followed.
    """

    rule: str
    text: str = ""
    origins: tuple[Origin, ...] = ()
    copied: bool = False


class Traced(Struct, frozen=True):
    """A value (leaf or subtree) and its reason."""

    value: Any
    reason: Reason


class Why(Struct, frozen=True, kw_only=True):
    """A reason with its places looked up: what the plan stores and shows."""

    rule: str
    text: str = ""
    places: tuple[SourceRef, ...] = ()
    fields: tuple[str, ...] = ()


def copied(document: "Document", field: FieldPath, value: Any, *, rule: str = "source", text: str = "") -> Traced:
    """Mark `value` as taken unchanged from `field` of `document`."""
    return Traced(value, Reason(rule=rule, text=text, origins=(Origin(document=document, field=field),), copied=True))


def untrace(tree: Any) -> Any:
    """Return a tree with `Traced` values as plain dicts and lists.

    Exact types first: this runs for every value of every manifest. A copied value holds nothing traced.
    """
    while type(tree) is Traced:
        if tree.reason.copied:
            return tree.value
        tree = tree.value
    kind = type(tree)
    if kind in _SCALARS:
        return tree
    if kind is dict or isinstance(tree, Mapping):
        return {key: value if type(value) in _SCALARS else untrace(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return [value if type(value) in _SCALARS else untrace(value) for value in tree]
    return tree


_SCALARS = frozenset({str, int, float, bool, type(None)})


def why(tree: Any, added: Reasons, path: FieldPath) -> Why:
    """Return the reason for the value at `path`, its places looked up: the one that is nearest above it.

    `added` are reasons of values that were put into the body beside the tree; they win over those of the tree.
    """
    reason, depth = _nearest(tree, path)
    for length in range(len(path), depth - 1, -1):
        if path[:length] in added:
            reason, depth = added[path[:length]], length
            break
    if reason is None:
        return Why(rule="unknown")
    return _resolve(reason, path[depth:] if reason.copied else ())


def _nearest(tree: Any, path: FieldPath) -> tuple[Reason | None, int]:
    """Walk down a tree; return the last reason on the way, and how many steps led to it."""
    reason: Reason | None = None
    depth = 0
    node = tree
    for length, step in enumerate((*path, None)):
        while type(node) is Traced:
            reason, depth = node.reason, length
            if reason.copied:
                return reason, depth
            node = node.value
        inside = step in node if isinstance(node, Mapping) else isinstance(node, list | tuple) and _is_index(node, step)
        if not inside:
            break
        node = node[step]
    return reason, depth


def _is_index(items: list[Any] | tuple[Any, ...], step: object) -> bool:
    return isinstance(step, int) and step < len(items)


def _resolve(reason: Reason, rest: FieldPath) -> Why:
    places, fields = [], []
    for position, origin in enumerate(dict.fromkeys(reason.origins)):
        field = (*origin.field, *rest) if position == 0 else origin.field
        places.append(origin.document.at(field))
        fields.append(format_path(field))
    return Why(rule=reason.rule, text=reason.text, places=tuple(places), fields=tuple(fields))
