"""A job of pre-training without a number of GPUs: what is rendered has the replicas that its parallelism needs."""

import pytest

from reconciler.index.sized import apply_decision, sized_manifest
from reconciler.repo.config import Backend, Cluster
from reconciler.sizing.config import SizingSettings
from reconciler.sizing.decide import decide
from reconciler.sizing.job_questions import build_questions
from tests.index.sized.sized_cases import job_of, launch_of
from tests.sizing.tables import TABLES

CLUSTER = Cluster(name="prod", backend=Backend.KUEUE)
SETTINGS = SizingSettings(default_gpu_model="NVIDIA-H100-80GB-HBM3", max_gpus=256)
JOB = """
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: gpt, namespace: default}}
spec:
  pytorchReplicaSpecs:
    Master:
      replicas: 1
      template:
        spec:
          containers:
            - name: pytorch
              image: nvcr.io/nvidia/pytorch:25.04-py3
              command: [bash, -c]
              args:
                - |
                  torchrun pretrain_gpt.py --num-layers 96 --hidden-size 8192 --ffn-hidden-size 28672 \\
                    --num-attention-heads 64 --group-query-attention --num-query-groups 8 --swiglu --bf16 \\
                    --untie-embeddings-and-output-weights --disable-bias-linear --vocab-size 32000 --seq-length 4096 \\
                    --sequence-parallel --use-distributed-optimizer --micro-batch-size {batch} \\
                    --global-batch-size 512 --tensor-model-parallel-size {tensor} --pipeline-model-parallel-size {stages}
"""


@pytest.mark.parametrize(("tensor", "stages", "gpus"), [(8, 4, 32), (8, 6, 48), (4, 12, 48), (8, 16, 128)])
def test_the_pods_are_a_multiple_of_what_shares_a_sample(tensor: int, stages: int, gpus: int) -> None:
    """Of 12 stages with 4 tensors, 48 GPUs are six nodes of 8; the flags of the line stay as they are."""
    job = job_of(JOB.format(tensor=tensor, stages=stages, batch=1))
    launch = launch_of(job)
    asked = build_questions(launch, SETTINGS, TABLES).questions[0]
    chosen = decide(asked)
    found = apply_decision(job, launch, asked, chosen, SETTINGS)
    assert [problem.rule for problem in found.problems if problem.rule != "sizing.machine-rank"] == []
    specs = sized_manifest(found, CLUSTER, namespaced=True).body["spec"]["pytorchReplicaSpecs"]
    pods = [specs[name] for name in ("Master", "Worker")]
    each = [pod["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] for pod in pods]
    assert sum(int(count) * pod["replicas"] for count, pod in zip(each, pods, strict=True)) == gpus
    assert gpus % (tensor * stages) == 0
    (line,) = pods[0]["template"]["spec"]["containers"][0]["args"]
    assert f"--tensor-model-parallel-size {tensor} --pipeline-model-parallel-size {stages}" in line
    assert "--gradient" not in line


def test_the_batch_of_all_replicas_stays() -> None:
    """The steps follow from `--global-batch-size`; only the microbatch is a number that sizing owns."""
    job = job_of(JOB.format(tensor=8, stages=4, batch=2))
    launch = launch_of(job)
    asked = build_questions(launch, SETTINGS, TABLES).questions[0]
    assert (asked.batch, asked.processes, asked.accumulation) == (2, 32, 256)
    for candidate in decide(asked, every=True).candidates:
        if candidate.estimate is not None:
            assert asked.samples(candidate.layout) == 512
            assert candidate.layout.batch == 2
