"""Desired against existing: the plan, its reasons, its meaning in GPUs, its budgets and its digest."""

from reconciler.core.plan.plan import (
    Breach,
    CapacityLine,
    Change,
    FieldChange,
    GpuLine,
    JobChange,
    Operation,
    Plan,
    QueueLine,
    Revision,
    Risk,
)
from reconciler.core.policy.exceptions import ExceptionInForce

__all__ = [
    "Breach",
    "CapacityLine",
    "Change",
    "ExceptionInForce",
    "FieldChange",
    "GpuLine",
    "JobChange",
    "Operation",
    "Plan",
    "QueueLine",
    "Revision",
    "Risk",
]
