"""Repairs: bounded steps that people have merged, asked of a tool of the user, and never while GPUs are in use."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler import messages
from reconciler.health import repairing
from reconciler.health.draining import DrainedNode
from reconciler.health.fast_lane import HealthRules, LaneRound
from reconciler.health.state_store import LaneState, StoredState
from reconciler.kube.client.port import ClusterError
from reconciler.kube.objects import ObjectKey
from reconciler.nodehealth.findings import RepairAction
from reconciler.nodehealth.fleet.evaluate import FleetInput
from reconciler.nodehealth.fleet.repairs import RepairStep, RepairTry, due_steps
from reconciler.nodehealth.fleet.state import HealthPhase
from reconciler.nodehealth.quarantine import NodeQuarantine, Stage
from reconciler.settings import ALERT_WEBHOOKS
from tests.nodehealth.fleet.rounds import SPEC, Rounds, report

RESET, TICKET = RepairAction.RESET_GPU, RepairAction.CONTACT_SUPPORT


def waiting(**rule: Any) -> Rounds:
    """Return a fleet with a node that Git wants repaired, by the `action` among the fields of the rule."""
    action = rule.pop("action", RESET)
    fleet = Rounds(40, spec={**SPEC, "repair": {"mode": "enforce", **rule}})
    stage = {"uid": "uid-n001", "reason": "Xid 95", "slots": ("0000:9b:00.0",), "action": action}
    fleet.quarantines = [NodeQuarantine(name="n001", node="n001", stage=Stage.REPAIR, **stage)]
    fleet.round(report("n001", 0))
    assert fleet.of("n001").phase is HealthPhase.REMEDIATING
    return fleet


def due(fleet: Rounds, tries: dict[str, RepairTry], minutes: float = 0.0) -> list[RepairStep]:
    given = FleetInput(
        facts=fleet.facts, reports=fleet.reports, policies=fleet.policies, quarantines=tuple(fleet.quarantines)
    )
    assert fleet.last is not None
    return list(due_steps(given, fleet.last, tries, fleet.now + 60 * minutes))


def test_steps_are_bounded() -> None:
    """F-096, F-165: as many attempts as the policy allows, one at a time, then one ticket, then nothing."""
    fleet, tries, seen = waiting(attempts=2, timeout="30m"), dict[str, RepairTry](), []
    for minutes in (0, 10, 31, 62, 93, 124):
        for step in due(fleet, tries, minutes):
            seen.append((minutes, step.action, step.attempt))
            tries[step.node] = RepairTry(attempt=step.attempt, at=fleet.now + 60 * minutes)
    assert seen == [(0, RESET, 1), (31, RESET, 2), (62, TICKET, 3)]


def test_what_is_not_due() -> None:
    """F-096: another stage, another machine, a node that somebody else repairs, or one that has been restarted."""
    assert due(waiting(action=RepairAction.RUN_DIAG), {})[0].action is TICKET, "no step that a tool can take"
    staged = waiting()
    staged.quarantines = [NodeQuarantine(name="n001", node="n001", uid="uid-n001", reason="r", stage=Stage.DRAIN)]
    assert due(staged, {}) == []
    other = waiting()
    other.change("n001", uid="new")
    assert due(other, {}) == []
    owned = waiting()
    owned.change("n001", owner="medik8s")
    owned.round(report("n001", 0))
    assert due(owned, {}) == []
    restarted = waiting()
    restarted.round(report("n001", 0, boot="boot-2"))
    assert due(restarted, {}) == []


class Store:
    """The state of a lane in memory."""

    def __init__(self) -> None:
        self.state = LaneState()

    def read(self) -> StoredState:
        return StoredState(state=self.state, version="1")

    def write(self, state: LaneState, *_: StoredState) -> None:
        self.state = state


class Outside:
    """A cluster and a webhook, as far as repairs ask them: pods of a node, events, a CronJob, Jobs."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, is_busy: bool = False) -> None:
        self.sent: list[Any] = []
        self.told: list[tuple[str, str]] = []
        self.jobs: list[Any] = []
        self.cron_job: Any = None
        self.resumed = 0
        self.is_busy = is_busy
        for name in ("pods_on", "uses_gpus", "record_event", "resume_drained"):
            monkeypatch.setattr(repairing, name, getattr(self, name))
        monkeypatch.setattr(messages, "IncomingWebhook", lambda *_: SimpleNamespace(post=self.sent.append))

    def pods_on(self, *_: Any) -> list[dict[str, Any]]:
        return [{}]

    def uses_gpus(self, *_: Any) -> bool:
        return self.is_busy

    def resume_drained(self, *_: Any) -> tuple[str, ...]:
        self.resumed += 1
        return ()

    def record_event(self, *_: Any, reason: str, message: str, **__: Any) -> None:
        self.told.append((reason, message))

    def get(self, _: ObjectKey) -> Any:
        return self.cron_job

    def create(self, body: Any) -> None:
        if body["metadata"]["name"] in [one["metadata"]["name"] for one in self.jobs]:
            raise ClusterError("it exists", status=409)
        self.jobs.append(body)

    def begin(self, fleet: Rounds, store: Store, folder: Path, minutes: float = 0.0) -> tuple[str, ...]:
        """Begin what is due some minutes later; return what went wrong."""
        assert fleet.last is not None
        reading: Any = SimpleNamespace(facts=fleet.facts, reports=fleet.reports)
        rules = HealthRules(policies=fleet.policies, reviewed=tuple(fleet.quarantines))
        done = LaneRound(reading=reading, evaluation=fleet.last, state=store.state, now=fleet.now + 60 * minutes)
        start: Any = repairing.start_repairs
        failures: tuple[str, ...] = start({ALERT_WEBHOOKS: str(folder)}, self, store, done, rules, clock=None).failures
        return failures


