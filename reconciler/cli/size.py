"""`reconciler size`: one command per task, and the short forms `size FILE`, `size --model`, `--write`, `--record`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from reconciler.cli import options
from reconciler.errors import OutsideError

if TYPE_CHECKING:
    from reconciler.app.size.files import InputFile, SizingScope
    from reconciler.app.size.record import Recorded
    from reconciler.core.sizing.gpu_sweep import Bounds
    from reconciler.wiring import Run

_SHORT_FORMS = {"--record": "record", "--write": "write", "--model": "ask"}
_TABLE_FLAG = "--from-csv"
_MAX_GPUS = 65_536


class SizeCommands(click.Group):
    """The commands of `size`. Without a command, the flags choose one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Expand a short form: `size FILE` is `size file FILE`, and `size --write` is `size write`."""
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = _expand(args)
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
            message = f"No such option {error.option_name!r}. It is an option of {' and '.join(owners)}."
            raise click.NoSuchOption(error.option_name, message, ctx=error.ctx) from None


def _expand(args: Sequence[str]) -> list[str]:
    """Put the command that the flags of a short form mean in front of the other arguments."""
    end = args.index("--") if "--" in args else len(args)
    flags, rest = list(args[:end]), list(args[end:])
    for at, word in enumerate(flags):
        if word == _TABLE_FLAG:
            return ["table", *flags[:at], *flags[at + 1 :], *rest]
        if word.startswith(f"{_TABLE_FLAG}="):
            return ["table", *flags[:at], word.removeprefix(f"{_TABLE_FLAG}="), *flags[at + 1 :], *rest]
    for flag, name in _SHORT_FORMS.items():
        if any(word == flag or word.startswith(f"{flag}=") for word in flags):
            kept = flags if name == "ask" else [word for word in flags if word != flag]
            return [name, *kept, *rest]
    return ["file", *args]


@click.group(
    "size",
    cls=SizeCommands,
    epilog="""\b
Examples:
  reconciler size jobs/llama-lora.yaml       how many GPUs does this job need?
  reconciler size ask --model meta-llama/Llama-3.1-8B --method lora --seq 4096 --batch 4 --gpu NVIDIA-L40S
  reconciler size write jobs/llama-lora.yaml
  reconciler size record
  reconciler size table runs.csv

\b
Short forms: `size FILE` is `size file FILE`, `size --model NAME` is `size ask --model NAME`, `size --write` is
`size write`, `size --record` is `size record`, and `size --from-csv FILE` is `size table FILE`.
""",
)
def command() -> None:
    """Choose the number of GPUs for a training job, and show which alternatives were considered."""


_files = click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True), metavar="[FILE]...")
_gpus = click.option(
    "--gpus", metavar="N", type=click.IntRange(1, _MAX_GPUS), help="Number of GPUs to check in addition."
)
_again = click.option("--again", is_flag=True, help="Include what is already sized or answered.")
_max_gpus = click.option(
    "--max-gpus",
    metavar="N",
    type=click.IntRange(1, _MAX_GPUS),
    default=64,
    show_default=True,
    help="Maximum number of GPUs to try.",
)
_safety = click.option(
    "--safety",
    metavar="FRACTION",
    type=click.FloatRange(0, 1),
    default=0.08,
    show_default=True,
    help="Memory to keep free, as a fraction.",
)
_allow_paged = click.option(
    "--allow-paged", is_flag=True, help="Accept sizes that fit only if the optimizer is paged to host memory."
)
_standalone_options = options.stack(
    click.option("--gpu", metavar="PRODUCT", help="GPU product for jobs that name none, such as NVIDIA-L40S."),
    click.option(
        "--goal",
        type=click.Choice(("min-gpu", "avoid-oom", "throughput")),
        default="min-gpu",
        show_default=True,
        help="Sizing goal. Only for files outside a config repository.",
    ),
    _max_gpus,
    _safety,
    _allow_paged,
)
# These do not apply to a file in a config repository, which has its own.
_STANDALONE_SETTINGS = ("goal", "max_gpus", "safety", "allow_paged")


@command.command(
    "ask",
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
@_gpus
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
@_max_gpus
@_safety
@_allow_paged
@options.output(("text", "json"))
@options.width
@options.run_options
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
    answer = answer_question(row, bounds, gpus=flags["gpus"], architecture=wiring.local_model(flags["model"]))
    click.echo(format_sizes([answer], settings), nl=False)
    return 0


def _bounds(flags: dict[str, Any]) -> "Bounds":
    from reconciler.core.sizing.gpu_sweep import Bounds  # noqa: PLC0415 - imported late so that --help stays fast

    gpus, nodes = flags["gpus"], flags["nodes"]
    if nodes and not gpus:
        raise click.UsageError("--nodes requires --gpus")
    if nodes and gpus % nodes:
        raise click.UsageError(f"{gpus} GPUs cannot be spread evenly over {nodes} nodes")
    return Bounds(
        gpus_per_worker=gpus // nodes if nodes else 8,
        max_gpus=max(flags["max_gpus"], gpus or 1),
        safety=flags["safety"],
        allow_paged=flags["allow_paged"],
    )


@command.command(
    "file",
    epilog="""\b
