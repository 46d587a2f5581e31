"""`reconciler size`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from reconciler.cli import options
from reconciler.errors import OutsideError

if TYPE_CHECKING:
    from reconciler.app.sized_files import SizedFile
    from reconciler.wiring import Session
    from reconciler.wiring.sizing import Desk


_GOALS = ("min-gpu", "avoid-oom", "throughput")


@click.command(
    "size",
    epilog="""\b
Examples:
  reconciler size jobs/llama-lora.yaml            how many GPUs does this job need, and why?
  kubectl get pytorchjob llama -o yaml | reconciler size -
  reconciler size --model meta-llama/Llama-3.1-8B --method lora --seq 4096 --batch 4 --gpu NVIDIA-L40S
  reconciler size jobs/llama-lora.yaml --gpus 2   do my two GPUs do?
  reconciler size jobs/llama-lora.yaml --write    put the numbers into the file
  reconciler size --record                        ask the engines outside, write evidence/<cluster>/sizing.yaml
  reconciler size --from-csv runs.csv -o json     check the predictions against runs of your own
""",
)
@click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True), metavar="[FILE|-]...")
@click.option("--model", metavar="NAME", help="Without a file: a Hugging Face id, or a folder with config.json.")
@click.option("--method", metavar="NAME", default="full", show_default=True, help="full, lora, qlora or gptq-lora.")
@click.option(
    "--seq", metavar="N", type=click.IntRange(min=1), default=2048, show_default=True, help="Tokens a sample."
)
@click.option(
    "--batch", metavar="N", type=click.IntRange(min=1), default=1, show_default=True, help="Samples a GPU and step."
)
@click.option("--gpu", metavar="PRODUCT", help="The card, as nodes are labelled; with a file: where it names none.")
@click.option("--gpus", metavar="N", type=click.IntRange(1, 65_536), help="Tell whether this many GPUs do.")
@click.option("--nodes", metavar="N", type=click.IntRange(min=1), help="Spread --gpus over so many nodes.")
@click.option("--precision", metavar="TYPE", default="", help="bf16, bf16 mixed, fp16, fp16 mixed or fp32.")
@click.option("--optimizer", metavar="NAME", default="", help="As transformers calls it. [default: adamw_torch]")
@click.option("--grad-accum", metavar="N", type=click.IntRange(min=1), default=1, show_default=True, help="Steps.")
@click.option("--checkpointing/--no-checkpointing", default=True, show_default=True, help="Recompute activations.")
@click.option("--attention", metavar="KERNEL", default="", help="flash-attn-2, sdpa or eager.")
@click.option("--parallelism", metavar="HOW", default="FSDP", show_default=True, help="FSDP, ZeRO-3, DDP, TP 2 …")
@click.option(
    "--goal", type=click.Choice(_GOALS), default="min-gpu", show_default=True, help="Of files in no repository."
)
@click.option(
    "--max-gpus", metavar="N", type=click.IntRange(1, 65_536), default=64, show_default=True, help="Look no further."
)
@click.option(
    "--safety", metavar="SHARE", type=click.FloatRange(0, 1), default=0.08, show_default=True, help="That stays free."
)
@click.option("--allow-paged", is_flag=True, help="Take what fits only by paging the optimizer to the host.")
@click.option(
    "--from-csv",
    metavar="FILE",
    type=click.Path(path_type=Path, allow_dash=True),
    help="Answer each row of a table of runs, as JSON lines.",
)
@click.option(
    "--write", is_flag=True, help="Put the numbers into the files; without files, into all that are to be sized."
)
@click.option(
    "--record", is_flag=True, help="Ask the engines outside what they have not answered, and write it as evidence."
)
@click.option("--again", is_flag=True, help="Size what is marked as sized, and ask what was answered.")
@click.option("--python", metavar="PATH", default="", help="With --record: the interpreter that has ado-autoconf.")
@click.option("--table", metavar="FILE", type=click.Path(path_type=Path), help="With --record: the compiled table.")
@options.repo
@options.cluster
@options.output(("text", "json"))
@options.run_options
def command(files: tuple[Path, ...], **flags: Any) -> int:
    """Say how many GPUs a training job needs, why, and what else was weighed.

    FILE holds jobs (PyTorchJob, AppWrapper, Job, JobSet, TrainJob, RayJob, TorchrunJob); a file of a config repository
    is sized with its settings and evidence. Without a file, --model asks by flags alone.
    """
    if flags["gpus"] and flags["nodes"] and flags["gpus"] % flags["nodes"]:
        raise click.UsageError(f"{flags['gpus']} GPUs do not spread evenly over {flags['nodes']} nodes")
    if flags["from_csv"] is not None:
        return _table(flags["from_csv"], flags)
    if flags["record"]:
        return _record(files, flags)
    if flags["write"]:
        return _write(files, flags)
    if files:
        return _files(files, flags)
    if flags["model"]:
        return _asked(flags)
    raise click.UsageError("name a file, or ask by --model; `reconciler size --help` has examples")


_QUESTION = ("model", "method", "seq", "batch", "precision", "optimizer", "grad_accum", "checkpointing", "attention")
_ASKED = (*_QUESTION, "parallelism", "nodes")
_SETTINGS = ("goal", "max_gpus", "safety", "allow_paged")


def _warn_of(names: tuple[str, ...], why: str) -> None:
    """Say which flags of the command line count for nothing: silence would let them be believed."""
    source = click.get_current_context().get_parameter_source
    given = [f"--{name.replace('_', '-')}" for name in names if source(name) is ParameterSource.COMMANDLINE]
    if given:
        click.echo(
            f"warning: {', '.join(given)} {'counts' if len(given) == 1 else 'count'} for nothing: {why}", err=True
        )


def _asked(flags: dict[str, Any]) -> int:
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast
    from reconciler.wiring import sizing  # noqa: PLC0415 - imports late, so that --help stays fast

    _warn_of(("goal",), "without a file the fewest GPUs are looked for; --gpus judges a number of yours")
    if not flags["gpus"]:
        _warn_of(("nodes",), "it spreads --gpus, which is not given")
    row = {
        "model": flags["model"],
        "method": flags["method"],
        "gpu_model": flags["gpu"] or "",
        "seq": str(flags["seq"]),
        "per_gpu_batch": str(flags["batch"]),
        "precision": flags["precision"],
        "optimizer": flags["optimizer"],
        "grad_accum": str(flags["grad_accum"]),
        "checkpointing": "yes" if flags["checkpointing"] else "no",
        "attention": flags["attention"],
        "parallelism": flags["parallelism"],
    }
    answer = sizing.size_row(row, sizing.bounds_of(flags), gpus=flags["gpus"])
    settings = wiring.resolve_settings(options.setting_flags(flags), options.environment())
    click.echo(wiring.render_sizes([answer], settings), nl=False)
    return 0


def _files(files: tuple[Path, ...], flags: dict[str, Any]) -> int:
    from reconciler import wiring  # noqa: PLC0415 - imports late, so that --help stays fast
    from reconciler.wiring import sizing  # noqa: PLC0415 - imports late, so that --help stays fast

    _warn_of(_ASKED, "the file says what is trained")
    desk, _ = _desk(files, flags)
    if any(desk.holds(file) for file in files):
        _warn_of(_SETTINGS, "the file's repository has settings of its own (spec.sizing)")
    sized = [_one(desk, file) for file in files]
    answers = [answer for file in sized for answer in sizing.answers_of(file, flags["gpus"])]
    settings = wiring.resolve_settings(options.setting_flags(flags), options.environment())
    if answers:
        click.echo(wiring.render_sizes(answers, settings), nl=False)
    sizing.raise_if_wrong(sized, [str(file) for file in files])
    return 0


def _write(files: tuple[Path, ...], flags: dict[str, Any]) -> int:
    from reconciler.wiring import sizing  # noqa: PLC0415 - imports late, so that --help stays fast

    if Path("-") in files:
        raise click.UsageError("--write needs a file to write to")
    desk, session = _desk(files, flags)
    sized = desk.to_write(files)
    changed = sizing.write_files(sized, session.tools.repository.root if session else Path())
    for path in changed:
        click.echo(f"{path}: written")
    done = sum(file.done for file in sized)
    if not changed:
        click.echo("nothing to write" + (f": sized already, {done} times (--again sizes anew)" if done else ""))
    return 0


def _record(files: tuple[Path, ...], flags: dict[str, Any]) -> int:
    from reconciler.wiring import recording  # noqa: PLC0415 - imports late, so that --help stays fast

    desk, session = _desk(files, flags)
    if session is None:
        raise click.UsageError("--record needs a config repository; give --repo DIR")
    sized = [_one(desk, file) for file in files] or desk.chosen()
    done = recording.record(session, sized, python=flags["python"], table=flags["table"], again=flags["again"])
    for one in done:
        asked = f"{one.asked} question{'s' if one.asked > 1 else ''} asked" if one.asked else "nothing new to ask"
        waiting = f", {one.waiting} not answered yet: run it again later" if one.waiting else ""
        failed = f", {len(one.failures)} without an answer: {one.failures[0]}" if one.failures else ""
        click.echo(f"{one.path}: {asked}{waiting}{failed}")
    if not done:
        click.echo("no job asks an engine outside: spec.sizing.engine is analytic, or no job is to be sized")
    return OutsideError.exit_code if any(one.failures for one in done) else 0


def _table(path: Path, flags: dict[str, Any]) -> int:
    from reconciler.wiring import sizing  # noqa: PLC0415 - imports late, so that --help stays fast

    for line in sizing.table_lines(path, flags["safety"]):
        click.echo(line, nl=False)
    return 0


def _desk(files: tuple[Path, ...], flags: dict[str, Any]) -> "tuple[Desk, Session | None]":
    from reconciler.wiring import sizing  # noqa: PLC0415 - imports late, so that --help stays fast

    return sizing.open_desk(
        flags["repo"],
        options.setting_flags(flags),
        options.environment(),
        sizing.standalone_settings(flags["gpu"] or "", flags["goal"], sizing.bounds_of(flags)),
        near=files,
        again=flags["again"],
    )


def _one(desk: "Desk", file: Path) -> "SizedFile":
    raw = sys.stdin.buffer.read() if str(file) == "-" else None
    return desk.named(file, raw)
