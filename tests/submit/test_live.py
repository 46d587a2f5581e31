"""Logs, commands, ports and GPUs of live workloads, against a stub of an API server that speaks HTTP and websockets."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click
import pytest

from reconciler.cli.main import run
from reconciler.errors import ConfigError
from reconciler.kinds.kind import Kinds
from reconciler.kube.client import load_access
from reconciler.kube.client.port import LiveCluster
from reconciler.kube.client.streams import PodStreams
from reconciler.kube.objects import ObjectKey
from reconciler.live.observe.reading import KindObjects
from reconciler.submit.live.screen import ManageScreen
from reconciler.submit.live.sessions import forward, listener, parse_port
from reconciler.submit.live.workloads import LiveWorkload, workloads
from tests.submit.pod_server import Body, Handler, owned, pod, serving

RAY = "ray.io/v1"
OBJECTS: dict[str, list[Body]] = {
    "pods": [
        pod("train-0", owned("Job", "batch/v1", "train"), gpu="nvidia.com/gpu", **{"kaiwo.silogen.ai/user": "alice"}),
        pod("ray-head", owned("RayCluster", RAY, "ray-x"), containers=("ray-head", "side")),
        pod("ray-worker", owned("RayCluster", RAY, "ray-x"), gpu="amd.com/gpu"),
        pod("web-1-a", owned("ReplicaSet", "apps/v1", "web-1")),
    ],
    "jobs": [{"kind": "Job", "metadata": {"name": "train", "namespace": "team-a"}}],
    "rayclusters": [
        {
            "kind": "RayCluster",
            "metadata": {"name": "ray-x", "namespace": "team-a", "ownerReferences": owned("RayJob", RAY, "ray")},
        }
    ],
    "rayjobs": [{"kind": "RayJob", "metadata": {"name": "ray", "namespace": "team-a"}}],
    "replicasets": [
        {
            "kind": "ReplicaSet",
            "metadata": {
                "name": "web-1",
                "namespace": "team-a",
                "ownerReferences": owned("Deployment", "apps/v1", "web"),
            },
        }
    ],
    "deployments": [{"kind": "Deployment", "metadata": {"name": "web", "namespace": "team-a"}}],
}


@pytest.fixture
def access(tmp_path: Path) -> Iterator[list[str]]:
    with serving(OBJECTS, tmp_path) as kubeconfig:
        yield ["-n", "team-a", "--kubeconfig", str(kubeconfig)]


def _ran(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    capfd.readouterr()
    code = run(list(words))
    out, err = capfd.readouterr()
    return code, out, err


def test_f_121_logs_of_the_only_pod(access: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert _ran(capfd, "logs", "job/train", "--tail", "5", *access) == (0, "log of train-0 main 5\n", "")
    assert _ran(capfd, "logs", "deployment/web", *access)[1] == "log of web-1-a main all\n"
    assert _ran(capfd, "logs", "service/web", *access)[0] == 0


def test_f_121_several_pods_are_listed_without_a_terminal(access: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = _ran(capfd, "logs", "rayjob/ray", *access)
    assert (code, err) == (2, "error: there are several pods; choose one with --pod: ray-head, ray-worker\n")
    code, _, err = _ran(capfd, "logs", "rayjob/ray", "--pod", "ray-head", *access)
    assert (code, err) == (2, "error: there are several containers; choose one with --container: ray-head, side\n")
    assert _ran(capfd, "logs", "rayjob/ray", "--pod", "ray-head", "--container", "side", *access)[1].endswith(
        "side all\n"
    )
    code, _, err = _ran(capfd, "logs", "job/other", *access)
    assert code == 2
    assert "no pod of job/other in namespace team-a" in err


def test_f_121_a_command_has_its_output_and_its_exit_code(access: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    script = "echo out; echo err >&2; exit 3"
    assert _ran(capfd, "exec", "job/train", "--no-stdin", "--command", script, *access) == (3, "out\n", "err\n")
    assert any("command=%2Fbin%2Fsh&command=-c" in path for path in Handler.requests)


def test_f_121_what_is_typed_reaches_the_command(
    access: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read, write = os.pipe()
    saved = os.dup(0)
    try:
        os.dup2(read, 0)
        os.write(write, b"hello\n")
        code, out, _ = _ran(capfd, "exec", "job/train", "--command", "read word; echo got $word", *access)
    finally:
        os.dup2(saved, 0)
        for descriptor in (saved, read, write):
            os.close(descriptor)
    assert (code, out) == (0, "got hello\n")


def test_f_121_the_tool_of_the_vendor_is_run(
    access: list[str], capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("nvidia-smi", "rocm-smi"):
        path = tmp_path / tool
        path.write_text(f"#!/bin/sh\necho {tool} here\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert _ran(capfd, "monitor", "job/train", *access)[:2] == (0, "nvidia-smi here\n")
    assert _ran(capfd, "monitor", "rayjob/ray", "--pod", "ray-worker", *access)[:2] == (0, "rocm-smi here\n")
    code, _, err = _ran(capfd, "monitor", "deployment/web", *access)
    assert (code, "requests no GPU" in err) == (2, True)


def test_f_121_a_local_port_leads_to_the_pod(access: list[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as target, listener(0) as server:
        port = target.getsockname()[1]

        def echo() -> None:
            connection, _ = target.accept()
            with connection:
                connection.sendall(b"you said " + connection.recv(100))

        threading.Thread(target=echo, daemon=True).start()
        streams = PodStreams(load_access({}, kubeconfig=access[-1]))
        failures: list[str] = []
        connect = lambda: streams.port("team-a", "ray-head", port)  # noqa: E731
        threading.Thread(target=forward, args=(server, connect, failures.append), daemon=True).start()
        with socket.create_connection(server.getsockname()) as client:
            client.sendall(b"hello")
            received = b""
            while content := client.recv(100):
                received += content
        assert (received, failures) == (b"you said hello", [])
        streams.close()


@pytest.mark.parametrize(("text", "ports"), [("8265", (8265, 8265)), ("8080:80", (8080, 80)), ("0:80", (0, 80))])
def test_ports(text: str, ports: tuple[int, int]) -> None:
    assert parse_port(text) == ports


@pytest.mark.parametrize("text", ["", "a", "1:", "70000", "80:0", "1:2:3"])
def test_wrong_ports(text: str) -> None:
    with pytest.raises(ConfigError, match="LOCAL"):
        parse_port(text)


def test_f_121_the_screen_shows_workloads_and_ends_with_a_choice() -> None:
    rows = [
        LiveWorkload(
            key=ObjectKey(group="batch", kind="Job", namespace="a", name=name), user="alice", phases={"Running": 2}
        )
        for name in ("one", "two")
    ]

    async def choose() -> tuple[str, LiveWorkload] | None:
        screen = ManageScreen(lambda: rows)
        async with screen.run_test() as pilot:
            await pilot.press("r", "down", "l")
        return screen.return_value

    assert asyncio.run(choose()) == ("logs", rows[1])


def test_an_error_while_a_port_is_open_is_not_one_of_the_port() -> None:
    with pytest.raises(BrokenPipeError), listener(0):
        raise BrokenPipeError
    with listener(0) as server, pytest.raises(ConfigError, match="cannot be used"), listener(server.getsockname()[1]):
        pass


def test_the_screen_says_why_it_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.submit.live.workloads.read_kind", lambda *_, **__: KindObjects(failure="forbidden"))
    told: list[str] = []
    monkeypatch.setattr(ManageScreen, "notify", lambda _, message, **__: told.append(message))

    async def look() -> None:
        screen = ManageScreen(lambda: workloads(cast("LiveCluster", None), Kinds([]), "", ""))
        async with screen.run_test() as pilot:
            await pilot.press("l", "q")

    asyncio.run(look())
    assert told == ["forbidden"]


def test_ctrl_c_at_the_question_for_a_port_leads_back_to_the_screen(
    access: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ObjectKey(group="batch", kind="Job", namespace="team-a", name="train")
    choices = [("port-forward", LiveWorkload(key=key, user="alice", phases={})), None]
    monkeypatch.setattr(ManageScreen, "run", lambda _: choices.pop(0))

    def interrupted(*_: object, **__: object) -> str:
        raise click.Abort

    monkeypatch.setattr(click, "prompt", interrupted)
    assert _ran(capfd, "manage", *access)[0] == 0
    assert choices == []


def test_f_121_without_the_extra_the_hint_says_how_to_install_it(
    access: list[str], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.submit.commands.manage.find_spec", lambda _: None)
    code, _, err = _ran(capfd, "manage", *access)
    assert (code, err) == (2, "error: the screen is not installed; pip install 'gpu-reconciler[tui]'\n")
