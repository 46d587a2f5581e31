"""Training jobs of all kinds as one value: the container that starts the training, and the pods that run it."""

from reconciler.core.training.container import Container
from reconciler.core.training.gpus import allows_product, binds_all_pods, named_product, requested_gpus
from reconciler.core.training.job import JobFormat, Pods, TrainingJob, word_place
from reconciler.core.training.labels import is_done, is_watched
from reconciler.core.training.reader import JobReader, Launches

__all__ = [
    "Container",
    "JobFormat",
    "JobReader",
    "Launches",
    "Pods",
    "TrainingJob",
    "allows_product",
    "binds_all_pods",
    "is_done",
    "is_watched",
    "named_product",
    "requested_gpus",
    "word_place",
]
