"""Mode apply as a real process on the real API server: what is merged arrives, what left Git goes, and who did it."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from reconciler.plan.live.inventory import Place, read_inventory
from tests.cluster.server import ApiServer, wait_until
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.process import Running, controller
from tests.live.controller.test_objects import World
from tests.live.controller.test_pass import push
from tools.crds import crd

_CONFIG_MAP = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: {namespace}}}\ndata: {{a: '{value}'}}\n"
)
_BUDGETS = {"emptySources": "allow", "deletes": {"share": 1}, "disruption": {"share": 1}}


@dataclass(frozen=True, kw_only=True)
class Target:
    """A namespace of the cluster with a source, and the repository that it watches."""

    world: World
    person: Sandbox

    @property
    def place(self) -> Place:
        first = self.person.git("rev-list", "--max-parents=0", "HEAD")
        return Place(namespace=self.world.namespace, name="fleet-main", source="fleet", repository=first)

    def push(self, **values: str | None) -> str:
        """Merge ConfigMaps by name; None removes one."""
        files = {
            f"jobs/{name}.yaml": value
            and _CONFIG_MAP.format(name=name, namespace=self.world.namespace, value=value).encode()
            for name, value in values.items()
        }
        return push(self.person, files)  # type: ignore[arg-type]

    def data(self) -> dict[str, str]:
        """Return the ConfigMaps of the repository that are on the cluster, by name."""
        return {name: body["data"]["a"] for name, body in self.bodies().items()}

    def bodies(self) -> dict[str, dict[str, Any]]:
        resource = self.world.live.resource("", "ConfigMap")
        objects = self.world.live.list(resource, namespace=self.world.namespace).objects
        return {body["metadata"]["name"]: body for body in objects if "a" in body.get("data", {})}

    def inventory(self) -> dict[str, set[str]]:
        found = read_inventory(self.world.live, self.place).uids()
        return {key.name: set(known) for key, known in found.items() if key.kind == "ConfigMap"}

    def uids(self) -> dict[str, set[str]]:
        return {name: {body["metadata"]["uid"]} for name, body in self.bodies().items()}

    def condition(self, kind: str = "Ready") -> dict[str, Any]:
        conditions = self.world.source("fleet").get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), {})

    @contextmanager
    def running(self, folder: Path, name: str = "controller") -> Iterator[Running]:
        environ = {"RECONCILER_INVENTORY_NAMESPACE": self.world.namespace}
        with controller(folder, *self.world.flags, environ=environ, name=name) as started:
            yield started


def new_target(cluster: KubernetesCluster, server: ApiServer, kubectl: Path, person: Sandbox, git: GitServer) -> Target:
    """Prepare a repository with nothing in it, for a new namespace."""
    cluster.apply(crd())
    name = f"applied-{os.urandom(4).hex()}"
    server.client.ensure_namespaces([name])
    path = "/apis/gpureconciler.io/v1alpha1/configsources"
    wait_until(lambda: server.client.request("GET", path).ok, "the CRD of sources")
    config = yaml.safe_load((person.folder / "reconciler.yaml").read_text())
    config["spec"]["budgets"] = _BUDGETS
    config["spec"].pop("defaults", None)
    others = person.git("ls-files", "jobs", "queues", "rendered").splitlines()
    push(person, dict.fromkeys(others) | {"reconciler.yaml": yaml.safe_dump(config).encode()})
    world = World(live=cluster, kubeconfig=server.kubeconfig, kubectl=kubectl, namespace=name, url=git.url)
    return Target(world=world, person=person)


@pytest.fixture
def target(
    empty_cluster: KubernetesCluster, private_server: ApiServer, kubectl: Path, person: Sandbox, server: GitServer
) -> Target:
    return new_target(empty_cluster, private_server, kubectl, person, server)


def test_merged_changes_arrive_and_what_left_git_is_pruned(target: Target, tmp_path: Path) -> None:
    """Create, update, prune and revert drift, with the inventory, the metrics, the condition and the records."""
    world = target.world
    target.push(one="1", two="1")
    world.create("fleet", mode="apply")
    with target.running(tmp_path / "c") as running:
        world.kube("wait", "--for=condition=Ready", "configsource/fleet", "--timeout=60s")
        assert target.data() == {"one": "1", "two": "1"}
        foreign = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "theirs"}}
        world.live.create({**foreign, "metadata": {"name": "foreign", "namespace": world.namespace}}, manager="kubectl")
        tip = target.push(one="2", two=None, three="1")
        wanted = {"foreign": "theirs", "one": "2", "three": "1"}
        wait_until(lambda: target.data() == wanted, "the next revision")
        wait_until(lambda: world.source("fleet")["status"]["lastCommit"] == tip, "the status")
        world.kube("patch", "configmap", "one", "--type=merge", "--patch", '{"data": {"a": "edited"}}')
        wait_until(lambda: target.data() == wanted, "the drift is reverted")
        assert target.inventory() == {name: uid for name, uid in target.uids().items() if name != "foreign"}
        line = 'reconciler_apply_operations_total{{action="{}",result="success"}}'
        wait_until(lambda: running.value(line.format("configured")) >= 2, "the end of the pass")
        assert running.value(line.format("created")) == 3
        assert running.value(line.format("deleted")) == 1
        assert running.stop() == 0
    records = json.loads(world.kube("get", "configmap", "fleet-main-records", "-o", "json"))["data"]["records"]
    assert [json.loads(line)["result"] for line in records.splitlines()][:2] == ["Applied", "Applied"]


_DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: {namespace}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      containers:
        - {{name: main, image: "example.com/web:1", resources: {{limits: {{cpu: "1", memory: 1Gi}}, requests: {{cpu: "1"}}}}}}
"""


