"""Which documents are sized: the protocol of the autoconf controller's labels, read from files.

A source keeps its watch label for ever, and what is rendered from it carries the done label besides; a document that
is done already (rendered by somebody, or sized in place) is taken as it is.
"""

from reconciler.core.config import SizedKind, SizingSettings
from reconciler.core.documents import Document
from reconciler.core.training.reading import is_training_kind


def is_selected(document: Document, settings: SizingSettings, namespace: str = "", *, again: bool = False) -> bool:
    """Whether a document is to be sized; `namespace` is that of the cluster, for a document that names none.

    `again`: whether or not it is done.
    """
    if not is_training_kind(document) or (is_done(document, settings) and not again):
        return False
    labels = document.metadata.get("labels")
    return settings.selects(
        SizedKind(document.kind.lower()),
        document.key.namespace or namespace,
        labels if isinstance(labels, dict) else {},
    )


def is_done(document: Document, settings: SizingSettings) -> bool:
    """Whether the done label says that the job was sized.

    Its value counts, not only its key: with Kueue's queue name as the key, `fake` waits and the real queue is done.
    """
    labels = document.metadata.get("labels")
    return isinstance(labels, dict) and labels.get(settings.labels.done_key) == settings.labels.done_value


def is_watched(document: Document, settings: SizingSettings) -> bool:
    """Whether the watch label itself asks for sizing: then a line that nobody understands is an error.

    Without it (all jobs are sized) a job that trains nothing is none of sizing's business.
    """
    labels = document.metadata.get("labels")
    return isinstance(labels, dict) and labels.get(settings.select.label_key) == settings.select.label_value
