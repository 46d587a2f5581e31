"""Where a repository is: found from any folder inside it, and believed only if the folder and `.git` agree."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reconciler.adapters.git.command import Git, printable
from reconciler.errors import RepositoryError

MARKER = "reconciler.yaml"
_QUESTIONS = (
    "--show-toplevel",
    "--absolute-git-dir",
    "--git-common-dir",
    "--show-object-format",
    "--is-shallow-repository",
)


class Location(Struct, frozen=True, kw_only=True):
    """`top` holds `.git`; `prefix` (empty, or ending in a slash) leads from there to the config repo's root."""

    git: Git
    top: Path
    git_dir: Path
    prefix: str
    object_format: str
    is_shallow: bool

    @property
    def root(self) -> Path:
        """The folder that holds `reconciler.yaml`, or the top where there is none."""
        return self.top / self.prefix

    def outer(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Paths below the root as paths below the top; none at all, `.` and nothing mean the root itself."""
        if not paths or {"", "."} & {*paths}:
            return (self.prefix.rstrip("/"),) if self.prefix else ()
        return tuple(self.prefix + path.rstrip("/") for path in paths)


def locate(folder: Path, environ: Mapping[str, str]) -> Location:
    """Find the repository around `folder`. Raises `RepositoryError` where there is none that can be trusted."""
    git = Git(folder=folder, environ=environ)
    try:
        answer = git.run("rev-parse", *_QUESTIONS)
    except RepositoryError as error:
        if "not a git repository" in error.message:
            raise RepositoryError(f"{folder} is not in a Git repository", hint=error.hint) from error
        if "dubious ownership" not in error.message:
            raise
        git = git.with_config(*_trusted(git))
        answer = git.run("rev-parse", *_QUESTIONS)
    lines = answer.decode("utf-8", "surrogateescape").splitlines()
    if len(lines) != len(_QUESTIONS):
        raise RepositoryError(f"{printable(str(folder))}: the path of the repository holds a line break")
    top, git_dir = Path(lines[0]), Path(lines[1])
    _check_agreement(folder, top, git_dir)
    return Location(
        git=Git(folder=top, environ=environ, config=git.config),
        top=top,
        git_dir=git_dir,
        prefix=_prefix(folder.resolve(), top),
        object_format=lines[3],
        is_shallow=lines[4] == "true",
    )


def _trusted(git: Git) -> tuple[tuple[str, str], ...]:
    """`safe.directory` as the user and the machine's owner set it: repositories cannot set it for themselves."""
    values: list[tuple[str, str]] = []
    for scope in ("--system", "--global"):
        code, output, _ = git.as_user("config", scope, "--null", "--get-all", "safe.directory")
        if code == 0:
            values += [
                ("safe.directory", text.decode("utf-8", "surrogateescape")) for text in output.split(b"\0") if text
            ]
    return tuple(values)


def _check_agreement(folder: Path, top: Path, git_dir: Path) -> None:
    """`core.worktree` in a hostile configuration could point the working tree at any folder of the machine."""
    hint = "unset core.worktree in the repository's configuration"
    if not folder.resolve().is_relative_to(top):
        raise RepositoryError(f"the working tree of {folder} is elsewhere, at {top}", hint=hint)
    link = top / ".git"
    if link.is_file():
        target = link.read_text("utf-8", "surrogateescape").removeprefix("gitdir:").strip()
        own = (top / target).resolve()
    else:
        own = link.resolve()
    if own != git_dir.resolve():
        raise RepositoryError(f"{top} is not the working tree of {git_dir}", hint=hint)


def _prefix(folder: Path, top: Path) -> str:
    for candidate in (folder, *folder.parents):
        if candidate == top:
            break
        if (candidate / MARKER).is_file():
            return candidate.relative_to(top).as_posix() + "/"
    return ""


def branch_ref(git: Git, name: str) -> str:
    """Return the full name of a branch. Raises `RepositoryError` where git allows no such name."""
    ref = f"refs/heads/{name}"
    plain = name.isprintable() and not name.startswith("-") and name != "HEAD"
    if not plain or git.ask("check-ref-format", "--normalize", ref) != ref:
        raise RepositoryError(f"{printable(name)!r} is no name for a branch", hint="see `git help check-ref-format`")
    return ref
