"""A plan that only adds up what changed says the same as one that counts every object."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.plan import GpuLine, Inputs, QueueLine, make_plan
from reconciler.plan.inputs import Common
from reconciler.plan.outputs.summary import headline
from reconciler.queues.queues import defines_queues, subtract_workloads, usage_by_cluster
from tests.plan.plan_cases import Body, inputs, job, kai_queue


def incremental(whole: Inputs) -> Inputs:
    """Return the inputs with equal objects only counted, as planning gives them: by subtracting what changed."""
    same = {path: row for path, row in whole.desired.items() if whole.existing.get(path) == row.digest}
    changed = [row for path, row in whole.desired.items() if path not in same]
    usage = subtract_workloads(usage_by_cluster(whole.desired.values()), changed)
    return replace(
        whole,
        desired={path: row for path, row in whole.desired.items() if path not in same},
        existing={path: blob for path, blob in whole.existing.items() if path not in same},
        common=Common(count=len(same), rows=same.values, usage=None if any(map(defines_queues, changed)) else usage),
    )


JOBS = [job(f"job-{number}") for number in range(8)]
QUEUE = kai_queue("team-a", 64)


def test_the_headline_counts_changed_jobs_once() -> None:
    """One of eight jobs grows: the queue goes from 128 to 144 GPUs, whatever is only counted."""
    after = [QUEUE, *JOBS[:7], job("job-7", pods=4)]
    made = make_plan(incremental(inputs([QUEUE, *JOBS], after)))
    assert made.unchanged == 8
    assert made.gpus == (GpuLine(cluster="main", queue="team-a", product="", before=128, after=144),)
    assert headline(made) == (
        "1 object must be replaced: the API server does not change it in place; "
        "+16 GPUs requested on main (team-a: 128 → 144, quota 64)"
    )


def test_suspended_created_and_deleted_jobs_are_counted_once() -> None:
    after = [QUEUE, *JOBS[2:], job("job-1", suspend=True), job("new", pods=1)]
    made = make_plan(incremental(inputs([QUEUE, *JOBS], after)))
    assert made.gpus == (GpuLine(cluster="main", queue="team-a", product="", before=128, after=104),)
    assert made.queues == (
        QueueLine(cluster="main", queue="team-a", product="", before=64, after=64, limit=None, requested=104),
    )


one_job = st.fixed_dictionaries(
    {
        "pods": st.integers(1, 4),
        "queue": st.sampled_from(["", "a", "b"]),
        "product": st.sampled_from(["", "H100"]),
        "suspend": st.booleans(),
    }
)
job_sets = st.dictionaries(st.sampled_from([f"job-{number}" for number in range(6)]), one_job, min_size=3)
quotas = st.sampled_from([8, 64])


def bodies(jobs: dict[str, dict[str, Any]], quota: int) -> list[Body]:
    return copy.deepcopy(
        [kai_queue("a", quota), kai_queue("b", 8, parent="a"), *(job(name, **fields) for name, fields in jobs.items())]
    )


@given(job_sets, job_sets, quotas, quotas)
def test_increments_and_whole_plans_agree(
    old: dict[str, Any], new: dict[str, Any], old_quota: int, new_quota: int
) -> None:
    whole = inputs(bodies(old, old_quota), bodies({**old, **new}, new_quota))
    assert make_plan(incremental(whole)) == make_plan(whole)
