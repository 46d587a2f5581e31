"""Volcano (F-156): the plan of a repository with two queues and their jobs."""

import re

import pytest

from tests.cli.fleet import Fleet
from tests.plan.outputs.goldens import agrees

CONFIG = """\
apiVersion: gpureconciler.io/v1alpha1
kind: ReconcilerConfig
metadata: {name: fleet}
spec:
  clusters: [{name: main, backend: none, vendor: nvidia, namespace: ml, external: [Namespace/ml, PriorityClass/high]}]
  sources: [queues, jobs]
  policies: [policies]
"""
QUEUES = """\
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: research}
spec:
  weight: 2
  reclaimable: true
  capability: {cpu: "512", nvidia.com/gpu: 16}
  deserved: {cpu: "256", nvidia.com/gpu: 8}
  guarantee: {resource: {nvidia.com/gpu: 4}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: serving}
spec:
  capability: {nvidia.com/gpu: 8}
  deserved: {nvidia.com/gpu: 4}
"""
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: NAME, labels: {team: vision}}
spec:
  minAvailable: PODS
  schedulerName: volcano
  queue: QUEUE
  ttlSecondsAfterFinished: 3600
  tasks:
    - name: worker
      replicas: PODS
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: worker
              image: registry.example.com/trainer:1.4.2
              resources: {limits: {nvidia.com/gpu: 4}}
              volumeMounts: [{name: shm, mountPath: /dev/shm}]
          volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}]
"""


def job(name: str, pods: int, queue: str) -> str:
    return JOB.replace("NAME", name).replace("PODS", str(pods)).replace("QUEUE", queue)


@pytest.fixture
def volcano(fleet: Fleet) -> Fleet:
    fleet.git("rm", "-r", "--quiet", "queues", "jobs", "rendered", "tests")
    fleet.write("reconciler.yaml", CONFIG)
    fleet.write("queues/queues.yaml", QUEUES)
    fleet.write("jobs/vit.yaml", job("vit", 2, "research"))
    fleet.commit("two queues")
    assert fleet.run("commit").code == 0
    fleet.git("tag", "base")
    return fleet


def stable(page: str) -> str:
    """Replace digests, commits and the version of the engine."""
    page = re.sub(r"(plan sha256:)[0-9a-f]+", r"\1…", page)
    page = re.sub(r"engine [0-9][0-9A-Za-z.+]*", "engine …", page)
    return re.sub(r"(base|HEAD) [0-9a-f]{12}", r"\1 …", page)


def test_a_plan_of_two_queues_and_their_jobs(volcano: Fleet) -> None:
    volcano.edit("queues/queues.yaml", "nvidia.com/gpu: 16}", "nvidia.com/gpu: 32}")
    volcano.edit("queues/queues.yaml", "nvidia.com/gpu: 8}\n  guarantee", "nvidia.com/gpu: 12}\n  guarantee")
    volcano.write("jobs/llm.yaml", job("llm", 4, "research"))
    volcano.write("jobs/eval.yaml", job("eval", 3, "serving"))
    volcano.write("jobs/lost.yaml", job("lost", 1, "serving-2"))
    volcano.edit("jobs/vit.yaml", "queue: research", "queue: serving")
    volcano.commit("jobs")
    ran = volcano.run("plan", "--base", "base", "--width", "100")
    assert agrees("volcano.txt", stable(ran.out))
    assert ran.code == 4


def test_a_queue_that_volcano_refuses_is_an_error_at_its_line(volcano: Fleet) -> None:
    volcano.edit("queues/queues.yaml", "deserved: {nvidia.com/gpu: 4}", "deserved: {nvidia.com/gpu: 12}")
    ran = volcano.run("lint")
    assert ran.code == 3
    assert "queues/queues.yaml:16:30" in ran.out
    assert "12 is more than spec.capability, 8" in ran.out
