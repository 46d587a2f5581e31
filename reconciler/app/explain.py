"""Explain why an object, or one of its fields, has its value."""

from reconciler.app.workspace import Workspace
from reconciler.core.plan.explanation import Explanation
from reconciler.planning import explain as explaining


def explain(workspace: Workspace, name: str, field: str = "") -> Explanation:
    """Explain an object (`Kind/namespace/name`, `Kind/name` or a rendered path), or one of its fields.

    Raises `ConfigError` if the object or the field does not exist.
    """
    return explaining.explain(workspace.runtime, workspace.compile(), name, field)
