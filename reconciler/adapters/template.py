"""A new config repository: the shipped template on disk, in Git by the user's own configuration."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reconciler.errors import ConfigError, OutsideError


class Made(Struct, frozen=True, kw_only=True):
    """What `init` left: number of files, whether a first commit was made, and what to type next."""

    files: int
    committed: bool
    next_commands: tuple[str, ...]


def init(folder: Path, contents: Mapping[str, bytes]) -> Made:
    """Write `contents` into an empty or absent folder; outside any repository, make one and its first commit.

    GitPython runs the user's own git here, so that hooks, signing and identity are as the user set them. Raises
    `ConfigError` where the folder holds something, `OutsideError` where it cannot be written.
    """
    if folder.is_file() or (folder.is_dir() and any(entry.name != ".git" for entry in folder.iterdir())):
        raise ConfigError(f"{folder} is not empty", hint="name an empty or absent folder; nothing was written")
    try:
        for path, content in contents.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    except OSError as error:
        raise OutsideError(f"{folder} cannot be written: {error.strerror}", hint="choose another folder") from error
    committed = _commit(folder)
    enter = () if folder.resolve() == Path.cwd() else (f"cd {folder}",)
    add = () if committed else ('git add -A && git commit -m "GPU fleet"',)
    edit = ("$EDITOR jobs/vision/vit.yaml",) if committed else ()
    return Made(files=len(contents), committed=committed, next_commands=(*enter, *add, *edit, "reconciler plan")[:3])


def _commit(folder: Path) -> bool:
    """Make a repository with a first commit, unless the folder lies in one; False where no commit was made."""
    from git import Repo  # noqa: PLC0415 - costs 56 ms, and `init` alone needs it
    from git.exc import GitError, InvalidGitRepositoryError  # noqa: PLC0415 - the same

    try:
        Repo(folder, search_parent_directories=True)
    except InvalidGitRepositoryError:
        pass
    else:
        return False
    try:
        repository = Repo.init(folder, initial_branch="main")
        repository.git.add("--all")
        repository.git.commit("--quiet", "--message", "GPU fleet: queues, jobs, policies, evidence, rendered")
    except GitError:
        # No identity, or a hook that refuses: the files are there, and the user is told to commit them.
        return False
    return True
