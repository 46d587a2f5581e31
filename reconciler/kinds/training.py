"""From a document to its training job, or to the problems that keep it from being sized."""

from reconciler.kinds.kind import Kind, Kinds
from reconciler.kube.problems import Parsed
from reconciler.kube.values import metadata_map
from reconciler.kube.yaml import Document
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.training_jobs.job import TrainingJob
from reconciler.sizing.training_jobs.labels import is_done
from reconciler.sizing.training_jobs.reader import JobReader, Launches


def training_job(kinds: Kinds, document: Document, launches: Launches) -> Parsed[TrainingJob]:
    """Read the training job of a document that its schema has accepted.

    `launches` returns whether a container's words start a training. Without a job there is at least one problem, of
    rule `sizing.kind`, `sizing.wrapped`, `sizing.replica-specs`, `sizing.master`, `sizing.containers`,
    `sizing.worker-differs` or `sizing.shape`.
    """
    reader = JobReader(document, launches)
    if kinds.of(document.data).pods.components is not None:
        _enter_wrapper(kinds, reader)
    job = None if reader.problems else _read(kinds, reader)
    return Parsed(intent=None if reader.problems else job, problems=tuple(reader.problems))


def is_training_kind(kinds: Kinds, document: Document) -> bool:
    """Return whether a document is of a kind that can be sized; a wrapper is, whatever it wraps."""
    return _is_sized(kinds.of(document.data))


def training_kind_names(kinds: Kinds) -> tuple[str, ...]:
    """Return the names of the kinds that can be sized."""
    return tuple(kind.kind for kind in kinds.values() if _is_sized(kind))


def _is_sized(kind: Kind) -> bool:
    return kind.source.training is not None or (kind.pods.components is not None and not kind.pods.has_placeholders)


def is_selected(
    kinds: Kinds, document: Document, settings: SizingSettings, namespace: str = "", *, again: bool = False
) -> bool:
    """Return whether a document is to be sized; `again`: even if it is done.

    `namespace` is the cluster's, for documents without one.
    """
    if not is_training_kind(kinds, document) or (is_done(document, settings) and not again):
        return False
    labels = metadata_map(document.data, "labels")
    return settings.selects(document.kind.lower(), document.key.namespace or namespace, labels)


def _read(kinds: Kinds, reader: JobReader) -> TrainingJob | None:
    read = kinds.of(reader.mapping()).source.training
    if read is None:
        hint = f"kinds that can be sized: {', '.join(training_kind_names(kinds))}"
        message = f"{reader.get('kind')} is not a kind of training job"
        reader.problem("sizing.kind", (*reader.root, "kind"), message, hint)
        return None
    return read(reader)


def _enter_wrapper(kinds: Kinds, reader: JobReader) -> None:
    """Move to the only training job of a wrapper; other components (Services, volumes) do not matter."""
    components = kinds.of(reader.document.data).pods.components
    wrapped = () if components is None else components(reader.document.data)
    paths = [path for path, body in wrapped if kinds.of(body).source.training is not None]
    if len(paths) == 1:
        reader.root = paths[0]
        return
    path = paths[1] if paths else ("spec", "components")
    message = f"wraps {len(paths)} training jobs" if paths else "wraps no training job"
    reader.problem("sizing.wrapped", path, message, "keep exactly one training job in a wrapper that is sized")
