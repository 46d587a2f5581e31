"""The labels of the autoconf controller, read from files: which jobs are to be sized, and which already are.

A source keeps its watch label; what is rendered from it also has the done label. A document that is done already,
because it was rendered elsewhere or sized in place, is rendered as it is.
"""

from reconciler.kube.values import metadata_map
from reconciler.kube.yaml import Document
from reconciler.sizing.config import SizingSettings


def is_done(document: Document, settings: SizingSettings) -> bool:
    """Return whether the done label says that the job was sized.

    Its value counts, and not only its key: with Kueue's queue label as the key, `fake` waits and the real queue is
    done.
    """
    labels = metadata_map(document.data, "labels")
    return bool(labels.get(settings.labels.done_key) == settings.labels.done_value)


def is_watched(document: Document, settings: SizingSettings) -> bool:
    """Return whether the document has the watch label, so that a launch line that cannot be read is an error.

    If all jobs are sized, a job without the label may be something other than a training.
    """
    labels = metadata_map(document.data, "labels")
    return bool(labels.get(settings.select.label_key) == settings.select.label_value)
