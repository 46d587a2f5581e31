"""`reconciler size assign`: jobs of one revision get GPU products that are free for all of them, and keep them."""

import json

import pytest
import yaml

from tests.cli.fleet import Fleet
from tests.core.plan.plan_cases import KUEUE_QUEUE, cluster_queue, flavor, local_queue

A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"
_MEMORY = {A100: 81920, H100: 81559}
_RECORD = "evidence/main/sizing.yaml"


def nodes(fleet: Fleet, **counts: int) -> None:
    """Measure one node of each product."""
    products = {"a100": A100, "h100": H100}
    measured = [
        {
            "name": name,
            "labels": {"nvidia.com/gpu.product": products[name]},
            "gpu": {"product": products[name], "count": count, "memoryMiB": _MEMORY[products[name]]},
            "cpus": 96,
        }
        for name, count in counts.items()
    ]
    spec = {"cluster": "main", "takenAt": "2026-11-01T06:00:00Z", "nodes": measured}
    body = {
        "apiVersion": "gpureconciler.io/v1alpha1",
        "kind": "NodeInventory",
        "metadata": {"name": "main"},
        "spec": spec,
    }
    fleet.write("evidence/main/nodes.yaml", yaml.safe_dump(body))


@pytest.fixture
def jobs(fleet: Fleet) -> dict[str, str]:
    """Return the text of three jobs that take two A100 or two H100 each, of which the A100 train at a lower cost."""
    for path in ("language/probe", "vision/vit"):
        (fleet.root / f"jobs/{path}.yaml").unlink()
    template = fleet.root / "jobs/language/llama-lora.yaml"
    text = template.read_text().replace("    kai.scheduler/queue: h100\n", "")
    template.unlink()
    texts = {name: text.replace("name: llama-lora", f"name: {name}") for name in ("a", "b", "c")}
    for name in ("b", "c"):
        fleet.write(f"jobs/language/{name}.yaml", texts[name])
    return texts


def chosen(fleet: Fleet, name: str) -> str:
    return str(
        json.loads(fleet.run("size", f"{fleet.root}/jobs/language/{name}.yaml", "-o", "json").out)["chosen"]["product"]
    )


def cards(fleet: Fleet) -> dict[str, str]:
    recorded = yaml.safe_load((fleet.root / _RECORD).read_text())["spec"]["cards"]
    return {one["job"]: one["product"] for one in recorded}


def test_jobs_together_fit_the_free_cards(fleet: Fleet, jobs: dict[str, str]) -> None:
    """F-005: two jobs are sized for the same two A100; together, one of them takes H100, and the plan says why."""
    nodes(fleet, a100=2, h100=8)
    assert {chosen(fleet, name) for name in "bc"} == {A100}
    ran = fleet.run("size", "assign")
    why = f"2 x {A100} (0.93 times the cost) are taken by default/PyTorchJob/b (2)"
    assert ran.out.splitlines() == [
        f"default/PyTorchJob/b: 2 x {A100}",
        f"default/PyTorchJob/c: 2 x {H100}; {why}",
        f"{_RECORD}: 2 jobs, 0 recorded before",
    ]
    assert (chosen(fleet, "b"), chosen(fleet, "c")) == (A100, H100)
    assert why in " ".join(fleet.run("plan").out.split())


def test_a_new_job_moves_no_other(fleet: Fleet, jobs: dict[str, str]) -> None:
    """F-005: a job that sorts first takes what is left; `--again` chooses for all."""
    nodes(fleet, a100=2, h100=8)
    fleet.run("size", "assign")
    before = (fleet.root / _RECORD).read_bytes()
    assert fleet.run("size", "assign").out.endswith("2 jobs, 2 recorded before\n")
    assert (fleet.root / _RECORD).read_bytes() == before
    fleet.write("jobs/language/a.yaml", jobs["a"])
    assert chosen(fleet, "b") == A100
    fleet.run("size", "assign")
    names = {name: f"default/PyTorchJob/{name}" for name in "abc"}
    assert cards(fleet) == {names["a"]: H100, names["b"]: A100, names["c"]: H100}
    fleet.run("size", "assign", "--again")
    assert cards(fleet) == {names["a"]: A100, names["b"]: H100, names["c"]: H100}


def test_a_job_that_outgrows_its_product(fleet: Fleet, jobs: dict[str, str]) -> None:
    """F-005: the plan says that a job takes more than it was given; jobs that find nothing are told, too."""
    nodes(fleet, a100=2, h100=8)
    fleet.run("size", "assign")
    fleet.edit("jobs/language/b.yaml", "batch_size 16", "batch_size 32")
    problems = json.loads(fleet.run("plan", "-o", "json").out)["problems"]
    (problem,) = [one for one in problems if one["rule"] == "sizing.assigned"]
    assert problem["message"].startswith(f"was given 2 x {A100} together with other jobs, and now takes 4 x ")
    nodes(fleet, a100=2, h100=2)
    ran = fleet.run("size", "assign")
    assert "default/PyTorchJob/b: not recorded; no product has enough free GPUs" in ran.out
    assert cards(fleet) == {"default/PyTorchJob/c": H100}


def test_limits_of_a_queue_bound_its_jobs(fleet: Fleet, jobs: dict[str, str]) -> None:
    """F-005: two products in one queue, and a limit of all its GPUs."""
    nodes(fleet, a100=8, h100=8)
    fleet.edit("queues/h100.yaml", "quota: 32, limit: 64", "quota: 2, limit: 2")
    fleet.edit("queues/h100.yaml", "    nodeSelector:\n      nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3\n", "")
    for name in "bc":
        text = jobs[name].replace("    team: language\n", "    team: language\n    kai.scheduler/queue: h100\n")
        fleet.write(f"jobs/language/{name}.yaml", text)
    ran = fleet.run("size", "assign")
    assert f"default/PyTorchJob/b: 2 x {A100}\n" in ran.out
    assert "default/PyTorchJob/c: not recorded; no product has enough free GPUs" in ran.out


def test_what_a_cohort_lends_bounds_its_queues(fleet: Fleet, jobs: dict[str, str]) -> None:
    """F-005: a ClusterQueue without a borrowing limit is not unlimited; nobody lends it A100."""
    nodes(fleet, a100=8, h100=8)
    quotas = {"a100": 2, "h100": 8}
    bodies = [
        flavor("a100", A100),
        flavor("h100", H100),
        cluster_queue("team", quotas, cohort="all"),
        cluster_queue("other", {"h100": 8}, cohort="all"),
        local_queue("lq", "team", namespace="default"),
    ]
    fleet.write("queues/kueue.yaml", yaml.safe_dump_all(bodies))
    for name in "bc":
        text = jobs[name].replace("    team: language\n", f"    team: language\n    {KUEUE_QUEUE}: lq\n")
        fleet.write(f"jobs/language/{name}.yaml", text)
    fleet.run("size", "assign")
    assert cards(fleet) == {"default/PyTorchJob/b": A100, "default/PyTorchJob/c": H100}


def test_nothing_to_choose(fleet: Fleet) -> None:
    assert fleet.run("size", "assign").out == "no job accepts several GPU products\n"
    assert not (fleet.root / _RECORD).exists()
