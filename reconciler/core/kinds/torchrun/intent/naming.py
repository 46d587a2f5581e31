"""Names and labels of torchrun documents, and which of them belong to the renderer."""

import re

from reconciler.core.kinds.torchrun.intent.fields import Fields
from reconciler.core.kinds.torchrun.intent.sections import Entries

DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
"""RFC 1035 label: what a Service, and so the host name of a pod, must be."""

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")

OWN_LABELS = frozenset(
    {
        "torchrun-job-name",
        "torchrun.ai/job-name",
        "torchrun.ai/job-queue",
        "torchrun.ai/job-id",
        "kai.scheduler/queue",
        "kueue.x-k8s.io/queue-name",
        "kueue.x-k8s.io/priority-class",
        "priorityClassName",
    }
)
"""Labels that say which job and queue an object belongs to: rendered from the job's own fields, never by hand."""


def identity(fields: Fields) -> tuple[str, str]:
    """Return name and namespace; a missing name is a problem."""
    key = fields.document.key
    if not key.name:
        fields.problem("torchrun.name", ("metadata", "name"), "is missing", "add metadata.name")
    return key.name, key.namespace


def check_labels(fields: Fields, labels: Entries) -> None:
    """Report labels that belong to the renderer, and values that no API server takes."""
    for key, value in labels:
        path = value.reason.origins[0].field
        if key in OWN_LABELS:
            fields.problem("torchrun.reserved-label", path, f"label {key!r} is derived from the job", "remove it")
        elif not LABEL_VALUE.fullmatch(value.value):
            hint = "use at most 63 letters, digits, `-`, `_` or `.`"
            fields.problem("torchrun.label", path, "is not a valid label value", hint)
