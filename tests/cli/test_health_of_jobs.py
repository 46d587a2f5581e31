"""What a HealthPolicy changes in rendered jobs: node affinity, and the preflight check."""

import json
from typing import Any

import pytest
import yaml

from tests.cli.fleet import Fleet

IMAGE = "registry.example.com/reconciler@sha256:" + "a" * 64
POLICY = """\
apiVersion: gpureconciler.io/v1alpha1
kind: HealthPolicy
metadata: {{name: base}}
spec:
  jobs:
    exclude: {exclude}
    prefer: {prefer}
    preflight: {{jobs: {jobs}, image: "{image}"}}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: vision}
spec:
  backoffLimit: 2
  template:
    metadata: {labels: {autopilot: ""}}
    spec:
      restartPolicy: Never
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions: [{key: zone, operator: In, values: [a]}]
            - matchExpressions: [{key: zone, operator: In, values: [b]}]
      initContainers:
      - {name: own, image: busybox@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb}
      containers:
      - name: main
        image: busybox@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb
        resources: {limits: {nvidia.com/gpu: 8}}
"""
EXPRESSION = {"key": "gpureconciler.io/health", "operator": "NotIn", "values": ["quarantined", "validating"]}


def policy(fleet: Fleet, *, exclude: bool = False, prefer: bool = False, jobs: str = "none") -> None:
    text = POLICY.format(exclude=str(exclude).lower(), prefer=str(prefer).lower(), jobs=jobs, image=IMAGE)
    fleet.write("queues/health.yaml", text)
    config = (fleet.root / "reconciler.yaml").read_text()
    fleet.write("reconciler.yaml", config.replace("\nspec:\n", "\nspec:\n  onImmutableChange: keep\n"))


def rendered(fleet: Fleet, job: str = JOB, kind: str = "job") -> dict[str, Any]:
    fleet.write("jobs/vision/train.yaml", job)
    fleet.commit("job")
    assert fleet.run("commit").code == 0
    text = (fleet.root / f"rendered/main/vision/{kind}-train.yaml").read_text()
    body: dict[str, Any] = yaml.safe_load(text)
    return body


