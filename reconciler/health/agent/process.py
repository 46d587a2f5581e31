"""The agent as a process: its parts, its start and its end."""

import base64
import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import msgspec
from msgspec import Struct

from reconciler.clock import SystemClock
from reconciler.console.access import ClusterFlags, open_cluster
from reconciler.console.logs import Log, set_up
from reconciler.errors import ReconcilerError, one_line
from reconciler.health.agent import Agent, AgentOptions, AgentState, Probe, run_once
from reconciler.health.agent.ring import CHECK as RING_CHECK
from reconciler.health.agent.ring import IperfRing
from reconciler.health.agent.testing import ADDRESS, StorageFlags, judge_of, node_tests, own_networks
from reconciler.health.directory import ALL, NodeSelection, addresses
from reconciler.health.jobs.result import PATH, PreflightAnswer
from reconciler.health.node import node_name, node_sources, peak_table, xid_table
from reconciler.health.probe import take_sweep
from reconciler.health.reports import ClusterReports
from reconciler.http import Endpoint, HttpClient, HttpError
from reconciler.kube.client.port import ApiResource, Discovery, LiveCluster
from reconciler.kube.values import NOT_JSON
from reconciler.nodehealth.catalogue import BY_ID
from reconciler.nodehealth.exports.gauges import AUTOPILOT_CHECKS, autopilot_samples, check_samples, current
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.inflight.activity import gpu_uses
from reconciler.nodehealth.inflight.preflight import PreflightResult
from reconciler.nodehealth.judge import judge
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.nodehealth.readers.port import ReadingSource
from reconciler.nodehealth.readings import Sweep, keep
from reconciler.nodehealth.report import API_VERSION, HEARTBEAT_SECONDS, KIND, ProfileRun
from reconciler.version import __version__
from reconciler.web.listener import Answer, HttpAnswer, HttpListener, HttpRequest, text_answer
from reconciler.web.metrics import AGENT_METRICS, Metrics

# The answers of the agent: `/status` and single checks for this node, or for many nodes through their agents.


PATHS: Mapping[str, tuple[str, ...]] = {
    "/pciebw": AUTOPILOT_CHECKS["pciebw"],
    "/remapped": AUTOPILOT_CHECKS["remapped"],
    "/gpupower": AUTOPILOT_CHECKS["power-slowdown"],
    "/gpumem": AUTOPILOT_CHECKS["gpumem"],
    "/dcgm": AUTOPILOT_CHECKS["dcgm"],
    "/ping": AUTOPILOT_CHECKS["ping"],
    "/pvc": AUTOPILOT_CHECKS["pvc"],
    "/iperf": ("net.iperf",),
}
"""Paths of single checks."""

BATCH = 16
"""Nodes that are asked at one time, unless the request says."""

_MAX_NODES_AT_ONCE = 64

_FRESH_SECONDS, _TEST_SECONDS = 8.0, 20.0  # together less than the agents wait for each other

_LEVELS = ("1", "2", "3", "4")

_DEEP_LEVEL = 3

_ORDER = (CheckStatus.FAIL, CheckStatus.UNKNOWN, CheckStatus.WARN, CheckStatus.PASS, CheckStatus.SKIP)

Locate = Callable[[NodeSelection], Mapping[str, str]]
"""Returns the selected nodes with the addresses of their agents. May raise `ReconcilerError`."""

Fetch = Callable[[str, str], bytes]
"""Asks an agent: its address and a path with query; returns the body. Raises `ReconcilerError`."""


class CheckAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one check on one GPU, or on the node."""

    check: str
    status: CheckStatus
    message: str
    slot: str = ""
    observed: float | str | None = None
    unit: str = ""


class NodeAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer of one node. Without an answer of its agent it is UNKNOWN, and `problem` says why."""

    node: str
    status: CheckStatus
    measured_at: float = 0.0
    problem: str = ""
    checks: tuple[CheckAnswer, ...] = ()


