"""`reconciler exec`."""

import sys
from typing import Any

import click

from reconciler.submit.live.opened import OpenCluster, find, open_cluster, place, workload
from reconciler.submit.live.sessions import attach
from reconciler.submit.live.workloads import ContainerTarget


@click.command(
    "exec",
    epilog="""\b
Examples:
  reconciler exec job/alice-pretrain
  reconciler exec job/alice-pretrain --command "nvidia-smi -L"
  reconciler exec rayjob/alice-pretrain -n team-a --pod alice-pretrain-head --command "ray status"
""",
)
@workload
@click.option("--command", "script", metavar="SCRIPT", default="sh", show_default=True, help="Script for /bin/sh.")
@click.option("-i", "--stdin/--no-stdin", default=True, show_default=True, help="Send what is typed.")
@click.option("-t", "--tty/--no-tty", default=True, show_default=True, help="Give it a terminal, if there is one here.")
@place
def command(*, workload: str, script: str, stdin: bool, tty: bool, **flags: Any) -> int:
    """Run a script in a container of a workload, and exit with its exit code."""
    with open_cluster(flags) as opened:
        return run_script(opened, find(opened, workload, flags), script, stdin=stdin, tty=tty)


def run_script(opened: OpenCluster, found: ContainerTarget, script: str, *, stdin: bool, tty: bool) -> int:
    """Run a script in a container, connected to this terminal."""
    terminal = tty and sys.stdin.isatty() and sys.stdout.isatty()
    argv = ("/bin/sh", "-c", script)
    remote = opened.streams.command(found.namespace, found.pod, found.container, argv, stdin=stdin, tty=terminal)
    return attach(remote, stdin=stdin, terminal=terminal)