def test_jobs_keep_off_quarantined_nodes_by_label(fleet: Fleet) -> None:
    """F-102: every alternative of the job's own affinity gets the expression; node names appear nowhere."""
    policy(fleet, exclude=True, prefer=True)
    affinity = rendered(fleet)["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [term["matchExpressions"][0]["values"] for term in terms] == [["a"], ["b"]]
    assert all(term["matchExpressions"][1] == EXPRESSION for term in terms)
    (preferred,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    assert preferred["preference"]["matchExpressions"][0]["values"] == ["suspect", "probation"]


def test_the_preflight_check_comes_first(fleet: Fleet) -> None:
    """F-094: ahead of the job's own init containers, with its GPUs; bad hardware uses up no retries."""
    policy(fleet, jobs="labelled")
    spec = rendered(fleet)["spec"]
    pod = spec["template"]["spec"]
    assert [one["name"] for one in pod["initContainers"]] == ["gpu-preflight", "own"]
    first = pod["initContainers"][0]
    assert (first["image"], first["resources"]) == (IMAGE, {"limits": {"nvidia.com/gpu": 8}})
    assert first["args"] == ["probe", "--profile", "preflight", "--exit-style", "preflight"]
    (rule,) = spec["podFailurePolicy"]["rules"]
    assert rule == {
        "action": "Ignore",
        "onExitCodes": {"containerName": "gpu-preflight", "operator": "In", "values": [42]},
    }


def test_a_failed_check_tells_the_agent_and_the_job_can_be_given_up(fleet: Fleet) -> None:
    """F-094: the pod is named to the agent and needs no rights; 43 ends the job after too many attempts."""
    policy(fleet, jobs="labelled")
    path = fleet.root / "queues/health.yaml"
    agent = "http://reconciler-agent-preflight.gpu-reconciler.svc:3334"
    path.write_text(path.read_text().replace(f'image: "{IMAGE}"', f'image: "{IMAGE}", agent: "{agent}", wait: 30'))
    spec = rendered(fleet)["spec"]
    first = spec["template"]["spec"]["initContainers"][0]
    assert first["args"][5:] == ["--agent", agent, "--wait", "30"]
    fields = {one["name"]: one["valueFrom"]["fieldRef"]["fieldPath"] for one in first["env"]}
    assert fields == {
        "NODE_NAME": "spec.nodeName",
        "POD_NAMESPACE": "metadata.namespace",
        "POD_NAME": "metadata.name",
        "POD_UID": "metadata.uid",
    }
    rules = [(one["action"], one["onExitCodes"]["values"]) for one in spec["podFailurePolicy"]["rules"]]
    assert rules == [("Ignore", [42]), ("FailJob", [43])]
    assert "serviceAccountName" not in spec["template"]["spec"]


IN_A_CRON_JOB = """\
apiVersion: batch/v1
kind: CronJob
metadata: {name: train, namespace: vision}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec: {template: TEMPLATE}
"""
IN_A_JOB_SET = """\
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: train, namespace: vision}
spec:
  replicatedJobs:
  - {name: main, template: {spec: {template: TEMPLATE}}}
"""


@pytest.mark.parametrize(
    ("kind", "job", "path"),
    [
        ("job", JOB.replace("  backoffLimit: 2\n", ""), ("spec",)),
        ("cronjob", IN_A_CRON_JOB, ("spec", "jobTemplate", "spec")),
        ("jobset", IN_A_JOB_SET, ("spec", "replicatedJobs", 0, "template", "spec")),
    ],
    ids=["Job", "CronJob", "JobSet"],
)
def test_a_job_of_which_only_the_pods_are_set_loses_no_retries(
    fleet: Fleet, kind: str, job: str, path: tuple[str | int, ...]
) -> None:
    """F-094: its default of backoffLimit is as good as a number."""
    policy(fleet, jobs="labelled")
    template = yaml.safe_load(JOB)["spec"]["template"]
    found: Any = rendered(fleet, job.replace("TEMPLATE", json.dumps(template)), kind)
    for part in path:
        found = found[part]
    assert [one["onExitCodes"]["values"] for one in found["podFailurePolicy"]["rules"]] == [[42]]


def test_labels_select_checks(fleet: Fleet) -> None:
    """F-094: the seed's labels, and an annotation with names of checks."""
    policy(fleet, jobs="labelled")
    labels = JOB.replace('{autopilot: ""}', '{autopilot: "", gpu-pcie-bw: ""}')
    first = rendered(fleet, labels)["spec"]["template"]["spec"]["initContainers"][0]
    assert first["args"][5:] == ["--check", "pcie.h2d", "--check", "pcie.d2h"]


@pytest.mark.parametrize(
    ("old", "new"), [("nvidia.com/gpu: 8", "cpu: 8"), ('{autopilot: ""}', "{}")], ids=["no GPUs", "no label"]
)
def test_other_jobs_are_untouched(fleet: Fleet, old: str, new: str) -> None:
    """F-094: a job without GPUs, or that did not ask, stays as it is written."""
    policy(fleet, jobs="labelled")
    pod = rendered(fleet, JOB.replace(old, new))["spec"]["template"]["spec"]
    assert [one["name"] for one in pod["initContainers"]] == ["own"]


def test_the_plan_gives_the_reason(fleet: Fleet) -> None:
    """The change is visible, with the policy as its reason."""
    policy(fleet, exclude=True)
    fleet.write("jobs/vision/train.yaml", JOB)
    plan = json.loads(fleet.run("plan", "-o", "json").out)
    (change,) = [one for one in plan["changes"] if one["key"]["name"] == "train"]
    assert "avoids nodes that are quarantined or being validated" in json.dumps(change["because"])


def test_a_threshold_changes_no_job(fleet: Fleet) -> None:
    policy(fleet, exclude=True)
    fleet.commit("policy")
    assert fleet.run("commit").code == 0
    path = fleet.root / "queues/health.yaml"
    path.write_text(path.read_text() + "  checks: {hbm.bandwidth: {limits: {failBelow: 0.7}}}\n")
    out = fleet.run("plan", "--base", "HEAD").out
    assert "1 updated" in out
    assert "HealthPolicy" in out
