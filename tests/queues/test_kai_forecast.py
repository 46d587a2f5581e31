"""The rounds of KAI over small crowds, with answers of KAI's own scheduler (0.12), which may have several."""

import pytest

from reconciler.queues.forecast.kai import KaiJob, KaiQueueSpec, forecast_kai

Row = tuple[str, str, int, int, int, int, str]
"""A job: name, queue, pods, GPUs of each, priority, age, and the nodes of its pods."""


def _job(row: Row) -> KaiJob:
    name, queue, pods, gpus, priority, age, nodes = row
    return KaiJob(name, queue, pods, gpus, priority, -float(age), priority < 100, tuple(nodes.split()))


_TOP = KaiQueueSpec("d0", quota=24)
_PROMISED_IS_PREEMPTED = (
    ("n0",),
    (KaiQueueSpec("d0", quota=8), KaiQueueSpec("q0", "d0", 2, weight=2), KaiQueueSpec("q1", "d0", 16, weight=2)),
    (
        ("interactive", "q1", 3, 2, 100, 449, ""),
        ("large", "q0", 2, 2, 50, 426, "n0 n0"),
        ("small", "q1", 1, 2, 50, 367, "n0"),
        ("twins", "q0", 2, 1, 50, 17, "n0 n0"),
        ("gang", "q0", 3, 1, 50, 352, ""),
        ("over", "q0", 3, 2, 100, 231, ""),
        ("single", "q0", 1, 1, 50, 112, ""),
        ("reclaims", "q1", 1, 4, 50, 468, ""),
    ),
    {"interactive", "twins"},
    {"large", "small", "reclaims"},
)
_MOVED_WAITS_AGAIN = (
    ("n0", "n1", "n2"),
    (_TOP, KaiQueueSpec("q0", "d0", 4, 16)),
    (
        ("moved", "q0", 1, 2, 50, 168, "n0"),
        ("victim", "q0", 1, 4, 50, 430, "n0"),
        ("older", "q0", 3, 1, 50, 474, ""),
        ("spread", "q0", 3, 1, 50, 491, "n0 n0 n1"),
        ("interactive", "q0", 2, 4, 100, 201, "n1 n2"),
        ("urgent", "q0", 2, 1, 75, 438, ""),
    ),
    {"older", "spread", "interactive", "urgent"},
    {"victim"},
)


@pytest.mark.parametrize(
    ("nodes", "queues", "rows", "running", "preempted"),
    [_PROMISED_IS_PREEMPTED, _MOVED_WAITS_AGAIN],
    ids=["GPUs promised to one job are taken for another", "a job that has to move waits for the next round"],
)
def test_what_runs_and_what_is_preempted(
    nodes: tuple[str, ...],
    queues: tuple[KaiQueueSpec, ...],
    rows: tuple[Row, ...],
    running: set[str],
    preempted: set[str],
) -> None:
    """F-158: as KAI's own scheduler says."""
    found = forecast_kai(queues, [*map(_job, rows)], dict.fromkeys(nodes, 8), lambda _job, _node: True)
    assert ({*found.placed}, {*found.preempted}) == (running, preempted)
