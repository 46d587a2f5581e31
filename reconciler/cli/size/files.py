"""`reconciler size file`, `write`, `record` and `prune`: the training jobs in files."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from reconciler.cli import options
from reconciler.cli.console import emit, emit_report
from reconciler.cli.size.limits import allow_paged, gpus, max_gpus, safety
from reconciler.core.values import plural
from reconciler.errors import OutsideError

if TYPE_CHECKING:
    from reconciler.app.size.files import InputFile, SizingScope
    from reconciler.app.size.record import Recorded
    from reconciler.wiring import Run

_files = click.argument("files", nargs=-1, type=click.Path(path_type=Path, allow_dash=True), metavar="[FILE]...")
_standalone_options = options.stack(
    click.option("--gpu", metavar="PRODUCT", help="GPU product for jobs that name none, such as NVIDIA-L40S."),
    click.option(
        "--goal",
        type=click.Choice(("min-gpu", "avoid-oom", "throughput")),
        default="min-gpu",
        show_default=True,
        help="Sizing goal. Only for files outside a config repository.",
    ),
    max_gpus,
    safety,
    allow_paged,
)
# These do not apply to a file in a config repository, which has its own.
_STANDALONE_SETTINGS = ("goal", "max_gpus", "safety", "allow_paged")


@click.command(
    "file",
    short_help="Size the training jobs in files.",
    epilog="""\b
Examples:
  reconciler size file jobs/language/llama-lora.yaml
  reconciler size file jobs/language/llama-lora.yaml --gpus 2    do 2 GPUs fit?
  kubectl get pytorchjob llama -o yaml | reconciler size file -
""",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True), metavar="FILE|-...")
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
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.files import answers_of, require_jobs, size_file  # noqa: PLC0415
    from reconciler.cli.display import format_sizes  # noqa: PLC0415

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
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.files import require_jobs, size_file, size_selected  # noqa: PLC0415
    from reconciler.app.size.write import edited_files  # noqa: PLC0415

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
  reconciler size record --table autoconf.table       spec.sizing.engine is autoconf-table
""",
)
@_files
@click.option(
    "--python", metavar="PATH", default="", help="Python interpreter that has ado-autoconf. [default: this one]"
)
@click.option("--table", metavar="FILE", type=click.Path(path_type=Path), help="Compiled table of ado-autoconf.")
@click.option("--again", is_flag=True, help="Also ask questions that already have an answer.")
@options.repo
@options.cluster
@options.run_options
def record(files: tuple[Path, ...], **flags: Any) -> int:
    """Ask the external sizing engine, and record its answers in evidence/<cluster>/sizing.yaml.

    Only questions without a recorded answer are asked. Without FILE, covers all jobs that spec.sizing selects.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size import record as use_case  # noqa: PLC0415
    from reconciler.app.size.files import require_jobs, size_file, size_selected  # noqa: PLC0415
    from reconciler.wiring.predictors import engine_asker  # noqa: PLC0415

    scope, run, inputs = _open(files, flags | dict.fromkeys(("gpu", *_STANDALONE_SETTINGS)))
    if run is None or scope.index is None:
        raise click.UsageError("size record requires a config repository; name one with --repo DIR")
    root = run.workspace.runtime.repository.root
    named = [size_file(scope, file) for file in inputs]
    if named:
        require_jobs(scope.kinds, named)
    results = use_case.record(
        scope.index,
        named or size_selected(scope, again=flags["again"]),
        ask=engine_asker(root, options.environment(), python=flags["python"], table=flags["table"]),
        write=lambda path, content: wiring.write_edits({path: content}, run),
        again=flags["again"],
    )
    for result in results:
        emit(_recorded_line(result))
    if not results:
        emit("no external engine to ask: spec.sizing.engine is analytic, or no job is selected for sizing")
    return OutsideError.exit_code if any(result.failures for result in results) else 0


def _recorded_line(result: "Recorded") -> str:
    parts = [f"asked {result.asked} question{'' if result.asked == 1 else 's'}" if result.asked else "no new questions"]
    if result.pending:
        parts.append(f"{result.pending} pending (run the command again later)")
    if result.failures:
        parts.append(f"{len(result.failures)} failed: {result.failures[0]}")
    return f"{result.path}: {', '.join(parts)}"


@click.command(
    "assign",
    short_help="Choose the GPU products of all jobs together.",
    epilog="""\b
Examples:
  reconciler size assign             give products to jobs that have none recorded
  reconciler size assign --again     choose for all jobs again
""",
)
@click.option("--again", is_flag=True, help="Also choose for jobs that have a recorded product.")
@options.repo
@options.cluster
@options.run_options
def assign(*, again: bool, **flags: Any) -> int:
    """Choose GPU products for the jobs that accept several, and record them in evidence/<cluster>/sizing.yaml.

    The jobs fit the free GPUs of the evidence and the limits of their queues together, at the lowest cost. A job whose
    product is recorded keeps it.
    """
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.assign import assign_cards  # noqa: PLC0415
    from reconciler.app.size.files import size_selected  # noqa: PLC0415

    scope, run, _ = _open((), flags | dict.fromkeys(("gpu", *_STANDALONE_SETTINGS)))
    if run is None or scope.index is None:
        raise click.UsageError("size assign requires a config repository; name one with --repo DIR")
    results = assign_cards(
        scope.index,
        size_selected(scope, again=True),
        write=lambda path, content: wiring.write_edits({path: content}, run),
        again=again,
    )
    for result in results:
        for name, one in result.jobs.items():
            given = f"{one.option.gpus} x {one.option.product}" if one.fits or name in result.kept else "not recorded"
            why = "recorded before" if name in result.kept else one.because
            emit(f"{name}: {given}{f'; {why}' if why else ''}")
        emit(f"{result.path}: {plural(len(result.jobs), 'job')}, {len(result.kept)} recorded before")
    if not results:
        emit("no job accepts several GPU products")
    return 0


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
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size import prune as use_case  # noqa: PLC0415
    from reconciler.app.size.files import size_selected  # noqa: PLC0415
    from reconciler.outputs.live.drift import render_diff  # noqa: PLC0415

    scope, run, _ = _open((), flags | dict.fromkeys(("gpu", *_STANDALONE_SETTINGS)))
    if run is None or scope.index is None:
        raise click.UsageError("size prune requires a config repository; name one with --repo DIR")
    found = use_case.prune(scope.index, size_selected(scope, again=True))
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


def _open(files: Sequence[Path], flags: dict[str, Any]) -> "tuple[SizingScope, Run | None, list[InputFile]]":
    """Open the config repository of the named files, if there is one, and read the files."""
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.files import SizingScope, standalone_settings  # noqa: PLC0415

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
