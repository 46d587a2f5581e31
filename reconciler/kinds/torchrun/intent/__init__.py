"""`TorchrunQueue` and `TorchrunJob` (`torchrun.ai/v1alpha1`): documents in, typed intents or problems out."""

from reconciler.kinds.torchrun.intent.job import TorchrunJob, job_intent
from reconciler.kinds.torchrun.intent.queue import TorchrunQueue, queue_intent
from reconciler.kinds.torchrun.intent.sections import SourceKind, WorkspaceSource

__all__ = ["SourceKind", "TorchrunJob", "TorchrunQueue", "WorkspaceSource", "job_intent", "queue_intent"]
