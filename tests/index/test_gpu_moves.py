"""After an edit that moves GPUs only the changed workloads are evaluated, and the plan has the bytes of a cold one."""

import random

import pytest

from reconciler.index import totals
from reconciler.plan.outputs.json_report import render_json
from tests import sizes
from tests.index.fleets import MemoryFleet, config, evidence, job, queue

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: NAME, namespace: SPACE, labels: {team: one, kai.scheduler/queue: QUEUE}}
spec:
  suspend: SUSPEND
  parallelism: PODS
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {nvidia.com/gpu.product: PRODUCT}
      containers:
        - name: main
          image: busybox:1
          resources: {limits: {nvidia.com/gpu: GPUS}}
"""
PRODUCT = "NVIDIA-H100-80GB-HBM3"
NAMES = tuple(f"batch-{number}" for number in range(5))


def batch(
    name: str,
    *,
    of: str = "q1",
    pods: int = 1,
    gpus: int = 1,
    suspend: bool = False,
    product: str = PRODUCT,
    space: str = "default",
) -> str:
    """Return a Job."""
    text = JOB.replace("NAME", name).replace("SPACE", space).replace("QUEUE", of).replace("PODS", str(pods))
    return text.replace("SUSPEND", str(suspend).lower()).replace("PRODUCT", product).replace("GPUS", str(gpus))


def start(most: int) -> MemoryFleet:
    """Return jobs in two clusters and two namespaces, without a problem of their own."""
    return MemoryFleet(
        {
            "reconciler.yaml": config(most=most),
            "queues/q1.yaml": queue("q1"),
            "queues/q2.yaml": queue("q2"),
            "jobs/b/one.yaml": job("one", gpus=8),
            **{f"jobs/{'ab'[number % 2]}/{name}.yaml": batch(name) for number, name in enumerate(NAMES)},
            "evidence/a/nodes.yaml": evidence(),
        }
    )


class FullEvaluations:
    """Counts how often all objects were evaluated."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        evaluate = totals._evaluate

        def counted(*args: object) -> object:
            self.count += 1
            return evaluate(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(totals, "_evaluate", counted)

    def of(self, fleet: MemoryFleet) -> tuple[int, str]:
        """Plan warm; return the number of full evaluations and the plan."""
        before = self.count
        planned = render_json(fleet.plan().plan)
        return self.count - before, planned


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> FullEvaluations:
    return FullEvaluations(monkeypatch)


@pytest.mark.parametrize(
    "text",
    [
        batch("batch-0", pods=3),
        batch("batch-0", of="q2"),
        batch("batch-0", of="q2", pods=2, gpus=4),
        batch("batch-0", suspend=True),
        batch("batch-0", pods=40),  # over the limit of its queue
        batch("batch-0", gpus=16),  # no node is as large
        batch("batch-0", product="NVIDIA-H200"),
        batch("batch-0", of="default"),
    ],
)
def test_moved_gpus_are_evaluated_alone(full: FullEvaluations, text: str) -> None:
    fleet = start(most=1000)
    fleet.warm()
    fleet.write("jobs/a/batch-0.yaml", text)
    evaluations, planned = full.of(fleet)
    assert planned == fleet.cold()
    assert evaluations == 0
    fleet.write("jobs/a/batch-0.yaml", batch("batch-0"))
    evaluations, planned = full.of(fleet)
    assert planned == fleet.cold()
    assert evaluations == 0


def test_sums_over_a_maximum_see_every_workload(full: FullEvaluations) -> None:
    """The message names the largest workload of the namespace, which is not the one that changed."""
    fleet = start(most=29)
    fleet.write("jobs/a/batch-0.yaml", batch("batch-0", pods=4, gpus=4))
    fleet.warm()
    fleet.write("jobs/a/batch-2.yaml", batch("batch-2", pods=8))
    evaluations, planned = full.of(fleet)
    assert evaluations == 1
    assert "the largest is Job/batch-0 (16)" in planned
    assert planned == fleet.cold()
    fleet.write("jobs/a/batch-2.yaml", batch("batch-2", suspend=True))
    evaluations, planned = full.of(fleet)
    assert evaluations == 1
    assert "are allowed; the largest is" not in planned
    assert planned == fleet.cold()


def test_a_job_that_begins_to_write_to_the_claim_of_another_is_seen_beside_it(full: FullEvaluations) -> None:
    volume = """\
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
      containers:
        - name: main
          volumeMounts: [{name: data, mountPath: /data, readOnly: WHETHER}]
"""

    def mounting(name: str, *, read_only: bool) -> str:
        old = "      containers:\n        - name: main\n"
        return batch(name).replace(old, volume.replace("WHETHER", str(read_only).lower()))

    fleet = start(most=1000)
    fleet.write("jobs/a/batch-0.yaml", mounting("batch-0", read_only=False))
    fleet.write("jobs/a/batch-2.yaml", mounting("batch-2", read_only=True))
    fleet.warm()
    for read_only in (False, True):
        fleet.write("jobs/a/batch-2.yaml", mounting("batch-2", read_only=read_only))
        evaluations, planned = full.of(fleet)
        assert evaluations == 1
        assert ("reference.shared-claim" in planned) is not read_only
        assert planned == fleet.cold()


def test_missing_queue_and_changed_queue_see_every_object(full: FullEvaluations) -> None:
    fleet = start(most=1000)
    fleet.warm()
    for path, text in (
        ("jobs/a/batch-0.yaml", batch("batch-0", of="q3")),
        ("jobs/a/batch-0.yaml", batch("batch-0", of="q2")),  # its verdict disappears
        ("queues/q1.yaml", queue("q1", quota=24)),
        ("jobs/a/batch-0.yaml", "# moved down\n" + batch("batch-0")),
    ):
        fleet.write(path, text)
        evaluations, planned = full.of(fleet)
        assert evaluations == 1
        assert planned == fleet.cold()


@pytest.mark.parametrize("seed", range(12 if sizes.LARGE else 2))
def test_random_moves(full: FullEvaluations, seed: int) -> None:
    """The warm plan equals the cold one while jobs move, grow, are suspended, deleted and added."""
    pick = random.Random(seed).choice  # noqa: S311 - repeatable, not secret
    fleet = start(most=24)
    fleet.warm()
    evaluations = []
    for _ in range(20):
        for _ in range(pick([1, 1, 2])):
            name = pick(NAMES)
            path = f"jobs/{'ab'[NAMES.index(name) % 2]}/{name}.yaml"
            fleet.write(
                path,
                batch(
                    name,
                    of=pick(["q1", "q2", "q2", "default", "q3"]),
                    pods=pick([0, 1, 2, 40]),
                    gpus=pick([0, 1, 2, 16]),
                    suspend=pick([False, False, True]),
                    product=pick([PRODUCT, PRODUCT, "NVIDIA-H200"]),
                    space=pick(["default"] * 8 + ["other"]),
                ),
            )
            if pick([False] * 7 + [True]):
                del fleet.files[path]
        number, planned = full.of(fleet)
        assert planned == fleet.cold()
        evaluations.append(number)
    assert {*evaluations} == {0, 1}


def test_a_new_generation_is_evaluated_alone(full: FullEvaluations) -> None:
    """A job that is replaced has another name, which nothing refers to."""
    fleet = start(most=1000)
    fleet.write("reconciler.yaml", config(most=1000) + "  onImmutableChange: replace\n")
    fleet.repository.save(fleet.plan().contents())
    fleet.warm()
    for gpus in (2, 4, 16, 2):  # no node has 16
        fleet.write("jobs/a/batch-0.yaml", batch("batch-0", gpus=gpus))
        evaluations, planned = full.of(fleet)
        assert '"name":"batch-0-g' in planned.replace(" ", "")
        assert planned == fleet.cold()
        assert evaluations == 0
    fleet.write("jobs/a/batch-0.yaml", batch("batch-0", of="q3", gpus=4))  # which does not exist
    evaluations, planned = full.of(fleet)
    assert planned == fleet.cold()
    assert evaluations == 2, "under both names"
