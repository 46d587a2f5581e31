"""Two weeks of a platform team and its researchers with two clusters, through the command line alone."""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.fleet import IDENTITY, Ran, run_verb
from tests.ready import new_cache

ZONE = "+00:00"


class Team:
    """A clone of the config repository, and the habits of those who work in it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> None:
        self.root, self._monkeypatch, self._capture = root, monkeypatch, capture

    def on(self, day: str) -> None:
        """Set the date of all further commits."""
        for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"):
            self._monkeypatch.setenv(name, f"{day}T10:00:00{ZONE}")

    def run(self, *arguments: str, code: int = 0) -> Ran:
        """Run the command line and check its exit code."""
        ran = run_verb(self._capture, [*arguments, "--repo", str(self.root)])
        assert ran.code == code, f"{arguments}: exit {ran.code}\n{ran.out}\n{ran.err}"
        return ran

    def plan(self, *arguments: str, code: int = 0) -> Any:
        """Return the plan of HEAD against main as data."""
        return json.loads(
            self.run("plan", "--revision", "HEAD", "--base", "main", *arguments, "-o", "json", code=code).out
        )

    def git(self, *arguments: str, check: bool = True) -> str:
        command = ["git", "-C", str(self.root), *arguments]
        return subprocess.run(command, check=check, capture_output=True, text=True).stdout.strip()

    def branch(self, name: str) -> None:
        self.git("switch", "--quiet", "--create", name, "main")

    def edit(self, path: str, *pairs: tuple[str, str]) -> None:
        target = self.root / path
        text = target.read_text()
        for old, new in pairs:
            assert old in text, f"{old!r} is not in {path}:\n{text}"
            text = text.replace(old, new)
        target.write_text(text)

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    def save(self, message: str) -> None:
        """Commit everything in the working tree."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def merge(self) -> None:
        """Do what the pipelines of a pull request and of main do: plan, commit, verify, merge, and verify again."""
        name = self.git("branch", "--show-current")
        self.run("plan", "--revision", "HEAD", "--base", "main")
        self.run("commit", "--base", "main")
        self.run("verify", "--revision", "HEAD", "--base", "main")
        self.git("switch", "--quiet", "main")
        self.git("merge", "--quiet", "--no-ff", "--no-edit", name)
        self.git("push", "--quiet", "origin", "main")
        self.run("commit")
        self.git("push", "--quiet", "origin", "main")
        self.run("verify", "--revision", "HEAD")
        assert json.loads(self.run("plan", "-o", "json").out)["changes"] == []
        assert self.git("status", "--porcelain") == ""

    def rendered(self, cluster: str) -> list[Any]:
        """Return the rendered objects of a cluster."""
        return [yaml.safe_load(path.read_text()) for path in sorted((self.root / "rendered" / cluster).rglob("*.yaml"))]

    def gpus(self, cluster: str) -> int:
        """Count the GPUs of the rendered jobs of a cluster, without the product's own code."""
        return sum(_gpus(body) for body in self.rendered(cluster))


def _gpus(body: Any) -> int:
    spec = body.get("spec", {})
    if body["kind"] == "Job":
        return int(spec.get("parallelism", 1)) * _pod_gpus(spec["template"]["spec"])
    replicas = spec.get("pytorchReplicaSpecs", {}).values()
    return sum(each.get("replicas", 1) * _pod_gpus(each["template"]["spec"]) for each in replicas)


def _pod_gpus(spec: Any) -> int:
    limits = (container.get("resources", {}).get("limits", {}) for container in spec["containers"])
    return sum(int(each.get("nvidia.com/gpu", 0)) for each in limits)


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Team:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    team = Team(tmp_path / "fleet", monkeypatch, capsys)
    team.on("2026-11-02")
    assert run_verb(capsys, ["init", str(team.root)]).code == 0
    subprocess.run(("git", "init", "--quiet", "--bare", "--initial-branch=main", str(tmp_path / "origin")), check=True)
    team.git("remote", "add", "origin", str(tmp_path / "origin"))
    team.git("push", "--quiet", "--set-upstream", "origin", "main")
    team.git("remote", "set-head", "origin", "main")
    return team


def test_two_weeks_of_work(team: Team) -> None:
    """F-141 to F-145: queues, jobs, moves, replacements, budgets, approvals, exceptions, conflicts, two clusters."""
    week_one = (two_clusters, new_jobs, larger_quota, newer_image, job_moves)
    week_two = (exception, conflict, lost_nodes, job_ends, exception_expires)
    days = [f"2026-11-{day:02}" for day in (2, 3, 4, 5, 6, 9, 10, 11, 12, 13)]
    for day, work in zip(days, (*week_one, *week_two), strict=True):
        team.on(day)
        work(team)
    assert (team.gpus("main"), team.gpus("west")) == (43, 0)