@pytest.mark.parametrize(
    ("mode", "is_busy", "told"),
    [("enforce", False, ["RepairStarted"]), ("shadow", False, ["RepairWouldStart"]), ("enforce", True, [])],
)
def test_the_tool_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str, is_busy: bool, told: list[str]
) -> None:
    """F-096, F-165: with shadow only an event says what would be asked; while pods use GPUs, nothing is."""
    fleet, store, outside = waiting(mode=mode), Store(), Outside(monkeypatch, is_busy=is_busy)
    (tmp_path / "repair-url").write_text("https://tool.example/repair")
    problems = [one for _ in range(2) for one in outside.begin(fleet, store, tmp_path)]
    assert ([reason for reason, _ in outside.told], bool(problems)) == (told, is_busy)
    found = [(one["node"], one["action"], one["attempt"]) for one in outside.sent]
    assert found == ([("n001", "reset_gpu", 1)] if told == ["RepairStarted"] else [])
    keys = {"node", "uid", "action", "slots", "reason", "attempt", "attempts", "until"}
    assert all(one.keys() == keys for one in outside.sent)


CRON_JOB = {
    "metadata": {"name": "reset", "namespace": "ops", "uid": "c-1"},
    "spec": {
        "suspend": True,
        "jobTemplate": {
            "spec": {"template": {"spec": {"containers": [{"name": "a", "env": [{"name": "X", "value": "1"}]}]}}}
        },
    },
}
TEMPLATE: dict[str, Any] = {"cronJob": {"namespace": "ops", "name": "reset"}}


