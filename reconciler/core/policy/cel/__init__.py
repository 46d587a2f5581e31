"""CEL as in Kubernetes 1.36: check expressions, build programs, evaluate them."""

from reconciler.core.policy.cel.access import LiveMap
from reconciler.core.policy.cel.checker import Checked, CompileError, Declarations, check
from reconciler.core.policy.cel.evaluator import build
from reconciler.core.policy.cel.program import Activation, Program
from reconciler.core.policy.cel.types import CelType, type_of
from reconciler.core.policy.cel.values import CelError

__all__ = [
    "Activation",
    "CelError",
    "CelType",
    "Checked",
    "CompileError",
    "Declarations",
    "LiveMap",
    "Program",
    "build",
    "check",
    "type_of",
]
