"""Jobs that have ended, as the evidence records them: nothing creates them again (F-056)."""

import json
from typing import Any

import pytest

from tests.cli.fleet import Fleet

RUNS = "evidence/main/runs.yaml"
ENDED = """\
apiVersion: gpureconciler.io/v1alpha1
kind: FinishedRuns
metadata: {name: main}
spec:
  cluster: main
  runs:
    - apiVersion: batch/v1
      kind: Job
      namespace: default
      name: NAME
      uid: 6f0f4f5c-0000-4000-8000-000000000001
      result: Succeeded
      startedAt: "2026-11-01T10:00:00Z"
      finishedAt: "2026-11-01T12:00:00Z"
"""
PROBE = "main/default/job-probe.yaml"
MARKS = (
    "gpureconciler.io/finished: Succeeded 2026-11-01T12:00:00Z",
    "kustomize.toolkit.fluxcd.io/reconcile: disabled",
    "argocd.argoproj.io/hook: Skip",
)


def plan(fleet: Fleet, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fleet.run("plan", "-o", "json", *arguments).out)
    return found


def settle(fleet: Fleet) -> None:
    """Commit the sources and what they render to."""
    fleet.commit()
    ran = fleet.run("commit")
    assert ran.code == 0, ran.out + ran.err
    assert fleet.run("verify").code == 0
    assert plan(fleet)["changes"] == []


@pytest.fixture
def ended(fleet: Fleet) -> Fleet:
    """Record that the job of the template has ended, and commit its mark."""
    fleet.write(RUNS, ENDED.replace("NAME", "probe"))
    settle(fleet)
    return fleet


def test_a_job_that_ended_is_marked_and_stays(fleet: Fleet) -> None:
    """F-056: Argo CD and Flux skip the marked file, so a job that its TTL removed does not run again."""
    before = fleet.files()
    fleet.write(RUNS, ENDED.replace("NAME", "probe"))
    made = plan(fleet)
    (change,) = made["changes"]
    assert (change["operation"], change["path"]) == ("update", f"rendered/{PROBE}")
    assert {field["path"] for field in change["fields"]} == {
        f'metadata.annotations["{mark.split(": ")[0]}"]' for mark in MARKS
    }
    assert all(field["why"]["places"][0]["path"] == RUNS for field in change["fields"])
    assert [(job["word"], job["key"]["name"]) for job in made["jobs"]] == [("finished", "probe")]
    assert made["risks"] == []
    assert made["breaches"] == []
    settle(fleet)
    after = fleet.files()
    assert {path for path in after if after[path] != before[path]} == {PROBE}
    text = after[PROBE].decode()
    for mark in MARKS:
        key, value = mark.split(": ")
        assert f"{key}: {value}" in text or f'{key}: "{value}"' in text


def test_an_edited_queue_does_not_run_a_finished_job_again(ended: Fleet) -> None:
    """F-056: a job that has ended stays in `rendered/` as it ran, whatever its queue becomes."""
    before = ended.files()[PROBE]
    ended.edit("queues/h100.yaml", "pytorch/pytorch:2.7.1-cuda12.8", "pytorch/pytorch:2.8.0-cuda12.9")
    ended.edit("queues/h100.yaml", "spec:\n", "spec:\n  onImmutableChange: replace\n")
    made = plan(ended)
    assert not [change for change in made["changes"] if change["key"]["name"].startswith("probe")]
    assert not [problem for problem in made["problems"] if problem["rule"] == "run.finished"]
    settle(ended)
    assert ended.files()[PROBE] == before


def test_an_edit_of_a_finished_job_warns(ended: Fleet) -> None:
    """F-056: the edit runs nothing; another name, or the removed record, does."""
    before = ended.files()[PROBE]
    ended.edit("jobs/language/probe.yaml", "command: ", "command: echo again; ")
    made = plan(ended)
    assert made["changes"] == []
    (warning,) = (problem for problem in made["problems"] if problem["rule"] == "run.finished")
    assert warning["place"]["path"] == "jobs/language/probe.yaml"
    assert "(Succeeded 2026-11-01T12:00:00Z), so the edit has no effect" in warning["message"]
    assert f"{RUNS}:7" in warning["hint"]
    settle(ended)
    assert ended.files()[PROBE] == before
    ended.edit("jobs/language/probe.yaml", "name: probe", "name: probe-2")
    words = {(job["word"], job["key"]["name"]) for job in plan(ended)["jobs"]}
    assert ("added", "probe-2") in words


