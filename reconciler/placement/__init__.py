"""Placement: on which nodes workloads will run, as a forecast. Nothing here binds a pod.

In: the evidence about the nodes of a cluster and what runs on them, and the jobs of a change. Out: nodes for each job,
or why there are none. To read: `space` (what is free, and who gets it), `strategies` (which node is preferred), `jobs`
and `fleet` (what evidence and manifests say), `placing` (jobs, whole or not at all), `outlook` (before and after).
"""

from reconciler.placement.fleet import PlacementEvidence
from reconciler.placement.jobs import PodAsk, PodSite, QueuedJob
from reconciler.placement.outlook import Intent, Outlook, outlook
from reconciler.placement.placing import ClusterPlacement, JobPlacement
from reconciler.placement.strategies import STRATEGIES

__all__ = [
    "STRATEGIES",
    "ClusterPlacement",
    "Intent",
    "JobPlacement",
    "Outlook",
    "PlacementEvidence",
    "PodAsk",
    "PodSite",
    "QueuedJob",
    "outlook",
]
