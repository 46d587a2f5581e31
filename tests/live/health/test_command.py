"""`reconciler health` on a real API server and a real repository."""

import json
import time
from pathlib import Path

import pytest

from reconciler.cli.main import run as command
from tests.cli.fleet import IDENTITY
from tests.cluster.server import ApiServer
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.test_pass import push
from tests.live.health.conftest import taints
from tests.live.health.fleet import FAST, SLOT, LiveFleet, lost
from tests.live.health.test_rounds import Round, damaged, fenced, fleet, policy, run

__all__ = ["fleet", "run"]


class Health:
    """Runs `reconciler health` in the clone of a person."""

    def __init__(self, person: Sandbox, server: ApiServer, capsys: pytest.CaptureFixture[str]) -> None:
        self.flags: tuple[str, ...] = (
            "--repo",
            str(person.folder),
            "--kubeconfig",
            str(server.kubeconfig),
            "--width",
            "140",
        )
        self._capsys = capsys

    def __call__(self, *arguments: str, flags: tuple[str, ...] = ()) -> tuple[int, str]:
        self._capsys.readouterr()
        code = command(["health", *self.flags, *flags, *arguments])
        seen = self._capsys.readouterr()
        return code, seen.out + seen.err


@pytest.fixture
def health(
    person: Sandbox,
    private_server: ApiServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Health:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    return Health(person, private_server, capsys)


def test_a_person_sees_the_fleet_one_node_and_why(
    fleet: LiveFleet, person: Sandbox, run: Round, health: Health
) -> None:
    """F-098: reasons in plain words, the budget of the breaker, the age of reports, the chain to the consequence."""
    fleet.clock.at = time.time()
    for name in fleet.names:
        fleet.report(name)
    bad = fenced(fleet, person, run)
    person.git("pull", "-q", "--rebase", "origin", "main")
    code, text = health()
    assert code == 0
    assert "10 nodes, 1 out of use, 8 of 80 GPUs lost" in text
    assert "1 of 2" in text, "the budget"
    assert f"{bad}  quarantined" in text
    assert "the driver asks for a reset" in text
    assert "breaker: closed" in text
    code, text = health("explain", bad)
    assert code == 0
    for part in (f"gpu.recovery_action on {SLOT}: FAIL, fatal", "mode enforce, lane fast", "one report is enough"):
        assert part in text
    assert "taint gpureconciler.io/gpu-problem:NoSchedule for another 2" in text
    assert f"branch health/{bad}-" in text
    code, text = health(flags=("-o", "json"))
    cluster = json.loads(text)["clusters"][0]
    assert [row["node"] for row in cluster["nodes"] if row["phase"] == "quarantined"] == [bad]
    assert "healthy" in health(fleet.names[1])[1]
    code, text = health("no-such-node")
    assert (code, "no node 'no-such-node'" in text) == (2, True)


def test_a_release_is_a_commit_that_the_fast_lane_follows(
    fleet: LiveFleet, server: GitServer, person: Sandbox, run: Round, health: Health
) -> None:
    bad = fenced(fleet, person, run)
    person.git("pull", "-q", "--rebase", "origin", "main")
    assert health("set-healthy", bad)[0] == 0
    assert "stage: validate" in person.git("show", "HEAD")
    person.git("reset", "-q", "--hard", "origin/main")
    code, text = health("release", bad)
    assert (code, text[:9]) == (0, "committed")
    assert person.git("log", "-1", "--format=%s") == f"Node health: release {bad}"
    person.git("push", "-q", "origin", "main")
    for _ in range(3):
        fleet.report(bad, lost())
        run()
    assert taints(fleet.node(bad)) == []
    assert f"{bad}.yaml" not in server.git("ls-tree", "-r", "--name-only", "main")
    code, text = health("release", bad)
    assert (code, "no NodeQuarantine" in text) == (2, True)


def test_a_damaged_state_of_one_cluster_hides_no_other(
    fleet: LiveFleet, private_server: ApiServer, person: Sandbox, health: Health, tmp_path: Path
) -> None:
    kubeconfig = damaged(fleet, private_server, person, tmp_path)
    code, text = health(flags=("--kubeconfig", str(kubeconfig)))
    assert code == 6
    assert "reconciler-health-fleet-other: the state of node health is damaged" in " ".join(text.split())
    assert "then delete the ConfigMap" in " ".join(text.split())
    assert "10 nodes, 0 out of use" in text


def test_without_a_cluster_the_repository_speaks(person: Sandbox, health: Health) -> None:
    """F-098: offline: what nobody measured is unknown, never healthy."""
    push(person, policy(FAST))
    code, text = health(flags=("--offline",))
    assert code == 0
    assert "unknown" in text
    assert "out of use" in text
    assert "healthy" not in text


def test_a_cluster_that_cannot_be_reached_is_said(person: Sandbox, health: Health) -> None:
    health.flags = ("--repo", str(person.folder), "--kubeconfig", "/nonexistent")
    code, _ = health()
    assert code != 0
