"""`GpuUsage`: what runs and waits in a cluster, as a small file that reads back as it was written."""

from typing import Any

import pytest

from reconciler.kube.yaml import read
from reconciler.repo.evidence.usage import (
    RUNNING,
    WAITING,
    QueueWaits,
    Usage,
    UsedPodSet,
    UsedWorkload,
    WaitReason,
    parse_usage,
    write_usage,
)

REQUESTS = {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "8"}


def workload(name: str, **more: Any) -> UsedWorkload:
    given = {"api_version": "batch/v1", "kind": "Job", "namespace": "team", "queue": "q", "state": RUNNING, **more}
    return UsedWorkload(name=name, **given)


def parsed(content: bytes) -> tuple[Usage | None, list[str]]:
    (document,) = read("evidence/main/usage.yaml", content).documents
    found, problems = parse_usage(document, "main")
    return found, [str(problem) for problem in problems]


def usage(*workloads: UsedWorkload, **more: Any) -> Usage:
    return Usage(cluster="main", observed_at="2026-11-28T12:00:00Z", workloads=workloads, **more)


def test_the_file_reads_back_as_it_was_written() -> None:
    """F-158: workloads, queues, times, flavors, nodes and waits; equal values give equal bytes, in any order."""
    running = workload(
        "train",
        cluster_queue="gpus",
        priority=-5,
        priority_class="low",
        owner="vision",
        created_at="2026-11-28T10:00:00Z",
        admitted_at="2026-11-28T10:00:03Z",
        started_at="2026-11-28T10:00:00.5Z",
        pod_sets=(
            UsedPodSet(name="driver", count=1, requests={"cpu": "500m"}),
            UsedPodSet(
                name="workers",
                count=3,
                min_count=2,
                requests=REQUESTS,
                flavors={"nvidia.com/gpu": "h100"},
                nodes=(("n-1", 2), ("n-2", 1)),
            ),
        ),
    )
    reasons = (WaitReason(reason="Pending", message="insufficient unused quota for nvidia.com/gpu: 8 more needed"),)
    waiting = workload("a", state=WAITING, conditions=reasons, created_at="2026-11-28T11:00:00Z")
    waits = (QueueWaits(queue="gpus", samples=12, p50_seconds=4.5, p90_seconds=60.0, window="7d", source="m"),)
    written = write_usage(usage(running, waiting, waits=waits, coverage=("pods: forbidden",)))
    found, problems = parsed(written)
    assert found is not None, problems
    assert found.workloads == (waiting, running)
    assert (found.waits, found.coverage, found.observed_at) == (waits, ("pods: forbidden",), "2026-11-28T12:00:00Z")
    assert [one.gpus for one in found.workloads] == [0, 24]
    assert write_usage(usage(waiting, running, waits=waits, coverage=("pods: forbidden",))) == written


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("train", "a workload is NAME CREATED ADMITTED STARTED and its pods"),
        ("train yesterday - -", "'yesterday' is not a time"),
        ("train - +3 -", "'+3' is not a time"),
        ("train 2026-11-28T10:00:00Z +99999999999999 -", "'+99999999999999' is not a time"),
        ("train - - - main:x:abc", "'main:x:abc' is not NAME:COUNT[/MINIMUM]:SHAPE[@NODE[*PODS],...]"),
        ("train - - - main:1:abc", "no shape 'abc' in spec.shapes"),
        ("ok - - -", "Job/team/ok is listed twice"),
    ],
)
def test_a_line_that_is_no_workload_is_told_with_its_place(row: str, message: str) -> None:
    """F-158: `path:line:column`, and nothing of the file is used."""
    written = write_usage(usage(workload("ok"))).decode()
    found, problems = parsed(written.replace("    - ok - - -\n", f"    - ok - - -\n    - {row}\n").encode())
    assert found is None
    line = written.splitlines().index("    - ok - - -") + 2
    assert problems[0].startswith(f"evidence/main/usage.yaml:{line}:7")
    assert message in problems[0]


def test_ten_thousand_pods_are_at_most_a_megabyte() -> None:
    """F-158: each pod a workload of its own, with names as long as those of clouds."""
    rows = [
        workload(
            f"resnet50-pretrain-{number:05}-{number * 7919 % 16**5:05x}",
            namespace=f"team-{number % 40}",
            created_at=f"2026-11-{1 + number % 28:02}T{number % 24:02}:00:{number % 60:02}Z",
            admitted_at=f"2026-11-{1 + number % 28:02}T{number % 24:02}:10:{number % 60:02}Z",
            started_at=f"2026-11-{1 + number % 28:02}T{number % 24:02}:11:{number % 60:02}Z",
            pod_sets=(
                UsedPodSet(
                    name="main",
                    count=1,
                    requests={**REQUESTS, "cpu": str(1 + number * 37 % 63)},
                    nodes=((f"gke-pool-a3-{number % 1250:04}.internal", 1),),
                ),
            ),
        )
        for number in range(10_000)
    ]
    written = write_usage(usage(*rows))
    assert len(written) <= 1_000_000
    found, _ = parsed(written)
    assert found is not None
    assert found.workloads == tuple(sorted(rows, key=lambda one: one.key))
