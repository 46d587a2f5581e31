"""CEL as in Kubernetes 1.36: check expressions, compose programs, evaluate them."""

from reconciler.core.policy.cel.environment import CompileError, activation, check, named_type
from reconciler.core.policy.cel.program import CelProgram, Clause, EvaluationError, ProgramCache, compose

__all__ = [
    "CelProgram",
    "Clause",
    "CompileError",
    "EvaluationError",
    "ProgramCache",
    "activation",
    "check",
    "compose",
    "named_type",
]