def test_removing_the_record_runs_the_job_again(ended: Fleet) -> None:
    """F-056: without its record a job is like any other."""
    (ended.root / RUNS).unlink()
    made = plan(ended)
    assert [(job["word"], job["key"]["name"]) for job in made["jobs"]] == [("run again", "probe")]
    settle(ended)
    assert "finished" not in ended.files()[PROBE].decode()


def test_removing_the_source_of_a_finished_job_deletes_its_file(ended: Fleet) -> None:
    """F-056: the record does not keep the file."""
    (ended.root / "jobs/language/probe.yaml").unlink()
    ended.run("plan")
    changes = {change["path"]: change["operation"] for change in plan(ended)["changes"]}
    assert changes[f"rendered/{PROBE}"] == "delete"


def test_a_ttl_is_fine_where_finished_jobs_are_recorded(fleet: Fleet) -> None:
    """F-056: `ttlSecondsAfterFinished` warns only if nothing records the end of the job, or it is too short."""
    path = "jobs/language/probe.yaml"
    fleet.edit(path, "  reliability:\n", "  reliability:\n    ttlSecondsAfterFinished: 7200\n")

    def warnings() -> list[str]:
        return [problem["message"] for problem in plan(fleet)["problems"] if problem["rule"] == "torchrun.ttl"]

    assert warnings() == [
        "the job is deleted 7200 s after it ends; then Argo CD or Flux creates it again, and it runs again"
    ]
    fleet.write(RUNS, ENDED.replace("NAME", "other"))
    assert warnings() == []
    fleet.edit(path, "7200", "60")
    assert warnings() == [
        "the job is deleted 60 s after it ends, perhaps before its end is recorded and synced; then it runs again"
    ]


def test_a_queue_in_use_is_named_by_the_risk_of_its_deletion(fleet: Fleet) -> None:
    """The evidence says which queues workloads use; deleting one of them says so."""
    fleet.write(
        "evidence/main/queues.yaml",
        "apiVersion: gpureconciler.io/v1alpha1\nkind: ActiveQueues\nmetadata: {name: main}\nspec:\n  cluster: main\n"
        "  queues: [{group: scheduling.run.ai, kind: Queue, name: h100}]\n",
    )
    settle(fleet)
    for path in (
        "queues/h100.yaml",
        "jobs/language/probe.yaml",
        "jobs/language/llama-lora.yaml",
        "jobs/vision/vit.yaml",
    ):
        (fleet.root / path).unlink()
    risks = [risk["message"] for risk in plan(fleet)["risks"] if risk["rule"] == "risk.queue-delete"]
    assert len(risks) == 1
    assert risks[0].endswith("; according to the evidence, workloads run or wait in it")


def test_observations_void_no_approval(fleet: Fleet) -> None:
    """Queues in use and finished jobs change all day; an approval is about the rendered objects that change."""
    fleet.edit("queues/h100.yaml", "quota: 32", "quota: 16")
    before = plan(fleet)["approvalDigest"]
    fleet.write(
        "evidence/main/queues.yaml",
        "apiVersion: gpureconciler.io/v1alpha1\nkind: ActiveQueues\nmetadata: {name: main}\nspec:\n  queues: []\n",
    )
    fleet.write(RUNS, ENDED.replace("NAME", "other"))
    assert plan(fleet)["approvalDigest"] == before
    fleet.write(RUNS, ENDED.replace("NAME", "probe"))
    assert plan(fleet)["approvalDigest"] != before


_WITH_TTL = """\
apiVersion: batch/v1
kind: Job
metadata: {name: probe, namespace: default, labels: {team: x}}
spec:
  ttlSecondsAfterFinished: 3600
  template: {spec: {restartPolicy: Never, containers: [{name: main, image: "example.com/a:1"}]}}
"""


def test_a_time_to_live_makes_argo_cd_run_a_job_again(fleet: Fleet) -> None:
    """F-056: not where finished jobs are recorded, and not while nobody knows who applies the objects."""
    fleet.write("jobs/ttl.yaml", _WITH_TTL.replace("name: probe", "name: once"))
    assert "run.again" not in fleet.run("lint").out
    user = "system:serviceaccount:argocd:argocd-application-controller"
    fleet.edit("reconciler.yaml", "- name: main\n", f"- name: main\n      appliedBy: {{user: {user!r}}}\n")
    told = " ".join(fleet.run("lint").out.split())
    assert "jobs/ttl.yaml:5:" in told
    assert "the next sync of Argo CD runs it again" in told
    fleet.write(RUNS, ENDED.replace("NAME", "other"))
    assert "run.again" not in fleet.run("lint").out
