"""`reconciler observe` on a real API server: nodes, queues and finished jobs become evidence."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.kube.client import KubernetesCluster
from reconciler.kube.objects import ObjectKey
from tests.cli.fleet import Fleet, Ran
from tests.cluster.server import ApiServer


def h100(name: str) -> dict[str, Any]:
    """Return a node with eight GPUs, and labels that no decision uses."""
    labels = {
        "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.com/gpu.memory": "81559",
        "topology.kubernetes.io/zone": "zone-a",
        "example.com/rack-owner": "someone",
    }
    taints = [{"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}]
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": taints}}


STATUS = {
    "capacity": {"cpu": "96", "memory": "1056461568Ki", "nvidia.com/gpu": "8", "pods": "110"},
    "allocatable": {"cpu": "95500m", "memory": "1055413248Ki", "nvidia.com/gpu": "8", "pods": "110"},
    "conditions": [{"type": "Ready", "status": "True"}],
}


class Observer:
    """A config repository, and a live cluster whose nodes the test makes."""

    def __init__(self, fleet: Fleet, server: ApiServer, live: KubernetesCluster) -> None:
        self.fleet, self.server, self.live = fleet, server, live

    @property
    def kubeconfig(self) -> str:
        return str(self.server.kubeconfig)

    def run(self, *arguments: str) -> Ran:
        return self.fleet.run("observe", "--kubeconfig", self.kubeconfig, *arguments)

    def status(self, *arguments: str) -> Ran:
        return self.fleet.run("status", "--kubeconfig", self.kubeconfig, *arguments)

    def add(self, *bodies: dict[str, Any]) -> None:
        for body in bodies:
            self.live.create(body)
            key = ObjectKey(group="", kind="Node", namespace="", name=body["metadata"]["name"])
            self.live.patch(key, {"status": STATUS}, subresource="status")

    def text(self, name: str) -> str:
        return (self.fleet.root / "evidence/main" / name).read_text()


@pytest.fixture
def observer(fleet: Fleet, private_server: ApiServer, private_cluster: KubernetesCluster) -> Iterator[Observer]:
    live = private_cluster
    yield Observer(fleet, private_server, live)
    nodes = list(live.list(live.resource("", "Node")).objects)
    for body in nodes:
        key = ObjectKey(group="", kind="Node", namespace="", name=body["metadata"]["name"])
        live.delete(key, uid=body["metadata"]["uid"], propagation="Background")


def test_nodes_become_an_inventory(observer: Observer) -> None:
    """Only what decisions use, sorted; a second observation changes nothing."""
    observer.add(*(h100(f"gpu-{number}") for number in (2, 1, 3)))
    observer.live.patch(ObjectKey(group="", kind="Node", namespace="", name="gpu-3"), {"spec": {"unschedulable": True}})
    ran = observer.run("--allow-shrink")
    assert (ran.code, ran.err) == (0, "")
    text = observer.text("nodes.yaml")
    assert text.count("- name: gpu-") == 3
    assert (
        text.partition("  nodes:\n")[2].partition("  - name: gpu-2\n")[0]
        == """\
  - name: gpu-1
    allocatable:
      cpus: 95
      memoryGiB: 1006
    cpus: 96
    gpu:
      count: 8
      memoryMiB: 81559
      product: NVIDIA-H100-80GB-HBM3
    labels:
      nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3
      topology.kubernetes.io/zone: zone-a
    taints:
    - effect: NoSchedule
      key: nvidia.com/gpu
      value: "true"
