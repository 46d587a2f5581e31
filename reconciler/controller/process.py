"""The controller as a process: what it is made of, and how it starts and stops."""

import base64
import hashlib
import hmac
import os
import re
import secrets
import shutil
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from http import HTTPStatus
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from reconciler.clock import Clock, SystemClock
from reconciler.console.access import ClusterFlags, open_cluster
from reconciler.console.logs import Log, set_up
from reconciler.controller.exporting import SpanExporter
from reconciler.controller.health import HealthLane, health_round
from reconciler.controller.lanes import ReviewLane, RoundLane
from reconciler.controller.leases import LeaderLease, LeaseTimes
from reconciler.controller.loop import Controller, LoopOptions
from reconciler.controller.notifying import Notifier
from reconciler.controller.outcome import PassFailure, PassOutcome, failure
from reconciler.controller.pages import PagesLane, only_source
from reconciler.controller.reconcile import ChildWork, Request, reconcile
from reconciler.controller.reviews import review_round
from reconciler.controller.sources.objects import ClusterStore
from reconciler.controller.sources.source import ConfigSource
from reconciler.controller.sources.store import FileStore, SourceStore
from reconciler.errors import ConfigError, OutsideError, ReconcilerError, one_line
from reconciler.kinds.own import SOURCE
from reconciler.kube.client.port import LiveCluster
from reconciler.kube.values import NOT_JSON, plural
from reconciler.messages import receivers_in
from reconciler.nodehealth.exports.fleet_gauges import FleetSamples, samples_at
from reconciler.plan import opening
from reconciler.processes import ChildCommand, ChildProcess, ProcessError
from reconciler.settings import ALERT_WEBHOOKS
from reconciler.web.guard import PageLogin, choose_guard
from reconciler.web.listener import Answer, HttpAnswer, HttpListener, HttpRequest, text_answer
from reconciler.web.metrics import Metrics

# Webhooks of GitHub, GitLab and Gitea: whether a request is genuine, and which reference it is about.
# A webhook is only a hint to look at the repository now: nothing of its content is used but the name of a reference.


MAX_BYTES = 1 << 20

_TOLERANCE_SECONDS = 300.0  # Standard Webhooks: an older one may be a copy that somebody sends again


class Provider(StrEnum):
    """A sender of webhooks. Forgejo signs as Gitea does."""

    GITHUB = "github"
    GITLAB = "gitlab"
    GITEA = "gitea"
    UNKNOWN = "unknown"


class Hint(Struct, frozen=True, kw_only=True):
    """The content of a request. `is_genuine`: signed with our token. `ref`: the pushed reference; empty: not known."""

    provider: Provider
    is_genuine: bool
    ref: str = ""
    delivery: str = ""  # its id, where the signature covers it or nothing better exists


class _Payload(Struct):
    ref: str = ""


def provider_of(headers: Mapping[str, str]) -> Provider:
    """Tell the sender by its headers, whose names are in lower case. Gitea also sends those of GitHub."""
    if "x-gitea-signature" in headers or "x-forgejo-signature" in headers:
        return Provider.GITEA
    if "x-hub-signature-256" in headers:
        return Provider.GITHUB
    if "x-gitlab-token" in headers or ("webhook-signature" in headers and "webhook-id" in headers):
        return Provider.GITLAB
    return Provider.UNKNOWN


def check(headers: Mapping[str, str], body: bytes, token: bytes, now: float) -> Hint:
    """Check the signature of a request; an empty token signs nothing."""
    provider = provider_of(headers)
    is_genuine = bool(token) and _CHECKS[provider](headers, body, token, now)
    delivery = next((headers[name] for name in _DELIVERY if headers.get(name)), "")
    return Hint(provider=provider, is_genuine=is_genuine, ref=_ref(body) if is_genuine else "", delivery=delivery[:100])


# Standard Webhooks, GitHub, Gitea, GitLab.
_DELIVERY = ("webhook-id", "x-github-delivery", "x-gitea-delivery", "x-gitlab-event-uuid")


def _github(headers: Mapping[str, str], body: bytes, token: bytes, _: float) -> bool:
    return _same(headers["x-hub-signature-256"], "sha256=" + _hex(token, body))


