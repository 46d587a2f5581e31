"""Checked expressions as bytes, for a later run of the same engine."""

from functools import lru_cache

import msgspec

from reconciler.kube.cel.checker import Checked
from reconciler.kube.cel.library import OVERLOADS
from reconciler.kube.cel.syntax import Node, walk
from reconciler.kube.cel.types import CelType

_Stored = tuple[Node, CelType, dict[int, tuple[str, tuple[int, ...]]], dict[int, str]]
"""The tree and its type; overloads and qualified names are by the position of their nodes in the tree."""


def encode(checked: Checked) -> bytes:
    """Return an expression as bytes."""
    overloads: dict[int, tuple[str, tuple[int, ...]]] = {}
    names: dict[int, str] = {}
    for position, node in enumerate(walk(checked.tree)):
        found = checked.overloads.get(id(node))
        if found:
            known = OVERLOADS[found[0].name]
            overloads[position] = (found[0].name, tuple(known.index(one) for one in found))
        if id(node) in checked.names:
            names[position] = checked.names[id(node)]
    return _encoder.encode((checked.tree, checked.kind, overloads, names))


@lru_cache(maxsize=256)  # policies have many expressions in common
def decode(stored: bytes) -> Checked:
    """Return an expression. Raises ValueError or LookupError for anything that `encode` did not return."""
    tree, kind, overloads, names = _decoder.decode(stored)
    nodes = list(walk(tree))
    return Checked(
        tree=tree,
        kind=kind,
        overloads={
            id(nodes[position]): tuple(OVERLOADS[name][one] for one in chosen)
            for position, (name, chosen) in overloads.items()
        },
        names={id(nodes[position]): name for position, name in names.items()},
    )


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Stored)
