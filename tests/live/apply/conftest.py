"""Fixtures of applies: a repository, the cluster that it is for, and a plan file."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.cli.main import run
from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from reconciler.plan.live.inventory import Place, read_inventory
from reconciler.plan.live.inventory_record import ObjectInventory
from tests.cli.fleet import IDENTITY, Fleet, Ran
from tests.cluster.server import ApiServer
from tests.ready import new_cache

_JOB = """apiVersion: batch/v1
kind: Job
metadata: {{name: {name}, namespace: {namespace}, labels: {{kai.scheduler/queue: q-{namespace}}}}}
spec:
  template:
    spec:
      restartPolicy: Never
      schedulerName: kai-scheduler
      containers:
        - {{name: main, image: "example.com/train:1", command: [python, train.py], resources: {{limits: {{nvidia.com/gpu: 8}}}}}}
"""


class Site:
    """A repository, the live cluster that it is for, and the commands that a person runs."""

    def __init__(self, fleet: Fleet, cluster: KubernetesCluster, server: ApiServer, folder: Path, name: str) -> None:
        self.fleet, self.cluster, self.server, self.name = fleet, cluster, server, name
        self.plan_file = folder / "plan.json"
        self.log = folder / "decisions.jsonl"
        self.source = fleet.root.name

    @property
    def place(self) -> Place:
        first = self.fleet.git("rev-list", "--max-parents=0", "HEAD")
        return Place(
            namespace=f"inventory-{self.name}", name=f"{self.source}-main", source=self.source, repository=first
        )

    @property
    def flags(self) -> list[str]:
        return ["--kubeconfig", str(self.server.kubeconfig)]

    def plan(self, *arguments: str) -> Ran:
        """Commit what is there, and save the plan of it."""
        self.fleet.git("add", "--all")
        self.fleet.git("commit", "--quiet", "--allow-empty", "--message", "edit")
        return self.fleet.run(
            "plan", "--live", "--revision", "HEAD", "--out", str(self.plan_file), *self.flags, *arguments
        )

    def apply(self, *arguments: str) -> Ran:
        """Apply the saved plan."""
        return self.fleet.run("apply", str(self.plan_file), *self.flags, "--timeout", "5", *arguments)

    def apply_json(self, *arguments: str) -> tuple[Ran, list[dict[str, Any]]]:
        """Apply the saved plan, and return the results as well."""
        ran = self.apply("-o", "json", *arguments)
        return ran, json.loads(ran.out) if ran.out else []

    def reconcile(self) -> Ran:
        """Plan and apply."""
        planned = self.plan()
        assert planned.code == 0, planned.out + planned.err
        return self.apply()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start an apply of the saved plan as a process of its own."""
        command = [sys.executable, "-m", "reconciler", "apply", str(self.plan_file), *self.flags, *arguments]
        command += ["--no-wait"]
        command += ["--repo", str(self.fleet.root)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def changes(self) -> list[str]:
        """Return the changes of the saved plan, as `create Job/a/b`."""
        plan = json.loads(self.plan_file.read_bytes())
        return [f"{one['operation']} {one['key']['kind']}/{one['key']['name']}" for one in plan["changes"]]

    def write(self, path: str, body: dict[str, Any] | str) -> None:
        """Write a source file."""
        self.fleet.write(path, body if isinstance(body, str) else yaml.safe_dump(body))

    def config_map(self, name: str, **data: str) -> None:
        """Write the source of a ConfigMap."""
        self.write(
            f"jobs/{name}.yaml",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self.metadata(name), "data": data or {"a": "1"}},
        )

    def job(self, name: str) -> None:
        """Write the source of a Job."""
        self.write(f"jobs/{name}.yaml", _JOB.format(name=name, namespace=self.name))

    def queue(self, name: str, quota: int = 8, parent: str = "") -> None:
        """Write the source of a Queue of KAI, which runs jobs only below another one."""
        resources = {"gpu": {"quota": quota, "limit": quota, "overQuotaWeight": 1}}
        body = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}}
        spec = {"resources": resources} | ({"parentQueue": parent} if parent else {})
        self.write(f"queues/{name}.yaml", {**body, "spec": spec})

    def metadata(self, name: str) -> dict[str, Any]:
        return {"name": name, "namespace": self.name}

    def remove(self, path: str) -> None:
        (self.fleet.root / path).unlink()

    def key(self, kind: str, name: str, group: str = "") -> ObjectKey:
        return ObjectKey(group=group, kind=kind, namespace=self.name, name=name)

    def live(self, kind: str, name: str, group: str = "") -> dict[str, Any]:
        body = self.cluster.get(self.key(kind, name, group))
        assert body is not None, f"no {kind}/{name}"
        return body

    def exists(self, kind: str, name: str, group: str = "") -> bool:
        return self.cluster.get(self.key(kind, name, group)) is not None

    def inventory(self) -> ObjectInventory:
        return read_inventory(self.cluster, self.place)

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def site(  # noqa: PLR0917
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    empty_cluster: KubernetesCluster,
    private_server: ApiServer,
    namespace_name: str,
) -> Site:
    """Make a repository with one namespace, for a cluster on which we own nothing."""
    made = Site(Fleet(tmp_path / "fleet", capsys), empty_cluster, private_server, tmp_path, namespace_name)
    return settled(made, monkeypatch)


def settled(made: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Make the repository of a site, with the settings of its commands."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(made.log.parent))
    monkeypatch.setenv("RECONCILER_DECISION_LOG", str(made.log))
    monkeypatch.setenv("RECONCILER_INVENTORY_NAMESPACE", f"inventory-{made.name}")
    begin(made)
    return made


def begin(made: Site) -> None:
    """Make the repository of a site: the template without its jobs and queues, with one namespace and wide budgets."""
    root = made.fleet.root
    assert run(["init", str(root)]) == 0
    for path in [
        *(root / "jobs").rglob("*.yaml"),
        *(root / "rendered").rglob("*.yaml"),
        *(root / "queues").glob("*.yaml"),
    ]:
        path.unlink()
    config = yaml.safe_load((root / "reconciler.yaml").read_text())
    config["metadata"]["name"] = root.name
    config["spec"]["budgets"] = {
        "emptySources": "allow",
        "deletes": {"share": 1},
        "disruption": {"share": 1},
        "gpuQuotaChange": {"share": 1},
    }
    config["spec"].pop("defaults", None)
    (root / "reconciler.yaml").write_text(yaml.safe_dump(config))
    made.write(
        "queues/namespace.yaml",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": made.name}},
    )
    made.fleet.commit("start")


@pytest.fixture
def namespace_name(request: pytest.FixtureRequest) -> str:
    """Return the name of a namespace that no other test uses."""
    counter = getattr(request.config, "_apply_namespaces", 0) + 1
    request.config._apply_namespaces = counter  # type: ignore[attr-defined]
    return f"apply-{counter}"
