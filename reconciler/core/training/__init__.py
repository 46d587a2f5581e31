"""Training jobs of all kinds: where in a document the line stands that starts a training, and how many pods run it."""

from reconciler.core.training.container import Container
from reconciler.core.training.job import Kind, Pods, TrainingJob, allows_product, named_product, requested_gpus
from reconciler.core.training.place import word_place
from reconciler.core.training.reading import is_training_kind, training_job
from reconciler.core.training.selection import is_done, is_selected, is_watched

__all__ = [
    "Container",
    "Kind",
    "Pods",
    "TrainingJob",
    "allows_product",
    "is_done",
    "is_selected",
    "is_training_kind",
    "is_watched",
    "named_product",
    "requested_gpus",
    "training_job",
    "word_place",
]