class StatusQuery(Struct, frozen=True, kw_only=True):
    """A request: which checks (empty: all), on which nodes, how many nodes at one time. `level`: of diagnostics."""

    checks: tuple[str, ...] = ()
    level: int = 0
    nodes: NodeSelection = NodeSelection()
    batch: int = BATCH


class BadQuery(ValueError):
    """A parameter is not valid."""


def health_api(agent: Agent, node: str, locate: Locate, fetch: Fetch) -> Answer:
    """Return the handler of the paths of Autopilot's interface."""

    def answer(request: HttpRequest) -> HttpAnswer:
        if request.method not in ("GET", "HEAD"):
            return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
        if request.path == "/invasive":
            agent.request_deep_run()
            return text_answer(HTTPStatus.ACCEPTED, "a deep run is requested; it starts once the GPUs are idle")
        if request.path != "/status" and request.path not in PATHS:
            return text_answer(HTTPStatus.NOT_FOUND, "not found")
        try:
            query = read_query(request.query, PATHS.get(request.path, ()))
            found = _selected(query, locate, fetch, lambda: _own(agent, node, query), node)
        except (BadQuery, ReconcilerError) as error:
            return text_answer(HTTPStatus.BAD_REQUEST, str(error))
        if "application/json" in request.headers.get("accept", ""):
            return HttpAnswer(status=HTTPStatus.OK, body=msgspec.json.encode(found), content_type="application/json")
        return HttpAnswer(status=HTTPStatus.OK, body="".join(f"{line}\n" for line in lines(found)).encode())

    return answer


def read_query(text: str, checks: tuple[str, ...] = ()) -> StatusQuery:
    """Read the parameters of a request; names of Autopilot and of our catalogue are both accepted."""
    values = {name: ",".join(found) for name, found in parse_qs(text).items()}
    wanted = [name for name in values.get("check", "").split(",") if name and name != ALL]
    ours = [check for name in wanted for check in PATHS.get(f"/{name}", AUTOPILOT_CHECKS.get(name, (name,)))]
    batch = values.get("batch", str(BATCH))
    if not batch.isascii() or not batch.isdigit() or not 1 <= int(batch[:9]) <= _MAX_NODES_AT_ONCE:
        raise BadQuery(f"batch={batch}: not a number from 1 to {_MAX_NODES_AT_ONCE}")
    if values.get("workload", "ring") != "ring":
        raise BadQuery(f"workload={values['workload']}: only `ring` is known")
    if fixed := [name for name in ("pclients", "startport") if name in values]:
        raise BadQuery(f"{fixed[0]}: not allowed here; spec.iperf of a HealthPolicy sets streams, seconds and times")
    level = values.get("r", "")
    if level and level not in _LEVELS:
        raise BadQuery(f"r={level}: not a level of dcgmi diag, from 1 to 4")
    chosen = checks or tuple(dict.fromkeys(ours))
    if level:
        chosen = tuple(one for one in chosen if one not in PATHS["/dcgm"] or one == f"dcgm.level{level}")
        if f"dcgm.level{level}" not in chosen:
            raise BadQuery(f"r={level}: requires check=dcgm")
    hosts = tuple(dict.fromkeys(name for name in values.get("host", "").split(",") if name))
    nodes = NodeSelection(hosts=hosts, job=values.get("job", ""), node_label=values.get("nodelabel", ""))
    return StatusQuery(checks=chosen, level=int(level or 0), nodes=nodes, batch=int(batch))


