"""Explain why an object, or one of its fields, has its value."""

from reconciler.app.lint import lint
from reconciler.app.plan import plan
from reconciler.app.workspace import Workspace
from reconciler.core.plan.explanation import Explanation
from reconciler.planning import explain as explaining


def explain(workspace: Workspace, name: str, field: str = "", *, base: str = "") -> Explanation:
    """Explain an object (`Kind/namespace/name`, `Kind/name` or a rendered path), or one of its fields.

    base: revision that objects and fields which the sources no longer define are looked up in.
    Raises `ConfigError` if the object or the field does not exist.
    """
    return explaining.explain(
        workspace.runtime,
        workspace.compile(),
        name,
        field,
        lint=lambda: lint(workspace),
        plan=lambda: plan(workspace, base=base).plan,
    )
