"""Running git: fixed argument lists and a scrubbed environment; no hook, filter, prompt, pager or network."""

import io
import os
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import RepositoryError

DEADLINE_SECONDS = 120.0  # a git that hangs (a dead network file system, a named pipe as .gitignore) is killed
_PATIENCE_SECONDS = 5.0
LISTING_BYTES = 64 << 20  # a listing of about half a million files; more is refused instead of filling the memory
KEPT = ("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_EXEC_PATH")

# What a repository's own configuration could use to run programs, reach the network or change an answer.
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
    "GIT_ALLOW_PROTOCOL": "",  # also what stops a lazy fetch before git 2.44
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",
}
HINTS = (
    ("not a git repository", "run `git init`, or name the repository with --repo DIR"),
    ("dubious ownership", "the folder belongs to another user: `git config --global --add safe.directory DIR`"),
    ("must be run in a work tree", "this is a bare repository: clone it and work in the clone"),
    (".lock': File exists", "another git is at work here; wait for it, or remove the lock if it is left from a crash"),
    ("No space left", "free some disk space"),
    ("corrupt", "objects are damaged: see `git fsck`, or clone again"),
    ("upstream", "name the branch itself, such as refs/remotes/origin/main"),
    ("ould not read", "objects are missing: see `git fsck`, or clone again"),
    ("unable to read", "objects are missing: see `git fsck`, or clone again"),
    ("bad object", "objects are missing: see `git fsck`, or clone again"),
)


