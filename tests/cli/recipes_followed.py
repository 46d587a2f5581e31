"""What the recipes of CONTRIBUTING.md add, in use.

`tests/architecture/test_contributing.py` runs this in a copy of the repository in which they were followed.
"""

import json
from pathlib import Path

import pytest

from tests.cli.fleet import Fleet, run_verb
from tests.nodehealth.readers.fakes.library import REPLAYS

ROOT = Path(__file__).resolve().parents[2]
RESERVED = """\
apiVersion: northwind.example.com/v1
kind: Reservation
metadata: {name: small}
spec: {gpus: 16}
---
apiVersion: northwind.example.com/v1
kind: Ensemble
metadata: {name: llama, labels: {northwind.example.com/reservation: small}}
spec:
  size: 2
  template:
    spec:
      containers: [{name: train, image: "northwind/train:1", resources: {limits: {nvidia.com/gpu: 8}}}]
"""
POWER = "apiVersion: gpureconciler.io/v1alpha1\nkind: PowerReport\nspec: {kilowatts: 40}\n"


def test_a_plan_counts_gangs_in_pools_that_exist_and_are_large_enough(fleet: Fleet) -> None:
    fleet.write("jobs/ensemble.yaml", RESERVED)
    lint = fleet.run("lint")
    assert (lint.code, "quota." in lint.out) == (0, False), lint.out
    assert "+16 GPUs requested on main (small: 0 → 16, quota 16)" in fleet.run("plan", "--summary").out
    fleet.write("jobs/ensemble.yaml", RESERVED.replace("size: 2", "size: 3"))
    assert "quota.queue-limit" in fleet.run("lint").out
    fleet.write("jobs/ensemble.yaml", RESERVED.replace("reservation: small", "reservation: other"))
    assert "reference.queue" in fleet.run("lint").out


def test_outputs_and_commands_show_the_plan(fleet: Fleet, tmp_path: Path) -> None:
    fleet.edit("jobs/vision/vit.yaml", "numGPUs: 16", "numGPUs: 32")
    saved = tmp_path / "plan.json"
    (head, *rows) = fleet.run("plan", "-o", "csv", "--out", str(saved)).out.splitlines()
    assert head == "operation,path,before,after"
    assert ",16,32" in [row.rpartition('"')[2] for row in rows]
    assert "/vit: 16 -> 32\n" in run_verb(fleet.capture, ["gpus", str(saved)]).out


def test_risks_and_sections_are_on_the_page(fleet: Fleet) -> None:
    assert fleet.run("commit").code == 0
    fleet.edit(
        "jobs/language/llama-lora.yaml", "schedulerName:", "nodeSelector: {disk: fast}\n          schedulerName:"
    )
    maps = [
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, namespace: team-{number}}}\n---\n"
        for number in range(9)
    ]
    fleet.write("jobs/settings.yaml", "".join(maps))
    shown = fleet.run("plan").out
    assert "risk.placement" in shown
    assert "Namespaces (" in shown


def test_evidence_is_validated_and_part_of_the_digest(fleet: Fleet) -> None:
    before = json.loads(fleet.run("plan", "-o", "json").out)["digest"]
    fleet.write("evidence/main/power.yaml", POWER)
    assert json.loads(fleet.run("plan", "-o", "json").out)["digest"] != before
    fleet.write("evidence/main/power.yaml", POWER.replace("40", "much"))
    refused = fleet.run("lint")
    assert (refused.code, "spec.kilowatts" in refused.out + refused.err) == (3, True)


@pytest.mark.parametrize("example", ["pod", "job"])
def test_a_rule_refuses_its_failing_examples(fleet: Fleet, example: str) -> None:
    fleet.write("jobs/port.yaml", (ROOT / f"policies/no-host-ports/examples/fail/{example}.yaml").read_text())
    refused = fleet.run("lint")
    assert (refused.code, "no-host-ports" in refused.out) == (4, True)


def test_a_check_judges_every_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    replay = str(REPLAYS / "fake-h200.json")
    report = run_verb(capsys, ["probe", "--replay", replay, "--check", "state.load", "-o", "json"])
    assert report.code == 0, report.err
    assert report.out.count("performance state P0 at 0 % load") == 8


def test_a_job_of_a_framework_is_sized(fleet: Fleet) -> None:
    path = fleet.root / "jobs/language/llama-lora.yaml"
    before, _, after = path.read_text().partition("                  accelerate launch")
    line = (
        "torchrun --nproc_per_node 8 -m tinytune.train --model meta-llama/Llama-3.2-1B --micro_batch 1 --context 2048"
    )
    path.write_text(f"{before}                  {line}\n{after[after.index('              volumeMounts') :]}")
    sized = fleet.run("size", str(path), "-o", "json")
    assert sized.code == 0, sized.err
    assert "tinytune" in sized.out
