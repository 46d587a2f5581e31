"""The plan: what changes from the objects that exist to the desired ones, why, and whether it may happen.

In: two revisions, or a revision and a cluster. Out: a `Plan`. Read `planning` first (the main path), then `sides` and
`baseline` (what is compared), `differences`, `judging` and `risks` (what it means), and `plan` (the value). `live`
makes the objects of a cluster a baseline; `outputs` shows a plan, `use_cases` are what the commands call.
"""

from reconciler.plan.differences import differences
from reconciler.plan.digest import approval_digest, digest
from reconciler.plan.inputs import Inputs
from reconciler.plan.make import make_plan
from reconciler.plan.plan import (
    AdmissionLine,
    Behind,
    Breach,
    CapacityLine,
    Change,
    ClaimChange,
    CostLine,
    Displaced,
    Drift,
    EvidenceChange,
    FieldChange,
    GpuLine,
    Harm,
    JobChange,
    KeptSpec,
    LiveState,
    LiveVersion,
    Operation,
    PlacedWorkload,
    PlacementLine,
    Plan,
    QuarantineLine,
    QueueLine,
    Revision,
    Risk,
    UnknownGpus,
)
from reconciler.policy.approval import Approval
from reconciler.policy.exceptions import ExceptionInForce

__all__ = [
    "AdmissionLine",
    "Approval",
    "Behind",
    "Breach",
    "CapacityLine",
    "Change",
    "ClaimChange",
    "CostLine",
    "Displaced",
    "Drift",
    "EvidenceChange",
    "ExceptionInForce",
    "FieldChange",
    "GpuLine",
    "Harm",
    "Inputs",
    "JobChange",
    "KeptSpec",
    "LiveState",
    "LiveVersion",
    "Operation",
    "PlacedWorkload",
    "PlacementLine",
    "Plan",
    "QuarantineLine",
    "QueueLine",
    "Revision",
    "Risk",
    "UnknownGpus",
    "approval_digest",
    "differences",
    "digest",
    "make_plan",
]
