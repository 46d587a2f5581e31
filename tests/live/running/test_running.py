"""What runs stays as it is: apply, wait until every pod runs, compare again. Nothing is to do, and no pod restarts.

Each kind that Kueue starts on the bed is written as its documentation writes it, with `suspend: true`. Our apply, our
controller, Flux and Argo CD bring the same sources to the cluster. `RUNNING_MINUTES` sets how long each is watched.
"""

import json
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli.main import run
from reconciler.kube.client import KubernetesCluster, load_access
from tests.cli.fleet import IDENTITY, Fleet
from tests.cluster.bed.bed import Bed
from tests.cluster.bed.git_http import GitServer
from tests.cluster.bed.kueue import cluster_queue, flavor, local_queue
from tests.cluster.kubeconfig import with_contexts
from tests.live.controller.ring import Ring, ring
from tests.live.sync.config_repository import ConfigRepository
from tests.live.sync.engines import ArgoCd, Engine, Flux
from tests.ready import new_cache

OPERATORS = (
    "kwok",
    "kueue",
    "scheduler",
    "jobset",
    "trainer",
    "training_operator",
    "kuberay",
    "lws",
    "mpi_operator",
    "appwrapper",
)
pytestmark = [pytest.mark.usefixtures(*OPERATORS), pytest.mark.timeout(1800)]
WORKLOADS = Path(__file__).with_name("workloads.yaml")
_WATCHED = 60 * float(os.environ.get("RUNNING_MINUTES", "0.3"))  # seconds in which a controller would stop a pod
_SPOT = {"key": "example.com/spot", "operator": "Exists", "effect": "NoSchedule"}


def prepare(bed: Bed, name: str) -> None:
    """Make the namespace and the node of a test."""
    bed.server.client.ensure_namespaces([name])
    bed.node(f"{name}-0", name, gpus=64)
    bed.wait(lambda: bed.ready_nodes(name) == 1, "the node is ready")


def queues(name: str) -> str:
    """Return the queues of a test; `few-…` has room for two GPUs. Kueue's own submitter of a RayJob requests a CPU."""
    spot = flavor(name, pool=name)
    spot["spec"]["tolerations"] = [_SPOT]
    few = f"few-{name}"
    bodies = (
        spot,
        *(_cluster_queue(one, gpus, name) for one, gpus in ((name, 32), (few, 2))),
        *(local_queue(one, name, one) for one in (name, few)),
    )
    return yaml.safe_dump_all(bodies)


def _cluster_queue(name: str, gpus: int, flavor: str) -> dict[str, Any]:
    body = cluster_queue(name, gpus, flavor=flavor)
    (group,) = body["spec"]["resourceGroups"]
    group["coveredResources"] += ["cpu", "memory"]
    group["flavors"][0]["resources"] += [
        {"name": "cpu", "nominalQuota": "64"},
        {"name": "memory", "nominalQuota": "1Ti"},
    ]
    return body


class Site:
    """A repository of these workloads, and the commands of a person."""

    def __init__(self, fleet: Fleet, bed: Bed, folder: Path, name: str) -> None:
        self.fleet, self.bed, self.folder, self.name = fleet, bed, folder, name
        self.plan_file = folder / "plan.json"
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(with_contexts(bed.kubeconfig, ("main",)))

    def plan(self) -> dict[str, Any]:
        flags = ("--live", "--revision", "HEAD", "--out", str(self.plan_file), "--kubeconfig", str(self.kubeconfig))
        ran = self.fleet.run("plan", *flags)
        assert ran.code == 0, ran.out + ran.err
        plan: dict[str, Any] = json.loads(self.plan_file.read_bytes())
        return plan

    def annotate(self, note: str) -> set[str]:
        """Give every workload in Git another annotation; return their names."""
        bodies = [*yaml.safe_load_all((self.fleet.root / "jobs/workloads.yaml").read_text())]
        for body in bodies:
            body["metadata"].setdefault("annotations", {})["example.com/note"] = note
        self.fleet.write("jobs/workloads.yaml", yaml.safe_dump_all(bodies))
        return {body["metadata"]["name"] for body in bodies}

    def pods(self) -> dict[str, str]:
        """Return the UIDs of all pods, by name; each pod that a scheduler has placed is made to run."""
        found = self.bed.pods(self.name)
        for pod in found:
            if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Running":
                self.bed.set_phase(pod, "Running")
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}

    def waiting(self, wanted: Mapping[str, int]) -> list[str]:
        """Return what does not run yet: pods, and workloads that have too few of them."""
        self.pods()
        found = self.bed.pods(self.name)
        idle = [pod["metadata"]["name"] for pod in found if pod["status"].get("phase") != "Running"]
        counts = {name: sum(pod["metadata"]["name"].startswith(name) for pod in found) for name in wanted}
        return [
            *idle,
            *(f"{name} has {counts[name]} of {count}" for name, count in wanted.items() if counts[name] < count),
        ]

    def wait_until_running(self, wanted: Mapping[str, int]) -> dict[str, str]:
        """Return the UIDs of all pods when they run. wanted: how many, by the beginning of their names."""
        deadline = time.monotonic() + 300
        while waiting := self.waiting(wanted):
            assert time.monotonic() < deadline, waiting
            time.sleep(1)
        return self.pods()


