"""Render a revision without Git."""

from reconciler.app.workspace import Workspace
from reconciler.core.documents import write
from reconciler.core.problems import Severity
from reconciler.core.secrets import SECRET_VALUES, masked_secret
from reconciler.errors import InvalidInput
from reconciler.index.build import CompiledRevision
from reconciler.index.renderer import Renderer
from reconciler.planning.findings import PlanFindings, fold_consequences


def render(workspace: Workspace) -> dict[str, bytes]:
    """Return all manifests by path in the repository. Raises `InvalidInput` if a source file has errors."""
    return _render(workspace)[0]


def render_masked(workspace: Workspace) -> tuple[dict[str, bytes], int]:
    """Do the same with masks in place of the values of Secrets, and count those Secrets."""
    contents, renderer, index = _render(workspace)
    masked = {}
    for path, summary in index.summaries(sorted(index.desired)).items():
        if workspace.runtime.kinds.find(summary.group, summary.kind).is_secret:
            body = renderer.object(path).manifest.body
            if any(body.get(field) for field in SECRET_VALUES):
                masked[f"{workspace.config.rendered}/{path}"] = write(masked_secret(body))
    return contents | masked, len(masked)


def _render(workspace: Workspace) -> tuple[dict[str, bytes], Renderer, CompiledRevision]:
    index = workspace.compile(keep_contents=True)
    found = PlanFindings(problems=index.problems(), verdicts=(), exceptions=())
    problems = fold_consequences(workspace.runtime, index, found).problems
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if errors:
        raise InvalidInput(errors)
    renderer = Renderer(workspace.runtime, index)
    contents = renderer.contents(sorted(index.desired))
    return {f"{workspace.config.rendered}/{path}": content for path, content in contents.items()}, renderer, index