def two_clusters(team: Team) -> None:
    """Give each cluster folders of its own. Cluster main then selects less than before, which needs an approval."""
    team.branch("west")
    for folder in ("queues", "jobs"):
        (team.root / folder).rename(team.root / "moving")
        (team.root / folder).mkdir()
        (team.root / "moving").rename(team.root / folder / "main")
    team.edit(
        "reconciler.yaml",
        (
            "      vendor: nvidia          # nvidia or amd\n",
            "      vendor: nvidia          # nvidia or amd\n      select: {folders: [queues/main, jobs/main]}\n",
        ),
        ("    disruption: {share: 0.25}   # of the running GPUs", "    disruption: {gpus: 12}"),
        (
            "  # Folders with source files",
            (
                "    - name: west\n      backend: kueue\n      select: {folders: [queues/west, jobs/west]}\n"
                "  # Folders with source files"
            ),
        ),
    )
    nodes = (team.root / "evidence/main/nodes.yaml").read_text()
    west = nodes.replace("main", "west").replace("h100", "a100").replace("NVIDIA-H100-80GB-HBM3", A100)
    team.write("evidence/west/nodes.yaml", west)
    team.run("new", "queue", "a100", "--gpus", "32", "--gpu", A100, "--output", "queues/west/a100.yaml")
    team.save("Cluster west, with the queue a100")
    refused = team.plan(code=5)
    assert {breach["budget"] for breach in refused["breaches"]} == {"gpu-quota.share", "settings"}
    assert refused["jobs"] == []  # moved files alone change no job
    approve(team, "main keeps its folders under another name")
    team.merge()
    assert (team.gpus("main"), team.gpus("west")) == (19, 0)


A100 = "NVIDIA-A100-SXM4-80GB"


def approve(team: Team, reason: str) -> None:
    """Do what a member of the platform team does: look at the plan, approve it, and commit that to the branch."""
    team.run("approve", "--base", "main", "--reason", reason)
    team.save(f"Approve: {reason}")


def new_jobs(team: Team) -> None:
    """Add two jobs. The last lines of the plan say what they cost."""
    team.branch("bert")
    for name, gpus in (("bert", "16"), ("roberta", "8")):
        team.run("new", "job", name, "--queue", "a100", "--gpus", gpus, "--output", f"jobs/west/{name}.yaml")
    team.save("bert and roberta")
    shown = team.run("plan", "--revision", "HEAD", "--base", "main", "--width", "100").out
    assert "+24 GPUs" in shown
    assert "+24 GPUs on west" in shown.rsplit("Plan: ", 1)[1]
    team.merge()
    assert not [*(team.root / "approvals").glob("*.yaml")]  # the one of yesterday went with this commit
    assert (team.gpus("main"), team.gpus("west")) == (19, 24)


def larger_quota(team: Team) -> None:
    """Change a quota by more than its budget: an approval counts until the plan changes."""
    team.branch("quota")
    team.edit("queues/main/h100.yaml", ("quota: 32, limit: 64", "quota: 72, limit: 128"))
    team.save("h100: quota 72")
    assert {breach["budget"] for breach in team.plan(code=5)["breaches"]} == {"gpu-quota.share"}
    team.run("commit", "--base", "main", code=5)
    approve(team, "the cluster grew")
    assert all(breach["approved"] for breach in team.plan()["breaches"])
    team.edit("queues/main/h100.yaml", ("quota: 72", "quota: 80"))
    team.save("h100: quota 80")
    team.run("plan", "--revision", "HEAD", "--base", "main", code=5)  # it approved another plan
    team.edit("queues/main/h100.yaml", ("quota: 80", "quota: 72"))
    team.save("h100: quota 72 again")
    team.merge()


def newer_image(team: Team) -> None:
    """Change the image of running jobs: `replace` gives them new names and their old claims."""
    team.branch("image")
    team.edit("queues/west/a100.yaml", ("\n  image: ", f"\n  image: {IMAGE}\n  # before: "))
    team.save("a100: a newer image")
    refused = team.plan(code=5)
    assert Counter(change["operation"] for change in refused["changes"]) == {"replace": 2}
    claims = {name for name in names(team, "west") if name.startswith("PersistentVolumeClaim/")}
    team.edit("queues/west/a100.yaml", ("\nspec:\n", "\nspec:\n  onImmutableChange: replace\n"))
    team.save("a100: replace jobs")
    shown = team.run("plan", "--revision", "HEAD", "--base", "main", code=5).out
    assert "2 to replace" in shown
    assert "disruption" in shown
    approve(team, "both write a checkpoint every hour")
    team.merge()
    after = names(team, "west")
    assert claims <= after
    jobs = [name for name in after if name.startswith("Job/")]
    assert sorted(name[: name.rindex("-")] for name in jobs) == ["Job/bert", "Job/roberta"]
    assert team.gpus("west") == 24


def names(team: Team, cluster: str) -> set[str]:
    return {f"{body['kind']}/{body['metadata']['name']}" for body in team.rendered(cluster)}


IMAGE = "registry.example.com/pytorch:2.8.0@sha256:" + "0" * 64


