"""`reconciler size ask` and `reconciler size table`: questions without a job."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit, emit_report
from reconciler.cli.size.limits import allow_paged, gpu, gpus, max_gpus, safety
from reconciler.core.values import plural

if TYPE_CHECKING:
    from reconciler.core.sizing.gpu_sweep import Bounds


def _complete_framework(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from reconciler.app.size.ask import framework_names  # noqa: PLC0415 - imported late so that --help stays fast

    return [name for name in framework_names() if name.startswith(incomplete)]


@click.command(
    "ask",
    short_help="Size a training run that flags describe.",
    epilog="""\b
Examples:
  reconciler size ask --model meta-llama/Llama-3.1-8B --gpu NVIDIA-A100-SXM4-80GB
  reconciler size ask --model Qwen/Qwen2.5-7B --method lora --seq 4096 --batch 4 --gpu NVIDIA-L40S
  reconciler size ask --model ./my-model --gpu NVIDIA-L40S --gpus 16 --nodes 2
  reconciler size ask --model llama3.1-8b --gpu NVIDIA-A100-SXM4-80GB --framework trl --seq 8192 --batch 8 --gpus 4
""",
)
@click.option("--model", metavar="NAME", required=True, help="Hugging Face model id, or a folder with config.json.")
@gpu
@click.option(
    "--framework",
    metavar="NAME",
    default="",
    shell_complete=_complete_framework,
    help="Training framework, whose defaults apply, and whose settings remedies name: trl, axolotl, torchtune, ...",
)
@click.option(
    "--method",
    metavar="NAME",
    default="",
    help="Method: full, lora, qlora or gptq-lora. [default: full, or the framework's]",
)
@click.option(
    "--seq", metavar="N", type=click.IntRange(min=1), help="Tokens per sample. [default: 2048, or the framework's]"
)
@click.option(
    "--batch",
    metavar="N",
    type=click.IntRange(min=1),
    help="Samples per GPU and step. [default: 1, or the framework's]",
)
@click.option(
    "--grad-accum",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Gradient accumulation steps.",
)
@gpus
@click.option("--nodes", metavar="N", type=click.IntRange(min=1), help="Number of nodes for --gpus.")
@click.option(
    "--objective",
    metavar="NAME",
    default="",
    help="Training objective: sft, dpo, kto, orpo (also SimPO, CPO), reward, value-head or grpo. [default: sft]",
)
@click.option("--precision", metavar="TYPE", default="", help="Precision: bf16, bf16 mixed, fp16, fp16 mixed or fp32.")
@click.option(
    "--optimizer", metavar="NAME", default="", help="Optimizer, by its transformers name. [default: adamw_torch]"
)
@click.option(
    "--checkpointing/--no-checkpointing",
    default=None,
    help="Whether to use gradient checkpointing. [default: on, or the framework's]",
)
@click.option("--attention", metavar="KERNEL", default="", help="Attention kernel: flash-attn-2, sdpa or eager.")
@click.option("--lora-rank", metavar="N", type=click.IntRange(1, 8192), help="Rank of LoRA adapters. [default: 8]")
@click.option(
    "--lora-targets",
    metavar="NAMES",
    default="",
    help="Layers that get adapters: all-linear, or names such as q_proj,v_proj. [default: PEFT's for the model]",
)
@click.option(
    "--fused-loss/--no-fused-loss", default=None, help="Whether Liger or Cut Cross Entropy computes the loss."
)
@click.option(
    "--parallelism",
    "--sharding",
    metavar="STRATEGY",
    default="",
    show_default="FSDP, or that of the framework",
    help="Parallelism: FSDP, ZeRO-3, DDP, TP 2, CP 2, none, ...",
)
@click.option(
    "--offload",
    type=click.Choice(("none", "optimizer", "all")),
    default="none",
    show_default=True,
    help="What to keep in host memory.",
)
@max_gpus
@safety
@allow_paged
@options.output(("text", "json"))
@options.width
@options.color
def ask(**flags: Any) -> int:
    """Find the smallest number of GPUs for a training run that the flags describe.

    With --gpus, also answers whether that number fits, the largest batch and the longest samples on it, and what
    would make it enough.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.ask import answer_question  # noqa: PLC0415
    from reconciler.cli.display import format_sizes  # noqa: PLC0415

    bounds = _bounds(flags)
    settings = wiring.resolve_settings(options.setting_flags(flags), options.environment())
    architecture = wiring.local_model(flags["model"])
    answer = answer_question(_row(flags), bounds, wiring.sizing_tables(), gpus=flags["gpus"], architecture=architecture)
    emit_report(format_sizes([answer], settings), settings)
    return 0


def _row(flags: dict[str, Any]) -> dict[str, str]:
    """Return the flags as a row of a table of runs; a cell is empty if its flag is not given."""
    offload = {"none": "", "optimizer": " + optimizer offload", "all": " + cpu offload"}[flags["offload"]]
    row = {
        "model": flags["model"],
        "gpu_model": flags["gpu"],
        "framework": flags["framework"].lower(),
        "method": flags["method"],
        "objective": flags["objective"],
        "seq": flags["seq"],
        "per_gpu_batch": flags["batch"],
        "grad_accum": flags["grad_accum"],
        "precision": flags["precision"],
        "optimizer": flags["optimizer"],
        "checkpointing": _SWITCH[flags["checkpointing"]],
        "attention": flags["attention"],
        "lora_rank": flags["lora_rank"],
        "lora_targets": flags["lora_targets"],
        "fused_loss": _SWITCH[flags["fused_loss"]],
        "parallelism": f"{flags['parallelism']}{offload}",
    }
    return {name: "" if value is None else str(value) for name, value in row.items()}


_SWITCH = {None: "", True: "yes", False: "no"}


def _bounds(flags: dict[str, Any]) -> "Bounds":
    from reconciler.core.sizing.gpu_sweep import Bounds  # noqa: PLC0415 - imported late so that --help stays fast

    gpus, nodes = flags["gpus"], flags["nodes"]
    if nodes and not gpus:
        raise click.UsageError("--nodes requires --gpus")
    if nodes and gpus % nodes:
        raise click.UsageError(f"{plural(gpus, 'GPU')} cannot be spread evenly over {plural(nodes, 'node')}")
    return Bounds(
        gpus_per_worker=gpus // nodes if nodes else 8,
        max_gpus=max(flags["max_gpus"], gpus or 1),
        safety=flags["safety"],
        allow_paged=flags["allow_paged"],
    )


@click.command(
    "table",
    short_help="Predict the memory of runs in a CSV table.",
    epilog="""\b
Examples:
  reconciler size table runs.csv
  cat runs.csv | reconciler size table -
""",
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-")
@safety
@options.output(("json",), default="json")
def table(file: Path, safety: float, output: str | None) -> int:  # noqa: ARG001 - one format so far
    """Predict the peak memory of each run in a CSV table, to compare with measurements.

    Prints one JSON object per row. docs/sizing.md lists the columns.
    """
    import msgspec  # noqa: PLC0415 - imported late so that --help stays fast

    from reconciler import wiring  # noqa: PLC0415
    from reconciler.app.size.table import predict_table  # noqa: PLC0415

    for row in predict_table(wiring.read_input(file), str(file), wiring.sizing_tables(), safety=safety):
        emit(msgspec.json.encode(row).decode(), form="json")
    return 0
