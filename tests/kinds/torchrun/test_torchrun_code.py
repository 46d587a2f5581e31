"""Where the code of a job comes from: credentials, restrictions of its containers, volumes that several pods use."""

from typing import Any

import pytest

from reconciler.repo.config import Backend
from tests.kinds.torchrun.torchrun_cases import rendered
from tests.kinds.walking import Result

QUEUE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  image: train:1
  nodeResources: {gpus: 8, cpus: 96, memory: 800Gi}
"""
GIT = "workspaceStorage: {source: git, url: 'https://git.example.com/a.git', ref: main, hotReload: %s}"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def job(*lines: str, gpus: int = 16) -> str:
    spec = "".join(f"  {line}\n" for line in (f"numGPUs: {gpus}", *lines))
    return (
        "---\napiVersion: torchrun.ai/v1alpha1\nkind: TorchrunJob\nmetadata: {name: train}\n"
        f"spec:\n  jobQueue: q\n  command: python train.py\n{spec}"
    )


def sync_of(result: Result) -> dict[str, Any]:
    (sync,) = result.one("Job", "train")["spec"]["template"]["spec"]["initContainers"]
    found: dict[str, Any] = sync
    return found


RESTRICTED = """\
  podTemplate:
    spec:
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: trainer
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [IPC_LOCK]}}
"""


def test_a_sync_is_restricted_as_the_trainer_is() -> None:
    """F-058: the Pod Security Standard `restricted` admits the pod; what only the trainer may do stays with it."""
    sync = sync_of(rendered(QUEUE + RESTRICTED + job(GIT % "restart")))
    assert sync["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsUser": 65532,
    }
    with_user = RESTRICTED.replace("runAsNonRoot: true", "runAsNonRoot: true, runAsUser: 1000")
    assert "runAsUser" not in sync_of(rendered(QUEUE + with_user + job(GIT % "restart")))["securityContext"]
    assert "securityContext" not in sync_of(rendered(QUEUE + job(GIT % "restart")))


def test_a_sync_in_place_runs_where_a_restricted_namespace_and_kueue_allow_it() -> None:
    """F-060: the sync Job has the restrictions of the pods, and is in the queue, since Kueue may hold back others."""
    for backend, label in ((Backend.KUEUE, "q"), (Backend.KAI, None), (Backend.NONE, None)):
        result = rendered(QUEUE + RESTRICTED + job(GIT % "inplace"), backend)
        (sync,) = (m.body for m in result.manifests if "-sync-" in m.key.name)
        pod = sync["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["containers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert sync["metadata"]["labels"].get("kueue.x-k8s.io/queue-name") == label


def test_a_sync_sees_what_reaches_private_sources() -> None:
    """F-058: variables of object stores, Git and proxies reach the sync, from Secrets too; others do not."""
    env = (
        "env: [{name: AWS_REGION, value: eu}, {name: OTHER, value: x}, {name: https_proxy, value: 'http://p'},"
        " {name: GIT_CONFIG_VALUE_0, valueFrom: {secretKeyRef: {name: git, key: header}}},"
        " {name: S3_ENDPOINT_URL, value: 'http://s3'}]"
    )
    found = sync_of(rendered(QUEUE + job(env, GIT % "restart")))["env"]
    assert [item["name"] for item in found] == ["AWS_REGION", "https_proxy", "GIT_CONFIG_VALUE_0", "S3_ENDPOINT_URL"]
    assert found[2]["valueFrom"] == {"secretKeyRef": {"name": "git", "key": "header"}}


@pytest.mark.parametrize(
    "url",
    [
        "https://ghp_0123456789@github.com/a/b.git",
        "https://user:password@git.example.com/a.git",
        "ssh://git:password@git.example.com/a.git",
        "https://store.example.com/a.zip?X-Amz-Signature=abc&x=1",
        "https://store.example.com/a.zip?access_token=abc",
    ],
)
def test_a_url_with_a_credential_is_refused(url: str) -> None:
    """F-058: everyone who reads the repository or the Job would see it; the message does not repeat it."""
    source = "git" if url.endswith(".git") else "zip"
    result = rendered(QUEUE + job(f"workspaceStorage: {{source: {source}, url: '{url}'}}"))
    assert result.errors == ["torchrun.workspace-secret"]
    assert all("password" not in problem.message and "abc" not in problem.message for problem in result.problems)


@pytest.mark.parametrize("url", ["ssh://git@git.example.com/a.git", "git@git.example.com:a.git", "https://[broken/a"])
def test_a_url_without_a_credential_is_not(url: str) -> None:
    assert rendered(QUEUE + job(f"workspaceStorage: {{source: git, url: '{url}'}}")).errors == []


@pytest.mark.parametrize(
    ("workspace", "is_warned"),
    [
        ("source: git, url: 'https://g/a.git', ref: main, claimName: mine", True),
        ("source: git, url: 'https://g/a.git', claimName: mine", True),
        (f"source: git, url: 'https://g/a.git', ref: {COMMIT}, claimName: mine", False),
        ("source: git, url: 'https://g/a.git', ref: main", False),
        ("source: zip, url: 'https://g/a.zip', claimName: mine", True),
        (f"source: zip, url: 'https://g/a.zip', sha256: {'a' * 64}, claimName: mine", False),
        ("source: existing, claimName: mine", False),
    ],
)
def test_code_that_may_move_on_an_existing_volume_is_warned_of(workspace: str, *, is_warned: bool) -> None:
    """F-058: the volume keeps the version that it has, so a new run would silently train the old code."""
    found = rendered(QUEUE + job(f"workspaceStorage: {{{workspace}}}")).rules
    assert ("torchrun.workspace-unpinned" in found) == is_warned


@pytest.mark.parametrize("storage", ["workspace", "checkpoints"])
def test_a_volume_for_one_node_is_warned_of_for_several(storage: str) -> None:
    """F-061: the pods of the second node would wait for the volume forever."""
    volume = f"storage: {{{storage}: {{size: 1Gi, accessModes: [ReadWriteOnce]}}}}"
    assert "torchrun.access-mode" in rendered(QUEUE + job(volume)).rules
    assert "torchrun.access-mode" not in rendered(QUEUE + job(volume, gpus=8)).rules
    assert "torchrun.access-mode" not in rendered(QUEUE + job(volume.replace("Once", "Many"))).rules


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("torchrun --nproc-per-node 8 train.py", "torchrun"),
        ("cd /app && OMP_NUM_THREADS=8 /opt/bin/accelerate launch train.py", "accelerate launch"),
        ("python3 -u -m torch.distributed.run train.py", "python3 -u -m torch.distributed.run"),
        ("if true; then deepspeed train.py; fi", "deepspeed"),
        ("exec mpirun -n 8 train", "mpirun"),
        ("python train.py --launcher torchrun", ""),
        ("python -m deepspeed_tools x", ""),
        ("python torchrun.py", ""),
        ("echo torchrun is started already", ""),
    ],
)
def test_a_launcher_inside_the_launcher_is_warned_of(command: str, launcher: str) -> None:
    """F-051: each process would start processes of its own, on GPUs that the others use."""
    result = rendered(QUEUE + job().replace("python train.py", command))
    found = [problem.message for problem in result.problems if problem.rule == "torchrun.nested-launcher"]
    assert len(found) == bool(launcher)
    assert all(repr(launcher) in message for message in found)
