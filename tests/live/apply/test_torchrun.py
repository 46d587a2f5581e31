"""TorchrunJobs of the template on a real Kueue: plan, commit, apply, admission, suspension, resumption, completion."""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.cli.main import run
from tests import sizes
from tests.cli.fleet import IDENTITY, Fleet
from tests.cluster.bed.bed import PLAYED, Bed, node
from tests.cluster.bed.fleet import volumes
from tests.cluster.kubeconfig import clusters, with_contexts
from tests.ready import new_cache

MORE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: more, namespace: {name}}}\n"
JOB = "jobs/vision/vit.yaml"
pytestmark = [pytest.mark.usefixtures("kwok", "kueue", "scheduler"), pytest.mark.timeout(300)]
_STALE = 5  # the exit code of a plan that something has overtaken
_ATTEMPTS = 5


class Site:
    """A repository for a Kueue cluster with room for one of its two jobs, and what the cluster holds of it."""

    def __init__(self, fleet: Fleet, bed: Bed, folder: Path, name: str) -> None:
        self.fleet, self.bed, self.plan_file, self.name = fleet, bed, folder / "plan.json", name
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(with_contexts(bed.kubeconfig, ("main",)))

    def reconcile(self) -> dict[str, Any]:
        """Commit, plan against the cluster and apply; return the plan. A plan that is stale is made again."""
        self.fleet.commit()
        ran = self.fleet.run("commit", "-o", "name")
        assert ran.code == 0, ran.out + ran.err
        flags = ("--kubeconfig", str(self.kubeconfig))
        plan: dict[str, Any] = {}
        for _ in range(_ATTEMPTS):  # Kueue writes into the jobs, too
            ran = self.fleet.run("plan", "--live", "--revision", "HEAD", "--out", str(self.plan_file), *flags)
            assert ran.code == 0, ran.out + ran.err
            plan = json.loads(self.plan_file.read_bytes())
            ran = self.fleet.run("apply", str(self.plan_file), *flags, "--no-wait")
            if ran.code != _STALE:
                break
        assert ran.code == 0, ran.out + ran.err
        return plan

    def status(self, name: str) -> dict[str, Any]:
        """Return what `reconciler status` says of a job."""
        flags = ("--cluster", "main", "-o", "json", "--kubeconfig", str(self.kubeconfig))
        ran = self.fleet.run("status", f"{self.name}/{name}", *flags)
        assert ran.code == 0, ran.out + ran.err
        (found,) = [job for cluster in json.loads(ran.out)["clusters"] for job in cluster["jobs"]]
        status: dict[str, Any] = found
        return status

    def job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.bed.get(f"/apis/batch/v1/namespaces/{self.name}/jobs/{name}")
        return found

    def active(self, name: str) -> int:
        """Return the pods of a job that have not ended."""
        active: int = self.job(name).get("status", {}).get("active", 0)
        return active

    def succeeded(self, name: str) -> int:
        succeeded: int = self.job(name).get("status", {}).get("succeeded", 0)
        return succeeded

    def is_complete(self, name: str) -> bool:
        return any(one["type"] == "Complete" for one in self.job(name).get("status", {}).get("conditions", ()))

    def syncs(self) -> list[str]:
        """Return the names of the Jobs that fetch code."""
        jobs = self.bed.get(f"/apis/batch/v1/namespaces/{self.name}/jobs")["items"]
        return [job["metadata"]["name"] for job in jobs if "-sync-" in job["metadata"]["name"]]

    def granted(self, name: str) -> int:
        """Return the GPUs that Kueue has granted to a job. A job that was just resumed can have pods before that."""
        uid = self.job(name)["metadata"]["uid"]
        workloads = self.bed.get(f"/apis/kueue.x-k8s.io/v1beta2/namespaces/{self.name}/workloads")["items"]
        return sum(
            int(assigned.get("resourceUsage", {}).get("nvidia.com/gpu", 0))
            for workload in workloads
            if uid in [owner["uid"] for owner in workload["metadata"].get("ownerReferences", ())]
            for assigned in workload.get("status", {}).get("admission", {}).get("podSetAssignments", ())
        )

    def reserved(self) -> int:
        """Return the GPUs that Kueue has granted in the queue."""
        path = f"/apis/kueue.x-k8s.io/v1beta2/clusterqueues/{self.name}"
        flavors = self.bed.get(path)["status"].get("flavorsReservation", [])
        amounts = {one["name"]: one["total"] for flavor in flavors for one in flavor["resources"]}
        return int(amounts.get("nvidia.com/gpu", 0))


def product(name: str) -> str:
    """Return the GPU product of a site's nodes."""
    return f"NVIDIA-{name.upper()}"


