"""Renames: an object that is deleted here and created there with (nearly) the same content is one move.

Kubernetes knows no rename: the old object goes and a new one comes. Risks and budgets say so; the reviewer sees one
small change instead of two large ones.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from reconciler.core.plan.inputs import Inputs
from reconciler.core.plan.sides import Sides, origin_of

NEARLY = 0.9
"""Share of equal leaves from which two objects of one kind, that differ in name, count as one."""

_MOST_PAIRS = 2_000  # comparisons of one kind; beyond, only equal content is recognised


class Move(Struct, frozen=True, kw_only=True):
    """Paths of one object before and after."""

    old: str
    new: str


class _Candidate(Struct, frozen=True, kw_only=True):
    path: str
    source: str
    leaves: frozenset[str]


def find_moves(inputs: Inputs, sides: Sides) -> tuple[Move, ...]:
    """Pair deletions with creations of the same group and kind: equal content first, then the most alike."""
    if not sides.created or not sides.deleted:
        return ()
    old_by_kind = _grouped(_old(inputs, sides))
    new_by_kind = _grouped(_new(inputs, sides, set(old_by_kind)))
    moves: list[Move] = []
    for kind in sorted(new_by_kind):
        moves += _pair(old_by_kind[kind], new_by_kind[kind])
    return tuple(sorted(moves, key=lambda move: move.new))


_Kind = tuple[str, str]


def _grouped(found: Iterator[tuple[_Kind, _Candidate]]) -> dict[_Kind, list[_Candidate]]:
    grouped: dict[_Kind, list[_Candidate]] = {}
    for kind, candidate in found:
        grouped.setdefault(kind, []).append(candidate)
    return grouped


def _old(inputs: Inputs, sides: Sides) -> Iterator[tuple[_Kind, _Candidate]]:
    for path in sides.deleted:
        row = sides.before.get(path)
        if row is None or inputs.kinds.find(row.group, row.kind).never_moves:
            continue
        body = inputs.body(path)
        if body:
            leaves = fingerprint(body, row.name, row.namespace)
            yield (row.group, row.kind), _Candidate(path=path, source=origin_of(inputs, path), leaves=leaves)


def _new(inputs: Inputs, sides: Sides, kinds: set[_Kind]) -> Iterator[tuple[_Kind, _Candidate]]:
    for path in sides.created:
        row = sides.after[path]
        if (row.group, row.kind) in kinds:
            leaves = fingerprint(inputs.manifest(path).body, row.name, row.namespace)
            yield (row.group, row.kind), _Candidate(path=path, source=row.source, leaves=leaves)


def _pair(old: list[_Candidate], new: list[_Candidate]) -> Iterator[Move]:
    waiting: dict[frozenset[str], list[_Candidate]] = {}
    for candidate in old:
        waiting.setdefault(candidate.leaves, []).append(candidate)
    rest = []
    for candidate in new:
        equal = waiting.get(candidate.leaves)
        if equal:
            yield Move(old=equal.pop(0).path, new=candidate.path)
        else:
            rest.append(candidate)
    left = [candidate for candidates in waiting.values() for candidate in candidates]
    if left and rest and len(left) * len(rest) <= _MOST_PAIRS:
        yield from _most_alike(left, rest)


def _most_alike(old: list[_Candidate], new: list[_Candidate]) -> Iterator[Move]:
    """Pair greedily by likeness; of two equally alike, the one from the same source file, then by path."""
    scored = []
    for gone in old:
        for come in new:
            likeness = len(gone.leaves & come.leaves) / max(len(gone.leaves), len(come.leaves), 1)
            if likeness >= NEARLY:
                elsewhere = not gone.source or gone.source != come.source
                scored.append((-likeness, elsewhere, gone.path, come.path))
    taken: set[str] = set()
    for _, _, gone_path, come_path in sorted(scored):
        if gone_path not in taken and come_path not in taken:
            taken |= {gone_path, come_path}
            yield Move(old=gone_path, new=come_path)


def fingerprint(body: Mapping[str, Any], name: str, namespace: str) -> frozenset[str]:
    """Return the leaves of a body with its own name and namespace left open, as `path=value`."""
    own = [re.escape(word) for word in (name, namespace) if word]
    # Only as a whole word: a queue called `a` must not tear holes into every other value.
    pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(own)})(?![A-Za-z0-9])") if own else None
    return frozenset(_leaves(body, "", pattern))


def _leaves(value: Any, path: str, own: re.Pattern[str] | None) -> Iterator[str]:
    if type(value) is dict and value:
        for key, inner in value.items():
            if path == ".metadata" and key in ("name", "namespace"):
                continue
            yield from _leaves(inner, f"{path}.{key}", own)
    elif type(value) is list and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]", own)
    elif type(value) is str:
        yield f"{path}={own.sub(chr(0), value) if own else value}"
    else:
        yield f"{path}={msgspec.json.encode(value).decode()}"
