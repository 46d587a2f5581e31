"""What a queue gets wrong is reported once, at the queue; what a job gets wrong, at the job's field."""

from collections.abc import Iterable, Iterator

import pytest

from reconciler.plan import Plan
from reconciler.policy.verdict import Verdict
from tests.fakes.repository import MemoryRepository
from tests.index.fleets import MemoryFleet

CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters:
    - name: main
      backend: BACKEND
      external: [Queue/default, PersistentVolumeClaim, PriorityClass/normal]
"""
QUEUE = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunQueue
metadata: {name: q}
spec:
  kaiQueue: q
  image: registry.example.com/train:2.7
  nodeResources: {gpus: 8, cpus: 96}
  scheduling:
    priorityClassName: PRIORITY
    nodeSelector:
      nvidia.com/gpu.product: PRODUCT
"""
JOB = """\
apiVersion: torchrun.ai/v1alpha1
kind: TorchrunJob
metadata: {name: NAME}
spec:
  jobQueue: q
  command: python train.py
  numGPUs: GPUS
"""
NODES = """\
apiVersion: gpureconciler.io/v1alpha1
kind: NodeInventory
metadata: {name: main}
spec:
  takenAt: "2026-11-01T00:00:00Z"
  nodes:
    - {name: n1, gpu: {product: H100, count: 8}}
    - {name: n2, gpu: {product: H100, count: 8}}
"""


def fleet(*, product: str = "H100", priority: str = "normal", gpus: int = 8, backend: str = "kai") -> MemoryFleet:
    files = {
        "reconciler.yaml": CONFIG.replace("BACKEND", backend),
        "queues/q.yaml": QUEUE.replace("PRODUCT", product).replace("PRIORITY", priority),
        "evidence/main/nodes.yaml": NODES,
    }
    jobs = {f"jobs/{name}.yaml": JOB.replace("NAME", name).replace("GPUS", str(gpus)) for name in ("a", "b", "c")}
    return MemoryFleet(files | jobs)


def of_rule(plan: Plan, rule: str) -> list[Verdict]:
    return [verdict for verdict in plan.verdicts if verdict.rule == rule]


def test_a_product_that_no_node_has_is_reported_once_at_the_queue() -> None:
    plan = fleet(product="H1000").plan().plan
    (verdict,) = of_rule(plan, "quota.product")
    assert str(verdict.place) == "queues/q.yaml:11:31"
    assert "selects GPU product H1000" in verdict.message
    assert verdict.message.endswith("(and 2 more objects)")


def test_a_flavor_of_the_product_is_at_the_same_line() -> None:
    plan = fleet(product="H1000", backend="kueue").plan().plan
    assert {str(verdict.place) for verdict in of_rule(plan, "quota.product")} == {"queues/q.yaml:11:31"}


def test_a_missing_priority_class_is_reported_once_at_the_queue() -> None:
    plan = fleet(priority="hihg").plan().plan
    (verdict,) = of_rule(plan, "reference.priority-class")
    assert str(verdict.place) == "queues/q.yaml:9:24"
    assert "and 2 more objects" in verdict.message


def test_too_many_gpus_are_reported_at_each_job_that_requests_them() -> None:
    plan = fleet(gpus=64).plan().plan
    places = [str(verdict.place) for verdict in of_rule(plan, "quota.capacity")]
    assert places == ["jobs/a.yaml:7:12", "jobs/b.yaml:7:12", "jobs/c.yaml:7:12"]


def test_an_exception_for_one_object_leaves_the_others() -> None:
    made = fleet(product="H1000")
    made.write(
        "policies/one.yaml",
        "apiVersion: gpureconciler.io/v1alpha1\nkind: PolicyException\nmetadata: {name: one}\nspec:\n"
        "  rule: quota.product\n  object: {kind: Job, namespace: default, name: a}\n"
        '  reason: later\n  owner: ada@example.com\n  expires: "2999-01-01"\n',
    )
    verdicts = of_rule(made.plan().plan, "quota.product")
    assert [verdict.message.endswith("(and 1 more object)") for verdict in verdicts if verdict.result == "deny"] == [
        True
    ]


def test_places_are_the_same_from_the_cache_and_after_an_edit() -> None:
    made = fleet(gpus=64)
    assert made.warm() == made.warm() == made.cold()
    made.write("jobs/a.yaml", "# moved down\n" + JOB.replace("NAME", "a").replace("GPUS", "64"))
    assert made.warm() == made.cold()
    places = [str(verdict.place) for verdict in of_rule(made.plan().plan, "quota.capacity")]
    assert places[0] == "jobs/a.yaml:8:12"
    made.write("queues/q.yaml", "# moved down\n" + QUEUE.replace("PRODUCT", "H1000").replace("PRIORITY", "normal"))
    assert made.warm() == made.cold()
    assert str(of_rule(made.plan().plan, "quota.product")[0].place) == "queues/q.yaml:12:31"


def test_the_files_of_many_verdicts_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each read starts git: their number does not depend on the number of verdicts."""
    reads: list[int] = []
    read = MemoryRepository.read

    def noted(self: MemoryRepository, oids: Iterable[str]) -> Iterator[bytes]:
        ids = list(oids)
        reads.append(len(ids))
        return read(self, ids)

    monkeypatch.setattr(MemoryRepository, "read", noted)
    counts = []
    for count in (25, 50):
        made = fleet(gpus=64)
        for number in range(count):
            made.write(f"jobs/more-{number}.yaml", JOB.replace("NAME", f"more-{number}").replace("GPUS", "64"))
        for path, content in made.plan().contents().items():
            made.files[path] = content or b""
        made.repository.save({})
        reads.clear()
        assert made.cold().count('"quota.capacity"') > count
        counts.append(len(list(filter(None, reads))))
    assert counts[0] == counts[1]


HELD = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: f}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: gpus}
spec:
  stopPolicy: Hold
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: ml}
spec: {clusterQueue: gpus}
"""
WAITING = """
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: ml, labels: {kueue.x-k8s.io/queue-name: team}}
spec:
  suspend: true
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: "train:1", resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def test_a_queue_that_admits_nothing_is_reported_at_its_own_line() -> None:
    """Once for all workloads: a field that is missing at the one that it belongs to."""
    jobs = {f"jobs/{name}.yaml": WAITING.replace("NAME", name) for name in ("a", "b", "c")}
    made = MemoryFleet({"reconciler.yaml": CONFIG.replace("BACKEND", "kueue"), "queues/q.yaml": HELD, **jobs})
    found = of_rule(made.plan().plan, "queues.never-admitted")
    assert [str(verdict.place) for verdict in found] == ["queues/q.yaml:10:3", "queues/q.yaml:10:15"]
    assert [verdict.field for verdict in found] == ["spec.namespaceSelector", "spec.stopPolicy"]
    assert all(verdict.message.endswith("(and 2 more objects)") for verdict in found)
