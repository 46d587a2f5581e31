"""Moves: a deletion and a creation of nearly the same content, shown as one change.

Kubernetes cannot rename objects: it deletes the old one and creates a new one, and risks and budgets say so. Reviewers
see one small change instead of two large ones.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.kinds.facts import KindId
from reconciler.kinds.manifests.generations import base_path
from reconciler.kinds.manifests.ownership import MOVED_FROM
from reconciler.kinds.summary import ObjectSummary
from reconciler.plan.changed_paths import ChangedPaths, source_of
from reconciler.plan.inputs import Inputs

SIMILAR = 0.9
"""Least share of equal fields for two objects of one kind to count as one."""

_MAX_PAIRS = 2_000  # comparisons per kind; with more, only equal objects are matched


class Move(Struct, frozen=True, kw_only=True):
    """Paths of one object before and after."""

    old: str
    new: str
    declared: bool = False  # by an annotation


class _MoveCandidate(Struct, frozen=True, kw_only=True):
    path: str
    source: str
    leaves: frozenset[str]


def find_replacements(created: Iterable[str], deleted: Sequence[str]) -> tuple[Move, ...]:
    """Match the new generation of an object with the one that it replaces: both have the same name without suffix."""
    new = [path for path in created if base_path(path) != path]
    if not new:
        return ()
    old = {base_path(path): path for path in reversed(deleted)}
    pairs: dict[str, Move] = {}
    for path in new:
        base = base_path(path)
        if base in old:
            pairs.setdefault(base, Move(old=old[base], new=path))
    return tuple(pairs.values())


def without(paths: ChangedPaths, moves: Collection[Move]) -> ChangedPaths:
    """Return the paths without the deletions and creations of these moves."""
    old, new = {move.old for move in moves}, {move.new for move in moves}
    if not old:
        return paths
    return replace(
        paths,
        created=tuple(path for path in paths.created if path not in new),
        deleted=tuple(path for path in paths.deleted if path not in old),
    )


def find_moves(inputs: Inputs, paths: ChangedPaths) -> tuple[Move, ...]:
    """Match deletions and creations of the same kind: declared moves, then equal content, then the most similar."""
    if not paths.created or not paths.deleted:
        return ()
    moves = _declared(inputs, paths)
    paired = {path for move in moves for path in (move.old, move.new)}
    old_by_kind = _group(_deleted(inputs, paths, paired))
    new_by_kind = _group(_created(inputs, paths, set(old_by_kind), paired))
    for kind in sorted(new_by_kind):
        moves += _pair(old_by_kind[kind], new_by_kind[kind])
    return tuple(sorted(moves, key=lambda move: move.new))


def _group(candidates: Iterator[tuple[KindId, _MoveCandidate]]) -> dict[KindId, list[_MoveCandidate]]:
    groups: dict[KindId, list[_MoveCandidate]] = {}
    for kind, candidate in candidates:
        groups.setdefault(kind, []).append(candidate)
    return groups


def _declared(inputs: Inputs, paths: ChangedPaths) -> list[Move]:
    """Match created objects with the annotation `MOVED_FROM`, whatever their content.

    An annotation on a job is on all that it renders, under names that start with the job's: `vit-workspace`.
    """
    gone: dict[tuple[KindId, str], list[ObjectSummary]] = {}
    for path in paths.deleted:
        row = paths.before.get(path)
        if row is not None and not inputs.kinds.find(row.group, row.kind).life.never_moves:
            gone.setdefault(((row.group, row.kind), row.namespace), []).append(row)
    kinds = {kind for kind, _ in gone}
    moves: list[Move] = []
    for path in paths.created:
        row = paths.after[path]
        kind = (row.group, row.kind)
        origin = _moved_from(inputs.manifest(path).body) if kind in kinds else ""
        namespace, slash, name = origin.rpartition("/")
        old = gone.get((kind, namespace if slash else row.namespace), [])
        matching = [one for one in old if name and _is_renamed(one.name, name, row.name)]
        if matching:
            best = max(matching, key=lambda one: (len(one.name), one.cluster == row.cluster, one.path))
            old.remove(best)
            moves.append(Move(old=best.path, new=path, declared=True))
    return moves


def _moved_from(body: Mapping[str, Any]) -> str:
    annotations = body.get("metadata", {}).get("annotations")
    origin = annotations.get(MOVED_FROM) if isinstance(annotations, dict) else None
    return origin.strip() if isinstance(origin, str) else ""


def _is_renamed(old: str, declared: str, new: str) -> bool:
    """Return whether both names have the same end after the name of their source."""
    end = old.removeprefix(declared)
    return old.startswith(declared) and end[:1] in ("", "-", ".") and new.endswith(end)


def _deleted(inputs: Inputs, paths: ChangedPaths, paired: set[str]) -> Iterator[tuple[KindId, _MoveCandidate]]:
    for path in paths.deleted:
        row = paths.before.get(path)
        if row is None or path in paired or inputs.kinds.find(row.group, row.kind).life.never_moves:
            continue
        body = inputs.body(path)
        if body:
            leaves = fingerprint(body, row.name, row.namespace)
            yield (row.group, row.kind), _MoveCandidate(path=path, source=source_of(inputs, path), leaves=leaves)


def _created(
    inputs: Inputs, paths: ChangedPaths, kinds: set[KindId], paired: set[str]
) -> Iterator[tuple[KindId, _MoveCandidate]]:
    for path in paths.created:
        row = paths.after[path]
        if (row.group, row.kind) in kinds and path not in paired:
            leaves = fingerprint(inputs.manifest(path).body, row.name, row.namespace)
            yield (row.group, row.kind), _MoveCandidate(path=path, source=row.source, leaves=leaves)


def _pair(old: list[_MoveCandidate], new: list[_MoveCandidate]) -> Iterator[Move]:
    unmatched: dict[frozenset[str], list[_MoveCandidate]] = {}
    for candidate in old:
        unmatched.setdefault(candidate.leaves, []).append(candidate)
    remaining = []
    for candidate in new:
        equal = unmatched.get(candidate.leaves)
        if equal:
            yield Move(old=equal.pop(0).path, new=candidate.path)
        else:
            remaining.append(candidate)
    left = [candidate for candidates in unmatched.values() for candidate in candidates]
    if left and remaining and len(left) * len(remaining) <= _MAX_PAIRS:
        yield from _most_similar(left, remaining)


def _most_similar(old: list[_MoveCandidate], new: list[_MoveCandidate]) -> Iterator[Move]:
    """Match greedily by similarity. Ties prefer objects of the same source file, then the first path."""
    scores = []
    for before in old:
        for after in new:
            similarity = len(before.leaves & after.leaves) / max(len(before.leaves), len(after.leaves), 1)
            if similarity >= SIMILAR:
                is_other_file = not before.source or before.source != after.source
                scores.append((-similarity, is_other_file, before.path, after.path))
    matched: set[str] = set()
    for _, _, old_path, new_path in sorted(scores):
        if old_path not in matched and new_path not in matched:
            matched |= {old_path, new_path}
            yield Move(old=old_path, new=new_path)


def fingerprint(body: Mapping[str, Any], name: str, namespace: str) -> frozenset[str]:
    """Return the fields of an object as `path=value`, with a placeholder for its own name and namespace."""
    own = [re.escape(word) for word in (name, namespace) if word]
    # Whole words only: the name `a` must not be replaced inside other values.
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
