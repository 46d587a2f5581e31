"""Measure the evaluator of node health: a whole fleet at once, and one changed report: `make bench`.

To reach, for 10,000 nodes with 8 GPUs of which 4 checks were measured: 2 s of processor time for all of them, 100 ms
for one that measured again.
"""

import gc
import random
import time

from reconciler.nodehealth.findings import CheckStatus, FindingSeverity, HealthFinding
from reconciler.nodehealth.fleet.evaluate import FleetInput, Round, evaluate, next_round
from reconciler.nodehealth.fleet.state import FleetNode, FleetState
from reconciler.nodehealth.policy import PolicyBook, PolicyDocument
from reconciler.nodehealth.readings import GpuIdentity
from reconciler.nodehealth.report import GpuSeries, NodeReport, significant

NODES, GPUS, CHECKS, RUNS = 10_000, 8, tuple(f"check.{number}" for number in range(40)), 5
MEASURED, SLOW = 4, 0.0001
_LOST = HealthFinding(
    check=CHECKS[3], status=CheckStatus.FAIL, message="lost", slot="slot-1", severity=FindingSeverity.FATAL
)


def fleet() -> FleetInput:
    """Return nodes of which one in a hundred reports a lost GPU."""
    rules = {check: {"mode": "enforce", "lane": "fast"} for check in CHECKS}
    names = [f"node-{number:05}" for number in range(NODES)]
    facts = {
        name: FleetNode(name=name, uid=name, pool=f"pool-{number % 40}", product="H100", gpus=GPUS)
        for number, name in enumerate(names)
    }
    chance = random.Random(7)
    reports = {
        name: report(name, 1000.0, chance, *((_LOST,) if number % 100 == 0 else ()))
        for number, name in enumerate(names)
    }
    policies = PolicyBook([PolicyDocument(name="base", spec={"checks": rules})])
    return FleetInput(facts=facts, reports=reports, policies=policies)


def report(name: str, at: float, chance: random.Random, *findings: HealthFinding) -> NodeReport:
    """Return the report of a node: every check passed, apart from these findings; 1 % noise, and few slow GPUs."""
    gpus = tuple(GpuIdentity(slot=f"slot-{slot}", uuid=f"{name}-{slot}") for slot in range(GPUS))
    measured = {
        check: {gpu.slot: series(chance, 0.9 if chance.random() < SLOW else 1.0) for gpu in gpus}
        for check in CHECKS[:MEASURED]
    }
    return NodeReport(
        node=name,
        measured_at=at,
        node_uid=name,
        boot_id="boot",
        gpus=gpus,
        findings=findings,
        passed=CHECKS,
        measured=measured,
    )


def series(chance: random.Random, share: float) -> GpuSeries:
    """Return three runs of a GPU."""
    newest = tuple(significant(3000 * share * (1 + chance.gauss(0, 0.01))) for _ in range(3))
    return GpuSeries(newest=newest, runs=60, scale=3352.0)


def main() -> None:
    """Print the best processor time of several runs."""
    given = fleet()
    gc.collect()
    gc.freeze()
    whole = one = float("inf")
    for _ in range(RUNS):
        start = time.process_time()
        evaluation = evaluate(given, FleetState(), 1000.0)
        whole = min(whole, time.process_time() - start)
        measured = report("node-00007", 1060.0, random.Random(1), _LOST)
        changed = {**given.reports, "node-00007": measured}
        again = FleetInput(facts=given.facts, reports=changed, policies=given.policies)
        start = time.process_time()
        next_round(Round(given=given, evaluation=evaluation), again, 1060.0)
        one = min(one, time.process_time() - start)
    print(f"health of {NODES:,} nodes x {GPUS} GPUs: {whole:.2f} s; one changed report: {1000 * one:.0f} ms")


if __name__ == "__main__":
    main()
