"""F-051, F-052: the script of a training pod, run by the real bash with a `torchrun` that prints what it is given."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.kinds.torchrun.render.command import as_kubelet_reads
from tests.kinds.torchrun.torchrun_cases import rendered

QUEUE = """
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec: {image: "train:1", nodeResources: {gpus: 8}}
---
"""


def job(command: str, *, setup: str = "", gpus: int = 8, more: str = "") -> str:
    setup_line = f"  setupCommand: {json.dumps(setup)}\n" if setup else ""
    return (
        f"{QUEUE}apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\nmetadata: {{name: train}}\nspec:\n  jobQueue: q\n"
        f"  numGPUs: {gpus}\n  command: {json.dumps(command)}\n{setup_line}{more}"
    )


def kubelet(text: str, variables: dict[str, str]) -> str:
    """Expand as k8s.io/kubernetes/third_party/forked/golang/expansion does."""

    def expanded(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        name = found[1]
        return variables.get(name, found[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", expanded, text)


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """Return a folder whose `torchrun` prints its arguments as JSON, then runs the program after --no-python."""
    program = (
        f"#!{sys.executable}\nimport json, os, sys\n"
        "print(json.dumps(sys.argv[1:]))\nsys.stdout.flush()\n"
        "at = sys.argv.index('--no-python') + 1\nos.execvp(sys.argv[at], sys.argv[at:])\n"
    )
    (tmp_path / "torchrun").write_text(program)
    (tmp_path / "torchrun").chmod(0o755)
    return tmp_path


def run(box: Path, text: str, backend: str = "kueue", **env: str) -> subprocess.CompletedProcess[str]:
    """Run the trainer's command as a container runtime would, after the kubelet's expansion."""
    result = rendered(text, backend)
    assert result.errors == []
    body = next(m.body for m in result.manifests if m.key.kind in ("Job", "PyTorchJob"))
    spec = body["spec"]
    template = spec.get("template") or spec["pytorchReplicaSpecs"]["Worker"]["template"]
    argv = [kubelet(part, env) for part in template["spec"]["containers"][0]["command"]]
    path = f"{box}:{os.environ['PATH']}"
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, cwd=box, env={"PATH": path, **env}, timeout=60
    )


@pytest.mark.parametrize(
    ("command", "printed"),
    [
        ("echo hello world", "hello world"),
        ("echo 'a  b' && echo \"c'd\"", "a  b\nc'd"),
        ("cd / && pwd", "/"),
        ("X=5 bash -c 'echo $X'", "5"),
        ("echo $(echo nested) `echo ticks`", "nested ticks"),
        ("echo $((1+2)) '$$' \"$HOME\"", "3 $$ /root-of-test"),
        ("echo one # a comment", "one"),
        ("echo a; echo b", "a\nb"),
        ("exec echo replaced", "replaced"),
        ("printf '%s\\n' \"line 1\nline 2\"", "line 1\nline 2"),
        ("echo ünï *.none {a,b}", "ünï *.none a b"),
        ("echo --flag=x -k 'v w'", "--flag=x -k v w"),
    ],
)
def test_the_command_means_what_it_says(box: Path, command: str, printed: str) -> None:
    """F-051: quotes, `&&`, substitutions, comments and lines reach the shell of every worker unchanged."""
    done = run(box, job(command), HOME="/root-of-test")
    assert done.returncode == 0, done.stderr
    arguments, _, output = done.stdout.partition("\n")
    assert json.loads(arguments)[:4] == ["--standalone", "--nproc-per-node=8", "--max-restarts=3", "--rdzv-id=train"]
    assert output == f"{printed}\n"


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        ("false && true", 1),
        ("false", 1),
        ("(exit 7)", 7),
        ("false | cat", 1),
        ("echo 'never closed", None),
        ("no-such-program", 127),
        ("if true; then", None),
        ("export A=b \\", None),
    ],
)
def test_a_failing_setup_ends_the_pod(box: Path, setup: str, code: int | None) -> None:
    """F-051: torchrun does not start after a setup that failed, in whatever way."""
    done = run(box, job("echo started", setup=setup))
    assert done.returncode != 0
    assert code is None or done.returncode == code
    assert "started" not in done.stdout


@pytest.mark.parametrize("setup", ["export A=b c=d  # why", "A=b; export A", "set +e; false; export A=b"])
def test_what_setup_exports_stays(box: Path, setup: str) -> None:
    """F-051: setup may activate environments; a trailing comment does not swallow torchrun."""
    done = run(box, job("echo got $A", setup=setup))
    assert done.stdout.splitlines()[-1] == "got b", done.stderr


@pytest.mark.parametrize(("rank", "is_host"), [("0", "1"), ("3", "0")])
def test_several_nodes_meet_at_the_first(box: Path, rank: str, is_host: str) -> None:
    """F-052: c10d at pod 0 of the headless Service, on the default port; only pod 0 hosts the store."""
    done = run(box, job("echo go", gpus=32), JOB_COMPLETION_INDEX=rank)
    assert json.loads(done.stdout.splitlines()[0]) == [
        "--nnodes=4",
        "--nproc-per-node=8",
        "--max-restarts=3",
        "--rdzv-backend=c10d",
        "--rdzv-endpoint=train-0.train:29500",
        "--rdzv-id=train",
        f"--rdzv-conf=is_host={is_host},join_timeout=900,read_timeout=900",
        "--no-python",
        "echo",
        "go",
    ]


def test_under_kai_the_workers_of_a_pytorchjob_meet(box: Path) -> None:
    """F-039, F-052: the operator's Service of worker 0 is the meeting point, its label the rank."""
    more = "  distributed: {rdzvBackend: static, port: 30001}\n"
    done = run(box, job("echo go", gpus=16, more=more), "kai", NODE_RANK="1")
    assert json.loads(done.stdout.splitlines()[0])[:6] == [
        "--nnodes=2",
        "--nproc-per-node=8",
        "--max-restarts=3",
        "--node-rank=1",
        "--rdzv-backend=static",
        "--rdzv-endpoint=train-worker-0:30001",
    ]


def test_a_pod_without_its_rank_fails(box: Path) -> None:
    """A missing rank is never taken for rank 0 nor for a worker that waits forever."""
    done = run(box, job("echo go", gpus=32))
    assert done.returncode != 0
    assert "JOB_COMPLETION_INDEX" in done.stderr


@given(st.text(alphabet="$()AB x", max_size=20))
def test_bash_sees_what_was_written(text: str) -> None:
    """The kubelet's `$(NAME)` and `$$` give back every text, whatever variables exist."""
    assert kubelet(as_kubelet_reads(text), {"A": "expanded", "": "x", "AB": "y"}) == text