"""
    )
    assert text.count("unschedulable: true") == 1
    assert "rack-owner" not in text
    assert observer.fleet.run("lint").code == 0
    again = observer.run()
    assert (again.code, "no changes" in again.out) == (0, True)
    assert observer.text("nodes.yaml") == text


def test_slices_of_gpus_are_in_the_inventory(observer: Observer) -> None:
    """F-160: slices that a device plugin offers, by resource: placement has no other record of them."""
    observer.add(h100("gpu-1"))
    offered = {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7", "nvidia.com/mig-3g.40gb": "0"}
    node = ObjectKey(group="", kind="Node", namespace="", name="gpu-1")
    observer.live.patch(node, {"status": {"allocatable": offered}}, subresource="status")
    assert observer.run("--allow-shrink").code == 0
    recorded = "gpus: 0\n      memoryGiB: 1006\n      slices:\n        nvidia.com/mig-1g.10gb: 7\n"
    assert recorded in observer.text("nodes.yaml")
    assert "no changes" in observer.run().out


def test_a_fleet_that_shrinks_is_refused(observer: Observer) -> None:
    """The eight nodes of the evidence are gone at once: more often a fault than a decision."""
    before = observer.text("nodes.yaml")
    observer.add(*(h100(f"gpu-{number}") for number in range(2)))
    ran = observer.run()
    assert ran.code == 5
    assert "6 of 8 nodes are gone (75%); at most 25% may go at once" in ran.out
    assert "--allow-shrink" in ran.out
    assert observer.text("nodes.yaml") == before
    assert observer.run("--allow-shrink").code == 0
    assert observer.text("nodes.yaml").count("- name: gpu-") == 2


def test_an_unreachable_cluster_keeps_its_evidence(observer: Observer, tmp_path: Path) -> None:
    """Old evidence stays, with its age; nothing is guessed."""
    before = observer.fleet.files("evidence")
    config = tmp_path / "unreachable"
    text = observer.server.kubeconfig.read_text()
    config.write_text(re.sub(r"https://[^\s\"']+", "https://127.0.0.1:1", text))
    ran = observer.fleet.run("observe", "--kubeconfig", str(config))
    assert ran.code == 6
    assert "main: could not be read" in ran.out
    assert re.search(r"evidence/main/nodes.yaml stays as it is, \d+ days old: ", ran.out)
    assert observer.fleet.files("evidence") == before
    status = observer.fleet.run("status", "--kubeconfig", str(config))
    assert (status.code, "warning: " in status.out) == (6, True)


def test_what_is_forbidden_stays(observer: Observer) -> None:
    """F-133: another user may list nodes and nothing else: the nodes are observed, the rest stays as it is."""
    observer.add(*(h100(f"gpu-{number}") for number in range(8)))
    rules = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "nodes"}}
    subject = {"kind": "User", "name": "watcher", "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": "nodes", "apiGroup": "rbac.authorization.k8s.io"}
    observer.live.apply({**role, "rules": rules})
    observer.live.apply({**role, "kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": reference})
    ran = observer.run("--as", "watcher")
    assert ran.code == 6
    assert "wrote evidence/main/nodes.yaml" in ran.out
    assert "evidence/main/runs.yaml there is no evidence yet, and none was recorded: " in ran.out
    assert 'User "watcher" cannot list resource' in ran.out
    assert "runs.yaml" not in "".join(observer.fleet.files("evidence"))


COMPLETE = {
    "startTime": "2026-11-01T10:00:00Z",
    "completionTime": "2026-11-01T12:00:00Z",
    "succeeded": 1,
    "conditions": [
        {
            "type": kind,
            "status": "True",
            "reason": "CompletionsReached",
            "lastProbeTime": "2026-11-01T12:00:00Z",
            "lastTransitionTime": "2026-11-01T12:00:00Z",
        }
        for kind in ("SuccessCriteriaMet", "Complete")
    ],
}
PROBE = ObjectKey(group="batch", kind="Job", namespace="default", name="probe")


def test_a_job_that_its_ttl_removed_is_not_created_again(observer: Observer) -> None:
    """F-056: the end of a job becomes evidence, its rendered file a mark; without the job both stay as they are."""
    fleet, live = observer.fleet, observer.live
    observer.add(*(h100(f"gpu-{number}") for number in range(8)))
    body = yaml.safe_load(fleet.files()["main/default/job-probe.yaml"])
    made = live.apply(body).body
    assert observer.run().code == 0
    assert "runs: []" in observer.text("runs.yaml")
    running = json.loads(observer.status("-o", "json", "probe").out)
    (job,) = running["clusters"][0]["jobs"]
    assert (job["phase"], job["reason"], job["workers"]["wanted"]) == ("Queued", "QueueNotFound", 1)
    live.patch(PROBE, {"status": COMPLETE}, subresource="status")
    assert observer.run().out.count("wrote ") == 1
    recorded = observer.text("runs.yaml")
    assert f"uid: {made['metadata']['uid']}" in recorded
    assert "result: Succeeded" in recorded
    fleet.commit("observed")
    assert fleet.run("commit").code == 0
    live.delete(PROBE, uid=made["metadata"]["uid"], propagation="Background")  # as its TTL does
    again = observer.run()
    assert (again.code, "no changes" in again.out) == (0, True)
    assert "No changes" in fleet.run("plan").out
    live_plan = json.loads(fleet.run("plan", "--live", "-o", "json", "--kubeconfig", observer.kubeconfig).out)
    assert "probe" not in {change["key"]["name"] for change in live_plan["changes"]}
    marked = yaml.safe_load(fleet.files()["main/default/job-probe.yaml"])
    assert marked["metadata"]["annotations"]["kustomize.toolkit.fluxcd.io/reconcile"] == "disabled"
    page = observer.status("probe").out
    assert re.search(r"Job/default/probe +Succeeded +", page)
    assert re.search(r"2026-11-01 10:00Z +2026-11-01 12:00Z", page)


def test_queues_in_use(observer: Observer) -> None:
    """A queue is in use while a workload waits or runs in it."""
    namespace = "queues-in-use"
    observer.server.client.ensure_namespaces([namespace])
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta2", "metadata": {"namespace": namespace}}
    observer.live.create({**queue, "kind": "LocalQueue", "metadata": {"name": "team", "namespace": namespace}, "spec": {"clusterQueue": "gpus"}})  # fmt: skip
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    sets = [{"name": "main", "count": 1, "template": {"spec": {"containers": [container], "restartPolicy": "Never"}}}]
    observer.live.create({**queue, "kind": "Workload", "metadata": {"name": "w", "namespace": namespace}, "spec": {"queueName": "team", "podSets": sets}})  # fmt: skip
    observer.run("--allow-shrink")
    found = yaml.safe_load(observer.text("queues.yaml"))["spec"]["queues"]
    assert {"group": "kueue.x-k8s.io", "kind": "ClusterQueue", "name": "gpus"} in found
    assert {"group": "kueue.x-k8s.io", "kind": "LocalQueue", "namespace": namespace, "name": "team"} in found
    key = ObjectKey(group="kueue.x-k8s.io", kind="Workload", namespace=namespace, name="w")
    finished = {"type": "Finished", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-11-01T12:00:00Z"}  # fmt: skip
    observer.live.patch(key, {"status": {"conditions": [finished]}}, subresource="status")
    observer.run("--allow-shrink")
    assert "gpus" not in observer.text("queues.yaml")


def test_a_wrong_name_of_a_job(observer: Observer) -> None:
    ran = observer.status("prob")
    assert (ran.code, "did you mean probe?" in ran.err) == (2, True)


def test_several_clusters_have_contexts_of_their_names(observer: Observer, tmp_path: Path) -> None:
    """F-133: one cluster that cannot be reached does not keep another from being observed."""
    fleet = observer.fleet
    observer.add(*(h100(f"gpu-{number}") for number in range(8)))
    config = yaml.safe_load(observer.server.kubeconfig.read_text())
    (entry,) = config["clusters"]
    (context,) = config["contexts"]
    gone = {**entry, "name": "gone", "cluster": {**entry["cluster"], "server": "https://127.0.0.1:1"}}
    config["clusters"] += [gone]
    config["contexts"] = [
        {"name": "main", "context": context["context"]},
        {"name": "second", "context": {**context["context"], "cluster": "gone"}},
    ]
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    fleet.edit(
        "reconciler.yaml", "  clusters:\n", "  clusters:\n    - {name: second, select: {folders: [jobs/none]}}\n"
    )
    fleet.write("jobs/none/empty.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: second}\n")
    ran = fleet.run("observe", "--kubeconfig", str(path))
    assert ran.code == 6
    assert "second: could not be read" in ran.out
    assert "wrote evidence/main/nodes.yaml" in ran.out
    named = fleet.run("observe", "--kubeconfig", str(path), "--context", "main")
    assert (named.code, "choose one with --cluster" in named.err) == (2, True)
    before = fleet.files("evidence")
    config["contexts"] = [context]
    path.write_text(yaml.safe_dump(config))
    assert fleet.run("observe", "--kubeconfig", str(path)).code == 2
    assert fleet.files("evidence") == before
