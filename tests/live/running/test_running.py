"""What runs stays as it is: plan, apply, wait until every pod runs, plan again. Nothing is to do, and no pod restarts.

Each kind that Kueue starts on the bed is written as its documentation writes it, with `suspend: true`.
"""

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli.main import run
from tests.cli.fleet import IDENTITY, Fleet
from tests.cluster.bed.bed import Bed
from tests.cluster.bed.kueue import cluster_queue, flavor, local_queue
from tests.cluster.kubeconfig import with_contexts
from tests.ready import new_cache

pytestmark = [
    pytest.mark.usefixtures(
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
    ),
    pytest.mark.timeout(900),
]
WORKLOADS = Path(__file__).with_name("workloads.yaml")
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
    group["flavors"][0]["resources"] += [{"name": "cpu", "nominalQuota": 64}, {"name": "memory", "nominalQuota": "1Ti"}]
    return body


class Site:
    """A repository of these workloads, and the commands of a person."""

    def __init__(self, fleet: Fleet, bed: Bed, folder: Path, name: str) -> None:
        self.fleet, self.bed, self.name = fleet, bed, name
        self.plan_file = folder / "plan.json"
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(with_contexts(bed.kubeconfig, ("main",)))
        self.flags = ("--kubeconfig", str(kubeconfig))

    def plan(self) -> dict[str, Any]:
        flags = ("--live", "--revision", "HEAD", "--out", str(self.plan_file), *self.flags)
        ran = self.fleet.run("plan", *flags)
        assert ran.code == 0, ran.out + ran.err
        plan: dict[str, Any] = json.loads(self.plan_file.read_bytes())
        return plan

    def apply(self) -> None:
        ran = self.fleet.run("apply", str(self.plan_file), *self.flags, "--no-wait")
        assert ran.code == 0, ran.out + ran.err

    def pods(self) -> dict[str, str]:
        """Return the UIDs of all pods, by name; each pod that a scheduler has placed is made to run."""
        found = self.bed.pods(self.name)
        for pod in found:
            if pod["spec"].get("nodeName") and pod["status"].get("phase") != "Running":
                self.bed.set_phase(pod, "Running")
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in found}

    def waiting(self) -> list[str]:
        """Return what does not run yet: pods, and workloads that have too few of them."""
        self.pods()
        found = self.bed.pods(self.name)
        idle = [pod["metadata"]["name"] for pod in found if pod["status"].get("phase") != "Running"]
        counts = {name: sum(pod["metadata"]["name"].startswith(name) for pod in found) for name in PODS}
        return [
            *idle,
            *(f"{name} has {counts[name]} of {wanted}" for name, wanted in PODS.items() if counts[name] < wanted),
        ]


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
_SETTLED = 10  # seconds in which a controller would have stopped a pod


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


def wait_until_running(site: Site) -> None:
    deadline = time.monotonic() + 240
    while waiting := site.waiting():
        assert time.monotonic() < deadline, waiting
        time.sleep(1)


def test_apply_leaves_what_runs_alone(site: Site) -> None:
    """A plan of what runs is empty, and an apply of another change of every object restarts no pod."""
    site.fleet.commit()
    site.plan()
    site.apply()
    wait_until_running(site)
    before = site.pods()
    plan = site.plan()
    assert (plan["changes"], plan["drift"]) == ([], [])

    bodies = [*yaml.safe_load_all((site.fleet.root / "jobs/workloads.yaml").read_text())]
    for body in bodies:
        body["metadata"].setdefault("annotations", {})["example.com/note"] = "edited"
    site.fleet.write("jobs/workloads.yaml", yaml.safe_dump_all(bodies))
    site.fleet.commit()
    plan = site.plan()
    edited = {change["key"]["name"] for change in plan["changes"]}
    assert edited == {body["metadata"]["name"] for body in bodies}
    fields = {change["key"]["name"]: change["fields"] for change in plan["changes"]}
    assert {name: found for name, found in fields.items() if len(found) != 1} == {}
    assert [risk["rule"] for risk in plan["risks"]] == []
    site.apply()
    time.sleep(_SETTLED)
    assert site.pods() == before
    assert site.plan()["changes"] == []
