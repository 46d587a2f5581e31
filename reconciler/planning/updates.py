"""Updated objects: each compared with what it replaces, and policies evaluated for the update."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from reconciler.core.plan.comparison import Comparison, compare
from reconciler.core.policy.verdict import Verdict
from reconciler.core.secrets import mask_findings
from reconciler.index.build import CompiledRevision, Renderer, Runtime
from reconciler.index.compile import RenderedObject
from reconciler.index.workers import in_parallel
from reconciler.planning.baseline import Baseline


class Update(Struct, frozen=True, array_like=True):
    """One updated object: the differences, and what policies say about the update."""

    comparison: Comparison
    verdicts: tuple[Verdict, ...]


_decoder = msgspec.msgpack.Decoder(dict[str, Update])


def compare_updates(
    runtime: Runtime, index: CompiledRevision, renderer: Renderer, baseline: Baseline, paths: Iterable[str]
) -> dict[str, Update]:
    """Return the update of each path. Worker processes share the work where it is much; no body is kept."""
    groups = renderer.group(paths)
    sources = list(groups)

    def work(positions: range) -> list[bytes]:
        chosen = [sources[position] for position in positions]
        compiled = zip(chosen, renderer.compile(chosen), strict=True)
        return [encode_updates(_compare(index, baseline, groups[source], objects)) for source, objects in compiled]

    updates: dict[str, Update] = {}
    with runtime.progress("comparing", len(sources)) as advance:
        results = in_parallel(work, len(sources), processes=runtime.processes, advance=advance)
        for source, raw in zip(sources, results, strict=True):
            updates.update(
                _decoder.decode(raw) if raw else _compare(index, baseline, groups[source], *renderer.compile([source]))
            )
    return updates


def encode_updates(updates: Mapping[str, Update]) -> bytes:
    """Encode for the way from a worker; empty where a number has over 64 bits: the parent compares those itself."""
    try:
        return msgspec.msgpack.encode(updates)
    except (OverflowError, ValueError):
        return b""


def _compare(
    index: CompiledRevision, baseline: Baseline, paths: Iterable[str], objects: Mapping[str, RenderedObject]
) -> dict[str, Update]:
    context = index.context
    updates = {}
    for path in paths:
        manifest, before = objects[path].manifest, baseline.body(path)
        namespace = context.namespaces.get((manifest.cluster, manifest.key.namespace))
        verdicts = context.policies.evaluate(manifest, old=before, namespace=namespace)
        updates[path] = Update(
            compare(context.kinds, context.catalogue, before, manifest),
            mask_findings(verdicts, [manifest.body, before or {}]),
        )
    return updates
