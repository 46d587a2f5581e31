"""CEL as Kubernetes 1.36 speaks it: check an expression, compose a program, evaluate it."""

from reconciler.core.policy.cel.checker import Fault, check
from reconciler.core.policy.cel.program import EvaluationError, Part, Program, compose
from reconciler.core.policy.cel.programs import Programs

__all__ = ["EvaluationError", "Fault", "Part", "Program", "Programs", "check", "compose"]
