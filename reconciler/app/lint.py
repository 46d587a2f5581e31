"""Check a revision without comparing it."""

from reconciler.app.workspace import Workspace
from reconciler.core.plan import Plan
from reconciler.planning.plan import lint_tree


def lint(workspace: Workspace, *, date: str = "") -> Plan:
    """Check all files of a revision; the result is a plan without changes, with all problems and verdicts."""
    return lint_tree(workspace.runtime, workspace.tree, workspace.config, date=date)
