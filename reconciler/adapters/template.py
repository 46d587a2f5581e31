"""A new config repository: the shipped template on disk, in Git by the user's own configuration."""

import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reconciler.errors import ConfigError, OutsideError


class Made(Struct, frozen=True, kw_only=True):
    """What `init` left: number of files, why there is no first commit (empty: there is one), and what to type next.

    `inside` is where the new folder lies in a repository that was there before; empty at its top.
    """

    files: int
    uncommitted: str
    inside: str
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
    uncommitted, inside = _commit(folder)
    enter = () if folder.resolve() == Path.cwd() else (f"cd {shlex.quote(str(folder))}",)
    add = ('git add . && git commit -m "GPU fleet"',) if uncommitted else ()
    edit = () if uncommitted else ("$EDITOR jobs/vision/vit.yaml",)
    commands = (*enter, *add, *edit, "reconciler plan", "reconciler verify")[:3]
    return Made(files=len(contents), uncommitted=uncommitted, inside=inside, next_commands=commands)


def _commit(folder: Path) -> tuple[str, str]:
    """Make a repository with a first commit, unless the folder lies in one; say why none was made, and where it is."""
    from git import Repo  # noqa: PLC0415 - costs 56 ms, and `init` alone needs it
    from git.exc import GitCommandError, GitError, InvalidGitRepositoryError  # noqa: PLC0415 - the same

    try:
        around = Repo(folder, search_parent_directories=True)
    except InvalidGitRepositoryError:
        pass
    else:
        top = Path(around.working_dir).resolve()
        return "the folder lies in a repository of yours", folder.resolve().relative_to(top).as_posix().strip(".")
    try:
        repository = Repo.init(folder, initial_branch="main")
        repository.git.add("--all")
        repository.git.commit("--quiet", "--message", "GPU fleet: queues, jobs, policies, evidence, rendered")
    except GitError as error:
        # No identity, or a hook that refuses: the files are there, and the user is told to commit them.
        said = str(error.stderr) if isinstance(error, GitCommandError) else str(error)
        return f"git refused: {_last_line(said)}", ""
    return "", ""


def _last_line(said: str) -> str:
    lines = [line.strip(" '\n") for line in said.splitlines() if line.strip(" '\n")]
    return lines[-1] if lines else "it gave no reason"