Examples:
  reconciler size file jobs/llama-lora.yaml
  reconciler size file jobs/llama-lora.yaml --gpus 2    do 2 GPUs fit?
  kubectl get pytorchjob llama -o yaml | reconciler size file -
""",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-...")
@_gpus
@_standalone_options
@_again
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
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.files import answers_of, require_jobs, size_file  # noqa: PLC0415
    from reconciler.cli.display import format_sizes  # noqa: PLC0415

    scope, run, inputs = _open(files, flags)
    sized = [size_file(scope, file) for file in inputs]
    answers = [answer for file in sized for answer in answers_of(file, flags["gpus"])]
    if answers:
        settings = run.settings if run else wiring.resolve_settings(options.setting_flags(flags), options.environment())
        click.echo(format_sizes(answers, settings), nl=False)
    require_jobs(sized)
    return 0


@command.command(
    "write",
    epilog="""\b
Examples:
  reconciler size write                           all jobs that the settings of the repository select
  reconciler size write jobs/llama-lora.yaml
  reconciler size write jobs/llama-lora.yaml --again
""",
)
@_files
@_standalone_options
@_again
@options.repo
@options.cluster
@options.run_options
def write(files: tuple[Path, ...], **flags: Any) -> int:
    """Write the sizes into the files of the jobs.

    Without FILE, updates all jobs that spec.sizing of the config repository selects. Comments and formatting are kept.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.files import size_file, size_selected  # noqa: PLC0415
    from reconciler.app.size.write import edited_files  # noqa: PLC0415

    if Path("-") in files:
        raise click.UsageError("cannot write to standard input; name a file")
    scope, run, inputs = _open(files, flags)
    again = flags["again"]
    sized = [size_file(scope, file, again=again) for file in inputs] or size_selected(scope, again=again)
    edits = edited_files(sized)
    wiring.write_edits(edits, run)
    for path in edits:
        click.echo(f"wrote {path}")
    if not edits:
        done = sum(file.done for file in sized)
        jobs = f"{done} job{' is' if done == 1 else 's are'} already sized; use --again to size them again"
        click.echo(f"no changes{f': {jobs}' if done else ''}")
    return 0


