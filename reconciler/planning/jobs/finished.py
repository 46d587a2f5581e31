"""Jobs that have ended stay in `rendered/` as they ran, with a mark: what changes in their sources runs nothing again.

The head's own `rendered/` says what ran, so `plan`, `commit` and `verify` compute the same.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reconciler.core.manifests.finished import RULE, mark_finished
from reconciler.core.objects import ObjectKey
from reconciler.core.problems import Problem, Severity
from reconciler.core.reasons import Origin
from reconciler.index.build import CompiledRevision, Runtime
from reconciler.index.compile import RenderedObject, serialize_object
from reconciler.index.renderer import Renderer
from reconciler.planning.baseline import Baseline
from reconciler.revision.revision import LoadedRevision

if TYPE_CHECKING:
    from reconciler.core.evidence.runs import FinishedRun


def settle_finished(runtime: Runtime, index: CompiledRevision, own: Baseline) -> CompiledRevision:
    """Return the index in which the objects of finished jobs are those of the head's own `rendered/`, with the mark."""
    ended = index.context.finished()
    paths = [path for path in ended if path in index.desired and own.versions.get(path, "") != index.desired[path]]
    paths = [path for path in paths if path in own.versions]
    paths = [path for path, found in own.objects(paths).items() if found.is_owned]
    if not paths:
        return index
    renderer = Renderer(runtime, index)
    settled = {path: _settle(index, renderer.object(path), own, path, ended[path]) for path in paths}
    digests = {path: one.summary.digest for path, one in settled.items()}
    return replace(
        index,
        rendered=replace(index.rendered, desired={**index.desired, **digests}),
        contents={**index.contents, **{path: one.content for path, one in settled.items()}},
        settled=settled,
    )


def _settle(
    index: CompiledRevision, rendered: RenderedObject, own: Baseline, path: str, run: "FinishedRun"
) -> RenderedObject:
    body = own.body(path) or rendered.manifest.body
    document = index.context.evidence.runs[rendered.manifest.cluster].document
    origin = None if document is None else Origin(document=document, field=run.origin)
    return serialize_object(index.context, mark_finished(rendered.manifest, body, run.mark, origin))


def unused_edits(index: CompiledRevision, before: LoadedRevision) -> Iterator[Problem]:
    """Warn of edited jobs that have ended: the edit runs nothing."""
    old, new = before.files.sources, index.revision.files.sources
    ended = index.context.finished()
    for path, one in sorted(index.settled.items()):
        source = index.sources[path]
        if old.get(source) != new[source] and source in old and not _is_as_rendered(index, path):
            yield _unused(one.manifest.key, one, ended[path], index)


def _is_as_rendered(index: CompiledRevision, path: str) -> bool:
    """Return whether what ran is what the source renders now."""
    record = index.records[index.sources[path]]
    blobs = dict(zip(record.paths, record.blobs, strict=True))
    return blobs[path] == index.settled[path].summary.digest


def _unused(key: ObjectKey, one: RenderedObject, run: "FinishedRun", index: CompiledRevision) -> Problem:
    document = index.context.evidence.runs[one.manifest.cluster].document
    recorded = f" ({document.at(run.origin)})" if document is not None else ""
    return Problem(
        rule=RULE,
        place=one.manifest.source,
        message=f"{key} has ended ({run.mark}), so the edit has no effect",
        hint=f"give the job another name to run it again, or remove its record{recorded}",
        severity=Severity.WARNING,
    )
