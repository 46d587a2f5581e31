"""The parts of the bed do what they do in a real cluster: pods run, quotas hold, webhooks speak, Git takes pushes."""

import base64
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import shared
from tests.cluster.bed.bed import GPU, Bed
from tests.cluster.bed.git_http import PASSWORD, GitServer
from tests.cluster.bed.gitea import USER, Gitea
from tests.cluster.bed.kueue import cluster_queue, flavor, local_queue
from tests.cluster.server import wait_until


def job(
    name: str, namespace: str, *, gpus: int = 0, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    quantity = {"resources": {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}} if gpus else {}
    pod = {
        "restartPolicy": "Never",
        "nodeSelector": {"pool": namespace},
        "containers": [{"name": "main", "image": "a:1", **quantity}],
    }
    metadata = {"name": name, "namespace": namespace, "labels": labels or {}}
    body = {"template": {"spec": pod}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": body}


def status(bed: Bed, namespace: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = bed.get(f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}")
    return found


@pytest.mark.usefixtures("kwok", "scheduler")
def test_a_job_runs_to_its_end_and_its_ttl_removes_it(bed: Bed) -> None:
    """The controllers make the pod, kube-scheduler places it, kwok runs it, the TTL controller deletes the Job."""
    bed.node("plain-a", "plain")
    bed.apply(job("keeps", "plain"), job("goes", "plain", ttlSecondsAfterFinished=0))
    path = "/apis/batch/v1/namespaces/plain/jobs"
    bed.wait(lambda: status(bed, "plain", "keeps").get("status", {}).get("succeeded") == 1, "the Job complete")
    bed.wait(lambda: [item["metadata"]["name"] for item in bed.get(path)["items"]] == ["keeps"], "the other gone")


def test_an_autoscaler_keeps_to_its_bounds_without_metrics(bed: Bed) -> None:
    """Fewer replicas than the minimum are raised to it, and more than the maximum are lowered."""
    path = "/apis/apps/v1/namespaces/scaled/deployments"
    for name, count in (("few", 1), ("many", 9)):
        metadata, labels = {"name": name, "namespace": "scaled"}, {"app": name}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "a:1"}]}}
        spec = {"replicas": count, "selector": {"matchLabels": labels}, "template": pod}
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        bounds = {"scaleTargetRef": target, "minReplicas": 3, "maxReplicas": 5}
        bed.apply({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
        bed.apply(
            {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": metadata, "spec": bounds}
        )

    def sizes() -> dict[str, int]:
        return {item["metadata"]["name"]: item["spec"]["replicas"] for item in bed.get(path)["items"]}

    bed.wait(lambda: sizes() == {"few": 3, "many": 5}, "replicas within the bounds")


@pytest.mark.usefixtures("kueue", "kwok")
def test_kueue_admits_inside_the_quota(bed: Bed) -> None:
    """Two Jobs of 16 GPUs against a quota of 16: the second is admitted when the first has gone."""
    queue = {"kueue.x-k8s.io/queue-name": "team"}
    bed.apply(flavor("quota", pool="quota"), cluster_queue("quota", 16, flavor="quota"))
    bed.apply(local_queue("team", "quota", "quota"))
    for name in ("first", "second"):
        bed.apply(job(name, "quota", gpus=16, labels=queue, suspend=True))
        bed.wait(lambda name=name: workload(bed, name), f"the workload of {name}")  # type: ignore[misc]
    bed.wait(lambda: status(bed, "quota", "first")["spec"]["suspend"] is False, "the first admitted")
    bed.wait(lambda: "insufficient" in str(workload(bed, "second").get("status")), "the reason of the second")
    assert status(bed, "quota", "second")["spec"]["suspend"] is True
    bed.delete("/apis/batch/v1/namespaces/quota/jobs/first", propagationPolicy="Background")
    bed.wait(lambda: status(bed, "quota", "second")["spec"]["suspend"] is False, "the second admitted")


def workload(bed: Bed, job_name: str) -> dict[str, Any]:
    """Return the Workload that Kueue made for a Job, {} where there is none yet."""
    items = bed.get("/apis/kueue.x-k8s.io/v1beta2/namespaces/quota/workloads")["items"]
    return next((item for item in items if item["metadata"]["ownerReferences"][0]["name"] == job_name), {})


@pytest.mark.usefixtures("kueue")
def test_kueues_webhook_speaks(bed: Bed) -> None:
    """A flavor with another resource than the covered one is refused in Kueue's own words."""
    wrong = cluster_queue("wrong", 16, flavor="any")
    wrong["spec"]["resourceGroups"][0]["coveredResources"] = ["cpu"]
    (result,) = bed.judge(wrong)
    assert not result.ok
    assert 'admission webhook "vclusterqueue.kb.io" denied the request' in result.message
    assert "must match the name in coveredResources" in result.message


@pytest.mark.usefixtures("kueue")
def test_kueue_converts_between_its_versions(bed: Bed) -> None:
    """What is written as v1beta1 is read as v1beta2, where the cohort has another name."""
    bed.apply(flavor("both"), cluster_queue("both", 8, flavor="both", cohort="shared"))
    assert bed.get("/apis/kueue.x-k8s.io/v1beta2/clusterqueues/both")["spec"]["cohortName"] == "shared"
    assert bed.get("/apis/kueue.x-k8s.io/v1beta1/clusterqueues/both")["spec"]["cohort"] == "shared"


@pytest.mark.usefixtures("jobset", "kwok", "scheduler")
def test_a_jobset_makes_jobs(bed: Bed) -> None:
    """Its controller makes the Jobs; they complete, and so does the set."""
    bed.node("sets-a", "sets")
    body = job("unused", "sets")["spec"]
    bed.apply(
        {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": {"name": "set", "namespace": "sets"},
            "spec": {"replicatedJobs": [{"name": "a", "replicas": 2, "template": {"spec": body}}]},
        }
    )
    path = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/sets/jobsets/set"
    bed.wait(lambda: bed.get(path).get("status", {}).get("terminalState") == "Completed", "the JobSet complete")
    jobs = bed.get("/apis/batch/v1/namespaces/sets/jobs")["items"]
    assert sorted(item["metadata"]["name"] for item in jobs) == ["set-a-0", "set-a-1"]


def git(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "credential.helper=")
    return subprocess.run(["git", *identity, *arguments], capture_output=True, text=True, check=check, timeout=60)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Make a repository with one commit."""
    git("init", "-q", "-b", "main", str(tmp_path / "work"))
    git("-C", str(tmp_path / "work"), "commit", "-q", "--allow-empty", "-m", "first")
    return tmp_path / "work"


def test_the_git_server_takes_pushes(git_server: GitServer, work: Path) -> None:
    """A push of several megabytes arrives; a private repository wants the password."""
    (work / "large").write_bytes(bytes(range(256)) * 8192 + os.urandom(3_000_000))
    git("-C", str(work), "add", "large")
    git("-C", str(work), "commit", "-q", "-m", "large")
    git("-C", str(work), "push", "-q", git_server.create("bed/open"), "main")
    assert (
        git("-C", str(git_server.path("bed/open")), "rev-parse", "main").stdout
        == git("-C", str(work), "rev-parse", "main").stdout
    )

    private = git_server.create("private/closed")
    assert git("-c", "core.askPass=true", "ls-remote", private, check=False).returncode != 0
    git("-C", str(work), "push", "-q", private.replace("://", f"://git:{PASSWORD}@"), "main")


def test_gitea_takes_a_pull_request(gitea: Gitea, work: Path) -> None:
    """Push with a token, open a pull request, comment, merge."""
    url = gitea.with_token(gitea.create("bed"))
    git("-C", str(work), "push", "-q", url, "main")
    (work / "a").write_text("a")
    git("-C", str(work), "checkout", "-q", "-b", "change")
    git("-C", str(work), "add", "a")
    git("-C", str(work), "commit", "-q", "-m", "change")
    git("-C", str(work), "push", "-q", url, "change")
    repository = f"/repos/{USER}/bed"

    def branches() -> set[str]:
        found = gitea.call("GET", f"{repository}/branches")  # null until it has seen the first push
        return {branch["name"] for branch in found or ()}

    wait_until(lambda: branches() == {"main", "change"}, "Gitea has seen both pushes")
    request = gitea.call("POST", f"{repository}/pulls", {"title": "Change", "head": "change", "base": "main"})
    gitea.call("POST", f"{repository}/issues/{request['number']}/comments", {"body": "plan"})
    wait_until(lambda: gitea.call("GET", f"{repository}/pulls/{request['number']}")["mergeable"], "mergeable")
    gitea.call("POST", f"{repository}/pulls/{request['number']}/merge", {"Do": "merge"})
    content = gitea.call("GET", f"{repository}/contents/a?ref=main")
    assert base64.b64decode(content["content"]) == b"a"


def test_a_part_ends_with_its_host(tmp_path: Path) -> None:
    """What joined later lives as long as what it joined, and can be stopped and started again alone."""

    def plan() -> tuple[shared.Program, ...]:
        return (shared.Program(name="sleeper", argv=("sleep", "600")),)

    host, part = tmp_path / "host", tmp_path / "part"
    with shared.running(host, plan, lambda check: check()):
        shared.attach(part, host, plan, lambda check: check())
        first = (part / "ready").read_text()
        shared.attach(part, host, plan, lambda check: check())
        assert (part / "ready").read_text() == first
        shared.stop(part)
        assert not shared.is_running(part)
        shared.attach(part, host, plan, lambda check: check())
        assert shared.is_running(part)
        assert (part / "ready").read_text() != first
    wait_until(lambda: not shared.is_running(part), "the part ended", seconds=20)
    assert not shared.is_running(host)
