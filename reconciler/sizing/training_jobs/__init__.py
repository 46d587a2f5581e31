"""Training jobs of all kinds as one value: the container that starts the training, and the pods that run it."""

from reconciler.sizing.training_jobs.container import Container
from reconciler.sizing.training_jobs.gpus import allows_product, binds_all_pods, named_product, requested_gpus
from reconciler.sizing.training_jobs.job import JobFormat, TrainingJob, TrainingPods, word_place
from reconciler.sizing.training_jobs.labels import is_done, is_watched
from reconciler.sizing.training_jobs.reader import JobReader, Launches

__all__ = [
    "Container",
    "JobFormat",
    "JobReader",
    "Launches",
    "TrainingJob",
    "TrainingPods",
    "allows_product",
    "binds_all_pods",
    "is_done",
    "is_watched",
    "named_product",
    "requested_gpus",
    "word_place",
]
