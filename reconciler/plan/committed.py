"""The `rendered/` of a revision, compared with what its sources render and with the base."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from reconciler.index.build import CompiledRevision
from reconciler.plan.baseline import Baseline
from reconciler.repo.config import Config
from reconciler.repo.files import BlobIds
from reconciler.repo.port import Repository, Tree
from reconciler.repo.revision import LoadedRevision


class CommittedEdits(Struct, frozen=True, kw_only=True):
    """Files of `rendered/` that a revision changes by hand.

    edited: neither what the base has nor what the sources render; paths below the root of the repository.
    lost: objects of the base that an annotation keeps, and that the revision removes; paths below the folder.
    """

    edited: tuple[str, ...] = ()
    lost: frozenset[str] = frozenset()


def committed_edits(  # noqa: PLR0917
    repository: Repository,
    index: CompiledRevision,
    base: LoadedRevision,
    own: Baseline,
    existing: Baseline,
    staying: frozenset[str],
) -> CommittedEdits:
    """Compare the head's own `rendered/` with its sources and the base, where the folder has the same name."""
    head, folder = index.revision, base.config.rendered
    if not (head.config.is_rendered and base.config.is_rendered):
        return CommittedEdits()
    commit = head.tree.commit
    if folder != head.config.rendered:
        after = repository.tree(commit.oid, (folder,)) if commit else repository.work_tree((folder,))
        return _find_in_old_folder(folder, base.files.rendered, after)
    return _find(head.config, own.versions, index.desired, existing, staying, is_commit=commit is not None)


def _find(
    config: Config,
    committed: BlobIds,
    desired: Mapping[str, str],
    existing: Baseline,
    waiting: Iterable[str],
    *,
    is_commit: bool,
) -> CommittedEdits:
    """Compare the committed files with the desired ones and with those that exist in the base.

    A file that the base has unchanged is not committed yet. A working tree may be between two commits, so that a file
    of it counts as edited only if the sources do not change the object. Objects that are `waiting` stay as they are.
    """
    before = existing.versions
    if committed is before or committed == before:
        return CommittedEdits()
    paths = [path for path, blob in committed.items() if before.get(path) != blob]
    paths += [path for path in before if path not in committed]
    stay = {path: blob for path in waiting if (blob := before.get(path))}
    kept = _kept([path for path in paths if path in before and path not in desired], existing, config)
    edited = []
    for path in paths:
        was, want = before.get(path), stay.get(path, desired.get(path))
        if committed.get(path) != want and (is_commit or want == was or path in kept):
            edited.append(f"{config.rendered}/{path}")
    return CommittedEdits(edited=tuple(sorted(edited)), lost=frozenset(path for path in kept if path not in committed))


def _find_in_old_folder(folder: str, before: BlobIds, after: Tree) -> CommittedEdits:
    """Compare what is left in the folder that the base renders to, where a revision renders to another one.

    A folder that is gone as a whole has moved, which is a change of settings; single files were edited.
    """
    old = {f"{folder}/{path}": blob for path, blob in before.items()}
    new = {path: entry.oid for path, entry in after.items()}
    edited = {path for path in (*old, *new) if old.get(path) != new.get(path)} if new else set()
    return CommittedEdits(edited=tuple(sorted(edited)))


def _kept(paths: list[str], existing: Baseline, config: Config) -> frozenset[str]:
    return frozenset(path for path, found in existing.objects(paths).items() if found.stays(config))
