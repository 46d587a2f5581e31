"""`reconciler new`: a starting file is valid where it is written, says what its fields mean, and replaces nothing."""

import re

import pytest
import yaml

from tests.cli.fleet import Fleet


def test_a_job_is_valid_and_runs_in_the_only_queue(fleet: Fleet) -> None:
    made = fleet.run("new", "job", "vit-large", "--gpus", "16", "--team", "vision")
    assert (made.code, made.out.splitlines()[0]) == (0, "wrote jobs/vit-large.yaml")
    text = (fleet.root / "jobs/vit-large.yaml").read_text()
    assert "# GPUs of the job, spread evenly over as few nodes as possible. 0: no GPUs.\n  numGPUs: 16\n" in text
    assert yaml.safe_load(text)["spec"]["jobQueue"] == "h100"
    assert fleet.run("lint").code == 0
    assert "resized" not in (planned := fleet.run("plan").out)
    assert "default/vit-large" in planned
    assert "0 → 16" in planned


def test_a_queue_takes_parent_and_product_from_the_repository(fleet: Fleet) -> None:
    assert fleet.run("new", "queue", "research", "--gpus", "16").code == 0
    spec = yaml.safe_load((fleet.root / "queues/research.yaml").read_text())["spec"]
    assert spec["queue"]["parentQueue"] == "default-parent-queue"
    assert spec["queue"]["resources"]["gpu"]["quota"] == 16
    assert spec["nodeResources"]["gpus"] == 8
    assert spec["scheduling"]["nodeSelector"] == {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
    assert fleet.run("lint").out == "No problems found\n"


def test_a_quarantine_takes_the_uid_from_the_evidence(fleet: Fleet) -> None:
    spec = 'spec:\n  takenAt: "2026-11-01T06:00:00Z"\n  nodes: [{name: gpu-17, uid: uid-17, status: FAIL}]\n'
    head = "apiVersion: gpureconciler.io/v1alpha1\nkind: NodeHealth\nmetadata: {name: main}\n"
    fleet.write("evidence/main/health.yaml", head + spec)
    made = fleet.run("new", "quarantine", "gpu-17", "--reason", "fans are replaced", "--output", "queues/q.yaml")
    assert made.code == 0, made.err
    spec = yaml.safe_load((fleet.root / "queues/q.yaml").read_text())["spec"]
    assert spec == {"node": "gpu-17", "nodeUID": "uid-17", "reason": "fans are replaced", "effect": "NoSchedule"}
    assert fleet.run("lint").out == "No problems found\n"
    assert fleet.run("new", "quarantine", "gpu-17", "--reason", " ").code == 2


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("job", "jobs/one.yaml"),
        ("queue", "queues/one.yaml"),
        ("health-policy", "queues/one.yaml"),
        ("quarantine", "queues/one.yaml"),
    ],
)
def test_the_commented_examples_are_valid_too(fleet: Fleet, kind: str, path: str) -> None:
    """Each further field that the file shows as a comment can be enabled as it is."""
    reason = ["--reason", "broken"] if kind == "quarantine" else []
    text = fleet.run("new", kind, "one", *reason, "--output", "-").out
    head, _, examples = text.partition("\n\n")
    fields = yaml.safe_load(re.sub(r"(?m)^  # ?", "  ", examples.partition("\n")[2]))
    document = yaml.safe_load(head)
    document["spec"] |= fields
    fleet.write(path, yaml.safe_dump(document))
    linted = fleet.run("lint")
    assert linted.code == 0, linted.out
    assert len(fields) >= 3
    assert not (fleet.root / "one.yaml").exists()


def test_what_exists_is_never_overwritten(fleet: Fleet) -> None:
    before = (fleet.root / "jobs/vision/vit.yaml").read_bytes()
    ran = fleet.run("new", "job", "vit", "--output", "jobs/vision/vit.yaml")
    assert (ran.code, ran.err) == (2, "error: jobs/vision/vit.yaml exists; name another file with --output\n")
    assert (fleet.root / "jobs/vision/vit.yaml").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["job", "Vit_Large"], "metadata.name"),
        (["job", "x", "--queue", "nope"], "queue 'nope' does not exist; queues: h100"),
        (["job", "x", "--output", "../x.yaml"], "is not below"),
        (["job", "x", "--output", "work/x.yaml"], "work/x.yaml is in no source folder; source folders: queues, jobs"),
        (["job", "x", "--output", "jobs/../work/x.yaml"], "is in no source folder"),
        (["job", "x", "--output", "rendered/main/default/x.yaml"], "is in no source folder"),
        (["queue", "x", "--output", ".git/x.yaml"], "is in no source folder"),
        (["job", "x", "--output", "jobs/x.txt"], "jobs/x.txt would not be read; end its name with .yaml"),
        (["job", "x", "--output", "jobs/"], "jobs/ would not be read; end its name with .yaml"),
        (["queue", "x", "--gpu", "A100"], "products: NVIDIA-H100-80GB-HBM3"),
        (["job", "x", "--gpus", "-1"], "--gpus"),
    ],
)
def test_wrong_flags_say_what_is_allowed(fleet: Fleet, arguments: list[str], words: str) -> None:
    ran = fleet.run("new", *arguments)
    assert ran.code == 2
    assert words in ran.err
    assert fleet.git("status", "--porcelain") == ""


@pytest.mark.parametrize("name", ["123", "true", "1e3", "0x1f"])
def test_names_that_yaml_reads_as_something_else_are_quoted(fleet: Fleet, name: str) -> None:
    assert fleet.run("new", "job", name).code == 0
    assert yaml.safe_load((fleet.root / f"jobs/{name}.yaml").read_text())["metadata"]["name"] == name
    assert fleet.run("plan").code == 0


def test_several_queues_have_to_be_named_and_none_has_to_be_created(fleet: Fleet) -> None:
    assert fleet.run("new", "queue", "b").code == 0
    ran = fleet.run("new", "job", "x")
    assert (ran.code, ran.err) == (2, "error: --queue: is required; queues: b, h100\n")
    for path in (fleet.root / "queues").iterdir():
        path.unlink()
    assert "create one: reconciler new queue NAME" in fleet.run("new", "job", "x").err


def test_files_go_below_the_first_source_folder_if_none_has_the_usual_name(fleet: Fleet) -> None:
    fleet.git("mv", "jobs", "work")
    fleet.edit("reconciler.yaml", "sources: [queues, jobs]", "sources: [queues, work]")
    assert fleet.run("new", "job", "x").out.startswith("wrote queues/x.yaml\n")
    assert fleet.run("new", "job", "y", "--output", "work/y.yaml").code == 0
    assert (fleet.root / "work/y.yaml").read_text().startswith("# yaml-language-server: $schema=../.schemas/")
