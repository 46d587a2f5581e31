"""Render a revision without Git."""

from reconciler.app.workspace import Workspace
from reconciler.core.problems import Severity
from reconciler.errors import InvalidInput


def render(workspace: Workspace) -> dict[str, bytes]:
    """Return all manifests by path in the repository. Raises `InvalidInput` if a source file has errors."""
    head = workspace.compile(writes=True)
    errors = [problem for problem in head.problems() if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors)
    contents = head.contents(sorted(head.rows))
    return {f"{head.config.rendered}/{path}": content for path, content in contents.items()}
