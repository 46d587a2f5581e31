"""Why a rendered value is what it is: values travel through rendering together with their reason.

Renderers build a tree of plain values and `Traced` leaves or subtrees; `untrace` splits it into the body of the
manifest and a table of reasons by field path. `why` answers for any leaf: the longest recorded path wins, and for a
copied subtree the rest of the path is followed into the source document, so that the line is exact.
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


def untrace(tree: Any) -> tuple[Any, dict[FieldPath, Reason]]:
    """Split a tree with `Traced` values into the plain body and the reasons by path."""
    reasons: dict[FieldPath, Reason] = {}
    return _strip(tree, (), reasons), reasons


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _strip(node: Any, path: FieldPath, reasons: dict[FieldPath, Reason]) -> Any:
    """Exact types first: this runs for every value of every manifest. A copied value holds nothing traced."""
    kind = type(node)
    if kind in _SCALARS:
        return node
    if kind is Traced:
        reasons[path] = node.reason
        return node.value if node.reason.copied else _strip(node.value, path, reasons)
    if isinstance(node, Mapping):
        return {
            key: value if type(value) in _SCALARS else _strip(value, (*path, key), reasons)
            for key, value in node.items()
        }
    if isinstance(node, list | tuple):
        return [_strip(value, (*path, index), reasons) for index, value in enumerate(node)]
    return node


def why(reasons: Reasons, path: FieldPath) -> Why:
    """Return the reason for the value at `path`: the longest recorded prefix, its places looked up."""
    for length in range(len(path), -1, -1):
        reason = reasons.get(path[:length])
        if reason is not None:
            rest = path[length:] if reason.copied else ()
            return _resolve(reason, rest)
    return Why(rule="unknown")


def _resolve(reason: Reason, rest: FieldPath) -> Why:
    places, fields = [], []
    for position, origin in enumerate(dict.fromkeys(reason.origins)):
        field = (*origin.field, *rest) if position == 0 else origin.field
        places.append(origin.document.at(field))
        fields.append(format_path(field))
    return Why(rule=reason.rule, text=reason.text, places=tuple(places), fields=tuple(fields))
