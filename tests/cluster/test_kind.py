"""`make cluster-kind` without Docker: the real kind reads its configuration, a real API server its manifests."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.bed import kind
from tests.cluster.fixtures import Parts
from tests.cluster.judges import assert_all_accepted
from tests.cluster.parts import KIND
from tests.cluster.server import ApiServer


@pytest.fixture(scope="module")
def folder(kubectl: Path, parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of a cluster of ten nodes."""
    for what in kind.OPERATORS:
        parts.folder(what)
    place = tmp_path_factory.mktemp("kind")
    kind.write(place, 10)
    return place


def items(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text())["items"]
    return found


def created(program: Path, config: Path) -> str:
    """Return what the real kind says when it cannot reach Docker."""
    environment = {
        **os.environ,
        "KIND_EXPERIMENTAL_PROVIDER": "docker",
        "DOCKER_HOST": f"unix://{config.parent}/no-docker",
    }
    argv = [str(program), "create", "cluster", f"--config={config}", "--kubeconfig=/dev/null"]
    result = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode
    return result.stderr


def test_kind_reads_the_configuration(folder: Path, parts: Parts, tmp_path: Path) -> None:
    """The only complaint is that there is no Docker; a field that kind does not know would be another."""
    program = parts.program(KIND)
    refusal = created(program, folder / "kind.json")
    assert "unable to decode config" not in refusal
    assert "docker" in refusal.lower()
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({**kind.CONFIG, "node": []}))
    assert "field node not found" in created(program, broken)


def test_the_server_takes_the_manifests(api_server: ApiServer, folder: Path) -> None:
    """Definitions, operators, nodes and volumes pass a dry run; kwok's stages are of a kind that this server lacks."""
    bodies = [body for name in ("definitions", "operators", "nodes") for body in items(folder / f"{name}.json")]
    stages = [body for body in bodies if body["kind"] == "Stage"]
    assert stages
    assert_all_accepted(api_server.apply_dry_run([body for body in bodies if body not in stages]))
    definitions = {body["metadata"]["name"] for body in bodies if body["kind"] == "CustomResourceDefinition"}
    assert {"stages.kwok.x-k8s.io", "clusterqueues.kueue.x-k8s.io", "jobsets.jobset.x-k8s.io"} <= definitions


def test_operators_run_on_the_real_node(folder: Path) -> None:
    """A simulated node runs no program; every image names its version."""
    pods = [
        body["spec"]["template"]["spec"] for body in items(folder / "operators.json") if body["kind"] == "Deployment"
    ]
    assert len(pods) == 4
    for pod in pods:
        assert pod["nodeSelector"] == {"node-role.kubernetes.io/control-plane": ""}
        assert all(":" in container["image"].rpartition("/")[2] for container in pod["containers"])


def test_the_nodes_are_of_three_products(folder: Path) -> None:
    nodes = [body["metadata"]["labels"] for body in items(folder / "nodes.json") if body["kind"] == "Node"]
    assert len(nodes) == 10
    assert len({labels["nvidia.com/gpu.product"] for labels in nodes}) == 3


def test_it_prints_what_it_would_do(
    folder: Path, parts: Parts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--print` runs nothing: the commands appear in order, the kubeconfig last."""
    parts.folder(KIND)
    assert kind.main(["--print", "--nodes=10", f"--folder={tmp_path / 'made'}"]) == 0
    printed = capsys.readouterr()
    words = ["create cluster", "definitions.json", "operators.json", "kai-scheduler", "nodes.json"]
    places = [printed.err.index(word) for word in words]
    assert places == sorted(places)
    assert f"RECONCILER_TEST_KUBECONFIG={tmp_path / 'made' / 'kubeconfig'}" in printed.out
    assert items(tmp_path / "made" / "operators.json") == items(folder / "operators.json")
