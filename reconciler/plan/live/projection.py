"""The part of a live object that an apply would keep or change, without what servers add.

Servers fill in defaults, write quantities in their own way, drop what they do not store, and other managers add fields.
None of that is a difference. What is one, the server says itself, by the result of a dry run.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from reconciler.kube.items import ListKeys, match_items
from reconciler.kube.objects import FieldPath
from reconciler.kube.values import pruned
from reconciler.plan.live.managers import OURS, is_covered, owned_by

Body = Mapping[str, Any]
_ABSENT: Any = object()
_SERVER_METADATA = frozenset(
    {"creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields"}
    | {"resourceVersion", "selfLink", "uid"}
)
_IDENTITY = ("apiVersion", "kind")


def plain(body: Body) -> dict[str, Any]:
    """Return a live object without its status and what only servers write."""
    metadata = {name: value for name, value in body["metadata"].items() if name not in _SERVER_METADATA}
    return {**{name: value for name, value in body.items() if name != "status"}, "metadata": metadata}


def content_version(live: Body, left: Sequence[FieldPath] = ()) -> str:
    """Return the UID of a live object with a digest of its content. What servers and controllers report has no part.

    left: fields that an apply leaves to others, who may change them at any time. Those in lists still count.
    """
    named = [path for path in left if all(isinstance(part, str) for part in path)]
    content = msgspec.json.encode(without(plain(live), named), order="sorted")
    return f"{live['metadata']['uid']}/{blake2b(content, digest_size=16).hexdigest()}"


def without(body: Body, paths: Sequence[FieldPath]) -> Body:
    """Return a body without the values at some paths, and without the mappings that are empty then.

    Whoever applies an empty mapping seems to own what others put into it.
    """
    for path in sorted(paths, reverse=True):
        body = pruned(body, path)
    return body


def is_same(live: Body, result: Body) -> bool:
    """Return whether the result of a dry run is the live object as it is."""
    return plain(live) == plain(result)


def holds(desired: Body, live: Body, list_keys: ListKeys) -> bool:
    """Return whether an apply would surely change nothing, without asking the server.

    Every desired value is there as it is written, and nothing that we applied before is missing in it. False means that
    only a dry run can tell.
    """
    tree = owned_by(live, OURS)
    return (tree is None or is_covered(tree, desired)) and _holds(desired, live, (), list_keys)


def project(desired: Body, live: Body, result: Body | None, list_keys: ListKeys) -> dict[str, Any]:
    """Return the live object as what it is compared with: equal to `desired` wherever an apply changes nothing.

    result: that of the dry run; None if it failed, so that every other value counts as a difference.
    """
    after = _ABSENT if result is None else plain(result)
    projected: dict[str, Any] = _project(dict(desired), plain(live), after, (), list_keys)
    return {**{name: desired[name] for name in _IDENTITY}, **projected}


def _holds(desired: Any, live: Any, path: FieldPath, list_keys: ListKeys) -> bool:
    if isinstance(desired, dict):
        if not isinstance(live, dict) or (live and not desired):  # of a selector, an empty one is a value of its own
            return False
        return all(
            name in live and _holds(value, live[name], (*path, name), list_keys) for name, value in desired.items()
        )
    if isinstance(desired, list) and isinstance(live, list) and desired != live:
        keys = list_keys(path)
        pairs = match_items(path, live, desired, list_keys) if keys else None
        if pairs is None or pairs.moved:
            return False
        return all(
            pair.before is not None and _holds(desired[pair.after], live[pair.before], (*path, pair.after), list_keys)
            for pair in pairs.items
            if pair.after is not None
        )
    return type(desired) is type(live) and bool(desired == live)


def _project(desired: Any, live: Any, result: Any, path: FieldPath, list_keys: ListKeys) -> Any:
    if result is not _ABSENT and result == live:
        return desired
    if isinstance(desired, dict) and isinstance(live, dict):
        return _project_mapping(desired, live, result, path, list_keys)
    if isinstance(desired, list) and isinstance(live, list):
        return _project_list(desired, live, result, path, list_keys)
    return live


def _project_mapping(
    desired: dict[str, Any], live: dict[str, Any], result: Any, path: FieldPath, list_keys: ListKeys
) -> dict[str, Any]:
    after = result if isinstance(result, dict) else {}
    projected: dict[str, Any] = {}
    for name, value in desired.items():
        if name in live:
            inner = after.get(name, _ABSENT)
            projected[name] = _project(value, live[name], inner, (*path, name), list_keys)
        elif result is not _ABSENT and name not in after:
            projected[name] = value  # the server does not store it
    if result is not _ABSENT:  # what an apply removes
        others = {name: value for name, value in live.items() if name not in desired}
        projected |= _lost(others, after, path, list_keys)
    return projected


def _lost(live: dict[str, Any], after: dict[str, Any], path: FieldPath, list_keys: ListKeys) -> dict[str, Any]:
    """Return what an apply removes of values that are not desired."""
    lost: dict[str, Any] = {}
    for name, value in live.items():
        outcome = after.get(name, _ABSENT)
        if outcome is _ABSENT:
            lost[name] = value
        elif isinstance(value, dict) and isinstance(outcome, dict):
            lost[name] = _lost(value, outcome, (*path, name), list_keys)
        elif isinstance(value, list) and isinstance(outcome, list) and match_items(path, value, outcome, list_keys):
            stay = _positions((*path, name), value, outcome, list_keys)
            lost[name] = [item for at, item in enumerate(value) if at not in stay]
    return {name: value for name, value in lost.items() if name not in after or value}


def _project_list(desired: list[Any], live: list[Any], result: Any, path: FieldPath, list_keys: ListKeys) -> list[Any]:
    after = result if isinstance(result, list) else []
    pairs = match_items(path, live, desired, list_keys)
    if pairs is None:
        if len(desired) != len(live):
            return live
        return [
            _project(value, live[at], after[at] if len(after) == len(live) else _ABSENT, (*path, at), list_keys)
            for at, value in enumerate(desired)
        ]
    wanted = {pair.before: pair.after for pair in pairs.items if pair.before is not None}
    results = _positions(path, live, after, list_keys)
    projected = []
    for at, item in enumerate(live):
        position, stays = wanted.get(at), at in results
        outcome = after[results[at]] if stays else _ABSENT
        if position is not None:
            projected.append(_project(desired[position], item, outcome, (*path, at), list_keys))
        elif result is not _ABSENT and not stays:
            projected.append(item)  # an apply removes it
    return projected


def _positions(path: FieldPath, live: list[Any], after: list[Any], list_keys: ListKeys) -> dict[int, int]:
    """Return the positions of the items of a live list in the result of a dry run."""
    pairs = match_items(path, live, after, list_keys)
    found = () if pairs is None else pairs.items
    return {pair.before: pair.after for pair in found if pair.before is not None and pair.after is not None}
