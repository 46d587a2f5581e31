"""CEL as in Kubernetes 1.36: check expressions, build programs, evaluate them."""

from reconciler.core.cel.access import LiveMap
from reconciler.core.cel.checker import Checked, CompileError, Declarations, check
from reconciler.core.cel.program import Activation, Program
from reconciler.core.cel.translation import build
from reconciler.core.cel.types import CelType, type_of
from reconciler.core.cel.values import CelError

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
