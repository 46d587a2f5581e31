"""`reconciler controller --config FILE` as a real process beside a real Git server."""

import hashlib
import hmac
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import run
from tests.cluster.server import wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import Running, controller
from tests.live.controller.test_pass import job, push

TOKEN = "canary-webhook-t0ken"


@pytest.fixture
def config(server: GitServer, person: Sandbox, tmp_path: Path) -> Callable[..., Path]:
    """Return what writes the file of sources."""

    def write(**specs: dict[str, Any]) -> Path:
        path = tmp_path / "sources.yaml"
        bodies = [
            {
                "apiVersion": "gpureconciler.io/v1alpha1",
                "kind": "ConfigSource",
                "metadata": {"name": name},
                "spec": {"url": server.url, "interval": "1s", **spec},
            }
            for name, spec in specs.items()
        ]
        path.write_text("\n---\n".join(json.dumps(body) for body in bodies) + "\n")
        return path

    return write


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets/hook"
    folder.mkdir(parents=True)
    (folder / "token").write_text(f"{TOKEN}\n")
    return folder.parent


@pytest.fixture
def running(config: Callable[..., Path], secrets: Path, tmp_path: Path) -> Iterator[Running]:
    path = config(fleet={"mode": "commit", "webhookSecretRef": {"name": "hook"}})
    spans = tmp_path / "spans.jsonl"
    with controller(tmp_path / "c", "--config", str(path), "--secrets", str(secrets), "--spans", str(spans)) as started:
        yield started


def test_a_day_of_a_controller(
    running: Running, server: GitServer, person: Sandbox, config: Callable[..., Path], tmp_path: Path
) -> None:
    """F-125, F-135: probes, metrics, logs and spans while commits come, the server fails, and SIGTERM arrives."""
    wait_until(lambda: running.get("/readyz")[0] == 200, "ready")
    assert running.get("/healthz") == (200, "ok\n")
    tip = push(person, job("blue"))
    wait_until(lambda: server.tip() != tip, "the commit of the controller")
    rendered = server.tip()
    entry = wait_for(running, "reconciled", pushed=rendered)
    assert (entry["source"], entry["level"], entry["reason"]) == ("default/fleet", "info", "ReconciliationSucceeded")
    assert running.value('reconciler_commit_request_total{result="pushed"}') == 1

    server.fault = "down"
    wait_until(lambda: running.get("/readyz")[0] == 503, "not ready while the last pass failed")
    assert running.value('reconciler_reconcile_condition{status="False",type="Ready"}') == 1
    assert running.value('reconciler_git_request_total{result="failure",type="ls-remote"}') >= 1
    assert wait_for(running, "failed", reason="RemoteUnavailable")["level"] == "error"
    server.fault = ""
    wait_until(lambda: running.get("/readyz")[0] == 200, "ready again")

    passes = len(running.said("reconciled"))
    before = len(server.requests)
    wait_until(lambda: len(server.requests) >= before + 4, "some polls")
    assert len(running.said("reconciled")) == passes, "nothing changed, so there is no pass"
    assert server.tip() == rendered

    config(fleet={"mode": "observe", "suspend": True})
    wait_until(lambda: running.value('reconciler_suspend_status{kind="ConfigSource"}') == 1, "suspended")
    assert running.stop() == 0
    spans = [json.loads(line) for line in (tmp_path / "spans.jsonl").read_text().splitlines()]
    pushes = [span for span in spans if span["name"] == "push"]
    assert len(pushes) == 1
    trace = [span for span in spans if span["trace"] == pushes[0]["trace"]]
    assert [span["name"] for span in trace] == ["fetch", "open", "plan", "commit", "push", "reconcile"]
    (root,) = (span for span in trace if not span["parent"])
    assert {span["parent"] for span in trace if span is not root} == {root["id"]}
    assert "canary" not in running.log.read_text() + str(spans)


def wait_for(running: Running, message: str, **fields: object) -> dict[str, Any]:
    wait_until(lambda: running.said(message, **fields), f"{message} {fields}")
    return running.said(message, **fields)[0]


def test_webhooks_wake_a_source_and_forged_ones_do_not(
    config: Callable[..., Path], secrets: Path, server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    path = config(
        fleet={"mode": "commit", "interval": "1h", "webhookSecretRef": {"name": "hook"}}, other={"interval": "1h"}
    )
    with controller(tmp_path / "c", "--config", str(path), "--secrets", str(secrets)) as running:
        wait_for(running, "reconciled", source="default/fleet")
        wait_for(running, "reconciled", source="default/other")
        tip = push(person, job("blue"))
        body = json.dumps({"ref": "refs/heads/main", "pusher": "canary"}).encode()
        signature = hmac.new(TOKEN.encode(), body, hashlib.sha256).hexdigest()
        forged = {"X-Hub-Signature-256": f"sha256={signature[::-1]}", "X-GitHub-Delivery": "1"}
        genuine = {"X-Hub-Signature-256": f"sha256={signature}", "X-GitHub-Delivery": "1"}
        for name in ("fleet", "other", "unknown"):
            refused = running.post(f"/webhooks/default/{name}", body, forged)
            assert refused == (403, "the signature is not valid\n")
        assert running.post("/webhooks/default/other", body, genuine)[0] == 403, "it has no token"
        assert running.post("/webhooks/default/fleet", body, genuine) == (202, "2 sources due\n")
        wait_until(lambda: server.tip() != tip, "the commit of the controller")
        assert running.post("/webhooks/default/fleet", body, genuine) == (200, "already delivered\n")
        assert running.value('reconciler_webhook_request_total{provider="github",result="accepted"}') == 1
        assert running.value('reconciler_webhook_request_total{provider="github",result="refused"}') == 4
        assert "canary" not in running.log.read_text()


def test_one_broken_source_does_not_stop_another(
    config: Callable[..., Path], server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    path = config(broken={"url": "http://127.0.0.1:1/x.git"}, gone={"ref": "none"}, fleet={"mode": "commit"})
    with controller(tmp_path / "c", "--config", str(path), "--workers", "1") as running:
        wait_for(running, "failed", source="default/broken", reason="RemoteUnavailable")
        wait_for(running, "failed", source="default/gone", reason="RefNotFound")
        wait_for(running, "reconciled", source="default/fleet")
        assert running.get("/readyz")[0] == 200, "a source that works is enough"


def test_a_wrong_file_is_refused_with_every_problem(config: Callable[..., Path], tmp_path: Path) -> None:
    path = config(fleet={"mode": "deploy", "interval": "soon"})
    assert run(["controller", "--config", str(path), "--state", str(tmp_path / "s")]) == 3


def test_a_pass_ends_with_a_controller_that_is_killed(
    config: Callable[..., Path], server: GitServer, person: Sandbox, tmp_path: Path
) -> None:
    """F-134: what a killed leader began must not go on beside its successor."""
    begun: list[str] = []

    def hang(name: str) -> None:
        if "receive-pack" in name:
            begun.append(name)
            server.released.wait(30)

    with controller(tmp_path / "c", "--config", str(config(fleet={"mode": "commit"}))) as running:
        wait_for(running, "reconciled")
        server.before = hang
        tip = push(person, job("blue"))
        wait_until(lambda: begun, "a push")
        pid = running.process.pid
        tasks = (Path("/proc") / str(pid) / "task").iterdir()
        children = [child for task in tasks for child in (task / "children").read_text().split()]
        assert children
        running.process.kill()
        wait_until(lambda: not any((Path("/proc") / child).exists() for child in children), "the end of the pass")
        assert server.tip() == tip
