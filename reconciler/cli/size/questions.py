"""`reconciler size ask`, `line` and `serve`: questions that need no config repository."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import click

from reconciler import wiring
from reconciler.app.size.ask import answer_question, framework_names
from reconciler.app.size.files import standalone_settings
from reconciler.app.size.line import size_line
from reconciler.app.size.serve import check_servers
from reconciler.cli import options
from reconciler.cli.console import emit, emit_report
from reconciler.cli.display import format_sizes, terminal
from reconciler.cli.size.limits import allow_paged, goal, gpu, gpus, max_gpus, safety
from reconciler.core.sizing.gpu_sweep import Bounds
from reconciler.core.values import plural
from reconciler.outputs.sections.servers import render_server, server_json


def _complete_framework(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:

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


def _bounds(flags: dict[str, Any]) -> Bounds:

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


_STANDARD_INPUT = "-"


@click.command(
    "line",
    short_help="Size what a launch line trains.",
    context_settings={"ignore_unknown_options": True},
    epilog="""\b
Examples:
  reconciler size line --gpu NVIDIA-L40S -- trl sft --model_name_or_path Qwen/Qwen2.5-7B --use_peft --max_length 4096
  reconciler size line --gpu NVIDIA-A100-SXM4-80GB --gpus 8 - < train.sh
""",
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- WORD...|-")
@gpu
@gpus
@click.option(
    "--env", "variables", metavar="NAME=VALUE", multiple=True, help="Environment variable of the line. May be repeated."
)
@goal
@max_gpus
@safety
@allow_paged
@options.output(("text", "json"))
@options.width
@options.color
def line(words: tuple[str, ...], **flags: Any) -> int:
    """Find the number of GPUs for the training that a launch line starts.

    The line is parsed as shell if it is one word or standard input (-). It may name configuration files of the current
    folder. With --gpus, it runs on that number: the answer says whether that fits, and what would make it fit.
    """
    tables = wiring.sizing_tables()
    sizing = standalone_settings(
        tables,
        gpu=flags["gpu"],
        goal=flags["goal"],
        max_gpus=max(flags["max_gpus"], flags["gpus"] or 1),
        safety=flags["safety"],
        allow_paged=flags["allow_paged"],
    )
    answer, warnings = size_line(
        _text(words), tables, sizing, wiring.configurations(), gpus=flags["gpus"], env=_variables(flags["variables"])
    )
    for warning in warnings:
        emit(f"warning: {warning}", err=True)
    settings = wiring.resolve_settings(options.setting_flags(flags), options.environment())
    emit_report(format_sizes([answer], settings), settings)
    return 0


def _text(words: tuple[str, ...]) -> str:
    if words == (_STANDARD_INPUT,):
        return sys.stdin.read()
    return words[0] if len(words) == 1 else shlex.join(words)


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [word.partition("=") for word in given]
    wrong = next((name for name, separator, _ in pairs if not separator or not name), None)
    if wrong is not None:
        raise click.BadParameter(f"expected NAME=VALUE, not {wrong!r}", param_hint="'--env'")
    return {name: value for name, _, value in pairs}


@click.command(
    "serve",
    short_help="Check whether servers of models fit their GPUs.",
    epilog="""\b
Examples:
  reconciler size serve deployment.yaml --gpu NVIDIA-L40S
  kubectl get kaiwoservice,deployment -o yaml | reconciler size serve - --gpu AMD-Instinct-MI300X
""",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-...")
@click.option("--gpu", metavar="PRODUCT", default="", help="GPU product of pods that select none, such as NVIDIA-L40S.")
@options.output(("text", "json"))
@options.width
@options.color
def serve(files: tuple[Path, ...], gpu: str, **flags: Any) -> int:
    """Show for each vLLM or SGLang server in FILE whether it fits its GPUs, and what its cache holds.

    The pods can belong to any kind: Deployment, StatefulSet, KaiwoService, LeaderWorkerSet and others. Only the
    commands and arguments of their containers count; the projects' own images need no command.
    """
    settings = wiring.resolve_settings(options.setting_flags(flags), options.environment())
    answers = check_servers([wiring.input_file(path, None) for path in files], wiring.sizing_tables(), gpu=gpu)
    if settings.output == "json":
        indent = 2 if len(answers) == 1 else None
        text = "".join(json.dumps(server_json(one), indent=indent, ensure_ascii=False) + "\n" for one in answers)
    else:
        text = "\n".join(render_server(one, **terminal(settings)) for one in answers)
    emit_report(text, settings)
    return 0
