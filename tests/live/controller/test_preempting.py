"""Commit mode with policies that enforce: suspensions from fresh evidence are pushed once, or proposed on a branch."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from reconciler.kube.yaml import read
from tests.fakes.gitrepo import Sandbox
from tests.live.controller.gitserver import GitServer
from tests.live.controller.test_pass import Pass, push, run, source
from tests.live.preemption.test_preempt import JOB, POLICY, instant, running

__all__ = ["run", "source"]

BRANCH = "preempt/enforce"
ENFORCE = POLICY.replace("mode: propose", "mode: enforce")
SUSPENDED = 'gpureconciler.io/suspend: "true"'


def evidence(kind: str, spec: Mapping[str, Any]) -> bytes:
    body = {"apiVersion": "gpureconciler.io/v1alpha1", "kind": kind, "metadata": {"name": "main"}, "spec": spec}
    return json.dumps(body).encode()


def use(minutes: int = 1, samples: int = 60) -> dict[str, bytes | None]:
    """Return what a cluster would have shown: an idle job and a busy one, and one that waits for eight GPUs."""
    new = {"apiVersion": "batch/v1", "kind": "Job", "namespace": "team-b", "name": "new", "resource": "amd.com/gpu"}
    waiting = {**new, "since": instant(60), "pods": [{"count": 1, "gpus": 8}]}
    workloads = [running("sleepy", "n1", samples=samples), running("busy", "n2", busy=95.0)]
    spec = {"takenAt": instant(minutes), "windowSeconds": 1800, "workloads": workloads, "waiting": [waiting]}
    return {"evidence/main/utilisation.yaml": evidence("GpuUtilisation", spec)}


def fleet(person: Sandbox, policy: str = ENFORCE) -> dict[str, bytes | None]:
    """Return the policy, two jobs, and two nodes of AMD beside those of the template."""
    path = "evidence/main/nodes.yaml"
    (known,) = read(path, (person.folder / path).read_bytes()).documents
    product = "AMD-Instinct-MI300X"
    node = {
        "labels": {"amd.com/gpu.product-name": product},
        "gpu": {"product": product, "count": 8},
        "allocatable": {"gpus": 8},
    }
    nodes = [*known.data["spec"]["nodes"], *({"name": name, **node} for name in ("n1", "n2"))]
    return {
        path: evidence("NodeInventory", {"takenAt": instant(1), "nodes": nodes}),
        "queues/preemption.yaml": policy.encode(),
        **{f"jobs/{name}.yaml": JOB.replace("NAME", name).encode() for name in ("sleepy", "busy")},
    }


def text(server: GitServer, branch: str = "main") -> str:
    return server.git("show", f"{branch}:jobs/sleepy.yaml")


def branches(server: GitServer) -> list[str]:
    return server.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()


def test_a_suspension_is_pushed_once(server: GitServer, person: Sandbox, run: Pass) -> None:
    """F-112: one commit to the source and one to what it renders to; the same evidence does nothing more."""
    push(person, fleet(person))
    tip = push(person, use())
    made = run()
    assert made.failure is None, made.failure
    subjects = server.git("log", "--reverse", "--format=%s", f"{tip}..main").splitlines()
    assert subjects[0] == "Suspend idle workloads in 1 file"
    assert len(subjects) == 2
    assert server.git("diff", "--name-only", tip, "main~1").split() == ["jobs/sleepy.yaml"]
    assert SUSPENDED in text(server)
    assert branches(server) == ["main"]
    again = run()
    assert (again.failure, again.push_result) == (None, "unchanged")


def test_who_resumes_a_workload_has_the_last_word(server: GitServer, person: Sandbox, run: Pass) -> None:
    """F-112: a source that changed after the evidence was committed waits for other evidence."""
    push(person, fleet(person))
    push(person, use())
    run()
    push(person, {"jobs/sleepy.yaml": JOB.replace("NAME", "sleepy").encode()}, "resume")
    assert run().failure is None
    assert SUSPENDED not in text(server)
    push(person, use(minutes=0), "evidence")
    assert run().failure is None
    assert SUSPENDED in text(server)


@pytest.mark.parametrize("budget", ["shareOfRunning: 0.25", "shareOfRunning: 1.0, gpusPerDay: 7"], ids=["share", "day"])
def test_what_exceeds_a_budget_is_proposed(server: GitServer, person: Sandbox, run: Pass, budget: str) -> None:
    """F-112: the branch that is read stays; people merge another one, which is pushed once."""
    push(person, fleet(person, ENFORCE.replace("shareOfRunning: 1.0", budget)))
    push(person, use())
    assert run().failure is None
    assert SUSPENDED not in text(server)
    assert SUSPENDED in text(server, BRANCH)
    tip = server.tip(BRANCH)
    push(person, use(minutes=0), "evidence")
    assert run().failure is None
    assert server.tip(BRANCH) == tip


def test_another_branch_to_push_to_waits_for_people(server: GitServer, person: Sandbox, run: Pass) -> None:
    """F-112: a source that only proposes what it renders proposes suspensions as well."""
    push(person, fleet(person))
    push(person, use())
    assert run(branch="rendered").failure is None
    assert SUSPENDED not in text(server)
    assert SUSPENDED in text(server, BRANCH)


@pytest.mark.parametrize(
    ("policy", "seen"),
    [
        (ENFORCE, use(minutes=60)),
        (ENFORCE, use(samples=24)),
        (ENFORCE.replace("shareOfRunning: 1.0", "protectedPriority: 0, shareOfRunning: 1.0"), use()),
        (ENFORCE.replace("shareOfRunning: 1.0", "minAge: 20h, shareOfRunning: 1.0"), use()),
        (POLICY, use()),
        (POLICY.replace("mode: propose", "mode: report"), use()),
        (ENFORCE, {}),
    ],
    ids=["stale", "thin", "protected", "young", "propose", "report", "none"],
)
def test_nothing_is_enforced_without_fresh_evidence_or_against_a_policy(
    server: GitServer, person: Sandbox, run: Pass, policy: str, seen: dict[str, bytes | None]
) -> None:
    """D-23: stale, thin or no evidence, what is protected, and other modes commit and propose nothing."""
    push(person, {**fleet(person, policy), **seen})
    made = run()
    assert made.failure is None, made.failure
    assert SUSPENDED not in text(server)
    assert branches(server) == ["main"]


def test_a_wrong_annotation_is_told(server: GitServer, person: Sandbox, run: Pass) -> None:
    """D-26: nothing is decided, the rest of the pass is done, and the status says why."""
    wrong = JOB.replace("NAME", "sleepy").replace(
        "example.com/note: kept", "kaiwo.silogen.ai/gpu-preemption.policy: always"
    )
    push(person, {**fleet(person), "jobs/sleepy.yaml": wrong.encode()})
    push(person, use())
    made = run()
    assert made.failure is not None
    assert (made.failure.reason, made.failure.stalled, made.push_result) == ("PreemptionNotDecided", True, "pushed")
    assert "allowed values: OnPressure, Always" in made.failure.message
