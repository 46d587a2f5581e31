"""The answers of the agent: `/status` and single checks for this node, or for many nodes through their agents."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from urllib.parse import parse_qs, urlencode

import msgspec
from msgspec import Struct

from reconciler.errors import ReconcilerError, one_line
from reconciler.health.agent import Agent, AgentState
from reconciler.health.directory import ALL, NodeSelection
from reconciler.nodehealth.exports.gauges import AUTOPILOT_CHECKS, current
from reconciler.nodehealth.findings import CheckStatus, HealthFinding
from reconciler.web.listener import Answer, HttpAnswer, HttpRequest, text_answer

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

_MOST_NODES_AT_ONCE = 64
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
    """Return what answers the paths of Autopilot's interface."""

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
    if not batch.isascii() or not batch.isdigit() or not 1 <= int(batch[:9]) <= _MOST_NODES_AT_ONCE:
        raise BadQuery(f"batch={batch}: not a number from 1 to {_MOST_NODES_AT_ONCE}")
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
