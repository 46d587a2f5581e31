"""`reconciler serve`."""

from typing import Any

import click

from reconciler.console.printing import emit
from reconciler.submit.commands.submit import run, where, workload


@click.command(
    "serve",
    epilog="""\b
Examples:
  reconciler serve -p workloads/inference -g 16 --ray
  reconciler serve -i my-registry/server -g 1
  reconciler serve -p workloads/inference -g 16 --ray --dry-run
""",
)
@workload
@click.option("-m", "--model", metavar="NAME", default="", help="No effect, as in Kaiwo: name the model in env.")
@where
def command(*, model: str, **flags: Any) -> int:
    """Submit a service: commit it on a branch submit/NAME, and show its plan.

    With --ray it is a RayService, which needs a file serveconfig in the folder, else a Deployment.
    """
    if model:
        emit("note: --model has no effect; set a variable in the file env", err=True)
    return run(serves=True, **flags)