class Way(ABC):
    """A way in which the sources come to the cluster."""

    def __init__(self, site: Site) -> None:
        self.site = site

    @abstractmethod
    def bring(self) -> None:
        """Bring what is committed to the cluster."""

    @abstractmethod
    def differences(self) -> list[Any]:
        """Compare anew; return what is not as Git says."""


class Apply(Way):
    """`reconciler plan --live` and `reconciler apply`."""

    def bring(self) -> None:
        self.site.plan()
        self.carry_out()

    def carry_out(self) -> None:
        """Apply the plan that was saved last."""
        flags = ("--kubeconfig", str(self.site.kubeconfig), "--no-wait")
        ran = self.site.fleet.run("apply", str(self.site.plan_file), *flags)
        assert ran.code == 0, ran.out + ran.err

    def differences(self) -> list[Any]:
        plan = self.site.plan()
        return [*plan["changes"], *plan["drift"]]


class Controlled(Way):
    """The controller in the mode `apply`."""

    def __init__(self, site: Site, ring: Ring, url: str) -> None:
        super().__init__(site)
        self.ring, self.url = ring, url

    def bring(self) -> None:
        self.site.fleet.git("push", "-q", self.url, "HEAD:main")
        self.visit()

    def differences(self) -> list[Any]:
        self.visit()
        plan = self.site.plan()
        return [*plan["changes"], *plan["drift"]]

    def visit(self) -> None:
        self.ring.controller.visit(self.ring.store.source.key)
        assert self.ring.store.saved.is_ready, self.ring.store.saved


class Synced(Way):
    """Flux or Argo CD, which follow `rendered/`."""

    def __init__(self, site: Site, repository: ConfigRepository, engine: Engine) -> None:
        super().__init__(site)
        self.repository, self.engine, self.follows = repository, engine, False

    def bring(self) -> None:
        ran = self.site.fleet.run("commit", "-o", "name")
        assert ran.code == 0, ran.out + ran.err
        self.site.fleet.git("push", "-q", self.repository.url, "HEAD:main")
        if not self.follows:
            self._install_runtime()
            self.engine.follow()
            self.follows = True
        self.engine.sync(self.site.fleet.git("rev-parse", "HEAD").strip())

    def differences(self) -> list[Any]:
        return self.engine.out_of_sync()

    def _install_runtime(self) -> None:
        """Create the runtime first: Flux dry-runs all objects at once, and the webhook of a TrainJob looks it up."""
        bodies = yaml.safe_load_all((self.site.fleet.root / "jobs/workloads.yaml").read_text())
        self.site.bed.apply(*(body for body in bodies if body["kind"] == "TrainingRuntime"))


PODS = {
    "appwrapper": 0,
    "wrapped-": 1,
    "deployment-": 3,
    "job-": 2,
    "jobset-": 2,
    "jaxjob-": 1,
    "lws-": 2,
    "mpijob-": 1,
    "paddlejob-": 1,
    "partial-": 2,
    "pod": 1,
    "pytorchjob-": 2,
    "queued-deployment-": 1,
    "queued-pod": 1,
    "queued-statefulset-": 2,
    "raycluster-": 2,
    "rayjob-": 2,
    "statefulset-": 2,
    "tfjob-": 1,
    "trainjob-": 1,
    "xgboostjob-": 1,
}
"""Pods by the beginning of their names."""


@pytest.fixture
def site(bed: Bed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Site:
    name = f"running-{os.urandom(3).hex()}"  # the cluster may be one of the user's own
    for variable, value in IDENTITY.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    monkeypatch.setenv("RECONCILER_DECISION_LOG", str(tmp_path / "decisions.jsonl"))
    monkeypatch.setenv("RECONCILER_INVENTORY_NAMESPACE", f"inventory-{name}")
    fleet = Fleet(tmp_path / "fleet", capsys)
    assert run(["init", str(fleet.root)]) == 0
    for part in ("jobs", "queues", "rendered", "evidence"):
        shutil.rmtree(fleet.root / part)
    fleet.edit("reconciler.yaml", "backend: kai ", "backend: kueue ")
    fleet.edit("reconciler.yaml", "Namespace/default", f"Namespace/{name}")
    fleet.edit("reconciler.yaml", "namespace: default ", f"namespace: {name} ")
    (fleet.root / "queues").mkdir()
    fleet.write("queues/queues.yaml", queues(name))
    fleet.write("jobs/workloads.yaml", WORKLOADS.read_text().replace("NAME", name))
    prepare(bed, name)
    return Site(fleet, bed, tmp_path, name)


def test_a_waiting_job_moves_to_another_queue(site: Site) -> None:
    """Git cannot know that the Job waits, so that its queue may change; the server says so in the dry run."""
    template = {
        "metadata": {"annotations": {"test-bed/kubelet": "test"}},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "main", "image": "example.com/a:1", "resources": {"limits": {"nvidia.com/gpu": 2}}}
            ],
        },
    }

    def write(queue: str) -> None:
        bodies = []
        for name, own in (("first", few), ("second", queue)):
            metadata = {"name": name, "namespace": site.name, "labels": {"kueue.x-k8s.io/queue-name": own}}
            body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}
            bodies.append(body)
        site.fleet.write("jobs/workloads.yaml", yaml.safe_dump_all(bodies[: None if queue else 1]))
        site.fleet.commit()

    few = f"few-{site.name}"  # it has room for one of them
    running: dict[str, str] = {}
    for queue in ("", few):
        write(queue)
        Apply(site).bring()
        running = site.wait_until_running({"first-": 1})
    assert len(running) == 1
    write(site.name)
    Apply(site).bring()
    assert running.items() <= site.wait_until_running({"first-": 1, "second-": 1}).items()