def test_a_source_that_waits_is_ready_when_its_objects_are(target: Target, tmp_path: Path) -> None:
    """spec.wait: the condition names what is not ready or failed, at every pass, not only after a change."""
    world = target.world
    push(target.person, {"jobs/web.yaml": _DEPLOYMENT.format(namespace=world.namespace).encode()})
    key = ObjectKey(group="apps", kind="Deployment", namespace=world.namespace, name="web")

    def report(**status: Any) -> None:
        world.live.patch(key, {"status": status}, subresource="status", manager="deployment-controller")

    world.create("fleet", mode="apply", wait=True)
    with target.running(tmp_path / "c") as running:
        wait_until(lambda: world.live.get(key), "the Deployment")
        report(observedGeneration=1, replicas=2, readyReplicas=1)
        wait_until(lambda: target.condition().get("reason") == "NotReady", "the condition")
        assert target.condition()["status"] == "False"
        assert target.condition()["message"] == f"Deployment/{world.namespace}/web: 1 of 2 replicas are ready"
        assert target.condition("Reconciling")["status"] == "True"
        entry = running.said("waiting")[0]
        assert (entry["level"], entry["reason"]) == ("info", "NotReady")
        report(observedGeneration=1, replicas=2, readyReplicas=2)
        world.kube("wait", "--for=condition=Ready", "configsource/fleet", "--timeout=60s")
        failed = {"type": "Failed", "status": "True", "reason": "Broken", "message": "no image"}
        report(conditions=[failed])
        wait_until(lambda: target.condition().get("reason") == "HealthCheckFailed", "the condition")
        assert target.condition()["message"].endswith("/web: no image")
        assert running.said("failed", reason="HealthCheckFailed")
        assert running.stop() == 0


def may(target: Target, name: str, account: str, namespace: str, rules: list[dict[str, Any]]) -> None:
    """Grant rules to a service account of the namespace: everywhere, or in one namespace."""
    head = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    kind, place = ("Role", {"namespace": namespace}) if namespace else ("ClusterRole", {})
    metadata = {"name": name, **place}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": target.world.namespace}]
    target.world.live.apply({**head, "kind": kind, "metadata": metadata, "rules": rules}, force=True)
    body = {**head, "kind": f"{kind}Binding", "metadata": metadata, "roleRef": reference, "subjects": subjects}
    target.world.live.apply(body, force=True)


def test_a_source_acts_as_its_service_account(target: Target, tmp_path: Path) -> None:
    """spec.serviceAccount: the account's permissions decide, and the server sees the account as the writer."""
    world = target.world
    target.push(one="1")
    world.create("fleet", mode="apply", serviceAccount="deployer")
    with target.running(tmp_path / "c") as running:
        wait_until(lambda: target.condition().get("status") == "False", "a refusal")
        assert "is forbidden" in target.condition()["message"]
        assert "system:serviceaccount" in target.condition()["message"]
        assert target.data() == {}
        read = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
        may(target, f"{world.namespace}-read", "deployer", "", read)
        write = [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "update", "patch", "delete"]},
            {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create"]},
        ]
        may(target, "write", "deployer", world.namespace, write)
        world.kube("annotate", "configsource", "fleet", "gpureconciler.io/requestedAt=now")
        world.kube("wait", "--for=condition=Ready", "configsource/fleet", "--timeout=60s")
        assert target.data() == {"one": "1"}
        target.push(one=None, two="1")
        wait_until(lambda: target.data() == {"two": "1"}, "the next revision")
        assert running.stop() == 0
    (writer,) = {entry["manager"] for entry in target.bodies()["two"]["metadata"]["managedFields"]}
    assert writer == "reconciler"
    records = world.kube("get", "configmap", "fleet-main-records", "-o", "json")
    user = f"system:serviceaccount:{world.namespace}:deployer"
    assert json.loads(json.loads(records)["data"]["records"].splitlines()[0])["user"] == user


def children(running: Running) -> list[Path]:
    tasks = (Path("/proc") / str(running.process.pid) / "task").iterdir()
    return [Path("/proc") / child for task in tasks for child in (task / "children").read_text().split()]


def test_the_leader_is_killed_in_the_middle_of_an_apply(target: Target, tmp_path: Path) -> None:
    """F-134: two real processes; the other one ends the work, nothing is made twice, and nothing is lost."""
    world, wanted = target.world, {f"many-{number}": "1" for number in range(150)}
    world.create("fleet", mode="apply", interval="1s")
    with ExitStack() as stack:
        both = [stack.enter_context(target.running(tmp_path / "c", name)) for name in ("one", "two")]
        wait_until(lambda: sum(one.value("reconciler_leader") for one in both) == 1, "a leader")
        leader, standby = sorted(both, key=lambda one: -one.value("reconciler_leader"))
        wait_until(lambda: leader.said("reconciled"), "the first pass")
        target.push(**wanted)
        wait_until(lambda: len(target.data()) > 3, "the first objects")
        passes = children(leader)
        leader.process.kill()
        wait_until(lambda: not any(path.exists() for path in passes), "the end of the pass of the killed leader")
        made = target.uids()
        assert passes
        assert 3 < len(made) < len(wanted)
        assert standby.value("reconciler_leader") == 0, "the lease is not free yet"
        wait_until(lambda: target.data() == wanted, "the work of the other replica")
        wait_until(lambda: standby.said("reconciled", reason="ReconciliationSucceeded"), "its report")
        after = target.uids()
        assert {name: after[name] for name in made} == made, "nothing was made twice"
        assert target.inventory() == after
        assert standby.stop() == 0
        key = ObjectKey(group="coordination.k8s.io", kind="Lease", namespace=world.namespace, name="reconciler")
        assert (world.live.get(key) or {})["spec"].get("holderIdentity", "") == ""
