"""Tests of the network in a HealthPolicy: Jobs that a reviewer sees in the plan, and what no schema can say."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.fleet import Fleet

IMAGE = f"registry.example/nccl@sha256:{'0' * 64}"
POLICY = f"""\
apiVersion: gpureconciler.io/v1alpha1
kind: HealthPolicy
metadata: {{name: base, labels: {{team: infra}}}}
spec:
  jobs: {{exclude: true, prefer: true, preflight: {{jobs: all, image: "{IMAGE}"}}}}
  networkTests:
    inside: {{test: allReduce, nodes: [gpu-1], image: "{IMAGE}", namespace: default, queue: h100, env: {{NCCL_DEBUG: WARN}}}}
    between: {{test: allReduce, nodes: [gpu-1, gpu-2], image: "{IMAGE}", namespace: default, env: {{NCCL_IB_HCA: mlx5}}}}
    pair: {{test: ibWrite, nodes: [gpu-1, gpu-2], image: "{IMAGE}", namespace: default, rate: 400, resources: {{rdma/hca: "1"}}}}
"""
WITHOUT_JOBS = "".join(line for line in POLICY.splitlines(keepends=True) if "jobs:" not in line)


def rendered(fleet: Fleet) -> dict[str, Any]:
    files = sorted(Path(fleet.root, "rendered/main/default").glob("*net-*.yaml"))
    return {path.stem: yaml.safe_load(path.read_text()) for path in files}


def test_a_plan_shows_the_jobs_of_the_tests(fleet: Fleet) -> None:
    """F-089: what runs, where, in whose image: a Job, a pair with its Service, an MPIJob; no other rule changes them."""
    for job in Path(fleet.root, "jobs").rglob("*.yaml"):
        job.unlink()  # the preflight check would replace them
    fleet.write("queues/health.yaml", POLICY)
    said = fleet.run("plan").out
    for name in ("Job default/net-base-inside-1", "Job default/net-base-pair-1", "MPIJob default/net-base-between-1"):
        assert name in said
    full = " ".join(fleet.run("plan", "--full").out.split())
    assert "tests the network of gpu-1, gpu-2 with ib_write_bw" in full
    assert "gpu-preflight" not in full
    fleet.git("checkout", "jobs")
    fleet.write("queues/health.yaml", WITHOUT_JOBS)
    fleet.commit("tests of the network")
    assert fleet.run("commit").code == 0
    made = rendered(fleet)
    assert sorted(made) == [
        "job-net-base-inside-1",
        "job-net-base-pair-1",
        "mpijob-net-base-between-1",
        "service-net-base-pair-1",
    ]
    inside = made["job-net-base-inside-1"]
    assert inside["metadata"]["labels"].items() >= {"kai.scheduler/queue": "h100", "team": "infra"}.items()
    pod = inside["spec"]["template"]["spec"]
    terms = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert [one["matchFields"][0]["values"] for one in terms] == [["gpu-1"]]
    assert ("initContainers" in pod, pod["schedulerName"]) == (False, "kai-scheduler")
    (container,) = pod["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": "8"}
    assert "all_reduce_perf -b 8G -e 8G -g 8" in container["command"][2]
    pair = made["job-net-base-pair-1"]["spec"]
    assert (pair["completions"], pair["completionMode"], pair["backoffLimit"]) == (2, "Indexed", 0)
    assert pair["template"]["spec"]["containers"][0]["resources"]["limits"]["rdma/hca"] == "1"
    mpi = made["mpijob-net-base-between-1"]["spec"]
    launcher = mpi["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]
    assert "mpirun --allow-run-as-root -np 16 -x NCCL_IB_HCA all_reduce_perf" in launcher["command"][2]
    assert (mpi["slotsPerWorker"], mpi["mpiReplicaSpecs"]["Worker"]["replicas"]) == (8, 2)


def test_another_run_is_another_job(fleet: Fleet) -> None:
    """A Job that has ended cannot run again, so that a larger `run` replaces it."""
    fleet.write("queues/health.yaml", WITHOUT_JOBS)
    fleet.commit("tests of the network")
    fleet.run("commit")
    fleet.write(
        "queues/health.yaml", WITHOUT_JOBS.replace("namespace: default, queue: h100", "namespace: default, run: 2")
    )
    assert "Changed HealthPolicies" not in fleet.run("plan").out, "nodes are judged as before"
    fleet.commit("again")
    fleet.run("commit")
    assert "job-net-base-inside-2" in rendered(fleet)
    assert "job-net-base-inside-1" not in rendered(fleet)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    pair:", "    Pair_1:", "is no part of a name of Kubernetes"),
        ("gpu-2], image", "gpu-1], image", "names a node twice"),
        ("rate: 400", "device: mlx5_0", "nothing is known to compare its result with"),
        ("test: ibWrite, nodes: [gpu-1, gpu-2]", "test: ibWrite, nodes: [gpu-1]", "ib_write_bw runs between two nodes"),
        ("nodes: [gpu-1], image", "nodes: [gpu-1], gpus: 1, image", "an all-reduce of one GPU measures nothing"),
        ("rate: 400", "rate: 400, device: 'x; rm -rf /'", "spec.networkTests.pair.device"),
        ("name: base,", "name: a-policy-with-a-name-of-many-characters,", "too long together with the name"),
        ("  jobs:", "  checks: {net.rdma: {mode: enforce, lane: fast}}\n  jobs:", "so a person decides"),
    ],
)
def test_tests_that_cannot_be(fleet: Fleet, old: str, new: str, said: str) -> None:
    fleet.write("queues/health.yaml", POLICY.replace(old, new))
    ran = fleet.run("lint")
    assert ran.code == 3
    assert said in " ".join(ran.out.split())
