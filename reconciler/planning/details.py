"""What a plan says of updated objects, judged and compared beside what they replace: by the workers where it pays."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec import Struct

from reconciler.core.plan.comparison import Comparison, compare
from reconciler.core.policy.verdict import Verdict
from reconciler.index.compile import Rendering
from reconciler.index.head import Head
from reconciler.index.workers import in_parallel
from reconciler.planning.existing import Existing


class Detail(Struct, frozen=True, array_like=True):
    """One updated object: the difference, and what policies say of the update."""

    comparison: Comparison
    verdicts: tuple[Verdict, ...]


_decoder = msgspec.msgpack.Decoder(dict[str, Detail])


def details(head: Head, existing: Existing, updated: Iterable[str]) -> dict[str, Detail]:
    """Return a detail for each updated path. Nothing that it was made from is kept."""
    groups = head.grouped(updated)
    sources = list(groups)

    def work(positions: range) -> list[bytes]:
        chosen = [sources[position] for position in positions]
        made = zip(chosen, head.compiled(chosen), strict=True)
        return [_encoded(_detailed(head, existing, groups[source], renderings)) for source, renderings in made]

    found: dict[str, Detail] = {}
    with head.tools.progress("comparing", len(sources)) as advance:
        results = in_parallel(work, len(sources), processes=head.tools.processes, advance=advance)
        for source, raw in zip(sources, results, strict=True):
            found.update(
                _decoder.decode(raw) if raw else _detailed(head, existing, groups[source], *head.compiled([source]))
            )
    return found


def _encoded(found: Mapping[str, Detail]) -> bytes:
    """Encode for the way to the parent; empty where a number does not fit, so that it does the work itself."""
    try:
        return msgspec.msgpack.encode(found)
    except (OverflowError, ValueError):
        return b""


def _detailed(
    head: Head, existing: Existing, paths: Iterable[str], renderings: Mapping[str, Rendering]
) -> dict[str, Detail]:
    return {path: _detail(head, existing, path, renderings[path]) for path in paths}


def _detail(head: Head, existing: Existing, path: str, rendering: Rendering) -> Detail:
    manifest, context = rendering.manifest, head.context
    before = existing.body(path)
    namespace = context.namespaces.get((manifest.cluster, manifest.key.namespace))
    catalogue = context.catalogue
    return Detail(
        compare(context.kinds, before, manifest, list_keys=catalogue.list_keys, is_quantity=catalogue.is_quantity),
        context.policies.evaluate(manifest, old=before, namespace=namespace),
    )
