"""`reconciler size line`: a launch line that is in no file."""

import shlex
import sys
from typing import Any

import click

from reconciler.cli import options
from reconciler.cli.console import emit, emit_report
from reconciler.cli.size.limits import allow_paged, goal, gpu, gpus, max_gpus, safety

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
    from reconciler import wiring  # noqa: PLC0415 - imported late so that --help stays fast
    from reconciler.app.size.files import standalone_settings  # noqa: PLC0415
    from reconciler.app.size.line import size_line  # noqa: PLC0415
    from reconciler.cli.display import format_sizes  # noqa: PLC0415

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