class Git(Struct, frozen=True, kw_only=True):
    """How to run git in one folder. `environ` is the user's environment; `config` is added to the hardening."""

    folder: Path
    environ: Mapping[str, str]
    config: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"Git({self.folder})"  # an environment may hold secrets

    def with_config(self, *config: tuple[str, str]) -> "Git":
        """Return the same with more settings."""
        return replace(self, config=(*self.config, *config))

    def run(self, *arguments: str, data: Iterable[bytes] = (), accept: Sequence[int] = (0,)) -> bytes:
        """Return what git prints. Raises `RepositoryError` with git's own reason on any other exit code."""
        with self.stream(*arguments, data=data, accept=accept) as output:
            return read_all(output)

    def ask(self, *arguments: str) -> str | None:
        """Return one line that git prints, or None if it answers no (exit code 1)."""
        text = self.run(*arguments, accept=(0, 1)).decode("utf-8", "surrogateescape")
        return text.rstrip("\n") or None

    @contextmanager
    def stream(self, *arguments: str, data: Iterable[bytes] = (), accept: Sequence[int] = (0,)) -> Iterator[IO[bytes]]:
        """Start git and give its output to be read; afterwards judge its exit code."""
        with scratch() as errors, ExitStack() as stack:
            given: IO[bytes] | int = subprocess.DEVNULL
            if data:  # through a file: git may answer before it has read all, and nobody waits for the other
                given = stack.enter_context(scratch())
                given.writelines(data)
                given.seek(0)
            process = self.start(*arguments, stdin=given, stderr=errors)
            timer = threading.Timer(DEADLINE_SECONDS, process.kill)
            timer.daemon = True  # an interrupt may come before it can be cancelled
            try:
                timer.start()
                assert process.stdout is not None  # noqa: S101  # asked for by `start`
                with process.stdout as output:
                    yield output
                code = process.wait()
            finally:
                timer.cancel()
                end(process)
            if code not in accept:
                errors.seek(0)
                raise failure(arguments[0], code, errors.read(65536))

    def start(
        self,
        *arguments: str,
        stdin: IO[bytes] | int,
        stderr: IO[bytes],
        stdout: IO[bytes] | int = subprocess.PIPE,
        as_user: bool = False,
    ) -> subprocess.Popen[bytes]:
        """Start the process itself; `as_user` as the method of this name tells."""
        try:
            return subprocess.Popen(
                ["git", *arguments],
                cwd=self.folder,
                env=self.of_user() if as_user else self.hardened(),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        except FileNotFoundError as error:
            if self.folder.is_dir():
                raise RepositoryError("git was not found", hint="install git 2.38 or newer") from error
            raise RepositoryError(f"{self.folder}: no such folder") from error
        except OSError as error:
            raise RepositoryError(f"git could not be started in {self.folder}: {error.strerror}") from error

    def hardened(self) -> dict[str, str]:
        """Give the user's environment without anything that steers git, and with our settings."""
        scrubbed = {
            name: value
            for name, value in self.environ.items()
            if name in KEPT or not name.startswith(("GIT_", "LC_", "LANGUAGE", "SSH_ASKPASS"))
        }
        settings = {"GIT_CONFIG_COUNT": str(len(CONFIG) + len(self.config))}
        for number, (name, value) in enumerate((*CONFIG, *self.config)):
            settings[f"GIT_CONFIG_KEY_{number}"] = name
            settings[f"GIT_CONFIG_VALUE_{number}"] = value
        return scrubbed | ENVIRONMENT | settings

    def of_user(self) -> dict[str, str]:
        """Give the user's environment without anything that says where the repository is."""
        location = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_TRACE")
        environ = {name: value for name, value in self.environ.items() if not name.startswith(location)}
        return environ | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}

    def as_user(self, *arguments: str) -> tuple[int, bytes, bytes]:
        """Run git with the user's own configuration: for reading settings and nothing else. (code, output, errors)."""
        try:
            done = subprocess.run(
                ["git", *arguments],
                cwd=self.folder,
                env=self.of_user(),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=DEADLINE_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RepositoryError(f"git {arguments[0]} could not be run: {error}") from error
        return done.returncode, done.stdout, done.stderr


def scratch() -> IO[bytes]:
    """Return a file that nobody else sees, in memory where the system can."""
    if hasattr(os, "memfd_create"):
        with suppress(OSError):  # a sandbox that forbids it
            return io.BufferedRandom(io.FileIO(os.memfd_create("git"), "r+"))
    import tempfile  # noqa: PLC0415 - with what it imports it costs as much as two calls of git

    return tempfile.TemporaryFile()


def end(process: subprocess.Popen[bytes]) -> None:
    """End a git that nobody listens to any more; asked politely, it removes its lock files."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def read_all(output: IO[bytes]) -> bytes:
    """Read a listing to its end. Raises `RepositoryError` over `LISTING_BYTES`."""
    chunks: list[bytes] = []
    size = 0
    while chunk := output.read(1 << 20):
        chunks.append(chunk)
        size += len(chunk)
        if size > LISTING_BYTES:
            raise too_long()
    return b"".join(chunks)


def too_long() -> RepositoryError:
    """Make the error of a listing over `LISTING_BYTES`."""
    hint = "name fewer source folders in reconciler.yaml"
    return RepositoryError("the repository holds too many files", hint=hint)


def failure(verb: str, code: int, errors: bytes) -> RepositoryError:
    """Make the error of a git that failed from the first of its lines that tells why."""
    if code == -signal.SIGKILL:
        return RepositoryError(f"git {verb} was killed, or gave no answer in {DEADLINE_SECONDS:.0f} seconds")
    lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    telling = [line for line in lines if line.startswith(("fatal: ", "error: "))]
    reason = (telling or lines or [f"exit code {code}" if code >= 0 else f"ended by signal {-code}"])[0]
    hint = next((hint for sign, hint in HINTS if any(sign in line for line in lines)), "")
    return RepositoryError(
        f"git {verb}: {printable(reason.removeprefix('fatal: ').removeprefix('error: '))}", hint=hint
    )


def printable(text: str, most: int = 300) -> str:
    """Names in a repository may hold anything; a message is one line without control characters."""
    clean = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
    return clean if len(clean) <= most else clean[:most] + "…"
