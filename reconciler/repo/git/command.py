"""Running git without hooks, filters, prompts, pagers or network, and finding the repository around a folder."""

import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import ConfigError, RepositoryError, printable
from reconciler.processes import kill_after, scratch_file

MARKER = "reconciler.yaml"
DEADLINE_SECONDS = 120.0  # for a git that hangs: a dead network file system, a named pipe as .gitignore
LISTING_BYTES = 64 << 20  # a listing of about half a million files; a longer one is rejected
KEPT_VARIABLES = ("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_EXEC_PATH")

_FACTS = (
    "--show-toplevel",
    "--absolute-git-dir",
    "--git-common-dir",
    "--show-object-format",
    "--is-shallow-repository",
)

# Settings with which a repository's own configuration could run programs, use the network or change an answer.
CONFIG = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.sshCommand", "false"),
    ("core.askPass", "false"),
    ("core.pager", "cat"),
    ("core.warnAmbiguousRefs", "true"),
    ("credential.helper", ""),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    ("commit.gpgSign", "false"),
    ("log.showSignature", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
)
ENVIRONMENT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",  # this also stops a lazy fetch before git 2.44
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}
HINTS = (
    ("not a git repository", "run `git init`, or name the repository with --repo DIR"),
    ("dubious ownership", "the folder belongs to another user: `git config --global --add safe.directory DIR`"),
    ("must be run in a work tree", "this is a bare repository: clone it and work in the clone"),
    (
        ".lock': File exists",
        "another git command is running; wait for it, or remove the lock if it is left from a crash",
    ),
    ("No space left", "free some disk space"),
    ("corrupt", "objects are damaged: see `git fsck`, or clone again"),
    ("upstream", "name the branch itself, such as refs/remotes/origin/main"),
    ("ould not read", "objects are missing: see `git fsck`, or clone again"),
    ("unable to read", "objects are missing: see `git fsck`, or clone again"),
    ("promisor remote", "objects are missing: `git fetch --refetch`"),
    ("bad object", "objects are missing: see `git fsck`, or clone again"),
)


class Git(Struct, frozen=True, kw_only=True):
    """The git program in one folder. `environ` is the user's environment; `config` is added to the hardening."""

    folder: Path
    environ: Mapping[str, str]
    config: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Git({self.folder})"  # an environment may hold secrets

    def with_config(self, *config: tuple[str, str]) -> "Git":
        """Return the same with more settings."""
        return replace(self, config=(*self.config, *config))

    def run(self, *arguments: str, data: Iterable[bytes] = (), accept: Sequence[int] = (0,)) -> bytes:
        """Return the output. Raises `RepositoryError` with git's own reason on any other exit code."""
        with self.stream(*arguments, data=data, accept=accept) as output:
            return read_listing(output)

    def run_as_user(self, *arguments: str, accept: Sequence[int] = (0,)) -> bytes:
        """Run git with the user's own configuration: for reading settings and nothing else."""
        with self.stream(*arguments, accept=accept, as_user=True) as output:
            return read_listing(output)

    def query(self, *arguments: str) -> str | None:
        """Return the one line that git prints; None if it answers no (exit code 1)."""
        text = self.run(*arguments, accept=(0, 1)).decode("utf-8", "surrogateescape")
        return text.rstrip("\n") or None

    @contextmanager
    def stream(
        self, *arguments: str, data: Iterable[bytes] = (), accept: Sequence[int] = (0,), as_user: bool = False
    ) -> Iterator[IO[bytes]]:
        """Start git and yield its output; afterwards check its exit code."""
        with scratch_file() as errors, ExitStack() as stack:
            stdin: IO[bytes] | int = subprocess.DEVNULL
            if data:  # from a file: git may write before it has read everything, and a pipe would deadlock
                stdin = stack.enter_context(scratch_file())
                stdin.writelines(data)
                stdin.seek(0)
            process = self._start(*arguments, stdin=stdin, stderr=errors, as_user=as_user)
            assert process.stdout is not None  # noqa: S101 - a pipe
            with kill_after(process, DEADLINE_SECONDS):
                with process.stdout as output:
                    yield output
                code = process.wait()
            if code not in accept:
                errors.seek(0)
                raise _failure(arguments[0], code, errors.read(65536))

    def _start(
        self, *arguments: str, stdin: IO[bytes] | int, stderr: IO[bytes], as_user: bool
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                ["git", *arguments],
                cwd=self.folder,
                env=self._user_environment() if as_user else self.hardened_environment(),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        except FileNotFoundError as error:
            if self.folder.is_dir():
                raise RepositoryError("git was not found", hint="install git 2.38 or newer") from error
            raise RepositoryError(f"{self.folder}: no such folder") from error
        except OSError as error:
            raise RepositoryError(f"git could not be started in {self.folder}: {error.strerror}") from error

    def hardened_environment(self) -> dict[str, str]:
        """Return the user's environment without any variable that controls git, and with our settings."""
        kept = {
            name: value
            for name, value in self.environ.items()
            if name in KEPT_VARIABLES or not name.startswith(("GIT_", "LC_", "LANGUAGE", "SSH_ASKPASS"))
        }
        settings = {"GIT_CONFIG_COUNT": str(len(CONFIG) + len(self.config))}
        for number, (name, value) in enumerate((*CONFIG, *self.config)):
            settings[f"GIT_CONFIG_KEY_{number}"] = name
            settings[f"GIT_CONFIG_VALUE_{number}"] = value
        return kept | ENVIRONMENT | settings

    def _user_environment(self) -> dict[str, str]:
        """Return the user's environment without any variable that names another repository."""
        location = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_TRACE")
        environ = {name: value for name, value in self.environ.items() if not name.startswith(location)}
        return environ | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}


