"""One source file through all stages: bytes and context in; manifests, problems and verdicts out. Pure.

`compile_file` is what the cache remembers, what the workers run, and what `explain` looks into: a file that did not
change, in a context that did not change, is never compiled again.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha1, sha256
from typing import Any

from msgspec import Struct, field

from reconciler.core.config import Cluster
from reconciler.core.documents import Document, read, write
from reconciler.core.kinds.torchrun.intent import TorchrunJob, TorchrunQueue, job_intent, queue_intent
from reconciler.core.kinds.torchrun.render import Rendered, render_job, render_queue
from reconciler.core.launch import is_configuration
from reconciler.core.manifests.manifest import Manifest
from reconciler.core.manifests.ownership import own
from reconciler.core.manifests.plain import render_plain
from reconciler.core.manifests.size import size_problems
from reconciler.core.objects import SourceRef, format_path
from reconciler.core.policy.verdict import Verdict
from reconciler.core.problems import Parsed, Problem, Severity
from reconciler.core.summary import ObjectSummary, summarize
from reconciler.index.context import ANY_QUEUE, CONTEXT_KINDS, Context
from reconciler.index.sizing import (
    is_sized,
    needs_of,
    outdated,
    size,
    unwritten,
    was_sized,
    with_note,
    writes_source,
)
from reconciler.revision.layout import selects

_TORCHRUN_GROUP = "torchrun.ai"
_OWN_GROUP = "gpureconciler.io"
_KUSTOMIZE_GROUP = "kustomize.config.k8s.io"


class Rendering(Struct, frozen=True, kw_only=True):
    """A manifest, its bytes as committed, and its row."""

    manifest: Manifest
    content: bytes
    row: ObjectSummary


class Compiled(Struct, frozen=True, kw_only=True):
    """All that one source file means. `needs` names what its jobs refer to: queues, cards on offer, files.

    `held` are paths of jobs that wait for an answer: whatever is rendered there stays as it is.
    """

    renderings: tuple[Rendering, ...] = ()
    problems: tuple[Problem, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    needs: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    documents: int = 0


def compile_file(context: Context, path: str, raw: bytes) -> Compiled:
    """Compile one source file. Problems of one document do not hide the manifests of the others."""
    return compile_files(context, [(path, raw)])[0]


def compile_files(context: Context, files: Iterable[tuple[str, bytes]], *, judged: bool = True) -> list[Compiled]:
    """Compile files that have nothing to do with each other, all of them stage by stage.

    A stage that runs again and again stays in the processor's caches: a quarter less time than file by file. If they
    are not to be `judged`, no policy is asked.
    """
    drafts = [_Draft(path=path, raw=raw) for path, raw in files]
    for stage in (_read, _check, _render, _check_rendered, _write, *([_judge] if judged else [])):
        for draft in drafts:
            stage(context, draft)
    return [draft.compiled() for draft in drafts]


class _Draft(Struct, kw_only=True):
    """A file on its way through the stages; each adds what the next one needs."""

    path: str
    raw: bytes
    problems: list[Problem] = field(default_factory=list)
    documents: tuple[Document, ...] = ()
    sound: list[Document] = field(default_factory=list)
    manifests: list[tuple[Manifest, Document]] = field(default_factory=list)
    renderings: list[Rendering] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    needs: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)

    def compiled(self) -> Compiled:
        return Compiled(
            renderings=tuple(self.renderings),
            problems=tuple(dict.fromkeys(self.problems)),
            verdicts=tuple(self.verdicts),
            needs=tuple(sorted(self.needs)),
            held=tuple(sorted(self.held)),
            documents=len(self.documents),
        )


def _read(_: Context, draft: _Draft) -> None:
    reading = read(draft.path, draft.raw)
    draft.documents = reading.documents
    draft.problems += reading.problems


def _check(context: Context, draft: _Draft) -> None:
    for document in draft.documents:
        if is_configuration(document.data):  # read by those whose launch line names it, never rendered
            continue
        found = _document_problems(context, document, draft.raw)
        draft.problems += found
        if not any(problem.severity is Severity.ERROR for problem in found):
            draft.sound.append(document)


def _render(context: Context, draft: _Draft) -> None:
    for document in draft.sound:
        for cluster in _selecting(context, document):
            made = _sized(context, document, cluster, draft) if is_sized(document, cluster) else None
            if made is None and was_sized(document, cluster):
                draft.needs.update(needs_of(document, cluster))
                draft.problems += outdated(context, document, cluster)
            manifests = _rendered(context, document, cluster, draft) if made is None else made
            draft.manifests += ((manifest, document) for manifest in manifests)


def _check_rendered(context: Context, draft: _Draft) -> None:
    for manifest, document in draft.manifests:
        if _is_intent(document) or manifest.sizing is not None:
            draft.problems += _body_problems(context, manifest)


def _write(context: Context, draft: _Draft) -> None:
    for manifest, document in draft.manifests:
        kind = context.kinds.find(manifest.key.group, manifest.key.kind)
        rendering = _rendering(context, own(manifest, document, is_shared=kind.is_shared))
        draft.renderings.append(rendering)
        draft.problems += size_problems(rendering.manifest, rendering.content, data_limit=kind.data_limit)


def _judge(context: Context, draft: _Draft) -> None:
    for rendering in draft.renderings:
        manifest = rendering.manifest
        namespace = context.namespaces.get((manifest.cluster, manifest.key.namespace))
        draft.verdicts += context.policies.evaluate(manifest, old=None, namespace=namespace)


_RENDERED_KINDS = frozenset({"TorchrunQueue", "TorchrunJob"})


def blob_id(content: bytes, object_format: str) -> str:
    """Return the id that Git gives to a file of this content (sha1 or sha256 of a header and the bytes)."""
    digest = sha256 if object_format == "sha256" else sha1
    return digest(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _rendering(context: Context, manifest: Manifest) -> Rendering:
    content = write(manifest.body)
    return Rendering(
        manifest=manifest,
        content=content,
        row=summarize(
            context.kinds,
            cluster=manifest.cluster,
            body=manifest.body,
            path=context.kinds.manifest_path(manifest.cluster, manifest.key),
            digest=blob_id(content, context.object_format),
            source=manifest.source,
        ),
    )


def _document_problems(context: Context, document: Document, raw: bytes) -> Sequence[Problem]:
    group = document.group
    if group == _OWN_GROUP:
        hint = "reconciler.yaml lies at the root, evidence and exceptions in folders of their own"
        message = f"a {document.kind or 'document of this group'} does not belong among the sources"
        return [Problem(rule="layout.kind", place=document.source, field="kind", message=message, hint=hint)]
    if group == _KUSTOMIZE_GROUP:
        message = "Kustomize is not run on sources: each file is read by itself"
        hint = "write what `kustomize build` prints, or keep the overlay outside the source folders"
        return [Problem(rule="layout.kustomize", place=document.source, field="kind", message=message, hint=hint)]
    problems = list(context.catalogue.validate(document))
    if document.kind in CONTEXT_KINDS and document.kind.encode() not in raw:
        place = document.at(("kind",))
        message = "the kind is written with escapes, which hides it from other files"
        problems.append(
            Problem(rule="yaml.escaped-kind", place=place, field="kind", message=message, hint="write it plainly")
        )
    if not any(_selecting(context, document)) and not _selected_elsewhere(context, document):
        problems.append(
            Problem(
                rule="config.unselected",
                place=document.source,
                message="no cluster selects this document, so nothing is rendered from it",
                hint="see `clusters[].select` in reconciler.yaml",
                severity=Severity.WARNING,
            )
        )
    return problems


def _selecting(context: Context, document: Document) -> Iterator[Cluster]:
    labels = document.metadata.get("labels")
    return (cluster for cluster in context.clusters if selects(cluster, document.source.path, labels))


def _selected_elsewhere(context: Context, document: Document) -> bool:
    labels = document.metadata.get("labels")
    return any(selects(cluster, document.source.path, labels) for cluster in context.config.clusters)


def _is_intent(document: Document) -> bool:
    return document.kind in _RENDERED_KINDS and document.group == _TORCHRUN_GROUP


def _plain(context: Context, document: Document, cluster: Cluster) -> Iterator[Manifest]:
    yield render_plain(document, cluster, namespaced=_is_namespaced(context, document))


def _is_namespaced(context: Context, document: Document) -> bool:
    namespaced = context.catalogue.is_namespaced(document.group, document.kind)
    return bool(document.metadata.get("namespace")) if namespaced is None else namespaced


def _intent(context: Context, parsed: Parsed[Any], cluster: Cluster, draft: _Draft) -> Iterator[Manifest]:
    draft.problems += parsed.problems
    if parsed.intent is not None:
        rendered = _render_intent(context, parsed.intent, cluster, draft.needs)
        draft.problems += rendered.problems
        yield from rendered.manifests


def _sized(context: Context, document: Document, cluster: Cluster, draft: _Draft) -> list[Manifest] | None:
    """Render a job with its numbers; None: it trains nothing that we know of. One that waits keeps what is there."""
    from reconciler.core.sized import sized_manifest, sized_torchrun_job, stamped  # noqa: PLC0415 - few need it

    draft.needs.update(needs_of(document, cluster))
    job = None if writes_source(cluster) else size(context, document, cluster)
    if job is None and not writes_source(cluster):
        return None
    draft.problems += (unwritten(document),) if job is None else job.problems
    if job is None or job.sized is None:
        held = _rendered(context, document, cluster, draft)
        draft.held.update(context.kinds.manifest_path(manifest.cluster, manifest.key) for manifest in held)
        return []
    if _is_intent(document):
        made = _intent(context, sized_torchrun_job(job.sized), cluster, draft)
        return [with_note(context.kinds, stamped(manifest, job.sized), job) for manifest in made]
    namespaced = _is_namespaced(context, document)
    return [with_note(context.kinds, sized_manifest(job.sized, cluster, namespaced=namespaced), job)]


def _rendered(context: Context, document: Document, cluster: Cluster, draft: _Draft) -> Iterator[Manifest]:
    if not _is_intent(document):
        return _plain(context, document, cluster)
    parsed = queue_intent(document) if document.kind == "TorchrunQueue" else job_intent(document)
    return _intent(context, parsed, cluster, draft)


def _render_intent(
    context: Context, intent: TorchrunQueue | TorchrunJob, cluster: Cluster, needs: set[str]
) -> Rendered:
    inventory = context.inventories.get(cluster.name)
    if isinstance(intent, TorchrunQueue):
        return render_queue(intent, cluster, inventory)
    needs.add(intent.queue)
    namespace = intent.namespace or cluster.namespace
    queue = context.queues.get((cluster.name, namespace, intent.queue))
    if queue is not None:
        return render_job(intent, queue.intent, cluster, inventory, known_queues=(intent.queue,))
    needs.add(ANY_QUEUE)
    known = sorted(name for (at, where, name) in context.queues if (at, where) == (cluster.name, namespace))
    return render_job(intent, None, cluster, inventory, known_queues=tuple(known))


def _body_problems(context: Context, manifest: Manifest) -> Iterator[Problem]:
    """Say of a rendered object what the API server would say, at the source of the offending value."""
    for finding in context.catalogue.findings(manifest.body):
        why = manifest.why(finding.path)
        place: SourceRef = why.places[0] if why.places else manifest.source
        yield Problem(
            rule=finding.rule,
            place=place,
            field=why.fields[0] if why.fields else "",
            message=f"{manifest.key.kind} {format_path(finding.path)}: {finding.message}",
            hint=finding.hint,
            severity=finding.severity,
        )
