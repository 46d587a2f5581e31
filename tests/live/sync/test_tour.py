"""The tour of README.md on a cluster: `make cluster` starts it, and every command prints what the page says."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.bed.start import NEEDED
from tests.cluster.fixtures import Parts
from tests.cluster.parts import ControlPlane
from tests.cluster.server import wait_until
from tests.system.test_docs_examples import ROOT, Shell, examples, matches

PAGE = ROOT / "README.md"
BLOCK = re.compile(r"^```console cluster\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def variables(control_plane_programs: ControlPlane, parts: Parts, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Start `make cluster` and return the variables that it prints."""
    assert control_plane_programs.kubectl is not None
    for what in NEEDED:
        parts.folder(what)
    log = tmp_path / "cluster.log"
    with log.open("wb") as output:
        argv = [sys.executable, "-m", "tests.cluster.bed.start"]
        cluster = subprocess.Popen(argv, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until(lambda: cluster.poll() is not None or "Ctrl-C" in log.read_text(), "the cluster", seconds=600)
        assert cluster.poll() is None, log.read_text()
        yield dict(re.findall(r"^export (KUBECONFIG|FLEET_URL)=(\S+)", log.read_text(), re.MULTILINE))
    finally:
        cluster.send_signal(signal.SIGINT)
        assert cluster.wait(120) == 0, log.read_text()


@pytest.mark.timeout(900)  # many commands, some of which wait for controllers
def test_the_tour_runs_as_printed(
    variables: dict[str, str], control_plane_programs: ControlPlane, tmp_path: Path
) -> None:
    """F-141, F-142, F-143: init, observe, plan, commit, sync, apply, drift, prune, rollback."""
    assert control_plane_programs.kubectl is not None
    shell = Shell(tmp_path, tmp_path / "home", control_plane_programs.kubectl.parent, **variables)
    tour = list(examples(PAGE.read_text(), BLOCK))
    assert len(tour) > 20
    for example in tour:
        code, printed = shell.run(example.command)
        refusal = example.output.rpartition("\nerror: ")[1]  # a command that is shown to fail
        assert bool(code) is bool(refusal), f"$ {example.command}\n{printed}"
        assert not example.output or matches(printed, example.output), f"$ {example.command}\n{printed}"
