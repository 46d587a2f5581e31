"""`reconciler new`: starting files for jobs, workloads, queues, health policies and quarantines."""

from typing import Any

import click

from reconciler.console import options
from reconciler.console.printing import emit
from reconciler.plan import opening
from reconciler.plan.opening import Run
from reconciler.submit.new import StartingFile, new_gpu_workload, new_job, new_policy, new_quarantine, new_queue

_NAME = click.argument("name", metavar="NAME")
_FILE = click.option(
    "--output",
    "-o",
    "path",
    metavar="FILE|-",
    default="",
    help="File to write, in a source folder, or - for standard output. [default: NAME.yaml in jobs/, "
    "queues/, health/ or quarantine/, or else in the first folder of spec.sources]",
)


@click.group(
    "new",
    epilog="""\b
Examples:
  reconciler new job vit-large --gpus 16 --team vision
  reconciler new job vit-large --output jobs/vision/vit-large.yaml
  reconciler new queue a100 --gpus 32 --gpu NVIDIA-A100-SXM4-80GB
  reconciler new job vit-large --output -
  reconciler new gpu-workload finetune --gpus 2
  reconciler new health-policy fleet
  reconciler new quarantine gpu-17 --reason "fans are replaced"
""",
)
def command() -> None:
    """Write a commented starter file for a job, a queue, or node health. Files that exist are never overwritten."""


@command.command(
    "job",
    epilog="""\b
Examples:
  reconciler new job vit-large --gpus 16 --team vision
  reconciler new job vit-large --queue h100 --output jobs/vision/vit-large.yaml
""",
)
@_NAME
@click.option("--queue", metavar="NAME", default="", help="Queue of the job. [default: the only one]")
@click.option("--gpus", metavar="N", type=click.IntRange(0, 1_000_000), default=1, show_default=True, help="GPUs.")
@click.option("--team", metavar="NAME", default="my-team", show_default=True, help="Team that owns the job, a label.")
@_FILE
@options.repo
@options.cluster
@options.run_options
def job(*, name: str, queue: str, gpus: int, team: str, path: str, repo: str, **flags: Any) -> int:
    """Write a starter file for a TorchrunJob."""
    run = _open(repo, flags)
    return _write(run, new_job(run.workspace, name, queue=queue, gpus=gpus, team=team, path=_inside(path)), path)


@command.command(
    "queue",
    epilog="""\b
Examples:
  reconciler new queue a100 --gpus 32 --gpu NVIDIA-A100-SXM4-80GB
  reconciler new queue research --gpus 16 --parent default-parent-queue --output -
""",
)
@_NAME
@click.option("--gpus", metavar="N", type=click.IntRange(0, 1_000_000), default=8, show_default=True, help="GPU quota.")
@click.option(
    "--gpu", "product", metavar="PRODUCT", default="", help="GPU product of its nodes. [default: the most frequent one]"
)
@click.option("--parent", metavar="NAME", default="", help="Parent queue. [default: that of the first other queue]")
@_FILE
@options.repo
@options.cluster
@options.run_options
def queue(*, name: str, gpus: int, product: str, parent: str, path: str, repo: str, **flags: Any) -> int:
    """Write a starter file for a TorchrunQueue."""
    run = _open(repo, flags)
    file = new_queue(run.workspace, name, quota=gpus, product=product, parent=parent, path=_inside(path))
    return _write(run, file, path)


@command.command(
    "gpu-workload",
    epilog="""\b
Examples:
  reconciler new gpu-workload finetune --gpus 2 --team vision
  reconciler new gpu-workload finetune --strategy best_fit --output -
""",
)
@_NAME
@click.option("--queue", metavar="NAME", default="", help="Queue of the workload. [default: the only one]")
@click.option("--gpus", metavar="N", type=click.IntRange(1, 1_000_000), default=1, show_default=True, help="GPUs.")
@click.option("--team", metavar="NAME", default="my-team", show_default=True, help="Team that owns it, a label.")
@click.option("-n", "--namespace", metavar="NAME", default="", help="Namespace. [default: that of the cluster]")
@click.option("--strategy", metavar="NAME", default="", help="Placement strategy. [default: spec.placement.strategy]")
@_FILE
@options.repo
@options.cluster
@options.run_options
def gpu_workload(*, name: str, path: str, repo: str, **flags: Any) -> int:
    """Write a starter file for a GPUWorkload."""
    run = _open(repo, flags)
    given = {key: flags[key] for key in ("queue", "gpus", "team", "namespace", "strategy")}
    return _write(run, new_gpu_workload(run.workspace, name, path=_inside(path), **given), path)


@command.command(
    "health-policy",
    epilog="""\b
Examples:
  reconciler new health-policy fleet
  reconciler new health-policy fleet --output -
""",
)
@_NAME
@_FILE
@options.repo
@options.cluster
@options.run_options
def health_policy(*, name: str, path: str, repo: str, **flags: Any) -> int:
    """Write a starter file for a HealthPolicy. It enforces nothing."""
    run = _open(repo, flags)
    return _write(run, new_policy(run.workspace, name, path=_inside(path)), path)


@command.command(
    "quarantine",
    epilog="""\b
Examples:
  reconciler new quarantine gpu-17 --reason "fans are replaced"
  reconciler new quarantine gpu-17 --reason "ECC errors" --effect NoExecute
""",
)
@click.argument("node", metavar="NODE")
@click.option("--reason", metavar="TEXT", required=True, help="The reason, for reviewers.")
@click.option(
    "--effect",
    type=click.Choice(("PreferNoSchedule", "NoSchedule", "NoExecute")),
    default="NoSchedule",
    show_default=True,
    help="What the taint does to pods. NoExecute stops those that run.",
)
@_FILE
@options.repo
@options.cluster
@options.run_options
def quarantine(*, node: str, reason: str, effect: str, path: str, repo: str, **flags: Any) -> int:
    """Write a starter file for a NodeQuarantine, with the UID of the node if the evidence has it."""
    run = _open(repo, flags)
    return _write(run, new_quarantine(run.workspace, node, reason=reason, effect=effect, path=_inside(path)), path)


def _open(repo: str, flags: dict[str, Any]) -> Run:
    return opening.open_run(repo, options.setting_flags(flags), options.environment())


def _inside(path: str) -> str:
    return "" if path == "-" else path


def _write(run: Run, file: StartingFile, path: str) -> int:
    if path == "-":
        emit(file.content.decode(), form="yaml", nl=False)
        return 0
    opening.write_new(file.path, file.content, run)
    emit(f"wrote {file.path}")
    emit("Edit it, then run: reconciler plan")
    return 0
