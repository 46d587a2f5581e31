"""The first commit of a new config repository, by the user's own git: hooks, signing and identity as they set them."""

import shlex
from contextlib import suppress
from pathlib import Path

from msgspec import Struct


class Made(Struct, frozen=True, kw_only=True):
    """What `init` left: number of files, why there is no first commit (empty: there is one), and what to type next.

    `inside` is where the new folder lies in a repository that was there before; empty at its top.
    """

    files: int
    uncommitted: str
    inside: str
    next_commands: tuple[str, ...]


def adopt(folder: Path, *, files: int) -> Made:
    """Make a repository of a new folder and its first commit, unless the folder lies in a repository already."""
    uncommitted, inside = _commit(folder)
    enter = () if folder.resolve() == Path.cwd() else (f"cd {shlex.quote(str(folder))}",)
    add = ('git add . && git commit -m "GPU fleet"',) if uncommitted else ()
    edit = () if uncommitted else ("$EDITOR jobs/vision/vit.yaml",)
    commands = (*enter, *add, *edit, "reconciler plan", "reconciler verify")[:3]
    return Made(files=files, uncommitted=uncommitted, inside=inside, next_commands=commands)


def _commit(folder: Path) -> tuple[str, str]:
    """Commit by GitPython, unless the folder lies in one; say why none was made, and where it is."""
    from git import Repo  # noqa: PLC0415 - costs 56 ms, and `init` alone needs it
    from git.exc import GitCommandError, GitError, InvalidGitRepositoryError  # noqa: PLC0415 - the same

    with suppress(InvalidGitRepositoryError):
        top = Path(Repo(folder, search_parent_directories=True).working_dir).resolve()
        inside = folder.resolve().relative_to(top)
        return "the folder lies in a repository of yours", inside.as_posix() if inside.parts else ""
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
