"""`reconciler size`: one command per task. A first word that is no command is a file to size."""

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from reconciler.console import options
from reconciler.console.printing import emit, emit_report
from reconciler.console.terminal import terminal
from reconciler.errors import OutsideError
from reconciler.kube.values import enumerated, plural
from reconciler.plan import opening
from reconciler.plan.opening import Run
from reconciler.plan.outputs.drift import render_diff
from reconciler.plan.outputs.sections.servers import render_server, server_json
from reconciler.size import record as recording
from reconciler.size.ask import Asked, Bounds, answer_question, framework_names
from reconciler.size.files import (
    InputFile,
    SizingScope,
    answers_of,
    edited_files,
    require_jobs,
    size_file,
    size_selected,
    standalone_settings,
)
from reconciler.size.line import size_line
from reconciler.size.opening import engine_asker, find_run, input_file, local_model, nearby
from reconciler.size.pages.text import format_sizes
from reconciler.size.serve import check_servers

_MAX_GPUS = 65_536


def _find_product(_: click.Context, __: click.Parameter, name: str | None) -> str | None:
    """Return the product that a short name means: ask if there are several, or take the first where nobody answers."""
    gpus = opening.sizing_tables().gpus
    if not name or gpus.find(name) is not None:
        return name
    meant = gpus.meant(name)
    if len(meant) > 1 and sys.stdin.isatty() and sys.stderr.isatty():
        for number, one in enumerate(meant, 1):
            emit(f"  {number}  {one.product} ({one.memory_gib:.0f} GiB)", err=True)
        choice = click.prompt("Which GPU?", type=click.IntRange(1, len(meant)), default=1, err=True)
        return meant[choice - 1].product
    if len(meant) > 1:
        others = ", ".join(one.product for one in meant[1:])
        emit(f"warning: --gpu {name}: assuming {meant[0].product}; it may also be {others}", err=True)
    return meant[0].product if meant else name