def _gitea(headers: Mapping[str, str], body: bytes, token: bytes, _: float) -> bool:
    sent = headers.get("x-gitea-signature") or headers.get("x-forgejo-signature", "")
    return _same(sent, _hex(token, body))


def _gitlab(headers: Mapping[str, str], body: bytes, token: bytes, now: float) -> bool:
    """Check the signature of Standard Webhooks if there is one, else the token that GitLab sends as it is."""
    if "webhook-signature" not in headers:
        return _same(headers["x-gitlab-token"], token.decode("utf-8", "surrogateescape"))
    identity, sent_at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not sent_at.isascii() or not sent_at.isdigit() or abs(now - int(sent_at[:12])) > _TOLERANCE_SECONDS:
        return False
    signed = f"{identity}.{sent_at}.".encode("utf-8", "surrogateescape") + body
    expected = "v1," + base64.b64encode(hmac.new(_standard_key(token), signed, hashlib.sha256).digest()).decode()
    return any(_same(sent, expected) for sent in headers["webhook-signature"].split()[:8])


def _standard_key(token: bytes) -> bytes:
    """Return the key of a token of the form `whsec_<base64>`, or the token itself."""
    if not token.startswith(b"whsec_"):
        return token
    try:
        return base64.b64decode(token.removeprefix(b"whsec_"), validate=True)
    except ValueError:
        return token


def _hex(token: bytes, body: bytes) -> str:
    return hmac.new(token, body, hashlib.sha256).hexdigest()


def _same(sent: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(*(text.encode("utf-8", "surrogateescape") for text in (sent, expected)))


def _ref(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_Payload).ref
    except NOT_JSON:
        return ""


_CHECKS = {
    Provider.GITHUB: _github,
    Provider.GITLAB: _gitlab,
    Provider.GITEA: _gitea,
    Provider.UNKNOWN: lambda *_: False,
}


# What the controller answers over HTTP: health and metrics on one address, webhooks on another.


_DELIVERIES = 1024  # remembered ids of webhooks, against replays

_log = Log(__name__)


# Health and metrics.


def probes(controller: Controller, metrics: Metrics, update: Callable[[], None] = lambda: None) -> Answer:
    """Return the handler of `/healthz`, `/readyz` and `/metrics`. `update` sets more gauges before they are read."""

    def answer(request: HttpRequest) -> HttpAnswer:
        if request.method not in ("GET", "HEAD"):
            return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
        match request.path:
            case "/metrics":
                controller.update_gauges()
                update()
                content_type, body = metrics.exposition(request.headers.get("accept", ""))
                return HttpAnswer(status=HTTPStatus.OK, body=body, content_type=content_type)
            case "/healthz" | "/livez":
                return _state(controller.unhealthy())
            case "/readyz":
                return _state(controller.unready())
        return text_answer(HTTPStatus.NOT_FOUND, "not found")

    return answer


def _state(reason: str) -> HttpAnswer:
    return text_answer(HTTPStatus.SERVICE_UNAVAILABLE, reason) if reason else text_answer(HTTPStatus.OK, "ok")


# Webhooks.


class Webhooks:
    """Answers `POST /webhooks/NAMESPACE/NAME`. A genuine one makes all sources of the same repository due."""

    def __init__(
        self, controller: Controller, store: SourceStore, metrics: Metrics, *, wakes: Sequence[Callable[[str], None]]
    ) -> None:
        self._controller, self._store, self._metrics, self._wakes = controller, store, metrics, wakes
        self._seen: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """Check a request. All that is refused gets the same answer, so that it tells nothing about sources."""
        provider, result = provider_of(request.headers), "refused"
        try:
            if request.method != "POST":
                return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "use POST")
            prefix, _, key = request.path.removeprefix("/").partition("/")
            source = self._controller.sources().get(key) if prefix == "webhooks" else None
            hint = check(request.headers, request.body, self._token(source), time.time())
            if source is None or not hint.is_genuine:
                return text_answer(HTTPStatus.FORBIDDEN, "the signature is not valid")
            result = "ignored"
            if hint.delivery and not self._is_new(key, hint.delivery):
                return text_answer(HTTPStatus.OK, "already delivered")
            due = self._wake(source, hint.ref)
            result = "accepted" if due else "ignored"
            return text_answer(HTTPStatus.ACCEPTED, f"{plural(due, 'source')} due")
        finally:
            self._metrics.count("webhook_request_total", provider=provider.value, result=result)

    def _token(self, source: ConfigSource | None) -> bytes:
        if source is None or not source.webhook_secret:
            return b""
        try:
            return self._store.secret(source, source.webhook_secret).get("token", b"").strip()
        except ReconcilerError as error:
            _log.event("warning", "the token of webhooks cannot be read", source=source.key, error=error.message)
            return b""

    def _is_new(self, key: str, delivery: str) -> bool:
        with self._lock:
            if (key, delivery) in self._seen:
                return False
            self._seen[key, delivery] = None
            while len(self._seen) > _DELIVERIES:
                self._seen.popitem(last=False)
            return True

    def _wake(self, sender: ConfigSource, ref: str) -> int:
        sources = self._controller.sources().values()
        due = [source for source in sources if source.url == sender.url and (not ref or ref in source.refs)]
        for source, wake in product(due, self._wakes):
            wake(source.key)
        return len(due)


