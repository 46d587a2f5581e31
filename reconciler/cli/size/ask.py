"""`reconciler size ask` and `reconciler size table`: questions without a job."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit, emit_report
from reconciler.cli.size.limits import allow_paged, gpus, max_gpus, safety
from reconciler.core.values import plural

if TYPE_CHECKING:
    from reconciler.core.sizing.gpu_sweep import Bounds


@click.command(
    "ask",
    short_help="Size a training that flags describe.",
    epilog="""\b
Examples:
  reconciler size ask --model meta-llama/Llama-3.1-8B --gpu NVIDIA-A100-SXM4-80GB
  reconciler size ask --model Qwen/Qwen2.5-7B --method lora --seq 4096 --batch 4 --gpu NVIDIA-L40S
  reconciler size ask --model ./my-model --gpu NVIDIA-L40S --gpus 16 --nodes 2
""",
)
@click.option("--model", metavar="NAME", required=True, help="Hugging Face model id, or a folder with config.json.")
@click.option("--gpu", metavar="PRODUCT", default="", help="GPU product, as in the node label nvidia.com/gpu.product.")
@click.option(
    "--method", metavar="NAME", default="full", show_default=True, help="Method: full, lora, qlora or gptq-lora."
)
@click.option(
    "--seq", metavar="N", type=click.IntRange(min=1), default=2048, show_default=True, help="Tokens per sample."
)
@click.option(
    "--batch", metavar="N", type=click.IntRange(min=1), default=1, show_default=True, help="Samples per GPU and step."
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
@click.option("--precision", metavar="TYPE", default="", help="Precision: bf16, bf16 mixed, fp16, fp16 mixed or fp32.")
@click.option(
    "--optimizer", metavar="NAME", default="", help="Optimizer, by its transformers name. [default: adamw_torch]"
)
@click.option(
    "--checkpointing/--no-checkpointing", default=True, show_default=True, help="Whether to use gradient checkpointing."
)
@click.option("--attention", metavar="KERNEL", default="", help="Attention kernel: flash-attn-2, sdpa or eager.")
@click.option(
    "--parallelism",
    metavar="STRATEGY",
    default="FSDP",
    show_default=True,
    help="Parallelism: FSDP, ZeRO-3, DDP, TP 2, none, ...",
)
@max_gpus
@safety
@allow_paged
@options.output(("text", "json"))
@options.width
@options.color
def ask(**flags: Any) -> int:
    """Find the smallest number of GPUs for a training that the flags describe."""
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.ask import answer_question  # noqa: PLC0415
    from reconciler.cli.display import format_sizes  # noqa: PLC0415

    bounds = _bounds(flags)
    settings = wiring.resolve_settings(options.setting_flags(flags), options.environment())
    row = {
        "model": flags["model"],
        "method": flags["method"],
        "gpu_model": flags["gpu"],
        "seq": str(flags["seq"]),
        "per_gpu_batch": str(flags["batch"]),
        "precision": flags["precision"],
        "optimizer": flags["optimizer"],
        "grad_accum": str(flags["grad_accum"]),
        "checkpointing": "yes" if flags["checkpointing"] else "no",
        "attention": flags["attention"],
        "parallelism": flags["parallelism"],
    }
    answer = answer_question(
        row, bounds, wiring.sizing_tables(), gpus=flags["gpus"], architecture=wiring.local_model(flags["model"])
    )
    emit_report(format_sizes([answer], settings), settings)
    return 0


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
