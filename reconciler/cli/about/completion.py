"""`reconciler completion`."""

import click
from click.shell_completion import get_completion_class

from reconciler.cli.main import reconciler
from reconciler.console.printing import emit
from reconciler.errors import ConfigError

SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    epilog="""\b
Examples:
  source <(reconciler completion bash)
  reconciler completion fish > ~/.config/fish/completions/reconciler.fish
""",
)
@click.argument("shell", type=click.Choice(SHELLS))
def command(*, shell: str) -> int:
    """Print a script that completes commands and flags in SHELL."""
    completion = get_completion_class(shell)
    if completion is None:
        raise ConfigError(f"unsupported shell {shell!r}", hint=f"allowed values: {', '.join(SHELLS)}")
    emit(completion(reconciler, {}, "reconciler", "_RECONCILER_COMPLETE").source())
    return 0