# `ChildRunner`: each pass runs in a process of its own, so that one source cannot stop, block or starve another.


_GRACE_SECONDS = 15.0  # after the time limit of the source, within which the child reports by itself

_ANSWER_BYTES = 8 << 20


class ChildRunner:
    """Runs passes as child processes of this program. Safe to use from any thread.

    `folder` holds their temporary files, such as keys, which a pass that is killed cannot remove. A pass begins only
    while `leads` returns True; when that changes, `interrupt` is called.
    """

    def __init__(
        self, environ: Mapping[str, str], *, folder: Path, memory_bytes: int, leads: Callable[[], bool] = lambda: True
    ) -> None:
        self._environ, self._folder, self._memory, self._leads = environ, folder, memory_bytes, leads
        self._children: dict[str, ChildProcess] = {}  # by key of the source: one pass at a time for each
        self._lock = threading.Lock()
        self._is_stopping = False

    def run(self, request: Request) -> PassOutcome:
        """Make one pass; a child that fails or takes too long is a failure of the pass."""
        try:
            scratch = TemporaryDirectory(dir=self._folder, ignore_cleanup_errors=True)
        except OSError as error:
            return PassOutcome(failure=failure(OutsideError(f"{self._folder} cannot be written: {error.strerror}")))
        with scratch as name:
            return self._run(request, name)

    def _run(self, request: Request, scratch: str) -> PassOutcome:
        command = ChildCommand(
            name=f"the pass over {request.source.key}",
            argv=(sys.executable, "-P", "-m", "reconciler", "controller", "--pass"),
            folder=self._folder,
            environ={**self._environ, "TMPDIR": scratch},
            memory_bytes=self._memory,
        )
        try:
            child = ChildProcess(command, interactive=True)
        except ProcessError as error:
            return PassOutcome(failure=PassFailure(reason="InternalError", message=error.message))
        with self._lock:
            self._children[request.source.key] = child
        try:
            if self._is_stopping or not self._leads():
                child.request_stop()
            line = msgspec.json.encode(request) + b"\n"
            seconds = request.source.timeout + _GRACE_SECONDS
            answer = child.exchange(line, seconds=seconds, max_bytes=_ANSWER_BYTES)
            return msgspec.json.decode(answer, type=PassOutcome)
        except ProcessError as error:
            return PassOutcome(failure=PassFailure(reason="PassFailed", message=error.message))
        except msgspec.MsgspecError:
            text = one_line(child.last_message()) or "no answer"
            return PassOutcome(failure=PassFailure(reason="InternalError", message=text))
        finally:
            with self._lock:
                del self._children[request.source.key]
            child.end()

    def interrupt(self) -> None:
        """Ask all running passes to end."""
        with self._lock:
            for child in self._children.values():
                child.request_stop()

    def stop(self) -> None:
        """Ask all passes to end: those that run, and those that start later."""
        self._is_stopping = True
        self.interrupt()


# `FleetGauges`: what the last rounds of all sources counted, shown whenever somebody asks.


