"""Child processes that cannot block, outlive or leak into the parent.

A child gets its own process group, a deadline, a memory limit and bounded output; `without_credentials` makes an
environment for programs that others wrote. `ChildProcess` serves the sizing engines. The Git adapter streams more data
than that class buffers and uses `kill_after`, `terminate` and `scratch_file` directly. A child that runs this program
calls `end_with_parent`, and `check_parent` before each write.
"""

import _thread
import io
import os
import resource
import select
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NoReturn

from msgspec import Struct

from reconciler.errors import TERMINATED, OutsideError, one_line
from reconciler.kube.secrets import MASK, is_secret_name, mask_text, mentions_secret

_POLL_SECONDS = 0.05  # how often the deadline, the memory and the end of a child are checked
_TERMINATE_SECONDS = 5.0  # between SIGTERM and SIGKILL
_KILLED_SECONDS = 5.0  # after SIGKILL, until the child is left behind
_CHUNK_BYTES = 1 << 16
_TAIL_BYTES = 4096  # of a child's messages; only the last line is shown
_PIPE_CHUNKS = 32  # 2 MiB: more than a pipe holds
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ADDRESS_SPACE_FACTOR = 4  # numeric libraries and their threads map several times the memory that they use
_SHORTEST_SECRET = 6  # characters; shorter values are not worth masking

_CREDENTIAL_PREFIXES = (
    "ALIBABA_CLOUD_", "ARM_", "AWS_", "AZURE_", "CI_JOB_", "CLOUDSDK_", "CONSUL_", "DOCKER_", "GCLOUD_", "GCP_",
    "GH_", "GIT_", "GITEA_", "GITHUB_", "GITLAB_", "GOOGLE_", "IBMCLOUD_", "KUBE", "OCI_", "OPENSTACK_", "OS_",
    "RECONCILER_", "SSH_", "VAULT_",
)  # fmt: skip
_CREDENTIAL_SUFFIXES = ("TOKEN", "KEY", "SECRET", "PASSWORD", "PASSWD", "CREDENTIALS")


class ProcessError(OutsideError):
    """A child process could not be started, or failed for good."""


class ProcessUnavailable(ProcessError):
    """A child process was ended because it exceeded a limit, or ended before it answered."""

    retryable = True


class ProgramMissing(ProcessError):
    """A program is not installed on this machine."""


class ChildCommand(Struct, frozen=True, kw_only=True):
    """A command, and its folder. `name` is for messages.

    `memory_bytes` limits the resident memory of the child, measured in /proc. Where the system has prlimit(2), the
    address space of the child and of each process it starts is limited to four times as much. Other systems have no
    memory limit. `file_bytes` limits the size of each file that the child or its children write (0: no limit).
    """

    name: str
    argv: Sequence[str]
    folder: Path
    environ: Mapping[str, str]
    memory_bytes: int
    file_bytes: int = 0


def absolute_program(command: str) -> str:
    """Resolve a program name or relative path against PATH and the current folder. Keeps links: a venv is one."""
    return os.path.abspath(command if os.sep in command else shutil.which(command) or command)  # noqa: PTH100 - keeps links


def without_credentials(environ: Mapping[str, str]) -> dict[str, str]:
    """Drop the variables that hold credentials or grant access.

    Dropped are names that contain a word for a secret (`*_TOKEN`, `*_KEY`, `*_PASSWORD` …), the variables of cloud
    providers, forges, Git, Kubernetes, SSH and this program, and values with a credential in them, such as
    `postgres://user:password@host`.
    """
    return {
        name: value
        for name, value in environ.items()
        if not name.upper().startswith(_CREDENTIAL_PREFIXES)
        and not name.upper().endswith(_CREDENTIAL_SUFFIXES)
        and not mentions_secret(name)
        and mask_text(value) == value
    }


_starting = threading.Lock()
"""Held while a child starts, so that `_groups` names every one of them."""
_groups: set[int] = set()


