"""The plan: what changes from the existing objects to the desired ones, and why."""

from reconciler.core.plan.differences import differences
from reconciler.core.plan.digest import approval_digest, digest
from reconciler.core.plan.inputs import Inputs
from reconciler.core.plan.make import make_plan
from reconciler.core.plan.plan import (
    Approval,
    Behind,
    Breach,
    CapacityLine,
    Change,
    CostLine,
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
    Plan,
    QuarantineLine,
    QueueLine,
    Revision,
    Risk,
)
from reconciler.core.policy.exceptions import ExceptionInForce

__all__ = [
    "Approval",
    "Behind",
    "Breach",
    "CapacityLine",
    "Change",
    "CostLine",
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
    "Plan",
    "QuarantineLine",
    "QueueLine",
    "Revision",
    "Risk",
    "approval_digest",
    "differences",
    "digest",
    "make_plan",
]
