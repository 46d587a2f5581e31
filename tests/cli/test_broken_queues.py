"""A queue with errors is reported once, at its file; the jobs that name it are counted in one note."""

import json

import pytest

from tests.cli.fleet import Fleet

BROKEN = {
    "syntax": ("  queue:\n", "  queue: [\n"),
    "schema": ("quota: 32", "quota: lots"),
    "intent": ("  image: pytorch", "  podTemplate: {spec: {containers: [{name: other}]}}\n  image: pytorch"),
}


def findings(fleet: Fleet, *arguments: str) -> tuple[int, list[tuple[str, str]], list[tuple[str, str]]]:
    """Return the exit code, and the rules and files of the problems and of the denials."""
    ran = fleet.run(*arguments, "-o", "json")
    plan = json.loads(ran.out)
    problems = [(one["rule"], one["place"]["path"]) for one in plan["problems"]]
    denials = [(one["rule"], one["place"]["path"]) for one in plan["verdicts"] if one["result"] == "deny"]
    return ran.code, problems, denials


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_queue_is_reported_once_and_its_jobs_are_counted(fleet: Fleet, case: str) -> None:
    fleet.edit("queues/h100.yaml", *BROKEN[case])
    for verb in ("plan", "lint"):
        code, problems, denials = findings(fleet, verb)
        assert code == 3
        assert denials == []
        assert [path for _, path in problems] == ["queues/h100.yaml"] * 2
        assert [rule for rule, _ in problems if rule == "source.referenced"], problems
    ran = fleet.run("plan")
    assert "Incomplete plan: 1 file with errors, 7 rendered files left unchanged" in ran.out
    assert "needed by 3 objects in 3 other files" in ran.out
    assert "queue-unknown" not in ran.out + fleet.run("render", "--to", str(fleet.root.parent / "out")).err


def test_a_new_job_of_a_broken_queue_deletes_nothing_and_waits(fleet: Fleet) -> None:
    job = (fleet.root / "jobs/language/probe.yaml").read_text()
    fleet.write("jobs/language/other.yaml", job.replace("name: probe", "name: other"))
    fleet.edit("queues/h100.yaml", *BROKEN["schema"])
    plan = json.loads(fleet.run("plan", "-o", "json").out)
    assert plan["changes"] == []
    assert "needed by 4 objects in 4 other files" in plan["problems"][-1]["message"]


def test_a_missing_queue_is_reported_at_its_jobs_even_if_another_file_is_broken(fleet: Fleet) -> None:
    fleet.edit("jobs/language/probe.yaml", "jobQueue: h100", "jobQueue: h200")
    fleet.edit("queues/h100.yaml", *BROKEN["schema"])
    _, problems, _ = findings(fleet, "plan")
    assert ("torchrun.queue-unknown", "jobs/language/probe.yaml") in problems
    assert ("torchrun.queue-unknown", "jobs/vision/vit.yaml") not in problems


def test_a_typo_in_the_product_of_a_queue_is_reported_at_the_queue(fleet: Fleet) -> None:
    fleet.edit("queues/h100.yaml", "NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-80GB-HBM")
    code, _, denials = findings(fleet, "plan")
    assert (code, denials) == (4, [("quota.product", "queues/h100.yaml")])
    jobs = json.loads(fleet.run("plan", "-o", "json").out)["jobs"]
    assert {job["key"]["name"]: job["word"] for job in jobs} == {"vit": "changed", "probe": "refused"}
