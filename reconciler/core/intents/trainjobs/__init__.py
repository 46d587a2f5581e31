"""Training jobs of all kinds: where in a document the line stands that starts a training, and how many pods run it."""

from reconciler.core.intents.trainjobs.container import Container
from reconciler.core.intents.trainjobs.job import Kind, Pods, TrainingJob, allows_product, named_product, requested_gpus
from reconciler.core.intents.trainjobs.place import word_place
from reconciler.core.intents.trainjobs.reading import is_training_kind, training_job
from reconciler.core.intents.trainjobs.selection import is_done, is_selected, is_watched

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