@contextmanager
def controlled(site: Site, server: GitServer) -> Iterator[Way]:
    url = server.create(site.name)
    site.fleet.commit()
    site.fleet.git("push", "-q", url, "HEAD:main")
    with (
        KubernetesCluster(load_access({}, kubeconfig=str(site.kubeconfig))) as cluster,
        ring(url, cluster, site.kubeconfig, site.folder / "state", site.name) as made,
    ):
        yield Controlled(site, made, url)


def _syncable(body: Any) -> Any:
    """Return an object without lists that Kueue extends, pods that an autoscaler counts, and partial admission."""
    if isinstance(body, list):
        return [_syncable(item) for item in body]
    if not isinstance(body, dict):
        return body
    if body.get("kind") == "Deployment" and body.get("metadata", {}).get("name") == "deployment":
        body = {**body, "spec": {name: value for name, value in body["spec"].items() if name != "replicas"}}
    if "aggregationRule" in body:
        body = {name: value for name, value in body.items() if name != "rules"}
    if "limits" in body:  # Argo CD compares the text of what webhooks write as quantities
        body = {**body, "limits": {name: str(amount) for name, amount in body["limits"].items()}}
    if body.get("parallelism") == 4:
        body = {**body, "parallelism": 2, "completions": 2}
    return {name: _syncable(value) for name, value in body.items() if name not in {"tolerations", "runtimePatches"}}


class ArgoCdBesideRay(ArgoCd):
    """Argo CD that sets back what Kueue adds to the groups of Ray: it restarts no pod by that."""

    healed = frozenset({"RayCluster", "RayJob"})


@contextmanager
def synced(site: Site, server: GitServer, engine: type[Engine]) -> Iterator[Way]:
    """Follow the sources without what docs/live-clusters.md says that a sync sets back."""
    bodies = [_syncable(body) for body in yaml.safe_load_all((site.fleet.root / "jobs/workloads.yaml").read_text())]
    site.fleet.write("jobs/workloads.yaml", yaml.safe_dump_all(bodies))
    site.fleet.commit()
    repository = ConfigRepository(
        name=site.name, folder=site.fleet.root, url=server.create(site.name), clusters=("main",)
    )
    following = engine(site.bed, repository)
    yield Synced(site, repository, following)
    following.leave()


@pytest.fixture(params=["apply", "controller", "flux", "argo_cd"])
def way(site: Site, request: pytest.FixtureRequest) -> Iterator[Way]:
    if request.param == "apply":
        site.fleet.commit()
        yield Apply(site)
        return
    if request.param == "controller":
        made = controlled(site, request.getfixturevalue("git_server"))
    else:
        request.getfixturevalue(request.param)
        engines: dict[str, type[Engine]] = {"flux": Flux, "argo_cd": ArgoCdBesideRay}
        made = synced(site, request.getfixturevalue("git_server"), engines[request.param])
    with made as found:
        yield found


def test_what_runs_is_left_alone(site: Site, way: Way) -> None:
    """Nothing is to do once everything runs, and another change of every object restarts no pod."""
    way.bring()
    before = site.wait_until_running(PODS)
    assert way.differences() == []
    end = time.monotonic() + _WATCHED
    rounds = 0
    while time.monotonic() < end or not rounds:
        assert way.differences() == []
        assert site.pods() == before
        rounds += 1
        time.sleep(5)

    edited = site.annotate("edited")
    site.fleet.commit()
    if isinstance(way, Apply):
        plan = site.plan()
        fields = {change["key"]["name"]: change["fields"] for change in plan["changes"]}
        assert fields.keys() == edited
        assert {name: found for name, found in fields.items() if len(found) != 1} == {}
        assert [risk["rule"] for risk in plan["risks"]] == []
    way.bring()
    time.sleep(5)
    assert site.pods() == before
    assert way.differences() == []
