"""Limits of queues, in a plan too, and never-admitted workloads: our sums against Kueue's own code, on random forests of queues."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from reconciler.kinds.kueue import CLUSTER_QUEUE
from reconciler.kinds.registry import BUILT_IN
from reconciler.queues.borrowing import Borrowing
from reconciler.queues.flavors import NEWEST, Version
from reconciler.queues.queues import QueueKey, usage_by_cluster
from reconciler.repo.config import Cluster
from tests.cluster.fixtures import Parts
from tests.cluster.parts import KUEUE_016_ADMISSION, KUEUE_ADMISSION, Part
from tests.differential.forests import PRODUCT, SLICE, Body, Forest, forest
from tests.plan.plan_cases import evaluate, plan, rows

FORESTS = int(os.environ.get("RECONCILER_TEST_FORESTS", "300"))
Largest = dict[str, dict[str, dict[str, float]]]


@pytest.mark.parametrize(
    ("part", "version"), [(KUEUE_ADMISSION, NEWEST), (KUEUE_016_ADMISSION, (0, 16))], ids=["newest", "0.16"]
)
def test_limits_and_admission_are_those_of_kueue(parts: Parts, part: Part, version: Version) -> None:
    """F-047: the largest workload of each queue and flavor, and which workloads fit while nothing else runs."""
    forests = [forest(seed) for seed in range(FORESTS)]
    answers = ask_kueue(parts.program(part), forests)
    wrong = [
        line
        for seed, pair in enumerate(zip(forests, answers, strict=True))
        for line in differences(seed, *pair, version)
    ]
    fits = [fit for answer in answers for fit in answer["fits"]]
    limits = sum(
        len(cells) for answer in answers for flavors in answer["largest"].values() for cells in flavors.values()
    )
    print(f"{FORESTS} forests, {limits} limits, {len(fits)} workloads ({fits.count(False)} never admitted)")  # noqa: T201 - the figures of a large run
    assert not wrong, f"{len(wrong)} differences:\n" + "\n".join(wrong[:20])
    assert fits.count(True) > FORESTS / 4 < fits.count(False), "the forests are worth it"


def ask_kueue(program: Path, forests: list[Forest]) -> list[Body]:
    lines = "".join(f"{json.dumps(each.question)}\n" for each in forests)
    answered = subprocess.run([program], input=lines, capture_output=True, text=True, check=False, timeout=600)
    assert answered.returncode == 0, answered.stderr
    return [json.loads(line) for line in answered.stdout.splitlines()]


def limits_in_a_plan(asked: Forest) -> dict[tuple[str, str], float | None]:
    """Return the column `limit` of a plan that creates the forest, by queue and product."""
    lines = plan([], asked.objects).queues
    return {(line.queue, line.product): line.limit for line in lines if not line.is_cohort and not line.is_total}


def by_product(asked: Forest, largest: Largest) -> dict[tuple[str, str], float]:
    """Add up what Kueue grants of all flavors of a product."""
    products = {body["metadata"]["name"]: body["spec"]["nodeLabels"].get(PRODUCT, "") for body in asked.flavors}
    found: dict[tuple[str, str], float] = {}
    for queue, flavors in largest.items():
        for flavor, cells in flavors.items():
            for resource, gpus in cells.items():
                product = resource if resource == SLICE else products[flavor]
                found[queue, product] = found.get((queue, product), 0.0) + gpus
    return found


def differences(seed: int, asked: Forest, answer: Body, version: Version) -> list[str]:
    found = rows(asked.objects)
    usage = usage_by_cluster(found)["main"]
    borrowing = Borrowing(usage, Cluster(name="main"))
    ours: Largest = {}
    for body in asked.cluster_queues:
        name = body["metadata"]["name"]
        flavors = ours.setdefault(name, {})
        for (flavor, resource), amount in borrowing.largest(QueueKey(*CLUSTER_QUEUE, name)).items():
            flavors.setdefault(flavor, {})[resource] = amount
    lines = [] if ours == answer["largest"] else [f"forest {seed}: {ours}, not {answer['largest']}"]
    shown, granted = limits_in_a_plan(asked), by_product(asked, answer["largest"])
    lines += [] if shown == granted else [f"forest {seed}: a plan shows {shown}, not {granted}"]
    verdicts = evaluate(BUILT_IN, found, Cluster(name="main"), None, {}, kueue=version)
    never = {verdict.key.name: verdict.message for verdict in verdicts if verdict.rule == "quota.queue-limit"}
    workloads = [body["metadata"]["name"] for _, body in asked.workloads]
    for name, fits, reason in zip(workloads, answer["fits"], answer["reasons"], strict=True):
        if fits is (name in never):
            lines.append(f"forest {seed}, {name}: we say {never.get(name, 'it fits')!r}, Kueue {reason or 'it fits'!r}")
    return lines
