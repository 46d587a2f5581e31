"""The user's own checkout, by GitPython: the first commit of a new config repository, and pushes.

Unlike `repo.git`, which runs nothing that a repository configures, this runs the user's hooks and uses the user's
identity, signing key and configuration: it does what the user would otherwise type.
"""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from git import Repo
from git.exc import GitCommandError, GitError, InvalidGitRepositoryError
from msgspec import Struct

from reconciler.errors import RepositoryError, StalePlan
from reconciler.kube.secrets import mask_text

_MOVED = ("stale info", "fetch first", "cannot lock ref", "reference already exists", "remote ref does not exist")
_MESSAGE = "GPU fleet: queues, jobs, policies, evidence, rendered\n\nReconciler-Engine: {engine}\n"


class InitResult(Struct, frozen=True, kw_only=True):
    """The result of `init`: the number of files, why there is no first commit (empty: there is one), the next commands.

    `inside` is the path of the new folder in an existing repository; empty at the top of one. `unpublished` is the pin
    of a version that was installed from a folder, so that a package index may not have it.
    """

    files: int
    uncommitted: str
    inside: str
    next_commands: tuple[str, ...]
    unpublished: str = ""


def commit_new_folder(folder: Path, *, files: int, engine: str) -> InitResult:
    """Make a new folder a repository with a first commit, unless it is already inside a repository.

    The commit names the version of the engine that rendered the template, as later commits of `rendered/` do.
    """
    uncommitted, inside = _commit(folder, _MESSAGE.format(engine=engine))
    enter = () if folder.resolve() == Path.cwd() else (f"cd {shlex.quote(str(folder))}",)
    add = ('git add . && git commit -m "GPU fleet"',) if uncommitted else ()
    edit = () if uncommitted else ("$EDITOR jobs/vision/vit.yaml",)
    commands = (*enter, *add, *edit, "reconciler plan", "reconciler verify")[:3]
    return InitResult(files=files, uncommitted=uncommitted, inside=inside, next_commands=commands)


def remote_urls(folder: Path) -> tuple[str, ...]:
    """Return the URLs of the remotes of the repository around a folder."""
    with Repo(folder, search_parent_directories=True) as repo:
        return tuple(url for remote in repo.remotes for url in remote.urls)


def origin_url(folder: Path) -> str:
    """Return the URL of the remote `origin` of the repository around a folder; empty without one."""
    with Repo(folder, search_parent_directories=True) as repo:
        return next((remote.url for remote in repo.remotes if remote.name == "origin"), "")


def push(folder: Path, branch: str) -> str:
    """Push a branch to the remote `origin` as the user would, and return the URL without credentials.

    A branch that somebody else has pushed to is not overwritten. Raises `RepositoryError`.
    """
    with Repo(folder, search_parent_directories=True) as repo:
        _require_origin(repo)
        try:
            repo.git.push("--quiet", "--force-with-lease", "origin", f"refs/heads/{branch}:refs/heads/{branch}")
        except GitCommandError as error:
            raise RepositoryError(f"git push failed: {_last_line(error)}", hint=f"git push origin {branch}") from error
        return mask_text(repo.remotes["origin"].url)


def _require_origin(repo: Repo) -> None:
    if "origin" not in [remote.name for remote in repo.remotes]:
        raise RepositoryError("there is no remote origin to push to", hint="git remote add origin URL")


class CheckoutRemote:
    """The remote `origin` of a checkout, as the user reaches it. Only branches on the server are moved."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fetch(self, refs: Sequence[str]) -> Mapping[str, str]:
        """Fetch the commits of references, and return those that exist; no branch of the checkout moves."""
        lines = self._run("ls-remote", "origin", *refs).splitlines()
        found = {name: oid for oid, _, name in (line.partition("\t") for line in lines) if name in refs}
        if found:
            self._run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "origin", *found)
        return found

    def push(self, branch: str, commit: str, *, expected: str | None) -> None:
        """Push a commit if the branch is at `expected`; else raise `StalePlan`."""
        self._move(branch, commit, expected or "")

    def remove(self, branch: str, *, expected: str) -> None:
        """Remove a branch that is at `expected`; else raise `StalePlan`."""
        self._move(branch, "", expected)

    def _move(self, branch: str, commit: str, expected: str) -> None:
        ref = f"refs/heads/{branch}"
        try:
            self._run("push", "--quiet", f"--force-with-lease={ref}:{expected}", "origin", f"{commit}:{ref}")
        except RepositoryError as error:
            if any(words in error.message for words in _MOVED):
                raise StalePlan(f"branch {branch} moved during the push") from error
            raise

    def _run(self, verb: str, *arguments: str) -> str:
        with Repo(self._folder, search_parent_directories=True) as repo:
            _require_origin(repo)
            try:
                return str(getattr(repo.git, verb.replace("-", "_"))(*arguments))
            except GitCommandError as error:
                output = mask_text(" ".join(str(error.stderr).split()))
                raise RepositoryError(f"git {verb} failed: {_last_line(error)}: {output[:300]}") from error


def _last_line(error: GitError) -> str:
    output = str(error.stderr) if isinstance(error, GitCommandError) else str(error)
    output = output.strip().removeprefix("stderr: ")  # GitPython adds it, and quotes
    lines = [text for line in output.splitlines() if (text := line.strip(" '"))]
    return mask_text(lines[-1]) if lines else "it gave no reason"


def _commit(folder: Path, message: str) -> tuple[str, str]:
    """Return why nothing was committed (empty: it was), and the folder's path in an existing repository."""
    with suppress(InvalidGitRepositoryError):  # a new repository is made below
        top = Path(Repo(folder, search_parent_directories=True).working_dir).resolve()
        inside = folder.resolve().relative_to(top)
        return "the folder is inside an existing repository", inside.as_posix() if inside.parts else ""
    try:
        repository = Repo.init(folder, initial_branch="main")
        repository.git.add("--all")
        repository.git.commit("--quiet", "--message", message)
    except GitError as error:  # no identity, or a hook that rejects the commit: the user commits the files
        return f"git failed: {_last_line(error)}", ""
    return "", ""