class FleetGauges:
    """The samples of each cluster of each source. Safe to use from any thread."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics, self._clock = metrics, clock
        self._samples: dict[str, dict[str, FleetSamples]] = {}
        self._lock = threading.Lock()

    def take(self, source: str, outcome: PassOutcome) -> None:
        """Keep what a round counted. Of clusters that a failed round did not see the last samples stay."""
        with self._lock:
            before = self._samples.get(source, {}) if outcome.failure is not None else {}
            self._samples[source] = before | outcome.gauges

    def keep(self, sources: Collection[str]) -> None:
        """Forget all other sources: another replica works on them, or nobody does."""
        with self._lock:
            self._samples = {source: fleets for source, fleets in self._samples.items() if source in sources}

    def update(self) -> None:
        """Set the gauges to this moment: reports grow older, also while rounds fail."""
        with self._lock:
            fleets = [fleet for known in self._samples.values() for fleet in known.values()]
        for name, samples in samples_at(fleets, self._clock.now().timestamp()).items():
            self._metrics.replace(name, samples)


POD_NAMESPACE = "POD_NAMESPACE"
"""Variable with the namespace of the pod, which holds the Lease."""


class ControllerFlags(Struct, frozen=True, kw_only=True):
    """The flags of `reconciler controller`."""

    config: Path | None = None  # a file of sources; None: ConfigSource objects of the cluster
    secrets: Path | None = None
    state: Path = Path("reconciler-state")
    namespace: str = ""
    listen: str = "127.0.0.1:8080"
    webhooks: str = ""
    workers: int = 4
    retry: float = 2.0
    max_repository: int = 1024  # MiB
    memory: int = 2048  # MiB, of one pass
    spans: Path | None = None
    log_level: str = "info"
    log_format: str = "json"
    lease_namespace: str = ""
    lease_seconds: float = 15.0
    web_address: str = ""
    web_source: str = ""
    web_login: PageLogin = PageLogin()
    cluster: ClusterFlags = ClusterFlags()


def run_pass(line: bytes, environ: Mapping[str, str]) -> bytes:
    """Make the pass that a line of JSON asks for, and return the outcome as one."""
    request = msgspec.json.decode(line, type=Request)
    return msgspec.json.encode(_WORK[request.work](request, dict(environ)))


_WORK: Mapping[ChildWork, Callable[[Request, dict[str, str]], PassOutcome]] = {
    ChildWork.PASS: reconcile,
    ChildWork.HEALTH: health_round,
    ChildWork.REVIEWS: review_round,
}


def run_controller(flags: ControllerFlags, environ: Mapping[str, str]) -> None:
    """Run until SIGTERM or Ctrl-C, which the caller turns into the end of the process."""
    set_up(level=flags.log_level, form=flags.log_format)
    state = _state_folder(flags.state)
    scratch = _scratch_folder(state)
    with ExitStack() as stack:
        metrics = Metrics()
        cluster = None if flags.config else stack.enter_context(open_cluster(flags.cluster, environ, is_expected=True))
        store = _store(flags, state, cluster)
        lease = _lease(flags, environ, stack) if cluster else None
        leads = lease.is_held if lease else lambda: True  # sources of a file have one replica
        exporter = SpanExporter(environ, metrics, file=flags.spans)
        stack.callback(exporter.close)
        memory = flags.memory << 20
        runner, rounds, reviewing = (
            ChildRunner(environ, folder=scratch, memory_bytes=memory, leads=leads) for _ in range(3)
        )
        notifier = _notifier(environ, stack)
        options = _loop_options(flags, state)
        controller = Controller(store, runner, metrics, exporter, options, environ=environ, leads=leads)
        controller.notifier = notifier
        pages = _pages(flags, controller, environ, scratch)
        reviews = ReviewLane(lambda: controller.rounds(ChildWork.REVIEWS), reviewing)
        gauges = FleetGauges(metrics, SystemClock())
        answers = [(flags.listen, probes(controller, metrics, gauges.update))]
        if flags.webhooks:
            hints = Webhooks(controller, store, metrics, wakes=(controller.hint, reviews.hint))
            answers.append((flags.webhooks, hints.answer))
        ports = _listen(answers, stack)
        if lease is not None:  # rounds of a leader no more are interrupted
            _compete(lease, (controller.leadership_changed, rounds.interrupt, reviewing.interrupt), stack)
        controller.start()
        stack.callback(controller.stop)  # before the Lease is handed over
        health = HealthLane(
            lambda: controller.rounds(ChildWork.HEALTH),
            rounds,
            lambda: open_cluster(flags.cluster, environ),
            gauges=gauges,
        )
        lanes: list[RoundLane | PagesLane] = [health, reviews, *([pages] if pages is not None else [])]
        for lane in lanes:
            lane.start()
            stack.callback(lane.stop)
        stack.callback(_log.event, "info", "stopping")
        _log.event("info", "started", ports=ports, state=str(state), pid=os.getpid())
        threading.Event().wait()  # until a signal


def _listen(answers: Sequence[tuple[str, Answer]], stack: ExitStack) -> list[int]:
    """Start a listener at each address, and return their ports."""
    listeners = [HttpListener(address, answer) for address, answer in answers]
    for listener in listeners:
        listener.start()
        stack.callback(listener.stop)
    return [listener.port for listener in listeners]


def _compete(lease: LeaderLease, changed: Sequence[Callable[[], None]], stack: ExitStack) -> None:
    """Start to compete for a Lease; each of these functions is called when it is won or lost."""

    def call() -> None:
        for act in changed:
            act()

    lease.changed = call
    lease.start()
    stack.callback(lease.stop)


def _pages(
    flags: ControllerFlags, controller: Controller, environ: Mapping[str, str], folder: Path
) -> PagesLane | None:
    if not flags.web_address:
        return None
    choose_guard(flags.web_address, flags.web_login, None)  # what would let everybody in is an error at the start
    return PagesLane(
        lambda: only_source(controller.requests(), flags.web_source),
        flags.web_address,
        flags.web_login,
        environ=environ,
        folder=folder,
        memory_bytes=flags.memory << 20,
    )


def _loop_options(flags: ControllerFlags, state: Path) -> LoopOptions:
    return LoopOptions(
        state=state,
        workers=flags.workers,
        retry=flags.retry,
        max_repository=flags.max_repository << 20,
        access=flags.cluster,
    )


def _notifier(environ: Mapping[str, str], stack: ExitStack) -> Notifier | None:
    """Start what sends messages, if a Secret with webhooks is mounted; they are read for each message."""
    folder = environ.get(ALERT_WEBHOOKS, "")
    if not folder:
        return None
    notifier = Notifier(lambda: receivers_in(folder))
    notifier.start()
    stack.callback(notifier.stop)
    return notifier


def _store(flags: ControllerFlags, state: Path, cluster: LiveCluster | None) -> SourceStore:
    if flags.config is not None:
        store = FileStore(flags.config, state=state, secrets=flags.secrets, catalogue=opening.catalogue())
        store.load()  # a wrong file is an error at the start, and only logged later
        return store
    if flags.secrets is not None:
        raise ConfigError("--secrets needs --config", hint="without --config, Secrets are read from the cluster")
    assert cluster is not None  # noqa: S101 - opened unless there is a file
    cluster.resource(*SOURCE)  # a missing CRD is an error at the start
    return ClusterStore(cluster, namespace=flags.namespace, instance=socket.gethostname())


def _lease(flags: ControllerFlags, environ: Mapping[str, str], stack: ExitStack) -> LeaderLease:
    """Compete for the Lease in the namespace of this pod, under a name that no other process has.

    A request for it is repeated until its deadline: what comes later renews nothing.
    """
    host = re.sub(r"[^a-z0-9-]+", "-", socket.gethostname().lower()).strip("-")[:40] or "replica"
    seconds = flags.lease_seconds
    times = LeaseTimes(duration=seconds, deadline=seconds * 2 / 3, renew=min(2.0, seconds / 6))
    return LeaderLease(
        stack.enter_context(open_cluster(flags.cluster, environ, patience=times.deadline, is_expected=True)),
        namespace=flags.lease_namespace or environ.get(POD_NAMESPACE) or flags.namespace or "default",
        identity=f"{host}-{secrets.token_hex(4)}",
        times=times,
    )


def _state_folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise OutsideError(f"{path} cannot be written: {error.strerror}", hint="name another --state") from error
    return path.absolute()


def _scratch_folder(state: Path) -> Path:
    """Return an empty folder for the temporary files of passes, without what those of a killed controller left."""
    folder = state / "scratch"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