def test_a_job_of_the_users_image_takes_the_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """F-096: from a suspended CronJob that was reviewed, on the node, within its time, once an attempt."""
    fleet, outside = waiting(timeout="20m", **TEMPLATE), Outside(monkeypatch)
    assert outside.begin(fleet, Store(), tmp_path) == ("n001 is not repaired: CronJob/ops/reset does not exist",)
    outside.cron_job = {**CRON_JOB, "spec": {**CRON_JOB["spec"], "suspend": False}}  # type: ignore[dict-item]
    (problem,) = outside.begin(fleet, Store(), tmp_path)
    assert problem == "n001 is not repaired: CronJob/ops/reset is not suspended, so it would also run by itself"
    outside.cron_job = CRON_JOB
    for _ in range(2):  # the second as a controller that was killed before it could remember
        assert outside.begin(fleet, Store(), tmp_path) == ()
    (job,) = outside.jobs
    spec = job["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (0, 1200)
    env = {one["name"]: one["value"] for one in spec["template"]["spec"]["containers"][0]["env"]}
    assert env["X"] == "1"
    asked = {name: env[f"REPAIR_{name}"] for name in ("NODE", "ACTION", "SLOTS", "ATTEMPT", "ATTEMPTS")}
    assert list(asked.values()) == ["n001", "reset_gpu", "0000:9b:00.0", "1", "2"]
    terms = spec["template"]["spec"]["affinity"]["nodeAffinity"]
    assert "n001" in str(terms)
    assert job["metadata"]["ownerReferences"][0]["uid"] == "c-1"
    assert outside.sent == []


def test_attempts_of_a_job_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """F-096: two Jobs, then one that gets the ticket, then none; a Job elsewhere is not bound to the node."""
    fleet, store, outside = waiting(timeout="20m", **TEMPLATE), Store(), Outside(monkeypatch)
    outside.cron_job = CRON_JOB
    for minutes in range(0, 120, 10):
        assert outside.begin(fleet, store, tmp_path, minutes) == ()
    actions = [one["value"] for job in outside.jobs for one in env_of(job) if one["name"] == "REPAIR_ACTION"]
    assert actions == ["reset_gpu", "reset_gpu", "contact_support"]
    elsewhere = waiting(cronJob={**TEMPLATE["cronJob"], "onNode": False})
    outside.jobs.clear()
    outside.begin(elsewhere, Store(), tmp_path)
    assert "affinity" not in outside.jobs[0]["spec"]["template"]["spec"]


def env_of(job: Any) -> list[dict[str, str]]:
    found: list[dict[str, str]] = job["spec"]["template"]["spec"]["containers"][0]["env"]
    return found


def draining(**rule: Any) -> Rounds:
    """Return a fleet with a node that Git wants drained."""
    fleet = Rounds(40, spec={**SPEC, "drain": {"mode": "enforce", "attempts": 1, "timeout": "30m", **rule}})
    fleet.quarantines = [NodeQuarantine(name="n001", node="n001", uid="uid-n001", reason="r", stage=Stage.DRAIN)]
    fleet.round(report("n001", 0))
    assert fleet.of("n001").phase is HealthPhase.DRAINING
    return fleet


@pytest.mark.parametrize("mode", ["enforce", "shadow"])
def test_a_drain_is_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str) -> None:
    """F-096: the queue moves workloads, as often as the policy says; then a person is asked. Shadow tells it only."""
    fleet, store, outside = draining(mode=mode), Store(), Outside(monkeypatch, is_busy=True)
    (tmp_path / "repair-url").write_text("https://tool.example/repair")
    moved: list[bool] = []

    def drain_node(*_: Any, is_shadow: bool) -> DrainedNode:
        moved.append(not is_shadow)
        return DrainedNode(workloads=("ai/train",), left=("ai/notebook",))

    monkeypatch.setattr(repairing, "drain_node", drain_node)
    for minutes in range(0, 120, 10):
        assert outside.begin(fleet, store, tmp_path, minutes) == ()
    assert moved == [mode == "enforce"]
    said = "drain (attempt 1 of 1): 1 workload: ai/train; no queue started ai/notebook"
    first = "DrainStarted" if mode == "enforce" else "DrainWouldStart"
    last = "RepairStarted" if mode == "enforce" else "RepairWouldStart"
    assert outside.told == [(first, said), (last, "a ticket: r")]
    assert [one["action"] for one in outside.sent] == (["contact_support"] if mode == "enforce" else [])


def test_attempts_of_a_drain_do_not_count_for_the_repair(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fleet, store, outside = draining(), Store(), Outside(monkeypatch)
    monkeypatch.setattr(repairing, "drain_node", lambda *_, **__: DrainedNode())
    outside.begin(fleet, store, tmp_path)
    assert store.state.repairs["n001"].stage is Stage.DRAIN
    fleet.change("n001", drained=True)
    fleet.round(report("n001", 0))
    assert fleet.of("n001").phase is HealthPhase.REMEDIATING
    outside.begin(fleet, store, tmp_path)
    assert store.state.repairs == {}


@pytest.mark.parametrize(
    ("mode", "was_drained", "resumes"), [("enforce", False, 1), ("shadow", True, 1), ("shadow", False, 0)]
)
def test_what_was_drained_queues_again_also_without_the_policy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str, was_drained: bool, resumes: int
) -> None:
    """F-096: a policy that drains no more leaves no workload stopped."""
    fleet, store, outside = draining(mode=mode), Store(), Outside(monkeypatch)
    monkeypatch.setattr(repairing, "drain_node", lambda *_, **__: DrainedNode())
    if was_drained:
        tried = RepairTry(attempt=1, at=fleet.now, stage=Stage.DRAIN)
        store.state = replace(store.state, repairs={"n001": tried})
    outside.begin(fleet, store, tmp_path)
    assert outside.resumed == resumes


def test_a_node_without_its_taint_is_not_drained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """F-096: else its workloads would come back to it."""
    fleet, outside = draining(), Outside(monkeypatch)
    assert fleet.last is not None
    fleet.last.decisions["n001"] = replace(fleet.of("n001"), taint=None)
    (problem,) = outside.begin(fleet, Store(), tmp_path)
    assert problem.startswith("n001 is not drained: its quarantine has no taint")
