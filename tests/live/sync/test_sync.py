"""Real Flux and real Argo CD sync `rendered/` of the template from a Git server to real Kueue and KAI."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.bed.bed import Bed
from tests.cluster.bed.fleet import PRODUCTS
from tests.cluster.bed.git_http import GitServer
from tests.live.sync.config_repository import CLUSTERS
from tests.live.sync.engines import ArgoCd, Engine, Flux
from tests.live.sync.fleet import Fleet, fleet_repository

ENGINES: dict[str, type[Engine]] = {"flux": Flux, "argo_cd": ArgoCd}
pytestmark = [
    pytest.mark.usefixtures("kwok", "scheduler", "kueue", "kai", "training_operator"),
    pytest.mark.timeout(900),  # many steps, each with programs that wait for each other
]


@pytest.fixture(params=sorted(ENGINES))
def fleet(bed: Bed, git_server: GitServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    """Make a fleet that an engine follows; Flux and Argo CD have a GPU product each."""
    request.getfixturevalue(request.param)
    product = PRODUCTS[sorted(ENGINES).index(request.param)]
    repository = fleet_repository(bed, git_server, tmp_path, request.param.replace("_", "-"), product)
    engine = ENGINES[request.param](bed, repository)
    yield Fleet(bed, repository, engine)
    engine.leave()


def test_a_fleet_is_synced(fleet: Fleet) -> None:
    """F-055, F-056, F-062: the objects appear, changes and deletions arrive, kept claims survive, nothing is changed twice."""
    deadline = "activeDeadlineSeconds: 3600"
    fleet.repository.edit("jobs/language/probe.yaml", deadline, f"ttlSecondsAfterFinished: 86400\n    {deadline}")
    fleet.follow("The template")
    objects_appear(fleet)
    a_change_arrives(fleet)
    a_suspended_job_stays(fleet)
    a_replacement_goes_through(fleet)
    nothing_is_changed_twice(fleet)
    a_finished_job_is_not_created_again(fleet)
    a_deletion_prunes_and_keeps_claims(fleet)


def objects_appear(fleet: Fleet) -> None:
    """KAI places the gang of the template; Kueue admits its Job."""
    name = fleet.repository.name
    placed = {"vit-worker", "llama-lora-master"}
    fleet.bed.wait(lambda: placed <= {pod.rpartition("-")[0] for pod in pods(fleet, "kai")}, "KAI placed the jobs")
    queue = fleet.get("scheduling.run.ai/v2", "Queue", name)
    assert queue["spec"]["resources"]["gpu"]["quota"] == 32
    fleet.bed.wait(lambda: len(pods(fleet, "kueue")) == 2, "Kueue admitted both pods")
    workloads = fleet.bed.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{name}-kueue/workloads")["items"]
    assert [item["status"]["admission"]["clusterQueue"] for item in workloads] == [name]


def pods(fleet: Fleet, cluster: str) -> list[str]:
    """Return the names of the pods of a cluster that have a node."""
    return fleet.bed.bound(f"{fleet.repository.name}-{cluster}")


def a_change_arrives(fleet: Fleet) -> None:
    """Expect that a merged change of the quota reaches both schedulers."""
    name = fleet.repository.name
    fleet.repository.edit("queues/h100.yaml", "quota: 32", "quota: 40")
    fleet.arrive("More GPUs")
    assert fleet.get("scheduling.run.ai/v2", "Queue", name)["spec"]["resources"]["gpu"]["quota"] == 40
    (group,) = fleet.get("kueue.x-k8s.io/v1beta2", "ClusterQueue", name)["spec"]["resourceGroups"]
    quotas = {one["name"]: one["nominalQuota"] for one in group["flavors"][0]["resources"]}
    assert quotas["nvidia.com/gpu"] == "40"


def a_suspended_job_stays(fleet: Fleet) -> None:
    """Suspend is a change of the file; the job stays, its pods go, and a second sync does not wake it."""
    fleet.repository.edit("jobs/vision/vit.yaml", "  numGPUs: 16", "  suspend: true\n  numGPUs: 16")
    commit = fleet.arrive("Pause the training")
    worker = "vit-worker"
    gone = f"the pods of {worker} are gone"
    fleet.bed.wait(lambda: not any(pod.startswith(worker) for pod in pods(fleet, "kai")), gone)
    fleet.sync(commit)
    job = fleet.get("kubeflow.org/v1", "PyTorchJob", "vit", "kai")
    assert job["spec"]["runPolicy"]["suspend"] is True
    assert not any(pod.startswith(worker) for pod in pods(fleet, "kai"))


def a_replacement_goes_through(fleet: Fleet) -> None:
    """Change what the server takes only on a new object: the next generation runs with the same claims."""
    before = fleet.get("v1", "PersistentVolumeClaim", "probe-checkpoints", "kai")
    fleet.repository.edit("jobs/language/probe.yaml", "--checkpoint latest", "--checkpoint best")
    fleet.arrive("Probe the best checkpoint")
    name = probe(fleet)
    assert name.startswith("probe-g")
    assert fleet.find("batch/v1", "Job", "probe", "kai") is None
    job = fleet.get("batch/v1", "Job", name, "kai")
    assert "--checkpoint best" in str(job["spec"]["template"])
    assert (
        fleet.get("v1", "PersistentVolumeClaim", "probe-checkpoints", "kai")["metadata"]["uid"]
        == (before["metadata"]["uid"])
    )


def probe(fleet: Fleet) -> str:
    """Return the name of the generation of the job `probe` that is rendered."""
    (path,) = (path for path in fleet.repository.rendered("kai") if "/job-probe" in path)
    return Path(path).stem.removeprefix("job-")


def a_finished_job_is_not_created_again(fleet: Fleet) -> None:
    """Record the end of a job; when its time to live is over, three syncs of new commits create nothing, nor do we."""
    name = probe(fleet)
    job = ("batch/v1", "Job", name, "kai")
    fleet.bed.wait(lambda: fleet.get(*job).get("status", {}).get("succeeded") == 1, "the job complete")
    ended = fleet.get(*job)
    fleet.repository.observe(fleet.bed.kubeconfig, "kai")
    fleet.arrive("Observed")
    assert (
        "gpureconciler.io/finished" in fleet.repository.rendered("kai")[f"{fleet.repository.name}-kai/job-{name}.yaml"]
    )
    fleet.arrive("Observed again")
    left = fleet.get(*job)
    assert "deletionTimestamp" not in left["metadata"], "the job stays until its time to live is over"
    assert left["metadata"]["uid"] == ended["metadata"]["uid"]
    assert_in_sync(fleet)

    body = {**fleet.get(*job), "spec": {"ttlSecondsAfterFinished": 1}}  # its own is a day
    path = fleet.bed.server.client.path(body)
    assert path is not None
    answer = fleet.bed.server.client.request(
        "PATCH", path, {"spec": body["spec"]}, content_type="application/merge-patch+json"
    )
    assert answer.ok, answer.body
    fleet.bed.wait(lambda: fleet.find(*job) is None, "the job removed by its time to live")
    for number in range(3):
        (fleet.repository.folder / "README.md").write_text(f"Sync {number}.\n", encoding="utf-8")
        fleet.arrive(f"Sync {number}")
        assert fleet.find(*job) is None
    assert fleet.repository.plan_live(fleet.bed.kubeconfig)["changes"] == [], "nor would our own apply"


def nothing_is_changed_twice(fleet: Fleet) -> None:
    """Sync a commit that renders the same: no object is written, so nobody fights."""
    before = fleet.desired()
    (fleet.repository.folder / "README.md").write_text("The fleet.\n", encoding="utf-8")
    fleet.arrive("Say what this is")
    assert_in_sync(fleet)
    assert fleet.desired() == before


def assert_in_sync(fleet: Fleet) -> None:
    """Expect that no engine sees a difference when it compares everything anew."""
    for engine in fleet.engines:
        assert engine.out_of_sync() == []


def a_deletion_prunes_and_keeps_claims(fleet: Fleet) -> None:
    """Remove a job from Git: it leaves the cluster; claims that hold checkpoints stay."""
    kept = {
        cluster: fleet.get("v1", "PersistentVolumeClaim", "vit-checkpoints", cluster)["metadata"]["uid"]
        for cluster in CLUSTERS
    }
    fleet.repository.remove("jobs/vision/vit.yaml")
    fleet.arrive("The training is over")
    gone = [
        ("kubeflow.org/v1", "PyTorchJob", "vit", "kai"),
        ("batch/v1", "Job", "vit", "kueue"),
        ("v1", "Service", "vit", "kueue"),
        *(("v1", "PersistentVolumeClaim", "vit-workspace", cluster) for cluster in CLUSTERS),
    ]
    fleet.bed.wait(lambda: not any(fleet.find(*one) for one in gone), "everything of the job is gone")
    for cluster, uid in kept.items():
        claim = fleet.get("v1", "PersistentVolumeClaim", "vit-checkpoints", cluster)
        assert claim["metadata"]["uid"] == uid
        assert "deletionTimestamp" not in claim["metadata"]
