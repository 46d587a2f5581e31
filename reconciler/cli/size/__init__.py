"""`reconciler size`: one command per task, and the short forms `size FILE`, `size --model`, `--write`, `--record`."""

from collections.abc import Sequence
from typing import Any

import click

from reconciler.cli.size.ask import ask, table
from reconciler.cli.size.files import assign, file_, prune, record, write
from reconciler.cli.size.line import line
from reconciler.cli.size.serve import serve
from reconciler.core.values import enumerated

_SHORT_FORMS = {"--record": "record", "--write": "write", "--model": "ask"}
_TABLE_FLAG = "--from-csv"


class SizeCommands(click.Group):
    """The commands of `size`. Without a command, the flags choose one."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands in the order of their definition."""
        return list(self.commands)

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
            message = f"no such option {error.option_name!r}; it is an option of {enumerated(owners)}"
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
  reconciler size jobs/language/llama-lora.yaml       how many GPUs does this job need?
  reconciler size jobs/language/llama-lora.yaml --gpus 1     do they fit, what else would, and what would help?
  reconciler size ask --model meta-llama/Llama-3.1-8B --method lora --seq 4096 --batch 4 --gpu NVIDIA-L40S
  reconciler size line --gpu NVIDIA-L40S --gpus 4 - < train.sh
  reconciler size write jobs/language/llama-lora.yaml
  reconciler size record
  reconciler size assign
  reconciler size prune
  reconciler size table runs.csv
  reconciler size serve deployment.yaml --gpu NVIDIA-L40S

\b
Short forms: `size FILE` is `size file FILE`, `size --model NAME` is `size ask --model NAME`, `size --write` is
`size write`, `size --record` is `size record`, and `size --from-csv FILE` is `size table FILE`.
""",
)
def command() -> None:
    """Choose the number of GPUs for a training job, and show which alternatives were considered."""


for _command in (ask, file_, line, serve, write, record, assign, prune, table):
    command.add_command(_command)
