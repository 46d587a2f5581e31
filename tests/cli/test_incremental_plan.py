"""A plan from a warm cache, in which most objects are common to both sides, counts GPUs as a cold one does."""

import json

from tests.cli.fleet import Fleet

JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {{name: job-{number}, namespace: research, labels: {{kai.scheduler/queue: h100}}}}
spec:
  parallelism: {pods}
  completions: {pods}
  template:
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers:
        - {{name: main, image: "repo/train:1", resources: {{limits: {{nvidia.com/gpu: 8}}}}}}
"""


def test_a_changed_job_is_counted_once(fleet: Fleet) -> None:
    for number in range(6):
        fleet.write(f"jobs/job-{number}.yaml", JOB.format(number=number, pods=1))
    fleet.commit("jobs")
    fleet.run("commit")
    fleet.run("plan", "--base", "HEAD")  # fills the cache
    fleet.write("jobs/job-5.yaml", JOB.format(number=5, pods=3))
    warm = json.loads(fleet.run("plan", "--base", "HEAD", "-o", "json").out)
    cold = json.loads(fleet.run("plan", "--base", "HEAD", "-o", "json", "--cache", "off").out)
    assert warm == cold
    assert [change["gpusAfter"] - change["gpusBefore"] for change in warm["changes"]] == [16]
    (line,) = [line for line in warm["gpus"] if line["after"] != line["before"]]
    assert (line["queue"], line["after"] - line["before"]) == ("h100", 16)
    total = sum(line["before"] for line in warm["gpus"] if line["queue"] == "h100")
    assert total == 19 + 6 * 8  # the jobs of the template, and these six
    headline = fleet.run("plan", "--base", "HEAD").out.splitlines()[1]  # the first says that the job must be replaced
    assert headline.startswith(f"+16 GPUs requested on main (h100: {total} → {total + 16}, ")
