"""The read-only pages of one source, in a child process: what they need of memory and time harms no pass."""

import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import BinaryIO

import msgspec
from msgspec import Struct

from reconciler.console.access import open_cluster
from reconciler.console.logs import Log
from reconciler.controller.reconcile import Request, open_remote, require_folder, source_flags
from reconciler.errors import ConfigError, ReconcilerError
from reconciler.kube.secrets import mask_text
from reconciler.plan import opening
from reconciler.processes import ChildCommand, ChildProcess, ProcessError
from reconciler.web.guard import PageLogin, choose_guard
from reconciler.web.listener import HttpListener
from reconciler.web.site import Website
from reconciler.web.snapshot import Snapshot, read_shown, take

_BEAT_SECONDS = 5.0
_START_SECONDS = 300.0
_PAUSE_SECONDS = 15.0
_ANSWER_BYTES = 1 << 16
_log = Log(__name__)


class PagesRequest(Struct, frozen=True, kw_only=True):
    """The input of the child: the source, the address, and who may read."""

    request: Request
    address: str
    login: PageLogin
    namespace: str


def serve_source(lines: BinaryIO, answer: Callable[[bytes], None], environ: Mapping[str, str]) -> None:
    """Serve the pages of a source while lines arrive: the first asks for it, each other one whether all is well.

    The lines end with the controller, and with them the pages.
    """
    asked = msgspec.json.decode(lines.readline(), type=PagesRequest)
    request, source = asked.request, asked.request.source
    remote = open_remote(request, dict(environ), "pages")
    guard = choose_guard(
        asked.address, asked.login, lambda: open_cluster(request.access, environ), namespace=asked.namespace
    )

    def snapshot() -> Snapshot:
        remote.fetch([source.ref])
        repository = remote.repository(source.path)
        commit = repository.resolve(source.ref).oid
        require_folder(repository, commit, source)
        flags = {**source_flags(request), "revision": commit, "base": request.accepted or commit}
        return take(opening.open_repository(repository, flags, dict(environ)), name=source.key)

    site = Website(snapshot, guard, lambda path: read_shown(remote.repository(source.path), path, source.ref))
    listener = HttpListener(asked.address, site.answer)
    listener.start()
    renewed = monotonic()
    answer(f"{listener.port}\n".encode())
    while lines.readline():
        if monotonic() - renewed >= source.interval:
            site.renew()
            renewed = monotonic()
        answer(b"ok\n")
    listener.stop()


class PagesLane:
    """A thread that keeps the child running, and starts it again if it ends."""

    def __init__(
        self,
        find: Callable[[], Request | None],
        address: str,
        login: PageLogin,
        *,
        environ: Mapping[str, str],
        folder: Path,
        memory_bytes: int,
    ) -> None:
        self._find, self._address, self._login = find, address, login
        self._environ, self._folder, self._memory = environ, folder, memory_bytes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pages", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the child."""
        self._stopping.set()
        self._thread.join(_BEAT_SECONDS)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                request = self._find()
                if request is not None:
                    self._serve(request)
            except (ReconcilerError, ProcessError) as error:
                _log.event("warning", "the pages ended, and start again", error=mask_text(str(error)))
            self._stopping.wait(_PAUSE_SECONDS)

    def _serve(self, request: Request) -> None:
        command = ChildCommand(
            name="the pages",
            argv=(sys.executable, "-P", "-m", "reconciler", "controller", "--pages"),
            folder=self._folder,
            environ=dict(self._environ),
            memory_bytes=self._memory,
        )
        asked = PagesRequest(
            request=request,
            address=self._address,
            login=self._login,
            namespace=self._environ.get("POD_NAMESPACE", "default"),
        )
        child = ChildProcess(command, interactive=True)
        try:
            line = msgspec.json.encode(asked) + b"\n"
            port = child.exchange(line, seconds=_START_SECONDS, max_bytes=_ANSWER_BYTES)
            _log.event("info", "pages", source=request.source.key, port=int(port))
            while not self._stopping.wait(_BEAT_SECONDS):
                child.exchange(b"beat\n", seconds=_START_SECONDS, max_bytes=_ANSWER_BYTES)
        finally:
            child.end()


def only_source(requests: Mapping[str, Request], wanted: str) -> Request | None:
    """Return the source that the pages show; None while there is none. Raises `ConfigError` if several could be."""
    if wanted:
        return requests.get(wanted)
    if len(requests) > 1:
        raise ConfigError("--web-address: there are several sources", hint="name one with --web-source NAMESPACE/NAME")
    return next(iter(requests.values()), None)
