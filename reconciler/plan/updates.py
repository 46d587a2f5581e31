"""Changed objects, each compared with what it replaces; policies are evaluated for updates."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.index.build import CompiledRevision
from reconciler.index.compile import problem_of
from reconciler.index.context import Context
from reconciler.index.evaluator import PolicyEvaluator
from reconciler.index.renderer import Renderer
from reconciler.index.workers import WorkerPool, in_parallel
from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.problems import Problem
from reconciler.kube.secrets import mask_findings
from reconciler.plan.baseline import Baseline
from reconciler.plan.comparison import NO_CAUSES, Causes, Comparison, compare
from reconciler.policy.verdict import Verdict


class Update(Struct, frozen=True, array_like=True):
    """One changed object: the differences, and what policies say about an update (`PolicyFindings`)."""

    comparison: Comparison
    verdicts: tuple[Verdict, ...] = ()
    exceeded: tuple[Verdict, ...] = ()


def accepted_by_server(update: Update) -> Update:
    """Return an update that a live server has accepted in a dry run: it knows better which fields may change."""
    return replace(update, comparison=replace(update.comparison, frozen=(), broken=(), recreated=""))


_decoder = msgspec.msgpack.Decoder(dict[str, Update])
_MAX_AT_ONCE = 1_200
"""Source files that the same workers compare: their memory grows with each file that they read."""


def compare_updates(
    workers: WorkerPool,
    index: CompiledRevision,
    renderer: Renderer,
    baseline: Baseline,
    replaced: Mapping[str, str],
    *,
    causes: Causes = NO_CAUSES,
) -> dict[str, Update]:
    """Return the update of each path; `replaced` holds the existing path that it replaces, mostly the same.

    An object that replaces one of another path is a creation, which policies were evaluated for. Worker processes share
    the work where it is much; no body is kept.
    """
    groups = renderer.group(replaced)
    sources = list(groups)
    evaluator = PolicyEvaluator(index.context.policies)

    def compare_files(chosen: list[str]) -> list[dict[str, Update]]:
        compiled = zip(chosen, renderer.compile(chosen), strict=True)
        updates = [(source, path, objects[path].manifest) for source, objects in compiled for path in groups[source]]
        manifests = [(path, replaced[path], manifest) for _, path, manifest in updates]
        found = _compare(index.context, baseline, evaluator, causes, manifests)
        by_source: dict[str, dict[str, Update]] = {source: {} for source in chosen}
        for (source, path, _), update in zip(updates, found, strict=True):
            by_source[source][path] = update
        return list(by_source.values())

    updates: dict[str, Update] = {}
    with workers.progress("comparing", len(sources)) as advance:
        for start in range(0, len(sources), _MAX_AT_ONCE):
            batch = sources[start : start + _MAX_AT_ONCE]

            def work(positions: range, batch: list[str] = batch) -> list[bytes]:
                return [encode_updates(found) for found in compare_files([batch[position] for position in positions])]

            results = in_parallel(work, len(batch), processes=workers.processes, advance=advance)
            for source, raw in zip(batch, results, strict=True):
                updates.update(_decoder.decode(raw) if raw else compare_files([source])[0])
    return updates


def refused_creations(index: CompiledRevision, renderer: Renderer, paths: Iterable[str]) -> tuple[Problem, ...]:
    """Return what rules refuse in new objects that also compare an object with what it replaces."""
    catalogue = index.context.catalogue
    keys = {path: (summary.key.group, summary.key.kind) for path, summary in index.summaries(paths).items()}
    judged = {kind for kind in set(keys.values()) if catalogue.judges_creations(*kind)}
    created = [renderer.object(path).manifest for path, kind in keys.items() if kind in judged]
    found = (problem_of(manifest, broken) for manifest in created for broken in catalogue.initial(manifest.body))
    return mask_findings(found, (manifest.body for manifest in created))


def encode_updates(updates: Mapping[str, Update]) -> bytes:
    """Encode for the way from a worker; empty where a number has over 64 bits: the parent compares those itself."""
    try:
        return msgspec.msgpack.encode(updates)
    except (OverflowError, ValueError):
        return b""


def _compare(
    context: Context,
    baseline: Baseline,
    evaluator: PolicyEvaluator,
    causes: Causes,
    manifests: Sequence[tuple[str, str, Manifest]],
) -> list[Update]:
    """Compare objects, given by their paths after and before."""
    subjects = [context.subject(manifest, baseline.body(old)) for _, old, manifest in manifests]
    updated = [subject for (path, old, _), subject in zip(manifests, subjects, strict=True) if path == old]
    evaluations = iter(evaluator.evaluate(updated))
    return [
        Update(
            compare(
                context.kinds, context.catalogue, subject.old, subject.manifest, causes.of_object(subject.manifest, old)
            ),
            *(next(evaluations) if path == old else ()),
        )
        for (path, old, _), subject in zip(manifests, subjects, strict=True)
    ]