def read_listing(output: IO[bytes]) -> bytes:
    """Read a listing to its end. Raises `RepositoryError` over `LISTING_BYTES`."""
    chunks: list[bytes] = []
    size = 0
    while chunk := output.read(1 << 20):
        chunks.append(chunk)
        size += len(chunk)
        if size > LISTING_BYTES:
            hint = "name fewer source folders in reconciler.yaml"
            raise RepositoryError("the repository has too many files", hint=hint)
    return b"".join(chunks)


def _failure(verb: str, code: int, errors: bytes) -> RepositoryError:
    """Return the error of a failed git, with the first of its lines that gives the reason."""
    if code == -signal.SIGKILL:
        return RepositoryError(f"git {verb} was killed, or did not finish within {DEADLINE_SECONDS:g} seconds")
    lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    reasons = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    reason = (reasons or lines or [f"exit code {code}" if code >= 0 else f"ended by signal {-code}"])[0]
    hint = next((hint for sign, hint in HINTS if any(sign in line for line in lines)), "")
    return RepositoryError(
        f"git {verb}: {printable(reason.removeprefix('fatal: ').removeprefix('error: '))}", hint=hint
    )


# --- filters ------------------------------------------------------------------------------------------------------


def without_filters(git: Git) -> Git:
    """Return git with every configured filter switched off, and with the user's own file of ignored patterns.

    Filters are programs that git runs to compare a file with its blob.
    """
    settings: dict[str, str] = {}
    question = ("config", "--null", "--get-regexp", r"^(filter\..*|core\.excludesfile)$")
    listing = git.run_as_user(*question, accept=(0, 1))  # 1: nothing matches
    for item in listing.decode("utf-8", "surrogateescape").split("\0"):
        name, _, value = item.partition("\n")
        if name == "core.excludesfile":
            home = git.environ.get("HOME", "~")
            settings[name] = home + value[1:] if value.startswith("~/") else value
        elif name:
            driver = name.rpartition(".")[0]
            settings |= {f"{driver}.{part}": "" for part in ("clean", "smudge", "process")}
            settings[f"{driver}.required"] = "false"
    return git.with_config(*settings.items())


def without_merge_drivers(git: Git) -> Git:
    """Return git whose merges run no program: a file with a driver of its own has a conflict if both sides edit it."""
    question = ("config", "--null", "--name-only", "--get-regexp", r"^merge\..*\.driver$")
    names = git.run(*question, accept=(0, 1)).decode("utf-8", "surrogateescape")  # 1: nothing matches
    drivers = ((name, "false") for name in names.split("\0") if name)
    return git.with_config(("merge.default", "text"), ("merge.renormalize", "false"), *drivers)