def answer_of(node: str, state: AgentState, checks: Sequence[str], running: Collection[str] = ()) -> NodeAnswer:
    """Return what an agent says about its node. A check that is asked for and never ran, or still runs, is UNKNOWN."""
    if state.report is None or state.result is None:
        return NodeAnswer(node=node, status=CheckStatus.UNKNOWN, problem="the first sweep has not finished")
    known = (one for one in current(state.report, state.findings) if one.check not in running)
    found = [one for one in known if not checks or one.check in checks]
    rows = [_row(one) for one in sorted(found, key=lambda one: one.key)]
    told = {one.check for one in found}
    rows += [
        CheckAnswer(check=check, status=CheckStatus.UNKNOWN, message=_why_unknown(check, running))
        for check in checks
        if check in running or check not in told | set(state.report.passed)
    ]
    rows += [
        CheckAnswer(check=check, status=CheckStatus.PASS, message=f"passed in the last {profile} run")
        for check, profile in state.report.passed_by.items()
        if (not checks or check in checks) and check not in told and check not in running
    ]
    statuses = {row.status for row in rows}
    status = next((one for one in _ORDER if one in statuses), CheckStatus.UNKNOWN)
    return NodeAnswer(node=node, status=status, measured_at=state.report.measured_at, checks=tuple(rows))


def lines(answers: Sequence[NodeAnswer]) -> Iterator[str]:
    """Yield the answers as text, one line for each check."""
    for one in answers:
        yield f"{one.node} {one.status}{f' {one.problem}' if one.problem else ''}"
        for row in one.checks:
            value = f" {row.observed} {row.unit}".rstrip() if row.observed is not None else ""
            yield f"{one.node} {row.check}{f' {row.slot}' if row.slot else ''} {row.status}{value} {row.message}"


def _why_unknown(check: str, running: Collection[str]) -> str:
    return "it is being measured; try again" if check in running else "not measured on this node"


def _own(agent: Agent, node: str, query: StatusQuery) -> NodeAnswer:
    """Answer for this node. Tests that are asked for by name are made now; a level of diagnostics must be, too."""
    wanted = [check for check in query.checks if check not in PATHS["/dcgm"] or query.level]
    if query.level == _DEEP_LEVEL and PATHS["/dcgm"][_DEEP_LEVEL - 1] in wanted:
        agent.request_deep_run()
    running = agent.test(wanted, _TEST_SECONDS)
    return answer_of(node, agent.refreshed(_FRESH_SECONDS), query.checks, running)


def _selected(
    query: StatusQuery, locate: Locate, fetch: Fetch, own: Callable[[], NodeAnswer], node: str
) -> list[NodeAnswer]:
    """Ask all selected nodes, at most `batch` at one time. One that does not answer hides no other."""
    if query.nodes.is_empty:
        return [own()]
    found = locate(query.nodes)
    level = {"r": str(query.level)} if query.level else {}
    path = f"/status?{urlencode({'check': ','.join(query.checks) or ALL, **level})}"

    def ask(name: str) -> NodeAnswer:
        if name == node:
            return own()
        if not found[name]:
            return NodeAnswer(node=name, status=CheckStatus.UNKNOWN, problem="no agent has reported from this node")
        try:
            (answer,) = msgspec.json.decode(fetch(found[name], path), type=tuple[NodeAnswer])
        except (ReconcilerError, msgspec.DecodeError, RecursionError) as error:
            return NodeAnswer(node=name, status=CheckStatus.UNKNOWN, problem=f"unreachable: {one_line(str(error))}")
        return answer

    with ThreadPoolExecutor(query.batch) as pool:
        return list(pool.map(ask, found))


def _row(one: HealthFinding) -> CheckAnswer:
    return CheckAnswer(
        check=one.check, status=one.status, message=one.message, slot=one.slot, observed=one.observed, unit=one.unit
    )


_CPU_MODEL = "model name"


class AgentGauges:
    """Sets the metrics of an agent. `with_autopilot`: also the gauge of Autopilot."""

    def __init__(self, metrics: Metrics, *, with_autopilot: bool, cpu_model: str = "") -> None:
        self._metrics, self._with_autopilot, self._cpu_model = metrics, with_autopilot, cpu_model
        self._counted = {"success": 0, "failure": 0}

    def update(self, state: AgentState) -> None:
        """Set all metrics to a state. Slots and checks that are gone have no sample any more."""
        metrics = self._metrics
        metrics.set("gpuhealth_agent_sweep_seconds", state.sweep_seconds)
        metrics.set("gpuhealth_agent_sweep_overdue", float(state.is_overdue))
        for result, total in (("success", state.writes), ("failure", state.failures)):
            metrics.count("gpuhealth_agent_report_writes_total", total - self._counted[result], result=result)
            self._counted[result] = total
        if state.report is None or state.result is None:
            return
        metrics.set("gpuhealth_agent_last_sweep_timestamp_seconds", state.result.sweep.taken_at)
        metrics.replace("gpuhealth_check_status", check_samples(state.report, state.findings))
        if self._with_autopilot:
            found = autopilot_samples(state.report, state.findings, self._cpu_model)
            metrics.replace("autopilot_health_checks", found)


