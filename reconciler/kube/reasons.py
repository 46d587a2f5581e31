"""The reasons of rendered values: renderers return values together with their reason.

Renderers build a tree of plain values and `Traced` leaves or subtrees; `untrace` returns the manifest's body. `why`
returns the nearest reason above a value; for a copied subtree, the rest of the path leads into the source document, so
that the line is exact. Places are looked up on demand, because few are needed.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from reconciler.kube.objects import FieldPath, SourceRef, format_path
from reconciler.kube.yaml import Document

Reasons = Mapping[FieldPath, "Reason"]


class Origin(Struct, frozen=True, kw_only=True):
    """A value in a source or evidence document."""

    document: Document
    field: FieldPath = ()


class Reason(Struct, frozen=True, kw_only=True):
    """The reason of a value: a stable `rule` id (`torchrun.nodes`), a sentence with the arithmetic, and its origins.

    `copied` means that the value is the unchanged value of its first origin, so that paths below it can be followed.
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
    """A reason with the places of its origins, as plans contain it.

    Of a value that differs, `edited` are the lines of the head whose edit changed it, and `removed` the lines of the
    base that the head no longer has. The digest of a plan covers neither, because they depend on how a repository came
    to its present state.
    """

    rule: str
    text: str = ""
    places: tuple[SourceRef, ...] = ()
    fields: tuple[str, ...] = ()
    edited: tuple[SourceRef, ...] = ()
    removed: tuple[SourceRef, ...] = ()


def copied(document: Document, field: FieldPath, value: Any, *, rule: str = "source", text: str = "") -> Traced:
    """Return `value`, copied unchanged from `field` of `document`."""
    return Traced(value, Reason(rule=rule, text=text, origins=(Origin(document=document, field=field),), copied=True))


def untrace(tree: Any) -> Any:
    """Return a tree with `Traced` values as plain dicts and lists.

    Checks exact types first: this runs for every value of every manifest. A copied value contains no `Traced`.
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
    """Return the nearest reason at or above `path`, with its places.

    `added` are the reasons of values that were added to the body; they take precedence over those of the tree.
    """
    reason, origins = trace(tree, added, path)
    if reason is None:
        return Why(rule="unknown")
    places = tuple(origin.document.at(origin.field) for origin in origins)
    fields = tuple(format_path(origin.field) for origin in origins)
    return Why(rule=reason.rule, text=reason.text, places=places, fields=fields)


def trace(tree: Any, added: Reasons, path: FieldPath) -> tuple[Reason | None, tuple[Origin, ...]]:
    """Return the nearest reason at or above `path`, and the origins of the value: of a copied one, its exact place."""
    reason, depth = _nearest(tree, path)
    for length in range(len(path), depth - 1, -1):
        if path[:length] in added:
            reason, depth = added[path[:length]], length
            break
    if reason is None:
        return None, ()
    first, *others = dict.fromkeys(reason.origins) or (None,)
    if first is not None and reason.copied and path[depth:]:
        first = Origin(document=first.document, field=(*first.field, *path[depth:]))
    return reason, () if first is None else (first, *others)


def _nearest(tree: Any, path: FieldPath) -> tuple[Reason | None, int]:
    """Return the last reason on the way to `path`, and its depth."""
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
