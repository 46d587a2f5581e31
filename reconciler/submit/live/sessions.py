"""The terminal of the user: a command in a container, and local ports that lead to those of a pod."""

import os
import select
import shutil
import signal
import socket
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from reconciler.errors import ConfigError
from reconciler.kube.client.port import ClusterError
from reconciler.kube.client.streams import STDERR, RemoteCommand

_WAIT_SECONDS = 0.1
_CHUNK_BYTES = 1 << 16
_LAST_SECONDS = 5.0


def attach(command: RemoteCommand, *, stdin: bool, terminal: bool) -> int:
    """Connect a command to the terminal until it ends, and return its exit code.

    Raises `ClusterError` if the connection ended before the command.
    """
    failures: list[ClusterError] = []
    reader = threading.Thread(target=_print, args=(command, failures), daemon=True)
    with _raw_terminal(command) if terminal else nullcontext():
        reader.start()
        if stdin:
            _send(command, reader)
        reader.join()
    command.close()
    if failures:
        raise failures[0]
    if command.exit_code is None:
        raise ClusterError("the connection ended before the command")
    return command.exit_code


def _print(command: RemoteCommand, failures: list[ClusterError]) -> None:
    try:
        for channel, content in command.output():
            stream = sys.stderr if channel == STDERR else sys.stdout
            stream.buffer.write(content)
            stream.flush()
    except ClusterError as error:
        failures.append(error)


def _send(command: RemoteCommand, reader: threading.Thread) -> None:
    """Send what is typed, until the command or the input ends."""
    while reader.is_alive():
        ready, _, _ = select.select([0], [], [], _WAIT_SECONDS)
        if not ready:
            continue
        content = os.read(0, _CHUNK_BYTES)
        if not content:
            return
        with suppress(OSError):  # the command has ended
            command.send(content)


@contextmanager
def _raw_terminal(command: RemoteCommand) -> Iterator[None]:
    """Give every key to the command, and tell it the size of the terminal, until the block ends."""
    before = termios.tcgetattr(0)

    def resize(*_: object) -> None:
        size = shutil.get_terminal_size()
        command.resize(size.columns, size.lines)

    tty.setraw(0)
    previous = signal.signal(signal.SIGWINCH, resize)
    try:
        resize()
        yield
    finally:
        signal.signal(signal.SIGWINCH, previous)
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def is_terminal() -> bool:
    """Return whether somebody can be asked."""
    return sys.stdin.isatty() and sys.stdout.isatty()


# Forwarded ports.


def parse_port(text: str) -> tuple[int, int]:
    """Return the local and the remote port of `[LOCAL:]REMOTE`; 0 locally is any free port."""
    local, colon, remote = text.rpartition(":")
    words = (local if colon else remote, remote)
    most = 65535
    if not all(word.isdecimal() and int(word) <= most for word in words) or not int(remote):
        raise ConfigError(f"{text!r} is not [LOCAL:]REMOTE", hint="such as 8265 or 8080:8265")
    return int(words[0]), int(remote)


def listener(port: int) -> socket.socket:
    """Listen on a port of this machine alone, until the socket is closed."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        hint = "choose another: LOCAL:REMOTE"
        raise ConfigError(f"port {port} cannot be used: {error.strerror}", hint=hint) from None


Connect = Callable[[], AbstractContextManager[socket.socket]]


def forward(server: socket.socket, connect: Connect, tell: Callable[[str], None]) -> None:
    """Connect everybody who comes to `connect`, until the listener is closed."""
    while True:
        try:
            client, _ = server.accept()
        except OSError:  # it was closed
            return
        threading.Thread(target=_serve, args=(client, connect, tell), daemon=True).start()


def _serve(client: socket.socket, connect: Connect, tell: Callable[[str], None]) -> None:
    try:
        with client, connect() as remote:
            back = threading.Thread(target=_pump, args=(remote, client), daemon=True)
            back.start()
            _pump(client, remote)
            back.join(_LAST_SECONDS)  # the rest of an answer to somebody who sends no more
    except ClusterError as error:
        tell(str(error))


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Copy what comes until it ends."""
    with suppress(OSError):  # a side has closed its end
        while content := source.recv(_CHUNK_BYTES):
            target.sendall(content)
    if target.family == socket.AF_INET:  # the user's side: nothing follows
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)
