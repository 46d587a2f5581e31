"""`reconciler size`: one command per task. A first word that is no command is a file to size."""

from typing import Any

import click

from reconciler.cli.size.files import file_, prune, record, write
from reconciler.cli.size.questions import ask, line, serve
from reconciler.core.values import enumerated


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
