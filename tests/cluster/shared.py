"""Long-running programs shared by the test processes of one run (pytest-xdist workers), and stopped with the last.

Every user holds a shared lock on one file. A supervisor process waits for the exclusive lock on it: the kernel gives it
when the last user is gone, killed or not, and then the supervisor stops its programs. They in turn die with it. Programs that need
others (a scheduler its API server) have a supervisor of their own, whose only user is the supervisor of the others.
"""

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

_READY, _USERS, _SUPERVISOR = "ready", "users.lock", "supervisor.lock"
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_STOP_GRACE_SECONDS = 10.0
_TRIES = 3
# A fifth of the processor time of a Go program that starts goes to collections of a heap that hardly shrinks.
GO_MEMORY = {"GOGC": "400", "GOMEMLIMIT": "1500MiB"}


class StartError(Exception):
    """The programs did not come up; the message ends with the tail of their logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program to run: `name` names its log file.

    `is_killed`: end it by SIGKILL, as it keeps nothing of its own and would wait for its clients.
    """

    name: str
    argv: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
    is_killed: bool = False


Plan = Callable[[], tuple[Program, ...]]
Check = Callable[[], None]
Ready = Callable[[Check], None]


@contextmanager
def running(folder: Path, plan: Plan, ready: Ready) -> Iterator[None]:
    """Keep the programs of `plan` running in `folder` while the block runs.

    The first user starts them and waits until `ready` returns; later users find them there. `plan` is called anew for
    every try (a port that was free may be taken a moment later). `ready` raises `StartError` when it gave up; what it
    is given to call raises that as soon as a program has ended.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / _USERS).open("a") as users:
        with _starting(folder):
            fcntl.flock(users, fcntl.LOCK_SH)  # waits for a supervisor that is just stopping
            if not is_running(folder):
                _start(folder, plan, ready, folder / _USERS)
        yield


def attach(folder: Path, host: Path, plan: Plan, ready: Ready) -> None:
    """Keep the programs of `plan` running in `folder` until those of the folder `host` end; see `running`."""
    folder.mkdir(parents=True, exist_ok=True)
    with _starting(folder):
        if not is_running(folder):
            _start(folder, plan, ready, host / _SUPERVISOR)


def stop(folder: Path) -> None:
    """Stop the programs of `folder` and wait until they have ended, whoever uses them: for tests of failures."""
    with _starting(folder):
        if is_running(folder):
            os.kill(int((folder / _READY).read_text()), signal.SIGTERM)
            with (folder / _SUPERVISOR).open("a") as supervisor:
                fcntl.flock(supervisor, fcntl.LOCK_EX)


def is_running(folder: Path) -> bool:
    """Whether the programs of `folder` came up and have not ended."""
    return (folder / _READY).exists() and not _is_free(folder / _SUPERVISOR)


def wait_stopped(folder: Path) -> None:
    """Wait until the programs of `folder`, whose last user has left, have ended."""
    with (folder / _USERS).open("a") as users:
        fcntl.flock(users, fcntl.LOCK_EX)  # free for a moment before the supervisor takes it
        while (folder / _READY).exists():
            fcntl.flock(users, fcntl.LOCK_UN)
            time.sleep(0.1)
            fcntl.flock(users, fcntl.LOCK_EX)


def logs(folder: Path, lines: int = 15) -> str:
    """Return the last lines of every log in `folder`."""
    tails = []
    for path in sorted(folder.glob("*.log")):
        tail = path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
        tails.append("\n".join([f"--- {path}", *tail]))
    return "\n".join(tails)


@contextmanager
def _starting(folder: Path) -> Iterator[None]:
    """Let one process at a time start or stop the programs of a folder."""
    with (folder / "start.lock").open("a") as start:
        fcntl.flock(start, fcntl.LOCK_EX)
        yield


def _is_free(lock: Path) -> bool:
    with lock.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def _start(folder: Path, plan: Plan, ready: Ready, users: Path) -> None:
    for attempt in range(_TRIES):
        (folder / "programs.json").write_text(json.dumps([asdict(program) for program in plan()]))
        with (folder / "supervisor.log").open("ab") as log:
            argv = [sys.executable, "-m", "tests.cluster.shared", str(folder), str(users)]
            root = Path(__file__).parents[2]
            # A session of its own: Ctrl-C in the terminal is for pytest, the lock tells the supervisor.
            supervisor = subprocess.Popen(
                argv, cwd=root, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        # Whoever starts a process must wait for it, or it stays a zombie until this one ends.
        waiter = threading.Thread(target=supervisor.wait, daemon=True)
        waiter.start()
        try:
            while _is_free(folder / _SUPERVISOR):
                _check(waiter)
                time.sleep(0.01)
            ready(partial(_check, waiter))
        except StartError as problem:
            with suppress(ProcessLookupError):
                supervisor.terminate()
            waiter.join()
            if attempt == _TRIES - 1:
                raise StartError(f"{problem}\n{logs(folder)}") from problem
        else:
            (folder / _READY).write_text(str(supervisor.pid))
            return


def _check(waiter: threading.Thread) -> None:
    if not waiter.is_alive():
        raise StartError("a program ended while it was starting")


def _die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies (Linux; elsewhere only an orderly stop works)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def supervise(folder: Path, users: Path) -> None:
    """Run the programs of `folder` until nobody holds the lock `users`, or one of them ends, or a SIGTERM comes."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    programs = json.loads((folder / "programs.json").read_text())
    with (folder / _SUPERVISOR).open("a") as own, users.open("a") as lock:
        fcntl.flock(own, fcntl.LOCK_EX)
        children = [_spawn(folder, program) for program in programs]
        try:
            while not stop.wait(0.2):
                codes = {program["name"]: child.poll() for program, child in zip(programs, children, strict=True)}
                ended = {name: code for name, code in codes.items() if code is not None}
                if ended:
                    print("ended by itself, with its exit code:", ended, flush=True)  # noqa: T201 -- goes to the log
                if ended or _last_user_is_gone(lock.fileno()):
                    break
        finally:
            (folder / _READY).unlink(missing_ok=True)
            _stop(programs, children)


def _spawn(folder: Path, program: dict[str, object]) -> "subprocess.Popen[bytes]":
    argv, environment = program["argv"], program["environment"]
    if not isinstance(argv, list) or not isinstance(environment, list):
        raise TypeError(f"not a program: {program}")
    with (folder / f"{program['name']}.log").open("ab") as log:
        return subprocess.Popen(
            argv,
            cwd=folder,
            env={**GO_MEMORY, **os.environ, **dict(environment)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 -- the supervisor has one thread
        )


def _last_user_is_gone(users: int) -> bool:
    try:
        fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _stop(programs: "list[dict[str, object]]", children: "list[subprocess.Popen[bytes]]") -> None:
    """End the last started first: an API server wants its etcd while it shuts down."""
    deadline = time.monotonic() + _STOP_GRACE_SECONDS
    for program, child in reversed([*zip(programs, children, strict=True)]):
        (child.kill if program["is_killed"] else child.terminate)()
        try:
            child.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


if __name__ == "__main__":
    supervise(Path(sys.argv[1]), Path(sys.argv[2]))