def unready(agent: Agent) -> str:
    """Return the reason that the agent is not ready; empty once it is. A GPU or server that hangs does not count."""
    return "" if agent.state.report is not None else "the first sweep has not finished"


def cpu_model(cpuinfo: str) -> str:
    """Return the model of the processor from /proc/cpuinfo."""
    lines = (line.partition(":") for line in cpuinfo.splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == _CPU_MODEL), "")


_MAX_FINDINGS = 2000

_MAX_LENGTH = 253  # of the names of objects


def preflight_api(agent: Agent) -> Answer:
    """Return the handler of `PUT /preflight`. The same result may be put again: that asks for the verdict."""

    def answer(request: HttpRequest) -> HttpAnswer:
        if request.path != PATH:
            return text_answer(HTTPStatus.NOT_FOUND, "not found")
        if request.method != "PUT":
            return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "use PUT")
        try:
            result = msgspec.json.decode(request.body, type=PreflightResult)
        except NOT_JSON as error:
            return text_answer(HTTPStatus.BAD_REQUEST, f"not a result of a preflight check: {error}")
        if problem := _problem(result):
            return text_answer(HTTPStatus.BAD_REQUEST, problem)
        agent.take(result)
        found = PreflightAnswer(verdict=agent.verdict(result.uid) if result.has_failed else "")
        return HttpAnswer(status=HTTPStatus.OK, body=msgspec.json.encode(found), content_type="application/json")

    return answer


def _problem(result: PreflightResult) -> str:
    """Return the mistake in a result that anybody in the cluster may have sent."""
    names = (result.namespace, result.pod, result.uid)
    if not all(0 < len(name) <= _MAX_LENGTH for name in names):
        return "namespace, pod and uid must be named"
    if len(result.findings) > _MAX_FINDINGS:
        return f"more than {_MAX_FINDINGS} findings"
    unknown = sorted({one.check for one in result.findings} - BY_ID.keys())
    return f"unknown check {unknown[0]!r}" if unknown else ""


TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")

_API_TIMEOUT = 30.0

_PATIENCE = 10.0

_CLEANUP_SECONDS = 5.0  # for a test that ends with the agent

_WATCH_SECONDS = 1.0

_REPORTS = Discovery(
    resources=(
        ApiResource(
            group=API_VERSION.partition("/")[0],
            version=API_VERSION.partition("/")[2],
            kind=KIND,
            plural=f"{KIND.lower()}s",
            namespaced=False,
        ),
    )
)

_log = Log(__name__)


class AgentFlags(Struct, frozen=True, kw_only=True):
    """The flags of `reconciler agent`."""

    interval: float = 60.0
    heartbeat: float = HEARTBEAT_SECONDS
    deadline: float = 45.0
    checks: tuple[str, ...] = ()
    invasive: float = 0.0
    profile: str = ""  # run it once and end
    root: Path = Path("/")
    kmsg: Path | None = None
    listen: str = "127.0.0.1:8080"
    api: str = ""
    preflight: str = ""
    publish: bool = True
    autopilot_gauge: bool = True
    ping: bool = False
    iperf: bool = False
    storage: StorageFlags = StorageFlags()
    log_level: str = "info"
    log_format: str = "json"
    cluster: ClusterFlags = ClusterFlags()


