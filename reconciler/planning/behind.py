"""Whether the base branch has moved since the merge base, so that the plan is not that of the merge."""

from reconciler.core.plan.plan import Behind
from reconciler.ports import Repository
from reconciler.revision.files import read_paths
from reconciler.revision.revision import LoadedRevision

_MAX_NAMES = 20


def find_behind(repository: Repository, head: LoadedRevision, base: LoadedRevision) -> Behind | None:
    """Return what the base branch changed since the merge base; None if nothing that a plan reads."""
    start, tip = base.tree.commit, base.tree.branch_tip
    if start is None or tip is None or start.oid == tip.oid:
        return None
    changed = repository.changed(start.oid, tip.oid, read_paths(base.config))
    if not changed:
        return None
    prefix = f"{base.config.rendered}/"
    both = sorted(path for path in changed if _blob(head, path, prefix) != _blob(base, path, prefix))
    return Behind(
        commit=tip.oid,
        files=len(changed),
        rendered=sum(path.startswith(prefix) for path in changed),
        both=tuple(both[:_MAX_NAMES]),
        more=max(0, len(both) - _MAX_NAMES),
    )


def _blob(revision: LoadedRevision, path: str, prefix: str) -> str | None:
    files = revision.files
    if path.startswith(prefix):
        return files.rendered.get(path.removeprefix(prefix))
    return next((role[path] for role in files.written if path in role), None)