class ChildProcess:
    """A running command. Not thread-safe. The caller that starts one calls `end`.

    An `interactive` child answers lines on its standard output (`exchange`), and its standard error holds messages. Any
    other child is waited for (`wait`), and all its output is messages.
    """

    def __init__(self, command: ChildCommand, *, interactive: bool) -> None:
        self._command = command
        self._messages = bytearray()  # the end of what it printed
        self._reply = bytearray()
        self._unsent = memoryview(b"")
        self._is_ended = False
        try:
            with _starting:
                self._process = subprocess.Popen(
                    list(command.argv),
                    stdin=subprocess.PIPE if interactive else subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE if interactive else subprocess.STDOUT,
                    cwd=command.folder,
                    env=dict(command.environ),
                    start_new_session=True,  # a group: Ctrl-C is handled here, and `end` reaches grandchildren
                )
                _groups.add(self._process.pid)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error  # ValueError: a NUL in an argument
            raise ProcessError(f"{one_line(command.argv[0])} could not be started: {reason}") from error
        _limit(self._process.pid, "RLIMIT_AS", command.memory_bytes * _ADDRESS_SPACE_FACTOR)
        if command.file_bytes:
            _limit(self._process.pid, "RLIMIT_FSIZE", command.file_bytes)
        self._selector = selectors.DefaultSelector()
        self._watch(self._process.stdout, self._reply if interactive else self._messages)
        self._watch(self._process.stderr, self._messages)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)

    @property
    def pid(self) -> int:
        """The process id, which is also the id of the group."""
        return self._process.pid

    def exchange(self, message: bytes, *, seconds: float, max_bytes: int) -> bytes:
        """Send one line and return the line that answers it. Raises `ProcessUnavailable`; the child is useless then."""
        deadline = time.monotonic() + seconds
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - opened by `interactive`
        self._reply.clear()
        self._unsent = memoryview(message)
        self._selector.register(stdin, selectors.EVENT_WRITE)
        while (end := self._reply.find(b"\n")) < 0:
            if self.has_exited():
                self._drain()
                reason = self.last_message()
                raise self._unavailable(f"exited without an answer{f': {reason}' if reason else ''}")
            if len(self._reply) > max_bytes:
                raise self._unavailable(f"sent an answer of more than {max_bytes} bytes")
            self._poll(deadline, seconds)
        if self._unsent:
            raise self._unavailable("answered before it received the question")
        if len(self._reply) > end + 1:
            raise self._unavailable("sent more than one answer")
        return bytes(self._reply[:end])

    def wait(self, seconds: float) -> int:
        """Wait until the child exits and return its exit code. Raises `ProcessUnavailable` after `seconds`."""
        deadline = time.monotonic() + seconds
        while not self.has_exited():
            self._poll(deadline, seconds)
        self._drain()
        self.end()
        return self._process.returncode

    def collect(self, *, seconds: float, max_bytes: int) -> tuple[int, bytes]:
        """Wait for an interactive child that is asked nothing: its exit code, and all of its standard output.

        Raises `ProcessUnavailable` after `seconds`, or if it prints more than `max_bytes`.
        """
        deadline = time.monotonic() + seconds
        stdin = self._process.stdin
        assert stdin is not None  # noqa: S101 - opened by `interactive`
        stdin.close()
        while not self.has_exited():
            self._poll(deadline, seconds)
            if len(self._reply) > max_bytes:
                raise self._unavailable(f"printed more than {max_bytes} bytes")
        self._drain()
        self.end()
        return self._process.returncode, bytes(self._reply)

    def has_exited(self) -> bool:
        """Return whether the child has exited, without reaping it: `end` still needs its id to end the group."""
        if self._process.returncode is None and hasattr(os, "waitid"):
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return self._process.poll() is not None

    def request_stop(self) -> None:
        """Send SIGTERM to the child, from any thread; it may still answer."""
        with suppress(ProcessLookupError):  # it has ended meanwhile
            if not self._is_ended:
                os.kill(self.pid, signal.SIGTERM)

    def end(self) -> None:
        """Kill the child and everything in its group. May be called twice. A child that hangs in the kernel is left."""
        if not self._is_ended:
            with suppress(ProcessLookupError, PermissionError):  # macOS reports the latter for zombies
                os.killpg(self.pid, signal.SIGKILL)
            _groups.discard(self.pid)
            with suppress(subprocess.TimeoutExpired):  # a call of a broken device may hang in the kernel: left behind
                self._process.wait(_KILLED_SECONDS)
            self._is_ended = True
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # the child has not read everything
                    stream.close()

    def last_message(self) -> str:
        """Return the last line of text that the child printed, without secrets; empty if it printed none."""
        lines = self.messages()
        return one_line(lines[-1]) if lines else ""

    def messages(self) -> list[str]:
        """Return the last lines of text that the child printed, without secrets."""
        text = self._messages.decode("utf-8", "replace")
        for name, value in self._command.environ.items():
            if len(value) >= _SHORTEST_SECRET and is_secret_name(name):
                text = text.replace(value, MASK)
        return [line for line in mask_text(text).splitlines() if line.strip()]

    def _resident_bytes(self) -> int:
        """Return the memory that the child holds; 0 if the system does not tell."""
        try:
            with open(f"/proc/{self.pid}/statm", "rb") as file:  # noqa: PTH123 - the cheap way, 20 times a second
                return int(file.read().split()[1]) * _PAGE_BYTES
        except (OSError, IndexError):  # no /proc, or it has just exited
            return 0

    def _unavailable(self, what: str) -> ProcessUnavailable:
        return ProcessUnavailable(f"{self._command.name} {what}")

    def _watch(self, stream: IO[bytes] | None, buffer: bytearray) -> None:
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, selectors.EVENT_READ, buffer)

    def _poll(self, deadline: float, seconds: float) -> None:
        """Read and write what is ready, then check the limits."""
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._unavailable(f"did not answer within {seconds:g} s")
        for key, _ in self._selector.select(min(left, _POLL_SECONDS)):
            if key.fileobj is self._process.stdin:
                self._write(key.fd)
            else:
                self._read(key)
        limit = self._command.memory_bytes
        if (resident := self._resident_bytes()) > limit:
            raise self._unavailable(f"used {resident >> 20} MiB of memory, more than its limit of {limit >> 20} MiB")

    def _write(self, descriptor: int) -> None:
        try:
            self._unsent = self._unsent[os.write(descriptor, self._unsent[:_CHUNK_BYTES]) :]
        except BlockingIOError:  # the pipe is full until the child reads
            return
        except BrokenPipeError:  # it has exited or closed its input: an answer may follow, or the deadline passes
            self._unsent = memoryview(b"")
        if not self._unsent:
            self._selector.unregister(descriptor)

    def _read(self, key: selectors.SelectorKey) -> int:
        """Read once what is there and return the number of bytes."""
        try:
            chunk = os.read(key.fd, _CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if not chunk:
            self._selector.unregister(key.fileobj)
        key.data.extend(chunk)
        if key.data is self._messages:
            del self._messages[:-_TAIL_BYTES]
        return len(chunk)

    def _drain(self) -> None:
        """Read what the child left in the pipes, but no more than a pipe holds: grandchildren may still write."""
        for key in list(self._selector.get_map().values()):
            if key.fileobj is not self._process.stdin:
                for _ in range(_PIPE_CHUNKS):
                    if not self._read(key):
                        break


def _limit(pid: int, name: str, limit: int) -> None:
    """Set a limit of a child that has just been started; what it starts inherits the limit."""
    if not hasattr(resource, "prlimit"):
        return
    number = getattr(resource, name)
    with suppress(ProcessLookupError, PermissionError):  # it has exited
        _, hard = resource.prlimit(pid, number)
        allowed = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.prlimit(pid, number, (allowed, allowed))


_has_parent = False


def end_with_parent() -> None:
    """End this process as soon as its parent is gone, which alone holds the other end of standard input.

    Its children end with it, and nothing is finished or tidied up: another process may have taken over.
    """

    def wait() -> None:
        os.read(0, 1)  # not `sys.stdin`, whose lock a forked worker would inherit
        _end_at_once()

    global _has_parent  # noqa: PLW0603 - a process has one parent
    _has_parent = True
    threading.Thread(target=wait, name="parent", daemon=True).start()


def check_parent() -> None:
    """End this process if `end_with_parent` is about to: its thread may have to wait for the others."""
    if _has_parent and select.select((0,), (), (), 0)[0]:
        _end_at_once()


def _end_at_once() -> NoReturn:
    with _starting:
        for group in (*_groups, os.getpid()):
            with suppress(ProcessLookupError, PermissionError):  # it is gone, or leads no group
                os.killpg(group, signal.SIGKILL)
        os._exit(TERMINATED)


@contextmanager
def kill_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    """Kill a process that still runs after `seconds`; on leaving the block, end it in any case."""
    ended = threading.Event()

    def watch() -> None:
        if not ended.wait(seconds):
            process.kill()

    try:
        try:
            # `Thread.start` would wait for ever for a thread that has no memory to begin.
            _thread.start_new_thread(watch, ())
        except RuntimeError:
            raise OutsideError("no thread can be started", hint="allow more memory or processes (ulimit)") from None
        yield
    finally:
        ended.set()
        terminate(process)


def terminate(process: subprocess.Popen[bytes]) -> None:
    """End a process: SIGTERM, so that it can remove its lock files, and SIGKILL if it does not exit."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_TERMINATE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def scratch_file() -> IO[bytes]:
    """Return an anonymous file, in memory where the system supports that."""
    if hasattr(os, "memfd_create"):
        with suppress(OSError):  # a sandbox may forbid it
            return io.BufferedRandom(io.FileIO(os.memfd_create("reconciler"), "r+"))
    return tempfile.TemporaryFile()


_PROGRAM_MEMORY = 1 << 40  # bytes: programs of CUDA map the memory of all GPUs
_PROGRAM_OUTPUT = 16 << 20


class ProgramOutput(Struct, frozen=True, kw_only=True):
    """The output of a program, its exit code, and its last message."""

    code: int
    text: str
    message: str = ""


def run_program(argv: Sequence[str], *, seconds: float, environ: Mapping[str, str] = os.environ) -> ProgramOutput:
    """Run a program of this machine once. Raises `ProcessError` if it is missing or does not end in time."""
    command = ChildCommand(
        name=Path(argv[0]).name,
        argv=(installed_program(argv[0], environ), *argv[1:]),
        folder=Path("/"),
        environ={**without_credentials(environ), "LC_ALL": "C"},
        memory_bytes=_PROGRAM_MEMORY,
    )
    child = ChildProcess(command, interactive=True)
    try:
        code, output = child.collect(seconds=seconds, max_bytes=_PROGRAM_OUTPUT)
    finally:
        child.end()
    return ProgramOutput(code=code, text=output.decode("utf-8", "replace"), message=child.last_message())


def installed_program(program: str, environ: Mapping[str, str]) -> str:
    """Return the path of a program. Raises `ProgramMissing` if it is not installed."""
    found = shutil.which(program, path=environ.get("PATH"))
    if found is None:
        raise ProgramMissing(f"{program} is not installed")
    return found