def run_agent(flags: AgentFlags, environ: Mapping[str, str]) -> None:
    """Run until SIGTERM or Ctrl-C, which the caller turns into the end of the process."""
    set_up(level=flags.log_level, form=flags.log_format)
    with ExitStack() as stack:
        cluster = stack.enter_context(_open(flags, environ)) if flags.publish else None
        sources = node_sources(
            environ,
            root=flags.root,
            kmsg_path=flags.kmsg,
            on_xid=lambda: agent.wake(),  # noqa: PLW0108 - the agent is made below, before the first event
        )
        for source in sources:
            stack.callback(source.close)
        node = node_name(environ)
        store = ClusterReports(cluster) if cluster is not None else None
        agent = Agent(_probe(sources, node, flags), store, SystemClock(), _options(flags, node, environ), _log.event)
        _add_tests(stack, agent, cluster, flags, environ)
        metrics = Metrics(AGENT_METRICS)
        gauges = AgentGauges(metrics, with_autopilot=flags.autopilot_gauge, cpu_model=_cpu_model(flags.root))
        listeners = [HttpListener(flags.listen, probes(agent, gauges, metrics))]
        if flags.api:
            listeners.append(HttpListener(flags.api, health_api(agent, node, _locator(cluster), fetch)))
        if flags.preflight:
            listeners.append(HttpListener(flags.preflight, preflight_api(agent)))
        for listener in listeners:
            listener.start()
            stack.callback(listener.stop)
        stack.callback(agent.stop)
        if flags.kmsg is not None:
            threading.Thread(target=watch, args=(flags.kmsg, agent.wake), name="kmsg", daemon=True).start()
        _log.event("info", "started", node=node, ports=[listener.port for listener in listeners], pid=os.getpid())
        agent.run()


def run_profile(flags: AgentFlags, environ: Mapping[str, str]) -> ProfileRun:
    """Run one profile and publish it, as the Job of a deep run does."""
    set_up(level=flags.log_level, form=flags.log_format)
    with ExitStack() as stack:
        cluster = stack.enter_context(_open(flags, environ))
        sources = node_sources(environ, root=flags.root, kmsg_path=flags.kmsg, tests=True)
        for source in sources:
            stack.callback(source.close)
        node = node_name(environ)
        options = _options(flags, node, environ)
        probe = _probe(sources, node, flags)
        run = run_once(probe, ClusterReports(cluster), SystemClock(), options, ProbeProfile(flags.profile))
        _log.event("info", "finished", node=node, profile=flags.profile, status=run.status.value, failed=run.failed)
        return run


def probes(agent: Agent, gauges: AgentGauges, metrics: Metrics) -> Answer:
    """Return the handler of `/healthz`, `/readyz` and `/metrics`. A GPU that hangs makes no agent unhealthy."""

    def answer(request: HttpRequest) -> HttpAnswer:
        if request.method not in ("GET", "HEAD"):
            return text_answer(HTTPStatus.METHOD_NOT_ALLOWED, "use GET")
        match request.path:
            case "/metrics":
                gauges.update(agent.state)
                content_type, body = metrics.exposition(request.headers.get("accept", ""))
                return HttpAnswer(status=HTTPStatus.OK, body=body, content_type=content_type)
            case "/healthz" | "/livez":
                return text_answer(HTTPStatus.OK, "ok")
            case "/readyz":
                reason = unready(agent)
                return text_answer(HTTPStatus.SERVICE_UNAVAILABLE if reason else HTTPStatus.OK, reason or "ok")
        return text_answer(HTTPStatus.NOT_FOUND, "not found")

    return answer


def watch(path: Path, wake: Callable[[], None], seconds: float = _WATCH_SECONDS) -> None:
    """Call `wake` whenever a file was written. Never returns."""
    clock, read_at = SystemClock(), _written_at(path)
    while True:
        clock.pause(seconds)
        if (now := _written_at(path)) != read_at:
            read_at = now
            wake()


