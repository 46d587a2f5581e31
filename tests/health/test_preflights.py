"""The way of a failed preflight check: from the pod over the agent to the report, and the verdict back."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from reconciler.cli.main import run
from reconciler.errors import OutsideError
from reconciler.health.agent import Agent
from reconciler.health.agent.process import preflight_api
from reconciler.health.agents import to_agent
from reconciler.health.jobs.result import PATH, PreflightAnswer, report_to_agent
from reconciler.health.reports import StoredReport
from reconciler.nodehealth.findings import ProbeProfile
from reconciler.nodehealth.inflight.preflight import PreflightResult
from reconciler.nodehealth.merging import SweepResult
from reconciler.nodehealth.policy import NodeExpectation
from reconciler.web.listener import Answer, HttpAnswer, HttpListener, HttpRequest
from tests.health.test_agent import OPTIONS, MemoryStore, StoppedClock, Told
from tests.nodehealth.inflight.test_preflight import BAD, of_pod
from tests.nodehealth.readers.fakes.library import REPLAYS
from tests.nodehealth.reports import NOW, result

FAILED = of_pod(BAD)


class Acknowledging(MemoryStore):
    """A store in which the controller acknowledges."""

    verdicts: dict[str, str]

    def read(self, node: str) -> StoredReport:
        return replace(super().read(node), acknowledged=self.verdicts)


@pytest.fixture
def store() -> Acknowledging:
    made = Acknowledging()
    made.verdicts = {}
    return made


@pytest.fixture
def agent(store: Acknowledging) -> Agent:
    def probe(profile: ProbeProfile, expected: NodeExpectation) -> SweepResult:
        return result(profile=profile)

    return Agent(probe, store, StoppedClock(), OPTIONS, Told())


@pytest.fixture
def url(agent: Agent) -> Iterator[str]:
    listener = HttpListener("127.0.0.1:0", preflight_api(agent))
    listener.start()
    yield f"http://127.0.0.1:{listener.port}"
    listener.stop()


def put(agent: Agent, body: bytes, method: str = "PUT", path: str = PATH) -> int:
    return preflight_api(agent)(HttpRequest(method=method, path=path, headers={}, body=body)).status


def test_a_failure_is_published_and_waits_for_the_controller(agent: Agent, store: Acknowledging, url: str) -> None:
    """F-094: no verdict before the controller has seen it; the report names pod and check."""
    send = to_agent(url)
    assert report_to_agent(send, FAILED, StoppedClock(), 0) == ""
    agent.step()
    report = store.report
    assert [(one.uid, one.checks) for one in report.preflights] == [("p", ("hbm.bandwidth",))]
    assert [one.check for one in report.findings] == ["hbm.bandwidth"]
    store.verdicts = {"p": "retry"}
    assert report_to_agent(send, FAILED, StoppedClock(), 0) == "retry"
    writes = store.writes
    agent.step()
    assert store.writes == writes, "the same question is no news"


def test_what_was_published_does_not_come_back(agent: Agent, store: Acknowledging) -> None:
    """A failure that a heavier run has ended stays ended, though the pod repeats its question as it waits."""
    agent.take(FAILED)
    agent.step()
    assert [one.check for one in store.report.findings] == ["hbm.bandwidth"]
    store.stored = StoredReport(report=replace(store.report, findings=()), version="by somebody else")
    agent.take(FAILED)
    agent.step()
    agent.step()
    assert store.report.findings == ()


def test_a_result_waits_for_the_server(agent: Agent, store: Acknowledging) -> None:
    store.is_away = True
    agent.take(FAILED)
    agent.step()
    store.is_away = False
    agent.step()
    assert [one.uid for one in store.report.preflights] == ["p"]


def test_a_pass_waits_for_nobody(agent: Agent, store: Acknowledging, url: str) -> None:
    store.verdicts = {"p": "stop"}
    clock = StoppedClock()
    assert report_to_agent(to_agent(url), replace(FAILED, has_failed=False), clock, 60) == ""
    assert clock.at == NOW
    agent.step()
    assert store.report.preflights == ()


@pytest.mark.parametrize("answers", [OutsideError("away"), b"{}", b"nonsense"], ids=["away", "silent", "broken"])
def test_the_wait_has_an_end(answers: bytes | Exception) -> None:
    """F-094: without a word the check fails all the same, after the documented time."""
    clock, asked = StoppedClock(), list[float]()

    def send(_: str, __: bytes) -> bytes:
        asked.append(clock.at)
        if isinstance(answers, Exception):
            raise answers
        return answers

    assert report_to_agent(send, FAILED, clock, 60) == ""
    assert 58 <= clock.at - NOW <= 60
    assert len(asked) > 20


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (msgspec.json.encode(replace(FAILED, uid="")), 400),
        (msgspec.json.encode(replace(FAILED, pod="x" * 254)), 400),
        (msgspec.json.encode(replace(FAILED, findings=(replace(BAD, check="mine"),))), 400),
        (msgspec.json.encode(replace(FAILED, findings=(BAD,) * 2001)), 400),
        (msgspec.json.encode(FAILED), 200),
    ],
    ids=["no JSON", "no object", "no pod", "long name", "unknown check", "too many", "fine"],
)
def test_anybody_may_send_anything(agent: Agent, store: Acknowledging, body: bytes, status: int) -> None:
    assert put(agent, body) == status
    agent.step()
    assert bool(store.report.preflights) is (status == 200)


def test_other_paths_and_methods(agent: Agent) -> None:
    assert put(agent, b"", method="GET") == 405
    assert put(agent, b"", path="/status") == 404


@pytest.mark.parametrize(("verdict", "code"), [("retry", 42), ("stop", 43), ("", 42)])
def test_the_exit_code_tells_kubernetes_what_to_do(
    verdict: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F-094: 42 is tried again elsewhere, 43 ends the job; the real command asks a real server."""
    got: list[PreflightResult] = []
    answer = serving(verdict, got)
    with_url = HttpListener("127.0.0.1:0", answer)
    with_url.start()
    for name in ("POD_NAMESPACE", "POD_NAME", "POD_UID"):
        monkeypatch.setenv(name, name.lower())
    arguments = ["probe", "--replay", str(failing(tmp_path)), "--exit-style", "preflight", "--check", "ecc.sram"]
    try:
        assert run([*arguments, "--agent", f"http://127.0.0.1:{with_url.port}", "--wait", "0"]) == code
    finally:
        with_url.stop()
    assert (got[0].uid, got[0].has_failed) == ("pod_uid", True)
    assert (
        f"the controller answered: {verdict}" if verdict else "no answer from the controller"
    ) in capsys.readouterr().out


def test_a_pod_without_a_name_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["probe", "--replay", str(failing(tmp_path)), "--agent", "http://127.0.0.1:1"]) == 2
    assert "POD_NAMESPACE, POD_NAME and POD_UID" in capsys.readouterr().err


def serving(verdict: str, got: list[PreflightResult]) -> Answer:
    def answer(request: HttpRequest) -> HttpAnswer:
        got.append(msgspec.json.decode(request.body, type=PreflightResult))
        return HttpAnswer(status=200, body=msgspec.json.encode(PreflightAnswer(verdict=verdict)))

    return answer


def failing(folder: Path) -> Path:
    """Write recorded readings of a GPU with uncorrected errors."""
    content = json.loads((REPLAYS / "fake-h200.json").read_text())
    for reading in content["sweeps"][0]["readings"]:
        if reading["name"] == "nvml.sram_ecc":
            reading["value"] = {**reading["value"], "bThresholdExceeded": 1}
    path = folder / "readings.json"
    path.write_text(json.dumps(content))
    return path
