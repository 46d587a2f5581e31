"""Changes of the working tree that a plan of HEAD does not include."""

from reconciler.app.workspace import Workspace
from reconciler.core.config import Config
from reconciler.errors import printable
from reconciler.revision.files import read_paths


def is_source(config: Config, path: str) -> bool:
    """Return whether a plan reads a file as input: sources, policies, evidence and settings, without `rendered/`."""
    roots = (root for root in read_paths(config) if root != config.rendered)
    return any(path == root or path.startswith(f"{root}/") for root in roots)


def uncommitted_changes(workspace: Workspace) -> tuple[str, ...]:
    """Return a sentence for each file whose content differs from the commit that the workspace is open at."""
    commit = workspace.tree.commit
    changed = workspace.runtime.repository.changed_since(commit.oid if commit else None)
    paths = sorted(path for path in changed if is_source(workspace.config, path))
    return tuple(_sentence(path, is_deleted=changed[path] is None) for path in paths)


def _sentence(path: str, *, is_deleted: bool) -> str:
    if is_deleted:
        return f"the deletion of {printable(path)} is not committed, so it is not included"
    return f"{printable(path)} has changes that are not committed, so they are not included"