def _written_at(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def fetch(address: str, path: str) -> bytes:
    """Ask the agent of another node."""
    client = HttpClient(Endpoint.parse(address, purpose="agent"), timeout_seconds=_API_TIMEOUT)
    answer = client.send("GET", path)
    if answer.status != HTTPStatus.OK:
        raise HttpError(f"{address} answered {answer.status}")
    return answer.body


def node_uid(token: str) -> str:
    """Return the UID of the node from the claims of a pod's token, where the API server puts it; else nothing.

    An agent needs no right to read its node this way.
    """
    parts = token.split(".")
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return str(claims["kubernetes.io"]["node"]["uid"])
    except (ValueError, KeyError, TypeError, IndexError, msgspec.DecodeError, RecursionError):
        return ""


def _open(flags: AgentFlags, environ: Mapping[str, str]) -> LiveCluster:
    return open_cluster(flags.cluster, environ, patience=_PATIENCE, is_expected=False, known=_REPORTS)


def _options(flags: AgentFlags, node: str, environ: Mapping[str, str]) -> AgentOptions:
    identity: dict[str, object] = {"version": __version__}
    host, port = environ.get(ADDRESS, ""), flags.api.rpartition(":")[2]
    if host and port:
        identity["address"] = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    if (flags.ping or flags.iperf) and (own := own_networks(environ)):
        identity["networks"] = own
    if uid := node_uid(_read(TOKEN)):
        identity["node_uid"] = uid
    return AgentOptions(
        node=node,
        interval=flags.interval,
        heartbeat=max(flags.heartbeat, flags.interval),
        deadline=flags.deadline,
        invasive=flags.invasive,
        identity=identity,
    )


def _probe(sources: Sequence[ReadingSource], node: str, flags: AgentFlags) -> Probe:
    """Return what reads the node and judges it with what it has seen before."""
    clock, xids, peaks = SystemClock(), xid_table(), peak_table()
    history: tuple[Sweep, ...] = ()

    def probe(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        nonlocal history
        sweep = take_sweep(sources, node, clock, profile)
        findings = judge(
            sweep, history=history, expected=expected, xids=xids, peaks=peaks, profile=profile, only=flags.checks
        )
        activity = gpu_uses(sweep, history)
        history = keep(history, sweep)
        return SweepResult(sweep=sweep, findings=findings, profile=profile, activity=activity)

    return probe


def _add_tests(
    stack: ExitStack, agent: Agent, cluster: LiveCluster | None, flags: AgentFlags, environ: Mapping[str, str]
) -> None:
    """Give the agent its tests, and let them clean up when it ends."""
    node = node_name(environ)
    stopping = threading.Event()
    ring = _ring(cluster, node, environ) if cluster is not None and flags.iperf else None
    agent.tests = node_tests(
        cluster,
        node,
        environ,
        judged=judge_of(xids=xid_table(), peaks=peak_table()),
        ping=flags.ping,
        ring=ring,
        storage=flags.storage,
        stopping=stopping,
    )
    stack.callback(agent.tests.wait, agent.tests.deep, _CLEANUP_SECONDS)
    stack.callback(stopping.set)
    if ring is not None:
        stack.callback(ring.stop)
        begin = partial(_begin_turn, agent)
        threading.Thread(target=ring.follow, args=(begin,), name="iperf", daemon=True).start()


def _ring(cluster: LiveCluster, node: str, environ: Mapping[str, str]) -> IperfRing:
    return IperfRing(cluster, node, own_networks(environ), environ, SystemClock())


def _begin_turn(agent: Agent) -> None:
    agent.test((RING_CHECK,), 0.0)


def _locator(cluster: LiveCluster | None) -> Callable[[NodeSelection], Mapping[str, str]]:
    def locate(selection: NodeSelection) -> Mapping[str, str]:
        if cluster is None:
            raise HttpError("other nodes are not known: this agent does not use a cluster")
        return addresses(cluster, selection)

    return locate


def _cpu_model(root: Path) -> str:
    return cpu_model(_read(root / "proc" / "cpuinfo"))


def _read(path: Path) -> str:
    """Return the text of a file, or nothing."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