@command.command(
    "record",
    epilog="""\b
Examples:
  reconciler size record
  reconciler size record --python ~/ado/bin/python    spec.sizing.engine is autoconf
  reconciler size record --table autoconf.table       spec.sizing.engine is autoconf-table
""",
)
@_files
@click.option(
    "--python", metavar="PATH", default="", help="Python interpreter that has ado-autoconf. [default: this one]"
)
@click.option("--table", metavar="FILE", type=click.Path(path_type=Path), help="Compiled table of ado-autoconf.")
@_again
@options.repo
@options.cluster
@options.run_options
def record(files: tuple[Path, ...], **flags: Any) -> int:
    """Ask the external sizing engine, and record its answers in evidence/<cluster>/sizing.yaml.

    Only questions without a recorded answer are asked. Without FILE, covers all jobs that spec.sizing selects.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size import record as use_case  # noqa: PLC0415
    from reconciler.app.size.files import size_file, size_selected  # noqa: PLC0415

    scope, run, inputs = _open(files, flags | dict.fromkeys(("gpu", *_STANDALONE_SETTINGS)))
    if run is None or scope.head is None:
        raise click.UsageError("size record requires a config repository; name one with --repo DIR")
    results = use_case.record(
        scope.head,
        [size_file(scope, file) for file in inputs] or size_selected(scope, again=flags["again"]),
        ask=wiring.engine_asker(run, options.environment(), python=flags["python"], table=flags["table"]),
        write=lambda path, content: wiring.write_edits({path: content}, run),
        again=flags["again"],
    )
    for result in results:
        click.echo(_recorded_line(result))
    if not results:
        click.echo("no external engine to ask: spec.sizing.engine is analytic, or no job is selected for sizing")
    return OutsideError.exit_code if any(result.failures for result in results) else 0


def _recorded_line(result: "Recorded") -> str:
    parts = [f"asked {result.asked} question{'' if result.asked == 1 else 's'}" if result.asked else "no new questions"]
    if result.pending:
        parts.append(f"{result.pending} pending (run the command again later)")
    if result.failures:
        parts.append(f"{len(result.failures)} failed: {result.failures[0]}")
    return f"{result.path}: {', '.join(parts)}"


@command.command(
    "table",
    epilog="""\b
Examples:
  reconciler size table runs.csv
  cat runs.csv | reconciler size table -
""",
)
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-")
@_safety
@options.output(("json",), default="json")
def table(file: Path, safety: float, output: str | None) -> int:  # noqa: ARG001 - one format so far
    """Predict the peak memory of each run in a CSV table, to compare with measurements.

    Prints one JSON object per row. docs/sizing.md lists the columns.
    """
    import msgspec  # noqa: PLC0415 - imported late so that --help stays fast

    from reconciler import wiring  # noqa: PLC0415
    from reconciler.app.size.table import predict_table  # noqa: PLC0415

    for row in predict_table(wiring.read_input(file), str(file), safety=safety):
        click.echo(msgspec.json.encode(row).decode())
    return 0


def _open(files: Sequence[Path], flags: dict[str, Any]) -> "tuple[SizingScope, Run | None, list[InputFile]]":
    """Open the config repository of the named files, if there is one, and read the files."""
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.files import SizingScope, standalone_settings  # noqa: PLC0415

    chosen = {name: flags[name] for name in ("gpu", *_STANDALONE_SETTINGS) if flags[name] is not None}
    if flags.get("gpus"):
        chosen["max_gpus"] = max(chosen["max_gpus"], flags["gpus"])
    settings = standalone_settings(**chosen)
    run = wiring.find_run(flags["repo"], options.setting_flags(flags), options.environment(), files)
    head = run.workspace.compile() if run else None
    catalogue = run.workspace.tools.catalogue if run else wiring.catalogue()
    scope = SizingScope(catalogue=catalogue, settings=settings, head=head)
    inputs = [wiring.input_file(path, run) for path in files]
    if any(scope.has_source(file) for file in inputs):
        _warn_ignored(_STANDALONE_SETTINGS, "spec.sizing of the config repository applies")
    return scope, run, inputs


def _warn_ignored(names: tuple[str, ...], reason: str) -> None:
    """Warn of flags that were given and have no effect."""
    source = click.get_current_context().get_parameter_source
    given = [f"--{name.replace('_', '-')}" for name in names if source(name) is ParameterSource.COMMANDLINE]
    if given:
        click.echo(f"warning: {', '.join(given)} {'is' if len(given) == 1 else 'are'} ignored: {reason}", err=True)
