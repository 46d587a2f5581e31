"""The summary of a rendered object in a plan: its identity, GPUs, queue, quotas and references.

Cross-document rules and the GPU figures of a plan work on these summaries alone, so that an unchanged object is never
parsed again. Rendered objects and those that `rendered/` held before are summarized by the same function.
"""

from reconciler.kinds.facts import Quota, Reference
from reconciler.kinds.summary.object_summary import Demand, NodeMatch, ObjectSummary, Uncounted
from reconciler.kinds.summary.summarize import summarize

__all__ = ["Demand", "NodeMatch", "ObjectSummary", "Quota", "Reference", "Uncounted", "summarize"]
