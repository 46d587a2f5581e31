"""`reconciler monitor`."""

import sys
from typing import Any

import click

from reconciler.errors import ConfigError
from reconciler.submit.commands.execute import run_script
from reconciler.submit.live.opened import find, open_cluster, place, workload

_TOOLS = {"amd.com/": "rocm-smi", "nvidia.com/": "nvidia-smi"}
_REPEATED = "while :; do clear 2>/dev/null; {tool} || exit; sleep 1; done"


@click.command(
    "monitor",
    epilog="""\b
Examples:
  reconciler monitor job/alice-pretrain
  reconciler monitor rayjob/alice-pretrain -n team-a --once
""",
)
@workload
@click.option("--once", is_flag=True, help="Print once. [default: each second, where there is a terminal]")
@place
def command(*, workload: str, once: bool, **flags: Any) -> int:
    """Watch the GPUs of a workload's container: rocm-smi or nvidia-smi, by the GPUs that it requests."""
    with open_cluster(flags) as opened:
        found = find(opened, workload, flags)
        tool = next((tool for prefix, tool in _TOOLS.items() if found.gpus.startswith(prefix)), "")
        if not tool:
            message = f"container {found.container} of {found.pod} requests no GPU"
            raise ConfigError(message, hint="choose another with --pod and --container")
        is_watched = not once and sys.stdout.isatty()
        script = _REPEATED.format(tool=tool) if is_watched else tool
        return run_script(opened, found, script, stdin=is_watched, tty=is_watched)