# --- the repository around a folder -------------------------------------------------------------------------------


class RepositoryLocation(Struct, frozen=True, kw_only=True):
    """`top` holds `.git`; `prefix` (empty, or ending in a slash) leads from there to the config repo's root."""

    git: Git
    top: Path
    git_dir: Path
    prefix: str
    object_format: str
    is_shallow: bool

    @property
    def root(self) -> Path:
        """The folder that holds `reconciler.yaml`; the top if no folder does."""
        return self.top / self.prefix

    def to_top(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        """Return paths below the root as paths below the top. No path, an empty one and `.` mean the root itself."""
        if not paths or {"", "."} & {*paths}:
            return (self.prefix.rstrip("/"),) if self.prefix else ()
        return tuple(self.prefix + path.rstrip("/") for path in paths)


def locate(folder: Path, environ: Mapping[str, str]) -> RepositoryLocation:
    """Find the repository around `folder`. Raises `RepositoryError` if there is none, or none that can be trusted."""
    git = Git(folder=folder, environ=environ)
    try:
        answer = git.run("rev-parse", *_FACTS)
    except RepositoryError as error:
        if "not a git repository" in error.message:
            raise RepositoryError(f"{folder} is not in a Git repository", hint=error.hint) from error
        if "dubious ownership" not in error.message:
            raise
        git = git.with_config(*_safe_directories(git))
        answer = git.run("rev-parse", *_FACTS)
    lines = answer.decode("utf-8", "surrogateescape").splitlines()
    if len(lines) != len(_FACTS):
        raise RepositoryError(f"{printable(str(folder))}: the path of the repository contains a line break")
    top, git_dir = Path(lines[0]), Path(lines[1])
    _check_worktree(folder, top, git_dir)
    return RepositoryLocation(
        git=Git(folder=top, environ=environ, config=git.config),
        top=top,
        git_dir=git_dir,
        prefix=_prefix(folder.resolve(), top),
        object_format=lines[3],
        is_shallow=lines[4] == "true",
    )


def _safe_directories(git: Git) -> tuple[tuple[str, str], ...]:
    """Return `safe.directory` as the user and the machine set it; a repository cannot set it for itself."""
    values: list[tuple[str, str]] = []
    for scope in ("--system", "--global"):
        output = git.run_as_user("config", scope, "--null", "--get-all", "safe.directory", accept=(0, 1, 128))
        values += [("safe.directory", text.decode("utf-8", "surrogateescape")) for text in output.split(b"\0") if text]
    return tuple(values)


def _check_worktree(folder: Path, top: Path, git_dir: Path) -> None:
    """Reject a `kube.worktree` that points the working tree at another folder."""
    hint = "unset core.worktree in the repository's configuration"
    if not folder.resolve().is_relative_to(top):
        raise RepositoryError(f"the working tree of {folder} is elsewhere, at {top}", hint=hint)
    link = top / ".git"
    if link.is_file():
        target = link.read_text("utf-8", "surrogateescape").removeprefix("gitdir:").strip()
        expected = (top / target).resolve()
    else:
        expected = link.resolve()
    if expected != git_dir.resolve():
        raise RepositoryError(f"{top} is not the working tree of {git_dir}", hint=hint)


def _prefix(folder: Path, top: Path) -> str:
    for candidate in (folder, *folder.parents):
        if candidate == top:
            break
        if (candidate / MARKER).is_file():
            return candidate.relative_to(top).as_posix() + "/"
    return ""


def branch_ref(git: Git, name: str) -> str:
    """Return the full name of a branch. Raises `ConfigError` if git does not allow the name."""
    ref = f"refs/heads/{name}"
    is_plain = name.isprintable() and not name.startswith("-") and name != "HEAD"
    if not is_plain or git.query("check-ref-format", "--normalize", ref) != ref:
        raise ConfigError(f"{printable(name)!r} is not a valid branch name", hint="see `git help check-ref-format`")
    return ref
