"""Messages about node health with a real HTTP server: one for each new alert, in the format of its receiver."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from reconciler.errors import ConfigError
from reconciler.messages import Receivers, receivers_in, send
from reconciler.nodehealth.exports.notices import notices
from reconciler.nodehealth.findings import RepairAction
from reconciler.nodehealth.fleet.decisions import BreakerAlert, FleetEvaluation, HealthDecision, ProblemStatus
from reconciler.nodehealth.fleet.state import BreakerState, FleetState, HealthPhase, NodeState
from reconciler.nodehealth.quarantine import TaintEffect


class Receiver:
    """A server that keeps what it gets, and answers with a status."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, Any]] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if receiver.status == 200:
                    receiver.messages.append((self.path, body))
                self.send_response(receiver.status)
                self.end_headers()
                self.wfile.write(b"ok")

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()
    found.thread.join(10)


def decided(node: str, phase: HealthPhase) -> HealthDecision:
    return HealthDecision(
        node=node,
        phase=phase,
        before=HealthPhase.HEALTHY,
        condition=ProblemStatus.TRUE if phase.is_out else ProblemStatus.FALSE,
        reason="GPU 00000000:17:00.0 has fallen off the bus (Xid 79)",
        check="gpu.xid",
        taint=TaintEffect.NO_SCHEDULE if phase.is_out else None,
        action=RepairAction.POWER_CYCLE,
    )


def fleet(*decisions: HealthDecision, days: int = 0) -> FleetEvaluation:
    """Return a fleet; `days` passed without a decision about its first node."""
    nodes = {one.node: NodeState(renewals=days if one is decisions[0] else 0) for one in decisions}
    return FleetEvaluation(state=FleetState(nodes=nodes), decisions={one.node: one for one in decisions})


def tell(
    one: FleetEvaluation, told: dict[str, str], receivers: Receivers, failed: Callable[[str], Any], cluster: str = ""
) -> dict[str, str]:
    """Send what is new about a fleet, as a round does."""
    return send(notices(one, told, cluster), told, receivers, failed, cluster)


def words(body: dict[str, Any]) -> str:
    """Return what a message to Slack says, block by block."""
    return "\n".join(block["text"]["text"] for block in body["blocks"])


def secret(folder: Path, **urls: str) -> str:
    for name, url in urls.items():
        (folder / name.replace("_", "-")).write_text(f"{url}\n")
    return str(folder)


OUT, WELL = HealthPhase.QUARANTINED, HealthPhase.HEALTHY


def test_one_message_for_each_new_alert(receiver: Receiver, tmp_path: Path) -> None:
    """F-127: first, escalation and end; a state that stays is told once, whatever the number of rounds."""
    receivers = receivers_in(secret(tmp_path, webhook_url=f"{receiver.url}/services/T0/B0"))
    told: dict[str, str] = {}
    rounds = [
        fleet(decided("n1", WELL)),
        fleet(decided("n1", OUT)),
        fleet(decided("n1", OUT)),
        fleet(decided("n1", OUT), decided("n2", OUT)),
        fleet(decided("n1", OUT), decided("n2", OUT), days=1),
        fleet(decided("n1", WELL), decided("n2", OUT)),
        fleet(decided("n2", OUT)),
    ]
    counts = []
    for one in rounds:
        told = tell(one, told, receivers, pytest.fail, "prod")
        counts.append(len(receiver.messages))
    assert counts == [0, 1, 1, 2, 3, 4, 4]
    first = words(receiver.messages[0][1])
    assert first.startswith("prod: node n1 is quarantined: gpu.xid\nGPU 00000000:17:00.0 has fallen off the bus")
    assert "We put a NoSchedule taint on it. Recommended: power cycle. `reconciler health release n1`" in first
    assert receiver.messages[3][1]["text"] == "prod: node n1 is back in use"


def test_every_receiver_gets_its_format(receiver: Receiver, tmp_path: Path) -> None:
    """F-127: Slack, Teams with its query, and plain JSON."""
    folder = secret(
        tmp_path,
        slack_url=f"{receiver.url}/slack",
        teams_url=f"{receiver.url}/workflows/1?api-version=1&sig=s3cr3t",
        json_url=f"{receiver.url}/json",
    )
    tell(fleet(decided("n1", OUT)), {}, receivers_in(folder), pytest.fail)
    by_path = dict(receiver.messages)
    assert set(by_path) == {"/slack", "/workflows/1?api-version=1&sig=s3cr3t", "/json"}
    card = by_path["/workflows/1?api-version=1&sig=s3cr3t"]["attachments"][0]
    assert card["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert card["content"]["body"][0]["text"] == "node n1 is quarantined: gpu.xid"
    assert by_path["/json"]["status"] == "firing"


def test_a_receiver_that_fails_gets_it_later_and_no_secret_is_told(receiver: Receiver, tmp_path: Path) -> None:
    """F-127: nothing is lost, nothing is doubled, and the URL stays a secret."""
    receivers = receivers_in(secret(tmp_path, slack_url=f"{receiver.url}/services/T0/B0/s3cr3t"))
    failures: list[str] = []
    receiver.status = 503
    told = tell(fleet(decided("n1", OUT)), {}, receivers, failures.append)
    assert told == {}
    assert len(failures) == 1
    assert "503" in failures[0]
    assert "s3cr3t" not in failures[0]
    receiver.status = 200
    told = tell(fleet(decided("n1", OUT)), told, receivers, failures.append)
    tell(fleet(decided("n1", OUT)), told, receivers, failures.append)
    assert (len(receiver.messages), len(failures)) == (1, 1)


def test_a_flood_is_bounded(receiver: Receiver, tmp_path: Path) -> None:
    receivers = receivers_in(secret(tmp_path, slack_url=receiver.url))
    many = fleet(*(decided(f"n{number}", OUT) for number in range(100)))
    told = tell(many, {}, receivers, pytest.fail)
    assert len(receiver.messages) == 20
    assert receiver.messages[-1][1]["text"] == "81 more changes of node health"
    tell(many, told, receivers, pytest.fail)
    assert len(receiver.messages) == 20


def test_the_breaker_is_told(receiver: Receiver, tmp_path: Path) -> None:
    receivers = receivers_in(secret(tmp_path, slack_url=receiver.url))
    alert = BreakerAlert(reason="width on 3 nodes", check="pcie.width", nodes=("a", "b"), common=("rack=7",))
    state = FleetState(breaker=BreakerState(frozen={"pcie.width": "width on 3 nodes"}, tripped="5 % of pool h200"))
    begun = FleetEvaluation(state=state, decisions={}, alerts=(alert,))
    told = tell(begun, {}, receivers, pytest.fail, "prod")
    texts = [words(body) for _, body in receiver.messages]
    assert texts[0].startswith("prod: the circuit breaker stops quarantines: 5 % of pool h200")
    assert texts[1].endswith("Nodes: a, b. All have rack=7.")
    told = tell(FleetEvaluation(state=state, decisions={}), told, receivers, pytest.fail, "prod")
    assert len(receiver.messages) == 2
    assert tell(fleet(), told, receivers, pytest.fail, "prod") == {}
    assert receiver.messages[2][1]["text"] == "prod: the circuit breaker goes on"


def test_a_wrong_url_is_refused_without_repeating_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        receivers_in(secret(tmp_path, slack_url="hooks.example.com/s3cr3t"))
    assert "s3cr3t" not in str(refused.value)
    assert receivers_in("") == []
