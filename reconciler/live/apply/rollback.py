"""Restore the sources of an earlier revision, as one commit on top of HEAD."""

from collections.abc import Sequence

from msgspec import Struct

from reconciler.errors import ConfigError, InvalidInput
from reconciler.kube.objects import SourceRef
from reconciler.kube.problems import Problem
from reconciler.kube.values import plural
from reconciler.plan.workspace import Workspace
from reconciler.repo.config import Config
from reconciler.repo.port import Draft, Repository, Tree


class RolledBack(Struct, frozen=True, kw_only=True):
    """The new commit (empty: the sources are the same), the revision whose sources it restores, and the files."""

    oid: str
    restored: str
    files: tuple[str, ...] = ()


def roll_back(workspace: Workspace, revision: str, paths: Sequence[str] = (), *, message: str = "") -> RolledBack:
    """Commit the source files of an earlier revision on top of HEAD. `paths` are the files and folders to restore.

    Settings, policies, evidence and approvals stay as they are: a rollback must not weaken what judges it, and evidence
    tells what is measured now. `rendered/` follows with the next `reconciler commit`.
    """
    repository, head = workspace.repository, workspace.tree.commit
    if head is None:
        raise ConfigError("there is no commit to roll back from", hint="commit your changes first")
    target = repository.resolve(revision)
    before, after = (_sources(repository, oid, workspace.config) for oid in (head.oid, target.oid))
    known = before.keys() | after.keys()
    unknown = [path for path in paths if not any(_is_within(one, path) for one in known)]
    if unknown:
        text = f"{', '.join(unknown)}: no source file, neither now nor in {revision}"
        raise ConfigError(text, hint="name files or folders below spec.sources, from the root of the repository")
    if not after:
        folders = ", ".join(workspace.config.sources)
        raise ConfigError(f"{revision} has no source files in {folders}", hint="name a revision that has them")
    if paths:
        before, after = (
            {path: entry for path, entry in tree.items() if any(_is_within(path, one) for one in paths)}
            for tree in (before, after)
        )
    strange = sorted(path for path, entry in after.items() if not entry.is_file)
    if strange:
        text = "is not a regular file and cannot be restored"
        raise InvalidInput([Problem(rule="file.kind", place=SourceRef(path=path), message=text) for path in strange])
    restored = [path for path, entry in after.items() if before.get(path) != entry]
    contents = dict(zip(restored, repository.read([after[path].oid for path in restored]), strict=True))
    files: dict[str, bytes | None] = {**contents, **dict.fromkeys(before.keys() - after.keys())}
    if not files:
        return RolledBack(oid="", restored=target.oid)
    where = f" in {', '.join(paths)}" if paths else ""
    subject = f"Roll back{where} to {target.oid[:12]}: {target.subject}"[:100]
    text = message or f"{subject}\n\nRestores {plural(len(files), 'source file')} of {target.oid}."
    made = repository.commit(Draft(parent=head.oid, files=files, message=text))
    return RolledBack(oid=made or "", restored=target.oid, files=tuple(sorted(files)))


def _is_within(path: str, folder: str) -> bool:
    """Return whether a path is a file, or lies in a folder; `.` is the root."""
    wanted = folder.removeprefix("./").rstrip("/")
    return wanted in {"", "."} or path == wanted or path.startswith(f"{wanted}/")


def _sources(repository: Repository, commit: str, config: Config) -> Tree:
    return repository.tree(commit, config.sources)
