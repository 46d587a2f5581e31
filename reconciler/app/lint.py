"""Check a revision without comparing it."""

from reconciler.app.workspace import Workspace
from reconciler.core.plan import Plan
from reconciler.planning import planning


def lint(workspace: Workspace, *, date: str = "") -> Plan:
    """Check all files of a revision; the result is a plan without changes, with all problems and verdicts."""
    return planning.lint(workspace.compile(), date=date)
