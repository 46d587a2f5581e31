"""`reconciler size FILE`, `write`, `record` and `prune`: the training jobs in files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from reconciler import wiring
from reconciler.app.size import prune as pruning
from reconciler.app.size import record as recording
from reconciler.app.size.files import (
    InputFile,
    SizingScope,
    answers_of,
    edited_files,
    require_jobs,
    size_file,
    size_selected,
    standalone_settings,
)
from reconciler.cli import options
from reconciler.cli.console import emit, emit_report
from reconciler.cli.display import format_sizes
from reconciler.cli.size.limits import allow_paged, goal, gpus, max_gpus, safety
from reconciler.core.values import plural
from reconciler.errors import OutsideError
from reconciler.outputs.live.drift import render_diff
from reconciler.wiring import Run
from reconciler.wiring.predictors import engine_asker

_files = click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True), metavar="[FILE]...")
_standalone_options = options.stack(
    click.option("--gpu", metavar="PRODUCT", help="GPU product for jobs that name none, such as NVIDIA-L40S."),
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
        settings = run.settings if run else wiring.resolve_settings(options.setting_flags(flags), options.environment())
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
    wiring.write_edits(edits, run)
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
    root = run.workspace.runtime.repository.root
    named = [size_file(scope, file) for file in inputs]
    if named:
        require_jobs(scope.kinds, named)
    results = recording.record(
        scope.index,
        named or size_selected(scope, again=flags["again"]),
        ask=engine_asker(root, options.environment(), python=flags["python"]),
        write=lambda path, content: wiring.write_edits({path: content}, run),
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
    found = pruning.prune(scope.index, size_selected(scope, again=True))
    root = run.workspace.runtime.repository.root
    for pruned in found:
        if write:
            wiring.write_edits({pruned.path: pruned.content}, run)
            emit(f"wrote {pruned.path}: removed {plural(len(pruned.removed), 'answer')}, kept {pruned.kept}")
        else:
            before = wiring.read_input(root / pruned.path)
            emit("".join(render_diff(pruned.path, before, pruned.content)), nl=False)
    if not found:
        emit("every recorded answer is needed")
    return 1 if exit_code and found else 0


def _open(files: Sequence[Path], flags: dict[str, Any]) -> tuple[SizingScope, Run | None, list[InputFile]]:
    """Open the config repository of the named files, if there is one, and read the files."""
    chosen = {name: flags[name] for name in ("gpu", *_STANDALONE_SETTINGS) if flags[name] is not None}
    if flags.get("gpus"):
        chosen["max_gpus"] = max(chosen["max_gpus"], flags["gpus"])
    tables = wiring.sizing_tables()
    settings = standalone_settings(tables, **chosen)
    run = wiring.find_run(flags["repo"], options.setting_flags(flags), options.environment(), files)
    index = run.workspace.compile_whole() if run else None
    catalogue = run.workspace.runtime.catalogue if run else wiring.catalogue()
    repository = run.workspace.runtime.repository if run else None
    scope = SizingScope(
        kinds=wiring.kinds(), catalogue=catalogue, tables=tables, settings=settings, index=index, repository=repository
    )
    inputs = [wiring.input_file(path, run) for path in files]
    if any(scope.has_source(file) for file in inputs):
        _warn_ignored(_STANDALONE_SETTINGS, "spec.sizing of the config repository applies")
    return scope, run, inputs


def _warn_ignored(names: tuple[str, ...], reason: str) -> None:
    """Warn of flags that were given and have no effect."""
    source = click.get_current_context().get_parameter_source
    given = [f"--{name.replace('_', '-')}" for name in names if source(name) is ParameterSource.COMMANDLINE]
    if given:
        emit(f"warning: {', '.join(given)} {'is' if len(given) == 1 else 'are'} ignored: {reason}", err=True)
