"""Verdicts at the field that has to change: a queue's field is reported once, and not at each of its jobs."""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision
from reconciler.index.parsed import load_mapping
from reconciler.index.renderer import Renderer
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import FieldPath, SourceRef
from reconciler.kube.printed_paths import find_path
from reconciler.kube.values import plural
from reconciler.policy.references import RULES
from reconciler.policy.verdict import Result, Verdict
from reconciler.repo.port import Cache
from reconciler.sizing.devices import PRODUCT_LABELS, is_gpu

MAX_LOCATED = 200
"""Verdicts whose field is looked up, the first ones: each may compile a file."""

_BY_GPUS = frozenset(("quota.capacity", "quota.node-shape", "quota.cordoned", "quota.queue-limit"))
_BY_PRODUCT = "quota.product"


def at_their_causes(
    cache: Cache, index: CompiledRevision, renderer: Renderer, verdicts: Iterable[Verdict]
) -> tuple[Verdict, ...]:
    """Return the verdicts at the places of their fields, and those with one cause as one. They are sorted."""
    ordered = sorted(verdicts, key=lambda verdict: verdict.sort_key)
    placed = (
        verdict if verdict.cause is msgspec.UNSET else replace(verdict, cause=msgspec.UNSET)
        for verdict in _merge(index, _locate(cache, index, renderer, ordered))
    )
    return tuple(sorted(placed, key=lambda verdict: verdict.sort_key))


def _locate(cache: Cache, index: CompiledRevision, renderer: Renderer, verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Return the verdicts of rules over all objects at the places of their fields. Places are cached between runs."""
    paths = dict(_located_paths(index, verdicts))
    if not paths:
        return list(verdicts)
    name = f"places:{index.scope}"
    known, used = load_mapping(cache, name), {}
    placed = list(verdicts)
    keys = {position: _key(index, path, verdicts[position]) for position, path in paths.items()}
    renderer.group(paths[position] for position, key in keys.items() if key not in known)  # one git reads all files
    for position, path in paths.items():
        verdict, key = verdicts[position], keys[position]
        raw = known.get(key)
        place = msgspec.msgpack.decode(raw, type=SourceRef) if raw else None
        if place is None:
            place = _place(index, renderer.object(path).manifest, verdict)
        used[key] = msgspec.msgpack.encode(place)
        placed[position] = replace(verdict, place=place)
    if used != known:
        cache.put(name, msgspec.msgpack.encode(used))
    return placed


def _located_paths(index: CompiledRevision, verdicts: Sequence[Verdict]) -> Iterator[tuple[int, str]]:
    count = 0
    for position, verdict in enumerate(verdicts):
        if verdict.rule in RULES and verdict.result is not Result.EXCEPTED and _has_field(verdict):
            path = _cause(index, verdict)
            if path in index.desired and count < MAX_LOCATED:
                count += 1
                yield position, path


def _has_field(verdict: Verdict) -> bool:
    return bool(verdict.field) or verdict.rule in _BY_GPUS or verdict.rule == _BY_PRODUCT


def _path(index: CompiledRevision, verdict: Verdict) -> str:
    return index.context.kinds.manifest_path(verdict.cluster, verdict.key)


def _cause(index: CompiledRevision, verdict: Verdict) -> str:
    """Return the path of the object that the field of a verdict is of."""
    return index.context.kinds.manifest_path(verdict.cluster, verdict.cause or verdict.key)


def _key(index: CompiledRevision, path: str, verdict: Verdict) -> str:
    """Return what the place depends on: the field, the file, and what the file was compiled against."""
    source = index.sources[path]
    record = index.records[source]
    digest = index.store.digests.get(record.dependencies, "")
    return sha256(repr((path, verdict.rule, verdict.field, source, record.blob, digest)).encode()).hexdigest()


def _place(index: CompiledRevision, manifest: Manifest, verdict: Verdict) -> SourceRef:
    """Return the place of the first origin of the value that a verdict is about; else the verdict's own."""
    path = _field(index, manifest, verdict)
    origin = next(iter(manifest.origins(path)), None) if path else None
    return verdict.place if origin is None or not origin.field else origin.document.at(origin.field)


def _field(index: CompiledRevision, manifest: Manifest, verdict: Verdict) -> FieldPath:
    if verdict.rule == _BY_PRODUCT and (product := _find_leaf(manifest.body, PRODUCT_LABELS.__contains__)):
        return product
    if verdict.rule == _BY_PRODUCT or verdict.rule in _BY_GPUS:
        return _find_leaf(manifest.body, is_gpu)
    key = manifest.key
    schemas = index.context.catalogue
    path, rest = find_path(manifest.body, verdict.field, lambda at: schemas.list_keys(key.group, key.kind, at))
    return () if rest and verdict.cause is UNSET else path


def _find_leaf(node: Any, is_wanted: Any, path: FieldPath = ()) -> FieldPath:
    """Return the path of the first scalar whose key is wanted."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        if isinstance(key, str) and not isinstance(value, dict | list) and is_wanted(key):
            return (*path, key)
        if found := _find_leaf(value, is_wanted, (*path, key)):
            return found
    return ()


def _merge(index: CompiledRevision, verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield one verdict for all that say the same of one line in a file that the objects are not defined in."""
    groups: dict[object, list[Verdict]] = {}
    for position, verdict in enumerate(verdicts):
        path = _path(index, verdict)
        source = index.sources[path] if path in index.desired else verdict.place.path  # `sources` is not built for few
        is_elsewhere = source != verdict.place.path and verdict.result is not Result.EXCEPTED
        same = (verdict.rule, verdict.result, verdict.cluster, verdict.place, verdict.message, verdict.hint)
        groups.setdefault(same if is_elsewhere else position, []).append(verdict)
    for first, *others in groups.values():
        more = f" (and {plural(len(others), 'more object')})" if others else ""
        yield replace(first, message=first.message + more, cause=UNSET)
