"""People's decisions about one node as a commit: release it, or say that it was repaired."""

from collections.abc import Sequence

from reconciler.app.health.quarantine_files import HealthSources, removed_file, staged_file
from reconciler.app.workspace import Workspace
from reconciler.core.health.quarantine import Stage
from reconciler.errors import ConfigError
from reconciler.outputs.commit import ENGINE, SOURCE_COMMIT, Committed, commit
from reconciler.version import __version__


def release(workspace: Workspace, sources: Sequence[HealthSources], node: str) -> Committed | None:
    """Delete the quarantine of a node, and commit that."""
    return _decide(workspace, sources, node, is_released=True)


def declare_repaired(workspace: Workspace, sources: Sequence[HealthSources], node: str) -> Committed | None:
    """Ask for the validation of a repaired node, and commit that: a deep test that passes proposes its release."""
    return _decide(workspace, sources, node, is_released=False)


def _decide(
    workspace: Workspace, sources: Sequence[HealthSources], node: str, *, is_released: bool
) -> Committed | None:
    head = workspace.tree.commit
    if head is None:
        raise ConfigError("the quarantine exists only in the working tree", hint="commit it first")
    files: dict[str, bytes | None] = {}
    known = False
    for one in sources:
        quarantine = one.quarantines.get(node)
        if quarantine is not None:
            known = True
            files |= removed_file(one, quarantine) if is_released else staged_file(one, quarantine, Stage.VALIDATE)
    if not known:
        names = sorted({name for one in sources for name in one.quarantines})
        shown = ", ".join(names[:5]) or "none"
        raise ConfigError(f"no NodeQuarantine for node {node!r}", hint=f"quarantined in this repository: {shown}")
    if is_released and not files:
        raise ConfigError(
            f"the file with the quarantine of {node} contains other documents, too", hint="remove the document by hand"
        )
    if not files:
        return None
    what = f"release {node}" if is_released else f"{node} was repaired; validate it"
    return commit(
        workspace.runtime.repository,
        files=files,
        message=f"Node health: {what}",
        trailers={SOURCE_COMMIT: head.oid, ENGINE: __version__},
        expected_head=head.oid,
    )
