"""Placement from the command line: the section of a plan, strategies side by side, what-if, and the strategy."""

import json
from pathlib import Path
from typing import Any

import pytest

from reconciler.repo.evidence.usage import Usage, UsedWorkload, write_usage
from reconciler.sizing.inventory import Inventory, Node, write_inventory
from tests.cli.fleet import IDENTITY, Fleet
from tests.placement.fleets import H100, L40S, node, used, waiting
from tests.ready import new_cache

_CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters:
    - {name: main, backend: kueue, namespace: team, external: [Namespace, LocalQueue, ClusterQueue]}
  sources: [jobs]
  evidence: {maxAge: 7d}
  placement:
    strategy: least_utilized  # the default
    utilisationGoal: 80
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  namespace: team
  labels: {{kueue.x-k8s.io/queue-name: gpus}}
spec:
  parallelism: {pods}
  completions: {pods}
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      {selector}
      containers:
        - {{name: train, image: "registry.example.com/t:1", resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}
"""
NODES = (
    node("a100-0"),
    node("h100-0", product=H100),
    node("l40s-0", product=L40S, memory=46068),
)


def write_job(fleet: Fleet, name: str, gpus: int, pods: int = 1, product: str = "") -> None:
    selector = f"nodeSelector: {{nvidia.com/gpu.product: {product}}}" if product else ""
    fleet.write(f"jobs/{name}.yaml", JOB.format(name=name, gpus=gpus, pods=pods, selector=selector))


def observe(
    fleet: Fleet, *workloads: UsedWorkload, nodes: tuple[Node, ...] = NODES, at: str = "2026-11-02T09:00:00Z"
) -> None:
    folder = fleet.root / "evidence" / "main"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nodes.yaml").write_bytes(write_inventory(Inventory(cluster="main", taken_at=at, nodes=nodes)))
    (folder / "usage.yaml").write_bytes(write_usage(Usage(cluster="main", observed_at=at, workloads=workloads)))


@pytest.fixture
def placed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Fleet:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("RECONCILER_CACHE_DIR", new_cache(tmp_path))
    fleet = Fleet(tmp_path / "fleet", capsys)
    fleet.root.mkdir()
    fleet.git("init", "--quiet", "--initial-branch", "main")
    fleet.write("reconciler.yaml", _CONFIG)
    write_job(fleet, "first", 4)
    observe(fleet, used("first", [("a100-0", 1)], gpus=4), waiting("other", gpus=4))
    fleet.commit("start")
    assert fleet.run("commit").code == 0
    return fleet


def _plan(fleet: Fleet, *flags: str) -> dict[str, Any]:
    found = json.loads(fleet.run("plan", "-o", "json", *flags).out)
    (line,) = found["placement"]
    return dict(line)


def test_a_plan_says_where_its_jobs_run_and_why_others_wait(placed: Fleet) -> None:
    """F-160: nodes, what guarantees them, GPUs in use before and after, and the reason of what fits nowhere."""
    write_job(placed, "vit", 2, pods=2, product=H100)
    write_job(placed, "huge", 16)
    line = _plan(placed)
    figures = (line["gpus"], line["used"], line["allocatedBefore"], line["allocatedAfter"])
    assert figures == (24, 4, 8, 12)
    workloads = {one["key"]["name"]: one for one in line["workloads"]}
    assert workloads["vit"]["nodes"] == [["h100-0", 2]]
    assert workloads["huge"]["word"] == "waits"
    assert "no node that it may use has more than 8" in workloads["huge"]["why"]
    text = placed.run("plan", "--width", "160").out
    assert "Placement" in text
    assert "by least_utilized: 8 → 12 of 24 GPUs allocated" in text
    assert "nodeAffinity" in text
    assert "no: Job huge finds no room: a pod requests 16 GPUs" in text
    assert "**Placement**" in (review := placed.run("plan", "-o", "markdown").out) or "Placement" in review


def test_evidence_that_is_too_old_says_nothing(placed: Fleet) -> None:
    """AF-12: the section says Unknown with the age; nothing is placed, and nothing pinned."""
    observe(placed, at="2026-10-20T09:00:00Z")
    write_job(placed, "vit", 2)
    line = _plan(placed)
    assert line["unknown"] == "the evidence is 13 days old, and spec.evidence.maxAge allows 7"
    assert (line["days"], line["workloads"], line["allocatedAfter"]) == (13, [], 0)
    text = placed.run("plan", "--width", "160").out
    assert "Where the jobs of main will run is unknown: the evidence is 13 days old" in text
    assert "Nothing is pinned" in text


def test_without_evidence_of_use_the_plan_says_only_that(placed: Fleet) -> None:
    (placed.root / "evidence/main/usage.yaml").unlink()
    write_job(placed, "vit", 2)
    assert json.loads(placed.run("plan", "-o", "json").out)["placement"] == []
    placed.edit("reconciler.yaml", "least_utilized", "best_fit")
    line = _plan(placed)
    assert line["unknown"] == "there is no evidence of use; `reconciler observe` records it"


def test_a_removed_job_gives_its_gpus_to_what_waits(placed: Fleet) -> None:
    """What the plan stops is free in its forecast; what starts for that reason is part of it."""
    observe(placed, used("first", [("a100-0", 1)], gpus=4), waiting("large", gpus=8), nodes=NODES[:1])
    placed.commit()
    (placed.root / "jobs/first.yaml").unlink()
    line = _plan(placed)
    (large,) = line["workloads"]
    assert (large["key"]["name"], large["before"], large["word"]) == ("large", "waits", "starts")
    assert large["nodes"] == [["a100-0", 1]]


def test_a_workload_is_placed_by_the_strategy_that_it_names(placed: Fleet) -> None:
    """F-024, F-029: annotations of any kind of job are read."""
    write_job(placed, "vit", 2)
    placed.edit(
        "jobs/vit.yaml", "  labels:", "  annotations: {agentaflow.gpu/scheduling-strategy: best_fit}\n  labels:"
    )
    (vit,) = _plan(placed)["workloads"]
    assert (vit["strategy"], vit["nodes"]) == ("best_fit", [["a100-0", 1]])


def test_equal_inputs_give_equal_plans(placed: Fleet) -> None:
    """AF-06: same inputs, same bytes."""
    write_job(placed, "vit", 2, pods=3)
    first, second = (placed.run("plan", "-o", "json").out for _ in range(2))
    assert first == second
