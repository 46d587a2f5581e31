"""`reconciler health learn`: limits from what healthy GPUs measure, as an edit of the policy that a plan judges."""

import random
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.structs import replace

from reconciler.cli.main import run
from reconciler.nodehealth.findings import CheckStatus, HealthFinding, ProbeProfile
from reconciler.nodehealth.readings import GpuIdentity
from reconciler.nodehealth.report import GpuSeries, NodeReport, significant
from reconciler.nodehealth.stored import store_reports
from tests.cli.fleet import Fleet, Ran

if TYPE_CHECKING:
    from collections.abc import Mapping

START = 1_790_000_000.0
SLOTS = tuple(f"0000:{index:02x}:00.0" for index in range(8))
PEAK = 3352.0
POLICY = """\
apiVersion: gpureconciler.io/v1alpha1
kind: HealthPolicy
metadata: {name: base}
spec:
  mode: propose                          # of all checks
  checks:
    hbm.bandwidth: {mode: propose}       # the memory
"""


def told(node: str, share: float = 0.92, **fields: Any) -> NodeReport:
    """Return the report of a node whose GPUs reach a part of the peak of their memory, in three runs."""
    chance = random.Random(node)  # noqa: S311 (a test)

    def series() -> GpuSeries:
        values = tuple(significant(PEAK * share * (1 + chance.gauss(0, 0.002))) for _ in range(3))
        return GpuSeries(newest=values, runs=3, limit=significant(0.85 * PEAK), scale=PEAK)

    known: Mapping[str, Any] = {
        "measured_at": START,
        "driver": "570.1",
        "gpus": tuple(GpuIdentity(slot=slot, uuid=f"{node}-{slot}", product="NVIDIA H100 80GB HBM3") for slot in SLOTS),
        "passed": ("hbm.bandwidth",),
        "passed_by": {"hbm.bandwidth": ProbeProfile.PREFLIGHT},
        "measured": {"hbm.bandwidth": {slot: series() for slot in SLOTS}},
    }
    return NodeReport(node=node, **{**known, **fields})


def store(fleet: Fleet, *reports: NodeReport) -> None:
    for name, raw in store_reports(reports, [], {}, now=START, days=14).written.items():
        fleet.write(f"evidence/main/reports/{name}", raw.decode())


def learn(fleet: Fleet, *flags: str) -> Ran:
    fleet.capture.readouterr()
    code = run(["health", "--repo", str(fleet.root), "--offline", "learn", *flags])
    out, err = fleet.capture.readouterr()
    return Ran(code, out, err)


@pytest.fixture
def known(fleet: Fleet) -> Fleet:
    """Return a repository with a policy, and reports of ten good nodes with eight GPUs."""
    fleet.write("jobs/health.yaml", POLICY)
    store(fleet, *(told(f"gpu-{number}") for number in range(10)))
    fleet.commit()
    return fleet


def test_a_learned_limit_is_a_diff_and_nothing_is_written_unasked(known: Fleet) -> None:
    """F-098: source, nodes, runs; comments stay; the plan replays the edit before anybody merges it."""
    before = (known.root / "jobs/health.yaml").read_text()
    ran = learn(known)
    assert ran.code == 0, ran.err
    assert "hbm.bandwidth: warnBelow 0.850 → 0.870, failBelow 0.750 → 0.770; 240 runs of 80 GPUs on 10 nodes" in ran.err
    assert "+" in ran.out
    assert (known.root / "jobs/health.yaml").read_text() == before
    assert learn(known, "--write").out == "wrote jobs/health.yaml\n"
    after = (known.root / "jobs/health.yaml").read_text()
    assert "# of all checks" in after
    assert "# the memory" in after
    assert "source: 'measured on 20" in after or 'source: "measured on 20' in after
    assert ": 10 nodes, 80 GPUs, 240 runs, sha256:" in after
    known.commit()
    assert "limits change at most once a week" in learn(known).err
    assert known.run("lint").code == 0, known.run("lint").err
    plan = known.run("plan", "--base", "HEAD~1")
    assert "Changed HealthPolicies of main, replayed on 10 reports of 10 nodes" in plan.out, plan.out
    assert "records contain no values" not in plan.out


def test_bad_nodes_teach_nothing_and_few_are_refused(known: Fleet) -> None:
    """F-098: a failed node, and too few nodes."""
    lost = HealthFinding(check="gpu.xid", status=CheckStatus.FAIL, message="Xid 79", slot=SLOTS[0])
    slow = [told(f"slow-{number}", 0.80, findings=(lost,)) for number in range(3)]
    good = [told(f"gpu-{number}") for number in range(9)]
    store(known, *slow, *good)
    assert "216 runs of 72 GPUs on 9 nodes" in learn(known).err
    store(known, *slow, *good[:4])
    ran = learn(known, "--reports", str(known.root / "evidence/main/reports"))
    assert ran.code == 0
    assert "96 runs of healthy GPUs on 4 nodes" in ran.err
    assert "200 runs on 5 nodes are required" in ran.err
    assert ran.out == ""


def test_an_edit_that_the_gate_would_refuse_says_so(known: Fleet) -> None:
    """F-098: the proposal passes through the same gate as every change of a policy."""
    reports = [told(f"gpu-{number}") for number in range(30)]
    low = told("gpu-low")
    runs = dict(low.measured["hbm.bandwidth"])
    runs[SLOTS[0]] = replace(runs[SLOTS[0]], newest=(2942.0, 2941.0, 2575.0))  # 77 % in the last run
    low = replace(low, measured={"hbm.bandwidth": runs})
    again = [replace(low, measured_at=START + 60 * number) for number in range(3)]
    for number, one in enumerate((low, *again)):
        (raw,) = store_reports([one, *(reports if not number else [])], [], {}, now=START, days=14).written.values()
        known.write(f"evidence/main/reports/{number}.json", raw.decode())
    ran = learn(known)
    assert "failBelow 0.750 → 0.77" in ran.err
    refused = (
        "the rule health.replay would refuse it: takes nodes out of use that the current policy leaves alone: gpu-low"
    )
    assert refused in ran.err


def test_which_policy_must_be_clear(known: Fleet) -> None:
    known.write("jobs/second.yaml", POLICY.replace("base", "second"))
    known.commit()
    ran = learn(known)
    assert ran.code == 2
    assert "2 HealthPolicies apply to all nodes" in ran.err
    assert "base, second" in ran.err
    assert learn(known, "--policy", "second").code == 0
    assert "no HealthPolicy 'third'" in learn(known, "--policy", "third").err


def test_without_measurements_it_says_where_they_come_from(known: Fleet) -> None:
    store(known, *(told(f"gpu-{number}", measured={}) for number in range(10)))
    ran = learn(known)
    assert (ran.code, ran.out) == (0, "")
    assert "preflight and deep runs" in ran.err
