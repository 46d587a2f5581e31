"""`TorchrunQueue` and `TorchrunJob` (`torchrun.ai/v1alpha1`): documents in, typed intents or problems out."""

from reconciler.core.intents.torchrun.fields import Parsed
from reconciler.core.intents.torchrun.job import TorchrunJob, job_intent
from reconciler.core.intents.torchrun.queue import TorchrunQueue, queue_intent
from reconciler.core.intents.torchrun.workspace import SourceKind, WorkspaceSource

__all__ = ["Parsed", "SourceKind", "TorchrunJob", "TorchrunQueue", "WorkspaceSource", "job_intent", "queue_intent"]
