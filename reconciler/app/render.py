"""Render a revision without Git."""

from reconciler.app.workspace import Workspace
from reconciler.core.problems import Severity
from reconciler.errors import InvalidInput
from reconciler.index.build import Renderer


def render(workspace: Workspace) -> dict[str, bytes]:
    """Return all manifests by path in the repository. Raises `InvalidInput` if a source file has errors."""
    index = workspace.compile(keep_contents=True)
    errors = [problem for problem in index.problems() if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors)
    contents = Renderer(workspace.runtime, index).contents(sorted(index.desired))
    return {f"{workspace.config.rendered}/{path}": content for path, content in contents.items()}
