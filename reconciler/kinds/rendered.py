"""The result of rendering one document: manifests, and problems. Problems are collected, never raised."""

from msgspec import Struct

from reconciler.kinds.manifests.manifest import Manifest
from reconciler.kube.objects import SourceRef, format_path
from reconciler.kube.problems import Problem, Severity
from reconciler.kube.reasons import Traced


class Rendered(Struct, frozen=True, kw_only=True):
    """Manifests of one document for one cluster. With an error among the problems there are no manifests."""

    manifests: tuple[Manifest, ...] = ()
    problems: tuple[Problem, ...] = ()


def problem_at(
    value: Traced, rule: str, message: str, hint: str = "", *, severity: Severity = Severity.ERROR
) -> Problem:
    """Return a problem at the place where `value` was written."""
    origin = value.reason.origins[0]
    return Problem(
        rule=rule, place=place(value), field=format_path(origin.field), message=message, hint=hint, severity=severity
    )


def place(value: Traced) -> SourceRef:
    """Return the place where `value` was written."""
    origin = value.reason.origins[0]
    return origin.document.at(origin.field)


def has_errors(problems: list[Problem]) -> bool:
    """Return whether an error is among the problems."""
    return any(problem.severity is Severity.ERROR for problem in problems)