@pytest.fixture
def site(
    bed: Bed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> Site:
    """Make the template's repository for Kueue, with a second job, whose code is fetched in place."""
    name: str = request.param
    for variable, value in IDENTITY.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    monkeypatch.setenv("RECONCILER_DECISION_LOG", str(tmp_path / "decisions.jsonl"))
    monkeypatch.setenv("RECONCILER_INVENTORY_NAMESPACE", f"inventory-{name}")
    fleet = Fleet(tmp_path / "fleet", capsys)
    assert run(["init", str(fleet.root)]) == 0
    for file in [*(fleet.root / "jobs/language").glob("*.yaml"), *(fleet.root / "rendered").rglob("*.yaml")]:
        file.unlink()
    config = "reconciler.yaml"
    fleet.edit(config, "backend: kai ", "backend: kueue ")
    fleet.edit(config, "namespace: default ", f"namespace: {name} ")
    fleet.edit(config, "Namespace/default", f"Namespace/{name}")
    fleet.edit(config, "disruption: {share: 0.25}", "disruption: {share: 1}")
    for path in ("queues/h100.yaml", "evidence/main/nodes.yaml"):
        fleet.edit(path, "NVIDIA-H100-80GB-HBM3", product(name))
    fleet.edit("queues/h100.yaml", "name: h100\n    parent", f"name: {name}\n    parent")
    fleet.edit("queues/h100.yaml", "quota: 32, limit: 64", "quota: 16, limit: 16")
    other = (fleet.root / JOB).read_text().replace("name: vit\n", "name: other\n")
    fleet.write("jobs/vision/other.yaml", other.replace("source: git", "source: git\n    hotReload: inplace"))
    bed.server.client.ensure_namespaces([name])
    for body in volumes(8, prefix=name):
        bed.create("/api/v1/persistentvolumes", body)
    return Site(fleet, bed, tmp_path, name)


@pytest.mark.parametrize("site", ["torchrun-suspended"], indirect=True)
def test_a_suspended_job_gives_its_quota_to_the_next_one_and_gets_it_back(site: Site) -> None:
    """F-055, F-062: one of two jobs fits. Suspended, it holds nothing; resumed, it waits its turn; both complete."""
    site.fleet.edit("jobs/vision/other.yaml", "  numGPUs: 16", "  suspend: true\n  numGPUs: 16")
    site.reconcile()
    site.bed.wait(lambda: site.active("vit") == 2, "the first job is admitted")
    claims = f"/api/v1/namespaces/{site.name}/persistentvolumeclaims"
    kept = {claim["metadata"]["uid"] for claim in site.bed.get(claims)["items"]}
    before = site.job("vit")
    site.bed.wait(lambda: site.reserved() == 16, "the quota is taken")
    assert site.active("other") == 0

    site.fleet.edit(JOB, "  numGPUs: 16", "  suspend: true\n  numGPUs: 16")
    site.fleet.edit("jobs/vision/other.yaml", "  suspend: true\n", "")
    plan = site.reconcile()
    assert sorted((job["key"]["name"], job["word"]) for job in plan["jobs"]) == [
        ("other", "resumed"),
        ("vit", "suspended"),
    ]
    assert {change["operation"] for change in plan["changes"]} == {"update"}, "nothing is deleted"
    site.bed.wait(lambda: site.granted("other") == 16, "the quota serves the other job")
    site.bed.wait(lambda: site.active("other") == 2, "the pods of the other job exist")
    site.bed.wait(lambda: site.active("vit") == 0, "the pods of the suspended job end")
    assert site.job("vit")["metadata"]["uid"] == before["metadata"]["uid"]
    status = site.fleet.run("status", "vit", "--kubeconfig", str(site.kubeconfig))
    assert "Suspended" in status.out, status.out + status.err

    site.fleet.edit(JOB, "  suspend: true\n", "")
    site.reconcile()
    site.bed.wait(lambda: site.job("vit")["spec"]["suspend"], "the first job waits in the queue")
    assert site.active("other") == 2
    for index in range(2):
        labels = {"nvidia.com/gpu.product": product(site.name)}
        site.bed.create("/api/v1/nodes", node(f"{site.name}-{index}", labels=labels))
    site.bed.wait(lambda: site.succeeded("other") == 2, "the other job ran on both nodes")
    site.bed.wait(lambda: site.succeeded("vit") == 2, "the first job ran on both nodes")
    assert kept == {claim["metadata"]["uid"] for claim in site.bed.get(claims)["items"]}
    assert site.job("vit")["metadata"]["uid"] == before["metadata"]["uid"]
    site.bed.wait(lambda: [site.succeeded(name) for name in site.syncs()] == [1], "the sync went through the queue")


@pytest.mark.parametrize("site", ["torchrun-elastic"], indirect=True)
def test_an_elastic_job_runs_with_what_there_is(site: Site) -> None:
    """F-053: Kueue admits two of three nodes and sets the parallelism; no later apply asks for more, or is refused."""
    (site.fleet.root / "jobs/vision/other.yaml").unlink()
    site.fleet.edit(JOB, "numGPUs: 16 ", "distributed: {minNodes: 1}\n  numGPUs: 24 ")
    site.reconcile()
    site.bed.wait(lambda: site.active("vit") == 2, "the job is admitted with two nodes")
    job = site.job("vit")
    assert (job["spec"]["parallelism"], job["spec"]["completions"]) == (2, 3)

    site.fleet.write("queues/more.yaml", MORE.format(name=site.name))
    plan = site.reconcile()
    assert [change["key"]["kind"] for change in plan["changes"]] == ["ConfigMap"]
    assert site.job("vit")["spec"]["parallelism"] == 2

    for index in range(2):
        labels = {"nvidia.com/gpu.product": product(site.name)}
        site.bed.create("/api/v1/nodes", node(f"{site.name}-{index}", labels=labels))
    site.bed.wait(lambda: site.is_complete("vit"), "the job is complete when one of its pods is")


CHECK = """apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: workers}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: workers}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: workers}
spec: {clusters: [east]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: east}
spec: {clusterSource: {kubeConfig: {locationType: Secret, location: east}}}
"""
CLAIM = """apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: vit-{use}, namespace: {namespace}}}
spec: {{accessModes: [ReadWriteMany], resources: {{requests: {{storage: 1Gi}}}}}}
"""
EAST = (
    "    - {{name: east, backend: kueue, namespace: {0}, select: {{folders: [east]}}, external: [Namespace/{0}]}}\n"
    "  # Folders"
)


@pytest.fixture
def two_clusters(site: Site, worker: Bed) -> Bed:
    """Make the queue of a site one of MultiKueue, and give the worker cluster the same queue, claims and nodes."""
    fleet, name = site.fleet, site.name
    (fleet.root / "jobs/vision/other.yaml").unlink()
    fleet.edit("reconciler.yaml", "namespace: " + name, f"select: {{folders: [queues, jobs]}}\n      namespace: {name}")
    fleet.edit("reconciler.yaml", "  # Folders", EAST.format(name))
    fleet.edit("reconciler.yaml", "sources: [queues, jobs]", "sources: [queues, jobs, east]")
    queue = (fleet.root / "queues/h100.yaml").read_text()
    claims = "---\n".join(CLAIM.format(use=use, namespace=name) for use in ("workspace", "checkpoints"))
    fleet.write("east/queue.yaml", queue)
    fleet.write("east/claims.yaml", claims)
    fleet.write("queues/workers.yaml", CHECK)
    fleet.edit("queues/h100.yaml", f"    name: {name}\n", f"    name: {name}\n    multiKueue: workers\n")
    nodes = fleet.root / "evidence/main/nodes.yaml"
    fleet.write("evidence/east/nodes.yaml", nodes.read_text().replace("cluster: main", "cluster: east"))
    nodes.unlink()
    site.kubeconfig.write_text(clusters({"main": site.bed.kubeconfig, "east": worker.kubeconfig}))
    worker.server.client.ensure_namespaces([name])
    for body in volumes(2, prefix=name):
        worker.create("/api/v1/persistentvolumes", body)
    for index in range(2):
        labels = {"nvidia.com/gpu.product": product(name)}
        worker.create("/api/v1/nodes", node(f"{name}-{index}", labels=labels))
    secret = {"metadata": {"name": "east"}, "stringData": {"kubeconfig": worker.kubeconfig.read_text()}}
    site.bed.create("/api/v1/namespaces/kueue-system/secrets", secret)
    return worker


@pytest.mark.skipif(
    not sizes.LARGE, reason="a second cluster costs half a minute of processor time; `make test-workers`"
)
@pytest.mark.usefixtures("jobset")
@pytest.mark.parametrize("site", ["torchrun-sent"], indirect=True)
def test_a_job_runs_on_a_worker_cluster_and_its_status_comes_back(site: Site, two_clusters: Bed) -> None:
    """F-047, F-057: applied to one cluster, run by another one; `status` says where and how far it is."""
    site.fleet.edit(JOB, "  numGPUs: 16", f"  annotations: {{{': '.join(PLAYED)}}}\n  numGPUs: 16")
    site.reconcile()
    bed, worker = site.bed, two_clusters
    bed.wait(lambda: len(worker.bound(site.name)) == 2, "both pods have a node of the worker cluster")
    assert not bed.pods(site.name)
    bed.wait(lambda: site.status("vit")["phase"] == "Starting", "the pods are seen from here")
    for pod in worker.pods(site.name):
        worker.set_phase(pod, "Running")
    bed.wait(lambda: site.status("vit")["phase"] == "Running", "its status comes back")
    status = site.status("vit")
    assert (status["reason"], status["message"]) == ("WorkerCluster", "on worker cluster east")
    assert (status["workers"]["running"], status["workers"]["wanted"]) == (2, 2)
    assert site.reserved() == 16

    for pod in worker.pods(site.name):
        worker.set_phase(pod, "Succeeded")
    bed.wait(lambda: site.status("vit")["phase"] == "Succeeded", "its end comes back")
    bed.wait(lambda: site.reserved() == 0, "the quota is free")
    remote = f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{site.name}/jobsets/vit"
    bed.wait(lambda: worker.find(remote) is None, "the copy on the worker cluster is gone")
