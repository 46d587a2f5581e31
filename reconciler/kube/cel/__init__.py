"""CEL as in Kubernetes 1.37: check expressions, build programs, evaluate them."""

from reconciler.kube.cel.access import LiveMap
from reconciler.kube.cel.checker import Checked, CompileError, Declarations, check
from reconciler.kube.cel.program import Activation, Program
from reconciler.kube.cel.translation import build
from reconciler.kube.cel.types import CelType, type_of
from reconciler.kube.cel.values import CelError

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
