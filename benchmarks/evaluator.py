"""Measure the evaluator of node health: a whole fleet at once, and one changed report: `make bench`.

To reach, for 10,000 nodes with 8 GPUs: 2 s for all of them, 100 ms for one.
"""

import gc
import time

from reconciler.core.health.findings import CheckStatus, FindingSeverity, HealthFinding
from reconciler.core.health.fleet.evaluate import FleetInput, Round, evaluate, next_round
from reconciler.core.health.fleet.state import FleetNode, FleetState
from reconciler.core.health.policy import PolicyBook, PolicyDocument
from reconciler.core.health.readings import GpuIdentity
from reconciler.core.health.report import NodeReport

NODES, GPUS, CHECKS, RUNS = 10_000, 8, tuple(f"check.{number}" for number in range(40)), 5
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
    reports = {
        name: report(name, 1000.0, *((_LOST,) if number % 100 == 0 else ())) for number, name in enumerate(names)
    }
    policies = PolicyBook([PolicyDocument(name="base", spec={"checks": rules})])
    return FleetInput(facts=facts, reports=reports, policies=policies)


def report(name: str, at: float, *findings: HealthFinding) -> NodeReport:
    """Return the report of a node: every check passed, apart from these findings."""
    gpus = tuple(GpuIdentity(slot=f"slot-{slot}", uuid=f"{name}-{slot}") for slot in range(GPUS))
    return NodeReport(
        node=name, measured_at=at, node_uid=name, boot_id="boot", gpus=gpus, findings=findings, passed=CHECKS
    )


def main() -> None:
    """Print the best time of several runs."""
    given = fleet()
    gc.collect()
    gc.freeze()
    whole = one = float("inf")
    for _ in range(RUNS):
        start = time.perf_counter()
        evaluation = evaluate(given, FleetState(), 1000.0)
        whole = min(whole, time.perf_counter() - start)
        changed = {**given.reports, "node-00007": report("node-00007", 1060.0, _LOST)}
        again = FleetInput(facts=given.facts, reports=changed, policies=given.policies)
        start = time.perf_counter()
        next_round(Round(given=given, evaluation=evaluation), again, 1060.0)
        one = min(one, time.perf_counter() - start)
    print(f"health of {NODES:,} nodes x {GPUS} GPUs: {whole:.2f} s; one changed report: {1000 * one:.0f} ms")


if __name__ == "__main__":
    main()