def job_moves(team: Team) -> None:
    """Move a job to the other cluster: its 16 GPUs stop there and start here."""
    team.branch("move")
    team.git("mv", "jobs/west/bert.yaml", "jobs/main/bert.yaml")
    team.edit("jobs/main/bert.yaml", ("jobQueue: a100", "jobQueue: h100"))
    team.save("bert: from west to main")
    shown = team.run("plan", "--revision", "HEAD", "--base", "main", "--width", "100", code=5).out
    assert "+16 GPUs on main" in shown
    assert "-16 GPUs on west" in shown
    assert "disruption" in shown
    approve(team, "bert has a checkpoint of this morning")
    team.merge()
    assert (team.gpus("main"), team.gpus("west")) == (35, 8)


def exception(team: Team) -> None:
    """Add a job that a rule denies, with an exception until Thursday."""
    team.branch("debug")
    team.write("jobs/main/debug.yaml", DEBUG)
    team.save("A node to debug the network on")
    denied = team.plan(code=4)
    assert {verdict["rule"] for verdict in denied["verdicts"] if verdict["result"] == "deny"} == {"no-host-network"}
    team.write("policies/debug.yaml", EXCEPTION)
    team.save("no-host-network: exception for debug")
    allowed = team.run("plan", "--revision", "HEAD", "--base", "main").out
    assert "2026-11-12" in allowed
    team.merge()


DEBUG = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: debug
  labels: {team: platform, kai.scheduler/queue: h100}
spec:
  activeDeadlineSeconds: 3600
  template:
    spec:
      hostNetwork: true
      restartPolicy: Never
      schedulerName: kai-scheduler
      containers:
        - name: nccl
          image: registry.example.com/nccl-tests:2.28.3
          command: [all_reduce_perf]
          resources: {limits: {nvidia.com/gpu: 1}}
"""
EXCEPTION = """\
apiVersion: gpureconciler.io/v1alpha1
kind: PolicyException
metadata: {name: debug}
spec:
  rule: no-host-network
  object: {kind: Job, namespace: default, name: debug}
  reason: the fault shows only on the host network
  owner: platform
  expires: "2026-11-12"
"""


def conflict(team: Team) -> None:
    """Merge two branches that change the sources of one rendered file: git cannot, `resolve` renders it."""
    team.branch("larger-checkpoints")
    team.edit("queues/main/h100.yaml", ("sizePerGPU: 50Gi", "sizePerGPU: 60Gi"))
    team.save("h100: 60Gi of checkpoints per GPU")
    team.run("commit", "--base", "main")
    team.branch("vit")
    team.edit("jobs/main/vision/vit.yaml", ("numGPUs: 16 ", "numGPUs: 24 "))
    team.save("vit: 24 GPUs")
    team.merge()
    team.git("merge", "--quiet", "--no-edit", "larger-checkpoints", check=False)
    assert "rendered/" in team.git("diff", "--name-only", "--diff-filter=U")
    team.run("resolve")
    team.git("commit", "--quiet", "--no-edit")
    team.run("verify", "--revision", "HEAD")
    team.git("push", "--quiet", "origin", "main")
    assert team.gpus("main") == 44


def lost_nodes(team: Team) -> None:
    """Plan evidence with two nodes instead of eight: nothing is rendered anew, and yet it is not "No changes"."""
    team.branch("lost-nodes")
    nodes = (team.root / "evidence/main/nodes.yaml").read_text()
    cut = nodes.index("    - name: h100-03")
    team.write("evidence/main/nodes.yaml", nodes[:cut])
    team.save("Six nodes of main are gone")
    shown = team.run("plan", "--revision", "HEAD", "--base", "main", code=4).out  # three nodes for vit are not there
    assert "No changes" not in shown
    assert "64 → 16" in shown
    team.git("switch", "--quiet", "main")  # they come back before anybody merges that


def job_ends(team: Team) -> None:
    """Remove a job. Its checkpoints stay, even if somebody removes their file by hand."""
    team.branch("done")
    team.git("rm", "--quiet", "jobs/west/roberta.yaml")
    team.save("roberta is done")
    team.merge()
    (kept,) = (team.root / "rendered/west").rglob("persistentvolumeclaim-roberta-checkpoints.yaml")
    team.branch("clean-up")
    kept.unlink()
    team.save("Clean up")
    team.run("plan", "--revision", "HEAD", "--base", "main", code=5)
    team.run("verify", "--revision", "HEAD", "--base", "main", code=5)
    team.git("switch", "--quiet", "main")


def exception_expires(team: Team) -> None:
    """Let the scheduled pipeline find the expired exception, and remove it with its job."""
    expired = team.run("lint", "--revision", "HEAD", "--date", "2026-11-13", code=3)
    assert "policies/debug.yaml" in expired.out
    team.branch("debugged")
    for path in ("jobs/main/debug.yaml", "policies/debug.yaml"):
        team.git("rm", "--quiet", path)
    team.save("The network is mended")
    team.merge()
