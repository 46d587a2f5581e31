"""`Sized`: a job's document with its numbers in place, and how it becomes a manifest."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.core.config import Cluster
from reconciler.core.documents import Document
from reconciler.core.kinds.kind import Kind, Kinds
from reconciler.core.manifests.manifest import Manifest
from reconciler.core.manifests.plain import render_plain
from reconciler.core.problems import Parsed, Problem
from reconciler.core.reasons import Reason, Reasons, Traced
from reconciler.core.sized.draft import Draft


class Sized(Struct, frozen=True, kw_only=True, eq=False):
    """What a decision makes of a document: its whole data, and the reason of every value that changed.

    With an error among the problems the data is the document's own: nothing is changed by halves.
    """

    document: Document
    data: dict[str, Any]
    reasons: Reasons
    problems: tuple[Problem, ...] = ()


def finished(draft: Draft, warnings: tuple[Problem, ...] = ()) -> Sized:
    """Return what a draft has become."""
    return Sized(document=draft.document, data=draft.body, reasons=draft.reasons, problems=warnings)


def unchanged(document: Document, problems: tuple[Problem, ...]) -> Sized:
    """Return the document as it is, with what keeps it from being sized."""
    return Sized(document=document, data=document.data, reasons={}, problems=problems)


def sized_manifest(sized: Sized, cluster: Cluster, *, namespaced: bool) -> Manifest:
    """Render a sized document for `cluster` like any plain object; what changed has its reasons."""
    rendered = render_plain(_document(sized), cluster, namespaced=namespaced)
    return replace(rendered, reasons={**rendered.reasons, **sized.reasons})


def sized_intent(kind: Kind, sized: Sized) -> Parsed[Any]:
    """Parse a sized document again, so that its family renders the numbers; changed values have their reasons."""
    if kind.parse is None:
        return Parsed(intent=None)
    parsed = kind.parse(_document(sized))
    if parsed.intent is None:
        return parsed
    fields = {name: getattr(parsed.intent, name) for name in parsed.intent.__struct_fields__}
    changed = {name: _retrace(value, sized.reasons) for name, value in fields.items()}
    return Parsed(intent=replace(parsed.intent, **changed), problems=parsed.problems)


def stamp(kinds: Kinds, manifest: Manifest, sized: Sized) -> Manifest:
    """Return the workload of a rendered job with the labels and annotations that sizing gave to the job.

    Labels that rendering set (Kueue's queue) stay; other objects of the job come back as they are.
    """
    if manifest.key.name != sized.document.key.name or kinds.pod_sets(manifest.body) is None:
        return manifest
    metadata = dict(manifest.body["metadata"])
    reasons = dict(manifest.reasons)
    for path, reason in sized.reasons.items():
        if len(path) == len(("metadata", "labels", "key")) and path[0] == "metadata":
            section, key = str(path[1]), str(path[2])
            value = sized.data["metadata"].get(section, {}).get(key)
            entries = metadata.get(section) or {}
            if value is not None and key not in entries:
                metadata[section] = {**entries, key: value}
                reasons[path] = reason
    return replace(manifest, body={**manifest.body, "metadata": metadata}, reasons=reasons)


def _document(sized: Sized) -> Document:
    """Return the document with its new data; places stay those of the file."""
    return replace(sized.document, data=sized.data)


def _retrace(value: Any, reasons: Reasons) -> Any:
    if isinstance(value, tuple):
        return tuple(_retrace(item, reasons) for item in value)
    if not isinstance(value, Traced) or not value.reason.origins:
        return value
    reason: Reason | None = reasons.get(value.reason.origins[0].field)
    return value if reason is None else Traced(value.value, reason)