gpu = click.option(
    "--gpu",
    metavar="PRODUCT",
    default="",
    callback=_find_product,
    help="GPU product, as in the node label nvidia.com/gpu.product, or a short name such as H100.",
)
gpus = click.option("--gpus", metavar="N", type=click.IntRange(1, _MAX_GPUS), help="Number of GPUs to check as well.")
max_gpus = click.option(
    "--max-gpus",
    metavar="N",
    type=click.IntRange(1, _MAX_GPUS),
    default=64,
    show_default=True,
    help="Maximum number of GPUs to try.",
)
goal = click.option(
    "--goal",
    type=click.Choice(("min-gpu", "avoid-oom", "throughput")),
    default="min-gpu",
    show_default=True,
    help="Sizing goal.",
)
safety = click.option(
    "--safety",
    metavar="FRACTION",
    type=options.FiniteRange(0, 1),
    default=0.08,
    show_default=True,
    help="Memory to keep free, as a fraction of the estimate.",
)
allow_paged = click.option(
    "--allow-paged", is_flag=True, help="Accept sizes that fit only if the optimizer is paged to host memory."
)


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
    "--seq",
    "sequence",
    metavar="N",
    type=click.IntRange(min=1),
    help="Tokens per sample. [default: 2048, or the framework's]",
)
@click.option(
    "--batch",
    metavar="N",
    type=click.IntRange(min=1),
    help="Samples per GPU and step. [default: 1, or the framework's]",
)
@click.option(
    "--grad-accum",
    "accumulation",
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
    settings = opening.resolve_settings(options.setting_flags(flags), options.environment())
    architecture = local_model(flags["model"])
    asked = Asked(**{name: flags[name] for name in Asked.__struct_fields__})
    answer = answer_question(asked, bounds, opening.sizing_tables(), gpus=flags["gpus"], architecture=architecture)
    emit_report(format_sizes([answer], settings), settings)
    return 0


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

    The line is parsed as shell if it is one word or standard input (-). It may name configuration files by paths
    that are relative to the current folder. What it does not state is assumed, and the answer says so. With --gpus, it
    runs on that number: the answer says whether that fits, and what would make it fit.
    """
    tables = opening.sizing_tables()
    sizing = standalone_settings(
        tables,
        gpu=flags["gpu"],
        goal=flags["goal"],
        max_gpus=max(flags["max_gpus"], flags["gpus"] or 1),
        safety=flags["safety"],
        allow_paged=flags["allow_paged"],
    )
    answer, warnings = size_line(
        _text(words), tables, sizing, nearby, gpus=flags["gpus"], env=_variables(flags["variables"])
    )
    for warning in warnings:
        emit(f"warning: {warning}", err=True)
    settings = opening.resolve_settings(options.setting_flags(flags), options.environment())
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
@click.option(
    "--gpu",
    metavar="PRODUCT",
    default="",
    callback=_find_product,
    help="GPU product of pods that select none, such as NVIDIA-L40S.",
)
@options.output(("text", "json"))
@options.width
@options.color
def serve(files: tuple[Path, ...], gpu: str, **flags: Any) -> int:
    """Show for each vLLM or SGLang server in FILE whether it fits its GPUs, and what its cache holds.

    The pods can belong to any kind: Deployment, StatefulSet, KaiwoService, LeaderWorkerSet and others. Only the
    commands and arguments of their containers count; the projects' own images need no command.
    """
    settings = opening.resolve_settings(options.setting_flags(flags), options.environment())
    answers = check_servers([input_file(path, None) for path in files], opening.sizing_tables(), gpu=gpu)
    if settings.output == "json":
        indent = 2 if len(answers) == 1 else None
        text = "".join(json.dumps(server_json(one), indent=indent, ensure_ascii=False) + "\n" for one in answers)
    else:
        text = "\n".join(render_server(one, **terminal(settings)) for one in answers)
    emit_report(text, settings)
    return 0


_files = click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True), metavar="[FILE]...")
_standalone_options = options.stack(
    click.option(
        "--gpu",
        metavar="PRODUCT",
        callback=_find_product,
        help="GPU product for jobs that name none, such as NVIDIA-L40S.",
    ),
    goal,
    max_gpus,
    safety,
    allow_paged,
)
# These do not apply to a file in a config repository, which has its own.
_STANDALONE_SETTINGS = ("goal", "max_gpus", "safety", "allow_paged")


@click.command(
    "FILE",
    hidden=True,  # a name for help; any word that is no command is a file
    short_help="Size the training jobs in files.",
    epilog="""\b
Examples:
  reconciler size jobs/language/llama-lora.yaml
  reconciler size jobs/language/llama-lora.yaml --gpus 2    do 2 GPUs fit?
  kubectl get pytorchjob llama -o yaml | reconciler size -
""",
)
@click.argument(
    "files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True), metavar="[FILE|-]..."
)
@gpus
@_standalone_options
@options.repo
@options.cluster
@options.output(("text", "json"))
@options.width
@options.run_options
def file_(files: tuple[Path, ...], **flags: Any) -> int:
    """Show the size of each training job in FILE, and the alternatives.

    Supported kinds: PyTorchJob, AppWrapper, Job, JobSet, TrainJob, RayJob, TorchrunJob. A file in a config repository
    is sized with the settings and the evidence of that repository.
    """
    scope, run, inputs = _open(files, flags)
    sized = [size_file(scope, file) for file in inputs]
    answers = [answer for file in sized for answer in answers_of(scope, file, flags["gpus"])]
    if answers:
        settings = (
            run.settings if run else opening.resolve_settings(options.setting_flags(flags), options.environment())
        )
        emit_report(format_sizes(answers, settings), settings)
    require_jobs(scope.kinds, sized)
    return 0


@click.command(
    "write",
    short_help="Write the sizes into the files.",
    epilog="""\b
Examples:
  reconciler size write                           all jobs that the settings of the repository select
  reconciler size write jobs/language/llama-lora.yaml
  reconciler size write jobs/language/llama-lora.yaml --again
""",
)
@_files
@_standalone_options
@click.option("--again", is_flag=True, help="Also size jobs that are already sized.")
@options.repo
@options.cluster
@options.run_options
def write(files: tuple[Path, ...], **flags: Any) -> int:
    """Write the sizes into the files of the jobs.

    Without FILE, updates all jobs that spec.sizing of the config repository selects. Comments and formatting are kept.
    """
    if Path("-") in files:
        raise click.UsageError("cannot write to standard input; name a file")
    scope, run, inputs = _open(files, flags)
    again = flags["again"]
    sized = [size_file(scope, file, again=again) for file in inputs] or size_selected(scope, again=again)
    edits = edited_files(sized)
    if inputs and not any(file.done for file in sized):
        require_jobs(scope.kinds, sized)
    opening.write_edits(edits, run)
    for path in edits:
        emit(f"wrote {path}")
    if not edits:
        done = sum(file.done for file in sized)
        jobs = f"{done} job{' is' if done == 1 else 's are'} already sized; use --again to size them again"
        emit(f"no changes{f': {jobs}' if done else ''}")
    return 0


@click.command(
    "record",
    short_help="Record the answers of an external sizing engine.",
    epilog="""\b
Examples:
  reconciler size record
  reconciler size record --python ~/ado/bin/python    spec.sizing.engine is autoconf
""",
)
@_files
@click.option(
    "--python", metavar="PATH", default="", help="Python interpreter that has ado-autoconf. [default: this one]"
)
@click.option("--again", is_flag=True, help="Also ask questions that already have an answer.")
@options.repo
@options.cluster
@options.run_options
def record(files: tuple[Path, ...], **flags: Any) -> int:
    """Ask the external sizing engine, and record its answers in evidence/<cluster>/sizing.yaml.

    Only questions without a recorded answer are asked. Without FILE, covers all jobs that spec.sizing selects.
    """
    scope, run, inputs = _open(files, flags | dict.fromkeys(("gpu", *_STANDALONE_SETTINGS)))
    if run is None or scope.index is None:
        raise click.UsageError("size record requires a config repository; name one with --repo DIR")
    root = run.workspace.repository.root
    named = [size_file(scope, file) for file in inputs]
    if named:
        require_jobs(scope.kinds, named)
    results = recording.record(
        scope.index,
        named or size_selected(scope, again=flags["again"]),
        ask=engine_asker(root, options.environment(), python=flags["python"]),
        write=lambda path, content: opening.write_edits({path: content}, run),
        again=flags["again"],
    )
    for result in results:
        emit(_recorded_line(result))
    if not results:
        emit("no external engine to ask: spec.sizing.engine is analytic, or no job is selected for sizing")
    return OutsideError.exit_code if any(result.failures for result in results) else 0


def _recorded_line(result: recording.Recorded) -> str:
    parts = [f"asked {result.asked} question{'' if result.asked == 1 else 's'}" if result.asked else "no new questions"]
    if result.pending:
        parts.append(f"{result.pending} pending (run the command again later)")
    if result.failures:
        parts.append(f"{len(result.failures)} failed: {result.failures[0]}")
    return f"{result.path}: {', '.join(parts)}"


@click.command(
    "prune",
    short_help="Remove recorded answers that no job needs.",
    epilog="""\b
Examples:
  reconciler size prune             show what would be removed, as a diff
  reconciler size prune --write     remove it from evidence/<cluster>/sizing.yaml
""",
)
@click.option("--write", is_flag=True, help="Write the evidence files.")
@options.exit_code
@options.repo
@options.cluster
@options.run_options
def prune(*, write: bool, exit_code: bool, **flags: Any) -> int:
    """Remove the answers of sizing engines that no job of the repository asks for any more.

    An answer stays if spec.sizing selects a job that asks its question, even one that is already sized. Errors in the
    sources are reported first, because they may hide a question.
    """
    scope, run, _ = _open((), flags | dict.fromkeys(("gpu", *_STANDALONE_SETTINGS)))
    if run is None or scope.index is None:
        raise click.UsageError("size prune requires a config repository; name one with --repo DIR")
    found = recording.prune(scope.index, size_selected(scope, again=True))
    root = run.workspace.repository.root
    for pruned in found:
        if write:
            opening.write_edits({pruned.path: pruned.content}, run)
            emit(f"wrote {pruned.path}: removed {plural(len(pruned.removed), 'answer')}, kept {pruned.kept}")
        else:
            before = opening.read_input(root / pruned.path)
            emit("".join(render_diff(pruned.path, before, pruned.content)), nl=False)
    if not found:
        emit("every recorded answer is needed")
    return 1 if exit_code and found else 0


def _open(files: Sequence[Path], flags: dict[str, Any]) -> tuple[SizingScope, Run | None, list[InputFile]]:
    """Open the config repository of the named files, if there is one, and read the files."""
    chosen = {name: flags[name] for name in ("gpu", *_STANDALONE_SETTINGS) if flags[name] is not None}
    if flags.get("gpus"):
        chosen["max_gpus"] = max(chosen["max_gpus"], flags["gpus"])
    tables = opening.sizing_tables()
    settings = standalone_settings(tables, **chosen)
    run = find_run(flags["repo"], options.setting_flags(flags), options.environment(), files)
    index = run.workspace.compile_whole() if run else None
    catalogue = run.workspace.runtime.engine.catalogue if run else opening.catalogue()
    repository = run.workspace.repository if run else None
    scope = SizingScope(
        kinds=opening.kinds(), catalogue=catalogue, tables=tables, settings=settings, index=index, repository=repository
    )
    inputs = [input_file(path, run) for path in files]
    if any(scope.has_source(file) for file in inputs):
        _warn_ignored(_STANDALONE_SETTINGS, "spec.sizing of the config repository applies")
    return scope, run, inputs


def _warn_ignored(names: tuple[str, ...], reason: str) -> None:
    """Warn of flags that were given and have no effect."""
    source = click.get_current_context().get_parameter_source
    given = [f"--{name.replace('_', '-')}" for name in names if source(name) is ParameterSource.COMMANDLINE]
    if given:
        emit(f"warning: {', '.join(given)} {'is' if len(given) == 1 else 'are'} ignored: {reason}", err=True)


class SizeCommands(click.Group):
    """The commands of `size`, in the order of their definition."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order of their definition."""
        return list(self.commands)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Size files if the first word is no command."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = [str(file_.name), *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Name the command that has a flag, if another one was called with it."""
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            owners = [
                f"`size {name}`"
                for name, command in self.commands.items()
                if any(error.option_name in parameter.opts for parameter in command.params)
            ]
            if not owners:
                raise
            message = f"no such option {error.option_name!r}; it is an option of {enumerated(owners)}"
            raise click.NoSuchOption(error.option_name, message, ctx=error.ctx) from None


@click.group(
    "size",
    cls=SizeCommands,
    subcommand_metavar="FILE|COMMAND [ARGS]...",
    epilog="""\b
Examples:
  reconciler size jobs/language/llama-lora.yaml       how many GPUs does this job need?
  reconciler size jobs/language/llama-lora.yaml --gpus 1     do they fit, what else would, and what would help?
  reconciler size ask --model meta-llama/Llama-3.1-8B --method lora --seq 4096 --batch 4 --gpu NVIDIA-L40S
  reconciler size line --gpu NVIDIA-L40S --gpus 4 - < train.sh
  reconciler size write jobs/language/llama-lora.yaml
  reconciler size record
  reconciler size prune
  reconciler size serve deployment.yaml --gpu NVIDIA-L40S
""",
)
def command() -> None:
    """Choose the number of GPUs for a training job, and show which alternatives were considered.

    `reconciler size FILE --help` shows the options for files.
    """


for _command in (file_, ask, line, serve, write, record, prune):
    command.add_command(_command)
